// SPDX-License-Identifier: Apache-2.0
// bridge_doorbell_test: the bridge's end of ivshmem's interrupts. The test plays QEMU, which connects to the socket.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "base/message.h"
#include "host-bridge/bridge/doorbell.h"
#include "tests/unit/support/scratch.h"

namespace barcuda {
namespace {

struct DoorbellTest : testing::Test {
    test::Scratch scratch;
    const std::string path = scratch / "doorbell";
    const File region{memfd_create("region", MFD_CLOEXEC)};
    Doorbell doorbell;

    void SetUp() override { ASSERT_EQ(doorbell.open(path, region.fd(), Kept()).text(), ""); }
    bool something_to_answer() const {
        pollfd any{doorbell.fd(), POLLIN, 0};
        return poll(&any, 1, 0) > 0;
    }
    bool answer() {
        return doorbell.answer([](const Visitor&) { return false; });
    }
    File connect_as_qemu() const {
        File socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path.copy(address.sun_path, sizeof address.sun_path - 1);
        EXPECT_EQ(connect(socket.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
        return socket;
    }
    struct Word {
        std::int64_t number = -2;
        File file;
    };
    static Word next(const File& qemu) {
        Word word;
        EXPECT_EQ(receive_message(qemu.fd(), &word.number, sizeof word.number, word.file, MSG_DONTWAIT),
                  static_cast<ssize_t>(sizeof word.number));
        return word;
    }
    static void ring(const File& event) {
        const std::uint64_t once = 1;
        ASSERT_EQ(write(event.fd(), &once, sizeof once), static_cast<ssize_t>(sizeof once));
    }
};

TEST_F(DoorbellTest, HasNothingToAnswerAtFirst) {
    EXPECT_FALSE(something_to_answer());
    EXPECT_FALSE(answer());
    EXPECT_FALSE(doorbell.connected());
}
TEST_F(DoorbellTest, GivesAVmTheRegionAndBothBells) {
    const File qemu = connect_as_qemu();
    EXPECT_TRUE(something_to_answer());
    EXPECT_FALSE(answer()) << "to come is not to ring";
    EXPECT_TRUE(doorbell.connected());
    EXPECT_EQ(next(qemu).number, 0) << "version";
    EXPECT_EQ(next(qemu).number, 1) << "the guest's id";
    const Word memory = next(qemu), host = next(qemu), guest = next(qemu);
    EXPECT_EQ(memory.number, -1);
    EXPECT_TRUE(memory.file);
    EXPECT_EQ(host.number, 0);
    EXPECT_EQ(guest.number, 1);
    EXPECT_FALSE(something_to_answer());

    ring(host.file);
    EXPECT_TRUE(something_to_answer());
    EXPECT_TRUE(answer());
    EXPECT_FALSE(something_to_answer()) << "a ring is answered once";
}
TEST_F(DoorbellTest, AVmThatGoesLeavesRoomForTheNext) {
    {
        const File qemu = connect_as_qemu();
        answer();
    }
    EXPECT_TRUE(something_to_answer());
    EXPECT_FALSE(answer());
    EXPECT_FALSE(doorbell.connected());
    const File next_one = connect_as_qemu();
    answer();
    EXPECT_TRUE(doorbell.connected());
}
TEST_F(DoorbellTest, ASecondVmIsSentAway) {
    const File first = connect_as_qemu();
    answer();
    const File second = connect_as_qemu();
    answer();
    char word = 0;
    EXPECT_EQ(recv(second.fd(), &word, sizeof word, 0), 0) << "its connection is closed";
    EXPECT_TRUE(doorbell.connected());
}
TEST_F(DoorbellTest, AWorkerIsSentAway) {
    const File worker = connect_as_qemu();
    doorbell.answer([](const Visitor& visitor) { return visitor.pid == getpid(); });
    EXPECT_FALSE(doorbell.connected());
    char word = 0;
    EXPECT_EQ(recv(worker.fd(), &word, sizeof word, 0), 0);
}
TEST_F(DoorbellTest, WithoutASocketThereIsNone) {
    const Doorbell none;
    EXPECT_FALSE(none);
    EXPECT_EQ(none.fd(), -1);
    EXPECT_EQ(none.guest(), -1);
}

}  // namespace
}  // namespace barcuda
