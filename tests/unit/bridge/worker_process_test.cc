// SPDX-License-Identifier: Apache-2.0
// worker_process_test: the life of a worker: the permitted transitions, how each end is described, and what ends with a
// worker.
#include "host-bridge/bridge/worker_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "tests/unit/support/shell_worker.h"

namespace barcuda {
namespace {

using State = WorkerProcess::State;
using test::await_end;
using test::open_driver;
using test::shell;
using test::start_worker;

// ---- the table
TEST(WorkerStates, FollowEachOtherInOneDirection) {
    constexpr State in_order[] = {State::starting, State::warm, State::serving, State::leaving, State::ended};
    for (std::size_t from = 0; from < std::size(in_order); ++from)
        for (std::size_t to = 0; to <= from; ++to)
            EXPECT_FALSE(WorkerProcess::permits(in_order[from], in_order[to]))
                << WorkerProcess::name(in_order[from]) << " -> " << WorkerProcess::name(in_order[to]);
    EXPECT_TRUE(WorkerProcess::permits(State::starting, State::warm));
    EXPECT_TRUE(WorkerProcess::permits(State::warm, State::serving));
    EXPECT_TRUE(WorkerProcess::permits(State::serving, State::leaving));
    EXPECT_TRUE(WorkerProcess::permits(State::leaving, State::ended));
}
TEST(WorkerStates, OfAWorkerWithoutAnOpenDriverLeadToNoServing) {
    EXPECT_FALSE(WorkerProcess::permits(State::starting, State::serving));
    EXPECT_TRUE(WorkerProcess::permits(State::starting, State::assigned));
    EXPECT_TRUE(WorkerProcess::permits(State::assigned, State::serving));
    EXPECT_FALSE(WorkerProcess::permits(State::assigned, State::warm));
}
TEST(WorkerStates, MayAllEndAtAnyTime) {
    for (unsigned i = 0; i < static_cast<unsigned>(State::ended); ++i)
        EXPECT_TRUE(WorkerProcess::permits(static_cast<State>(i), State::ended));
    for (unsigned i = 0; i < static_cast<unsigned>(State::count); ++i)
        EXPECT_FALSE(WorkerProcess::permits(State::ended, static_cast<State>(i)));
}

// ---- a life
TEST(WorkerProcess, IsWarmWhenItsDriverIsOpen) {
    const auto worker = start_worker();
    ASSERT_TRUE(worker);
    worker->look();
    EXPECT_EQ(worker->state(), State::starting);
    open_driver(*worker);
    worker->look();
    EXPECT_EQ(worker->state(), State::warm);
    worker->assign("channel 1: worker");
    EXPECT_EQ(worker->state(), State::serving);
}
TEST(WorkerProcess, ServesOnceItsDriverIsOpen) {
    const auto worker = start_worker();
    worker->assign("channel 1: worker");
    EXPECT_EQ(worker->state(), State::assigned);
    worker->look();
    EXPECT_EQ(worker->state(), State::assigned);
    open_driver(*worker);
    worker->look();
    EXPECT_EQ(worker->state(), State::serving);
}
TEST(WorkerProcessDeathTest, OfAClientIsGivenToNoOther) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_DEATH(
        {
            const auto worker = start_worker();
            worker->assign("one");
            worker->assign("two");
        },
        "");
}
TEST(WorkerProcess, LeavesWhenItIsDismissedAndIsReapedOnce) {
    const auto worker = start_worker();
    EXPECT_FALSE(worker->has_gone());
    worker->dismiss();
    worker->dismiss();
    EXPECT_EQ(worker->state(), State::leaving);
    await_end(*worker);
    EXPECT_TRUE(worker->has_gone());
    EXPECT_EQ(worker->reap(), "was killed by signal 9 (Killed)");
    EXPECT_EQ(worker->state(), State::ended);
    EXPECT_TRUE(worker->release());
    EXPECT_EQ(kill(worker->pid(), 0), -1) << "it was reaped";
}
TEST(WorkerProcess, InAWrapperIsToldByItsLinkAndEndsByItself) {
    Spawn wrapped = shell("cat <&4 > /dev/null; exit 5");
    wrapped.wrapped = true;
    const auto worker = WorkerProcess::start(std::move(wrapped), {});
    ASSERT_TRUE(worker);
    worker->dismiss();
    await_end(*worker);
    while (!worker->has_gone()) {}  // until its end of the link is closed, too
    EXPECT_EQ(worker->reap(), "ended with status 5");
}
TEST(WorkerProcess, IsEndedWithItsObject) {
    auto worker = start_worker();
    const pid_t pid = worker->pid();
    worker.reset();
    EXPECT_EQ(waitpid(pid, nullptr, WNOHANG), -1) << "its process is a child no more";
}

// ---- how it ended
std::string end_of(const std::string& script) {
    const auto worker = start_worker(script);
    await_end(*worker);
    return worker->reap();
}
TEST(WorkerProcess, SaysHowItEnded) {
    EXPECT_EQ(end_of("exit 3"), "ended with status 3");
    EXPECT_EQ(end_of("kill -SEGV $$"), "was killed by signal 11 (Segmentation fault)");
    EXPECT_NE(end_of("exit 125").find("ulimit -n"), std::string::npos);
    EXPECT_NE(end_of("exit 123").find("control group"), std::string::npos);
}
TEST(WorkerProcess, SaysWhatItWasAbout) {
    const auto worker = start_worker("exit 3");
    publish(worker->sheet().command, 0u);
    await_end(*worker);
    EXPECT_EQ(worker->reap().find("ended with status 3 in "), 0u);
}
TEST(WorkerProcess, SaysWhichCallItsCageDenied) {
    const auto worker = start_worker("exit 3");
    publish(worker->sheet().denied, 41u);
    await_end(*worker);
    log::start(stderr, "test", "error");
    testing::internal::CaptureStderr();
    EXPECT_NE(worker->reap().find("its cage denies"), std::string::npos);
    EXPECT_NE(testing::internal::GetCapturedStderr().find("its cage denies"), std::string::npos);  // always
}
// It has the reading end, too: a bridge that waited there would wait for every process that has the other end.
TEST(WorkerProcess, ThatHasLetItsPipeWaitKeepsNobodyWaiting) {
    const auto worker = start_worker();
    const File reading = test::workers_file(*worker, errors_fd), writing = test::workers_file(*worker, into_errors_fd);
    if (!reading || !writing) GTEST_SKIP() << "no pidfd_getfd here";
    ASSERT_EQ(fcntl(reading.fd(), F_SETFL, 0), 0);
    kill(worker->pid(), SIGKILL);
    await_end(*worker);
    EXPECT_EQ(worker->reap(), "was killed by signal 9 (Killed)");
}
TEST(WorkerProcess, ThatCannotBeExecutedSaysSo) {
    Spawn what;
    what.program = "/nothing/here";
    what.command = {"nothing"};
    const auto worker = WorkerProcess::start(std::move(what), {});
    ASSERT_TRUE(worker);
    await_end(*worker);
    EXPECT_EQ(worker->reap(), "ended with status 127");
}

// ---- what it has
TEST(WorkerProcess, HasItsDescriptorsInTheirPlacesAndNoOthers) {
    const File stray(open("/dev/null", O_RDONLY));  // is not closed on exec
    const auto worker = start_worker(
        "for fd in 4 5 6 7 8; do [ -e /proc/self/fd/$fd ] || exit 1; done; "
        "for fd in 9 10 11 12; do [ -e /proc/self/fd/$fd ] && exit 2; done; exit 0");
    await_end(*worker);
    EXPECT_EQ(worker->reap(), "ended with status 0");
}
TEST(WorkerProcess, ThatHasADescriptorsPlaceLeftEmptyFindsNothingThere) {
    const File file(open("/dev/null", O_RDONLY | O_CLOEXEC));
    Spawn what = shell("[ -e /proc/self/fd/9 ] || exit 1; [ -e /proc/self/fd/10 ] && exit 2; exit 0");
    what.files = {{file.fd(), doorbell_fd}, {-1, turns_fd}};
    const auto worker = WorkerProcess::start(std::move(what), {});
    await_end(*worker);
    EXPECT_EQ(worker->reap(), "ended with status 0");
}
TEST(WorkerProcess, SeesTheDevicesThatItIsGiven) {
    Spawn what = shell("[ \"$CUDA_VISIBLE_DEVICES\" = GPU-7 ]");
    what.devices = "GPU-7";
    const auto worker = WorkerProcess::start(std::move(what), {});
    await_end(*worker);
    EXPECT_EQ(worker->reap(), "ended with status 0");
}
TEST(WorkerProcess, CannotCutItsSheetShort) {
    const auto worker = start_worker("truncate -s 0 /proc/self/fd/7 2> /dev/null && exit 1; exit 0");
    await_end(*worker);
    EXPECT_EQ(worker->reap(), "ended with status 0");
}
TEST(WorkerProcess, WhoseGrantsAreReservedCountsThem) {
    const auto worker = start_worker();
    worker->reserved = {{0, 100}, {200, 50}};
    EXPECT_EQ(worker->reserved_bytes(), 150u);
    EXPECT_GE(worker->memory(), 150u);
}

}  // namespace
}  // namespace barcuda
