// SPDX-License-Identifier: Apache-2.0
// keeper_test: what a keeper accepts of its bridge, and what it answers. (Whole bridges that are killed:
// tests/e2e/lives/test_keeper.py.)
#include "host-bridge/keeper/keeper.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <utility>

#include "base/log.h"
#include "host-bridge/bridge/kept.h"
#include "tests/unit/support/sanitized.h"

namespace barcuda {
namespace {

using keeping::Form;
using keeping::request;
using keeping::Request;

std::optional<Request> read(const Request& sent, std::size_t bytes = sizeof(Request)) {
    return Request::read({reinterpret_cast<const char*>(&sent), bytes});
}

std::string after(Keeper::State from) {
    std::string all;
    for (unsigned to = 0; to < static_cast<unsigned>(Keeper::State::count); ++to)
        if (Keeper::permits(from, static_cast<Keeper::State>(to)))
            all += std::string(all.empty() ? "" : " ") + Keeper::name(static_cast<Keeper::State>(to));
    return all;
}

TEST(KeeperStates, FollowEachOtherAsThePageSays) {  // docs/state.md
    EXPECT_EQ(after(Keeper::State::starting), "serving backing_off ending");
    EXPECT_EQ(after(Keeper::State::serving), "backing_off replacing ending");
    EXPECT_EQ(after(Keeper::State::backing_off), "starting ending");
    EXPECT_EQ(after(Keeper::State::replacing), "trying ending");
    EXPECT_EQ(after(Keeper::State::trying), "serving backing_off ending");
    EXPECT_EQ(after(Keeper::State::ending), "") << "told once, it ends";
}

TEST(KeeperRequest, IsReadAsItWasSent) {
    const auto got = read(request(Form::keep, "worker.12.link"));
    ASSERT_TRUE(got);
    EXPECT_EQ(got->name_text(), "worker.12.link");
    EXPECT_TRUE(read(request(Form::list)));
    EXPECT_TRUE(read(request(Form::list, "worker.")));
    EXPECT_TRUE(read(request(Form::reap, {}, 7)));
    EXPECT_TRUE(read(request(Form::ready)));
}

TEST(KeeperRequest, OfAnotherLengthOrFormIsRefused) {
    EXPECT_FALSE(read(request(Form::ready), sizeof(Request) - 1));
    EXPECT_FALSE(read(request(static_cast<Form>(0))));
    EXPECT_FALSE(read(request(Form::count)));
    Request wrong = request(Form::ready);
    wrong.bytes = 4;
    EXPECT_FALSE(read(wrong));
}

TEST(KeeperRequest, WithAWrongNameOrProcessIsRefused) {
    for (const Form form : {Form::keep, Form::drop, Form::take})
        for (const char* name : {"", ".hidden", "with space", "UPPER", "a/b", "line\n"})
            EXPECT_FALSE(read(request(form, name))) << name;
    Request endless = request(Form::take, "x");
    std::memset(endless.name, 'x', sizeof endless.name);
    EXPECT_FALSE(read(endless)) << "the name has no end";
    EXPECT_FALSE(read(request(Form::ready, "name")));
    EXPECT_FALSE(read(request(Form::reap, {}, 0)));
    EXPECT_FALSE(read(request(Form::look, {}, -1)));
    EXPECT_FALSE(read(request(Form::keep, "name", 7)));
}

TEST(KeeperRequest, ToUpgradeHasATimeThatIsBounded) {
    Request order = request(Form::upgrade, "layout7.link2-3");
    EXPECT_FALSE(read(order)) << "no time";
    order.milliseconds = keeping::longest_wait;
    EXPECT_TRUE(read(order));
    ++order.milliseconds;
    EXPECT_FALSE(read(order));
    Request other = request(Form::ready);
    other.milliseconds = 1;
    EXPECT_FALSE(read(other));
    order = request(Form::check);
    order.milliseconds = 1;
    EXPECT_FALSE(read(order)) << "no numbers";
}

struct KeeperTest : testing::Test {
    Keeper keeper{-1, -1};
    int with = -1;
    int ask(Form form, const char* name = "", File file = {}, pid_t process = 0) {
        with = -1;
        answer = keeper.serve(request(form, name, process), std::move(file), with);
        return answer.error;
    }
    static File any() { return File(open("/dev/null", O_RDONLY | O_CLOEXEC)); }
    keeping::Answer answer;
};

TEST_F(KeeperTest, HoldsADescriptorUntilItIsDropped) {
    File first = any();
    const int number = first.fd();
    EXPECT_EQ(ask(Form::take, "a"), ENOENT);
    EXPECT_EQ(ask(Form::keep, "a", std::move(first)), 0);
    EXPECT_EQ(ask(Form::take, "a"), 0);
    EXPECT_EQ(with, number);
    EXPECT_EQ(ask(Form::drop, "a"), 0);
    EXPECT_EQ(fcntl(number, F_GETFD), -1) << "it is closed";
    EXPECT_EQ(ask(Form::take, "a"), ENOENT);
    EXPECT_EQ(ask(Form::drop, "a"), 0) << "nothing to drop is no error";
}

TEST_F(KeeperTest, KeepsTheLastOfOneNameAndNothingWithoutADescriptor) {
    File first = any(), second = any();
    const int old = first.fd(), number = second.fd();
    EXPECT_EQ(ask(Form::keep, "a", std::move(first)), 0);
    EXPECT_EQ(ask(Form::keep, "a", std::move(second)), 0);
    EXPECT_EQ(fcntl(old, F_GETFD), -1);
    EXPECT_EQ(ask(Form::take, "a"), 0);
    EXPECT_EQ(with, number);
    EXPECT_EQ(ask(Form::keep, "b"), EBADF);
    EXPECT_EQ(keeper.kept().size(), 1u);
}

TEST_F(KeeperTest, ListsNamesInTheirOrder) {
    for (const char* name : {"c", "a", "b"}) EXPECT_EQ(ask(Form::keep, name, any()), 0);
    std::string all, last;
    while (ask(Form::list, last.c_str()) == 0) all += last = answer.name;
    EXPECT_EQ(all, "abc");
}

TEST_F(KeeperTest, ServesWhenItsBridgeIsReadyAndEndsWithIt) {
    EXPECT_EQ(keeper.state(), Keeper::State::starting);
    EXPECT_EQ(ask(Form::ready), 0);
    EXPECT_EQ(keeper.state(), Keeper::State::serving);
    EXPECT_EQ(ask(Form::done), 0);
    EXPECT_EQ(keeper.state(), Keeper::State::ending);
}

TEST_F(KeeperTest, EndsThoughItsBridgeBecomesReadyMeanwhile) {
    EXPECT_EQ(ask(Form::done), 0);
    EXPECT_EQ(ask(Form::ready), 0);
    EXPECT_EQ(keeper.state(), Keeper::State::ending);
}

TEST_F(KeeperTest, UpgradesOnlyABridgeThatServes) {
    EXPECT_EQ(ask(Form::upgrade, "layout7", any()), EBUSY);
    EXPECT_EQ(ask(Form::progress), 0);
    EXPECT_EQ(answer.status, static_cast<int>(keeping::Step::none));
    EXPECT_EQ(with, -1);
    EXPECT_EQ(ask(Form::ready), 0);
    EXPECT_EQ(ask(Form::upgrade, "layout7", any()), 0);
    EXPECT_EQ(answer.attempt, 1u);
    EXPECT_EQ(ask(Form::progress), 0);
    EXPECT_EQ(answer.status, static_cast<int>(keeping::Step::refused)) << "/dev/null is no program";
    EXPECT_GE(with, 0);
}

TEST_F(KeeperTest, ReapsAChildOnceAndOnlyWhenItHasEnded) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        char nothing;
        _exit(::read(ends[0], &nothing, 1) == 0 ? 7 : 1);
    }
    close(ends[0]);
    EXPECT_EQ(ask(Form::look, "", {}, child), EAGAIN);
    EXPECT_EQ(ask(Form::reap, "", {}, child), EAGAIN);
    close(ends[1]);
    siginfo_t end{};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &end, WEXITED | WNOWAIT), 0);
    EXPECT_EQ(ask(Form::look, "", {}, child), 0);
    EXPECT_EQ(ask(Form::reap, "", {}, child), 0);
    EXPECT_EQ(WEXITSTATUS(answer.status), 7);
    EXPECT_EQ(ask(Form::reap, "", {}, child), ECHILD);
    EXPECT_EQ(ask(Form::reap, "", {}, getpid()), ECHILD);
}

// ---- a bridge that cannot be started
// A keeper in a process of its own. Its bridges say in a pipe that they are there, and wait until they are killed.
struct KeeperProcess : testing::Test {
    int says[2] = {-1, -1}, logs[2] = {-1, -1};
    pid_t keeper = -1;

    void SetUp() override {
        ASSERT_EQ(pipe2(says, O_CLOEXEC), 0);
        ASSERT_EQ(pipe2(logs, O_CLOEXEC), 0);
        keeper = fork();
        if (keeper != 0) {
            for (int* const fd : {&says[1], &logs[1]}) close(std::exchange(*fd, -1));
            return;
        }
        dup2(logs[1], STDERR_FILENO);
        log::start(stderr, "keeper", "error");
        File link;
        Keeper own(-1, -1);
        if (const int status = own.run(link); !link) _exit(status);
        const Kept kept(std::move(link));
        kept.ready();
        const pid_t bridge = getpid();
        if (write(says[1], &bridge, sizeof bridge) < 0) _exit(1);
        for (;;) pause();
    }
    void TearDown() override {
        if (keeper > 0) kill(keeper, SIGKILL);
        waitpid(keeper, nullptr, 0);
        for (const int fd : {says[0], says[1], logs[0], logs[1]}) close(fd);
    }
    pid_t next_bridge() const {
        pid_t bridge = -1;
        return ::read(says[0], &bridge, sizeof bridge) == sizeof bridge ? bridge : -1;
    }
    void may_open(rlim_t files) const {
        rlimit limit{};
        ASSERT_EQ(prlimit(keeper, RLIMIT_NOFILE, nullptr, &limit), 0);
        limit.rlim_cur = files;
        ASSERT_EQ(prlimit(keeper, RLIMIT_NOFILE, &limit, nullptr), 0);
    }
    // Reads the keeper's log up to that line.
    void await_line(const std::string& part) const {
        std::string all;
        for (char letter; all.find(part) == std::string::npos && ::read(logs[0], &letter, 1) == 1;) all += letter;
    }
};

TEST_F(KeeperProcess, GoesOnWhenTheNextBridgeCannotBeStartedAtOnce) {
    if (sanitized) GTEST_SKIP() << "the sanitizer looks at objects through a pipe, which needs descriptors";
    const pid_t first = next_bridge();
    ASSERT_GT(first, 0);
    may_open(0);
    kill(first, SIGKILL);
    await_line("cannot start the bridge: Too many open files");
    may_open(1000);
    const pid_t second = next_bridge();
    EXPECT_GT(second, 0) << "its clients have a bridge again";
    EXPECT_NE(second, first);
}

}  // namespace
}  // namespace barcuda
