// SPDX-License-Identifier: Apache-2.0
// kept_test: what a bridge asks of its keeper, what it makes of the answers, and what it does without a keeper. The
// keeper is the one that answers bridges, on a thread of its own.
#include "host-bridge/bridge/kept.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "tests/unit/support/keeper_thread.h"
#include "tests/unit/support/sanitized.h"
#include "tests/unit/support/scratch.h"

namespace barcuda {
namespace {

using keeping::Form;
using testing::ElementsAre;

struct KeptTest : testing::Test {
    test::KeeperThread thread;
    Keeper& keeper = thread.keeper;
    std::optional<Kept> kept{Kept(std::move(thread.link))};

    void TearDown() override { kept.reset(); }
};

ino_t inode(const File& file) {
    struct stat st {};
    fstat(file.fd(), &st);
    return st.st_ino;
}

TEST_F(KeptTest, ADescriptorIsThereAgainUntilItIsDropped) {
    const File file(memfd_create("kept", MFD_CLOEXEC));
    kept->keep("books", file.fd());
    const File again = kept->take("books");
    ASSERT_TRUE(again);
    EXPECT_EQ(inode(again), inode(file));
    EXPECT_NE(again.fd(), file.fd());
    EXPECT_TRUE(kept->take("books")) << "it stays kept";
    kept->drop("books");
    EXPECT_FALSE(kept->take("books"));
}
TEST_F(KeptTest, NamesAreThoseOfThePrefixAndAreDroppedTogether) {
    const File file(memfd_create("kept", MFD_CLOEXEC));
    for (const char* name : {"books", "shared.b", "shared.a", "worker.7.link"}) kept->keep(name, file.fd());
    EXPECT_THAT(kept->names("shared."), ElementsAre("shared.a", "shared.b"));
    EXPECT_THAT(kept->names("none."), ElementsAre());
    kept->drop_all("shared.");
    EXPECT_THAT(kept->names(""), ElementsAre("books", "worker.7.link"));
}
TEST_F(KeptTest, WhatTheKeeperCannotKeepIsSaid) {
    if (sanitized) GTEST_SKIP() << "the sanitizer looks at objects through a pipe, which needs descriptors";
    const File file(memfd_create("kept", MFD_CLOEXEC));
    const test::NoMoreFiles none;
    EXPECT_NE(kept->keep("books", file.fd()), 0);
}
TEST_F(KeptTest, AChildIsLookedAtAndReapedByTheKeeper) {
    auto [rest, go] = test::a_link();
    const pid_t child = test::fork_child([&go = go, its = rest.fd()] {
        go = File();
        char none;
        return read(its, &none, 1) == 0 ? 7 : 8;
    });
    EXPECT_FALSE(kept->look(child));
    EXPECT_FALSE(kept->reap(child));
    go = File();
    EXPECT_EQ(WEXITSTATUS(kept->await(child)), 7);
    EXPECT_EQ(kill(child, 0), -1) << "it is reaped";
}
TEST_F(KeptTest, TheKeeperHearsThatTheBridgeServesLivesAndEnds) {
    kept->alive();  // has no answer: the next one is the next request's
    kept->ready();
    EXPECT_EQ(keeper.state(), Keeper::State::serving);
    kept->done();
    EXPECT_EQ(keeper.state(), Keeper::State::ending);
}

TEST(KeptWithoutAKeeper, KeepsNothing) {
    const Kept kept;
    EXPECT_FALSE(kept);
    kept.keep("books", STDIN_FILENO);
    EXPECT_FALSE(kept.take("books"));
    EXPECT_TRUE(kept.names("").empty());
    kept.drop("books");
    kept.ready();
    kept.alive();
    kept.done();
    EXPECT_EQ(kept.upgrade({}, -1), ENOSYS);
    EXPECT_EQ(kept.progress().step, keeping::Step::none);
}
TEST(KeptWithoutAKeeper, AChildIsTheBridgesOwn) {
    const Kept kept;
    auto [rest, go] = test::a_link();
    const pid_t child = test::fork_child([&go = go, its = rest.fd()] {
        go = File();
        char none;
        return read(its, &none, 1) == 0 ? 7 : 8;
    });
    EXPECT_FALSE(kept.look(child));
    EXPECT_FALSE(kept.reap(child));
    go = File();
    siginfo_t end{};
    waitid(P_PID, static_cast<id_t>(child), &end, WEXITED | WNOWAIT);
    EXPECT_TRUE(kept.look(child));
    EXPECT_TRUE(kept.look(child)) << "looking does not reap";
    const auto status = kept.reap(child);
    ASSERT_TRUE(status);
    EXPECT_EQ(WEXITSTATUS(*status), 7);
}

// A keeper that answers as the test says, once. Returns the exit status of its bridge.
template <class F> int with_answer(const std::function<void(int link)>& answers, const F& ask) {
    auto [its, ours] = test::a_link();
    const int keepers = its.fd();
    std::thread keeper([&answers, own = std::move(its)] {
        keeping::Request request;
        File file;
        if (receive_message(own.fd(), &request, sizeof request, file) > 0) answers(own.fd());
    });
    const int status = test::in_child([&, &link = ours] {
        close(keepers);
        const Kept kept{std::move(link)};
        return ask(kept);
    });
    ours = File();
    keeper.join();
    return status;
}
constexpr int went_on = 42;
int ask_ready(const Kept& kept) {
    kept.ready();
    return went_on;
}

TEST(KeptLink, ABridgeWhoseKeeperHasEndedEnds) {
    EXPECT_EQ(with_answer([](int) {}, ask_ready), 1);
}
TEST(KeptLink, ABridgeEndsAtAnAnswerToAnotherQuestionOrOfAnotherLength) {
    const auto answer = [](Form form, std::size_t bytes) {
        return [form, bytes](int link) {
            const keeping::Answer answer{.form = static_cast<std::uint32_t>(form)};
            send_message(link, &answer, bytes);
        };
    };
    EXPECT_EQ(with_answer(answer(Form::ready, sizeof(keeping::Answer)), ask_ready), went_on);
    EXPECT_EQ(with_answer(answer(Form::done, sizeof(keeping::Answer)), ask_ready), 1);
    EXPECT_EQ(with_answer(answer(Form::ready, sizeof(keeping::Answer) - 1), ask_ready), 1);
}
TEST(KeptLink, AKeeperThatReadsNothingDoesNotHoldTheBridgeUp) {
    auto [its, ours] = test::a_link();
    const Kept kept(std::move(ours));
    for (int i = 0; i < 10'000; ++i) kept.alive();  // more than a socket takes
    its = File();
    kept.alive();  // and no signal
}
TEST(KeptLink, AStepThatThereIsNotIsNoneAndATextIsCut) {
    const auto progress = [](std::int32_t step, std::size_t bytes) {
        return [step, bytes](int link) {
            const File text(memfd_create("text", MFD_CLOEXEC));
            const std::string all(bytes, 'x');
            EXPECT_EQ(write(text.fd(), all.data(), all.size()), static_cast<ssize_t>(all.size()));
            const keeping::Answer answer{
                .form = static_cast<std::uint32_t>(Form::progress), .status = step, .attempt = 3};
            send_message(link, &answer, sizeof answer, text.fd());
        };
    };
    using keeping::Step;
    const auto is = [](Step step, std::size_t bytes) {
        return [step, bytes](const Kept& kept) {
            const Kept::Progress got = kept.progress();
            return got.step == step && got.attempt == 3 && got.text == std::string(bytes, 'x') ? went_on : 0;
        };
    };
    EXPECT_EQ(with_answer(progress(static_cast<std::int32_t>(Step::trying), 10), is(Step::trying, 10)), went_on);
    EXPECT_EQ(with_answer(progress(static_cast<std::int32_t>(Step::count), 5000), is(Step::none, 2048)), went_on);
    EXPECT_EQ(with_answer(progress(-1, 0), is(Step::none, 0)), went_on);
}

}  // namespace
}  // namespace barcuda
