// SPDX-License-Identifier: Apache-2.0
// control_test: who is answered at the bridge's socket for tools, which messages are requests, and what becomes of the
// sockets of bridges that were killed.
#include "host-bridge/bridge/control.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/field.h"
#include "host-bridge/between/files_message.h"

namespace barcuda {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

const sockaddr* as_address(const sockaddr_un& address) { return reinterpret_cast<const sockaddr*>(&address); }

struct ControlTest : testing::Test {
    const File region{memfd_create("region", MFD_CLOEXEC)};
    Loop loop;
    std::optional<Control> control{std::in_place};
    std::vector<pid_t> asked;  // by whom
    bool is_worker = false;
    int handed = -1;  // goes with an answer to `barcuda suspend`

    void SetUp() override {
        ASSERT_EQ(control->open(region.fd()).text(), "");
        const auto says = [this](const char* what) {
            return [this, what](const auto&, auto& reply, const ucred& by) {
                put(reply.error, what);
                asked.push_back(by.pid);
            };
        };
        control->serve(loop, {says("limits"), says("list"), says("pause"), says("upgrade"),
                              [this, says](const SuspendRequest& request, SuspendReply& reply, const ucred& by) {
                                  says("suspend")(request, reply, by);
                                  std::vector<File> files;
                                  if (handed >= 0) files.emplace_back(fcntl(handed, F_DUPFD_CLOEXEC, 0));
                                  return files;
                              },
                              [this](const Visitor&) { return is_worker; }});
    }
    // The paths of the region's sockets.
    std::vector<fs::path> sockets() const {
        struct stat st {};
        fstat(region.fd(), &st);
        std::vector<fs::path> all;
        for (const auto& entry : fs::directory_iterator(limits_folder))
            if (entry.path().filename().string().starts_with(limits_name_of(st))) all.push_back(entry.path());
        return all;
    }
    void turn() {
        while (loop.wait(std::chrono::milliseconds(0))) loop.dispatch();
    }
    File connect() {
        File to(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        const sockaddr_un address = unix_address(sockets().at(0));
        EXPECT_EQ(::connect(to.fd(), as_address(address), sizeof address), 0);
        turn();
        return to;
    }
    void send(const File& to, const void* message, std::size_t bytes) {
        EXPECT_EQ(::send(to.fd(), message, bytes, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
        turn();
    }
    // The visitor was dropped, with no answer.
    static bool is_dropped(const File& visitor) {
        char text[8];
        return recv(visitor.fd(), text, sizeof text, 0) == 0;
    }
    template <class Reply, class Request> std::string ask(const Request& request) {
        const File to = connect();
        send(to, &request, sizeof request);
        const auto reply = std::make_unique<Reply>();
        const ssize_t n = recv(to.fd(), reply.get(), sizeof *reply, 0);
        if (n > 0) {
            EXPECT_EQ(static_cast<std::size_t>(n), reply->bytes());
            EXPECT_TRUE(is_dropped(to)) << "one request a visitor";
        }
        return reply->error;
    }
};

TEST_F(ControlTest, EachToolGetsItsAnswer) {
    EXPECT_EQ(ask<LimitReply>(LimitRequest{}), "limits");
    EXPECT_EQ(ask<ListReply>(ListRequest{}), "list");
    EXPECT_EQ(ask<PauseReply>(PauseRequest{}), "pause");
    EXPECT_EQ(ask<UpgradeReply>(UpgradeRequest{}), "upgrade");
    EXPECT_EQ(ask<SuspendReply>(SuspendRequest{}), "suspend");
    EXPECT_EQ(asked, std::vector<pid_t>(5, getpid()));
}
TEST_F(ControlTest, AToolOfAnotherVersionIsToldSo) {
    PauseRequest request;
    ++request.version;
    EXPECT_THAT(ask<PauseReply>(request), HasSubstr("the bridge is of another version"));
    SuspendRequest other;
    other.version = 0;
    EXPECT_THAT(ask<SuspendReply>(other), HasSubstr("the bridge is of another version"));
    EXPECT_TRUE(asked.empty());
}
TEST_F(ControlTest, AMessageOfAnotherLengthIsNoRequest) {
    const std::string longest(4096, 'x');
    for (const std::size_t bytes : {sizeof(ListRequest) - 1, sizeof(LimitRequest) + 1, longest.size()}) {
        const File visitor = connect();
        send(visitor, longest.data(), bytes);
        EXPECT_TRUE(is_dropped(visitor)) << bytes;
    }
    EXPECT_TRUE(asked.empty());
}
TEST_F(ControlTest, DescriptorsGoWithTheAnswer) {
    const File file(memfd_create("handed", MFD_CLOEXEC));
    handed = file.fd();
    const File to = connect();
    const SuspendRequest request;
    send(to, &request, sizeof request);
    const auto reply = std::make_unique<SuspendReply>();
    std::vector<File> files;
    ASSERT_EQ(receive_files(to.fd(), reply.get(), sizeof *reply, files), static_cast<ssize_t>(reply->bytes()));
    ASSERT_EQ(files.size(), 1u);
    struct stat sent {
    }, got{};
    fstat(file.fd(), &sent);
    fstat(files[0].fd(), &got);
    EXPECT_EQ(got.st_ino, sent.st_ino);
}
TEST_F(ControlTest, AWorkerIsNotAdmitted) {
    is_worker = true;
    const File visitor = connect();
    EXPECT_TRUE(is_dropped(visitor));
    const LimitRequest request;
    EXPECT_EQ(::send(visitor.fd(), &request, sizeof request, MSG_NOSIGNAL), -1);
    EXPECT_TRUE(asked.empty());
}
TEST_F(ControlTest, AVisitorThatGoesBeforeItsAnswerHarmsNobody) {
    {
        const File visitor = connect();
        const ListRequest request;
        EXPECT_EQ(::send(visitor.fd(), &request, sizeof request, 0), static_cast<ssize_t>(sizeof request));
    }
    turn();
    { const File silent = connect(); }
    turn();
    EXPECT_EQ(ask<ListReply>(ListRequest{}), "list");
}
TEST_F(ControlTest, ANinthVisitorTakesTheSeatOfTheOldest) {
    std::vector<File> visitors;
    for (int i = 0; i < 8; ++i) visitors.push_back(connect());
    EXPECT_FALSE(is_dropped(visitors[0]));
    const File ninth = connect();
    EXPECT_TRUE(is_dropped(visitors[0]));
    const ListRequest request;
    for (const File* visitor : std::initializer_list<const File*>{&visitors[1], &ninth}) {
        send(*visitor, &request, sizeof request);
        const auto reply = std::make_unique<ListReply>();
        EXPECT_GT(recv(visitor->fd(), reply.get(), sizeof *reply, 0), 0);
    }
}

TEST_F(ControlTest, ItsSocketIsItsUsersAndGoesWithIt) {
    ASSERT_EQ(sockets().size(), 1u);
    struct stat st {};
    ASSERT_EQ(stat(sockets()[0].c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 0777, 0600u);
    control.reset();
    EXPECT_TRUE(sockets().empty());
}
TEST_F(ControlTest, RemovesTheSocketsOfBridgesThatWereKilledAndNoOthers) {
    const std::string stem = sockets()[0];
    const std::string killed = stem + "-killed", file = stem + "-file", answers = stem + "-answers";
    const auto bound = [](const std::string& path) {
        File at(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
        const sockaddr_un address = unix_address(path);
        EXPECT_EQ(bind(at.fd(), as_address(address), sizeof address), 0);
        return at;
    };
    bound(killed);
    const File lives = bound(answers);
    ASSERT_EQ(listen(lives.fd(), 1), 0);
    std::ofstream(file) << "no socket";
    {
        Control other;
        ASSERT_EQ(other.open(region.fd()).text(), "");
        EXPECT_EQ(sockets().size(), 4u) << "ours, the other's, and the two that stay";
    }
    EXPECT_FALSE(fs::exists(killed));
    EXPECT_TRUE(fs::exists(answers));
    EXPECT_TRUE(fs::exists(file));
    EXPECT_TRUE(fs::exists(stem)) << "that of a bridge that lives";
    unlink(answers.c_str());
    unlink(file.c_str());
}

}  // namespace
}  // namespace barcuda
