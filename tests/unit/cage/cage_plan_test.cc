// SPDX-License-Identifier: Apache-2.0
// cage_plan_test: which measures a worker's cage has, for each choice of an operator.
#include "host-bridge/cage/cage.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/message.h"
#include "host-bridge/cage/measures.h"
#include "host-bridge/cage/users.h"
#include "tests/unit/support/caged.h"

namespace barcuda::cage {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// The names of the measures that are on.
std::string on(const Plan& plan) {
    std::string names;
    for (unsigned i = 0; i < measures; ++i)
        if (plan.order.has(static_cast<Measure>(i))) names += std::string(about(static_cast<Measure>(i)).name) + ' ';
    return names;
}

TEST(CagePlan, HasEveryMeasureAndAnotherUserWhereTheBridgeIsRoots) {
    if (sanitized) GTEST_SKIP() << "sanitizers need more than the cage allows";
    for (const Wish& wish : {Wish{}, soft()})
        EXPECT_EQ(on(decide(wish)),
                  std::string("environment folder descriptors core oom cgroup network ipc mounts privileges files ") +
                      (geteuid() == 0 ? "user " : "") + "capabilities dumpable syscalls extents bridge ");
}

TEST(CagePlan, HasExtentsOnlyWithWhatTheyLeanOn) {
    SKIP_WITH_SANITIZERS();
    Wish wish = soft();
    wish.without = "files";
    EXPECT_THAT(on(decide(wish)), HasSubstr("extents")) << "the software GPU opens nothing";
    wish.software = false;
    EXPECT_EQ(why(decide(wish), Measure::extents), "it needs 'files'");
    wish.without = "syscalls";
    EXPECT_EQ(why(decide(wish), Measure::extents), "it needs 'syscalls'");
    wish.with = "extents";
    EXPECT_EQ(decide(wish).error, "--cage extents: it needs 'syscalls'");
}

TEST(CagePlan, HasNoExtentsOfARegionThatWorkersCouldOpenAgain) {
    SKIP_WITH_SANITIZERS();
    const auto extents = [](const Wish& wish, int region) {
        return why(plan(wish, "/nowhere/libcuda.so.1", region), Measure::extents);
    };
    const File unnamed(memfd_create("region", MFD_CLOEXEC)),
        named(open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (!extents({}, named.fd()).empty()) GTEST_SKIP() << extents({}, named.fd());
    EXPECT_EQ(extents({}, unnamed.fd()),
              "workers could open the region again: it is a memfd, or in a folder that they may read");
    EXPECT_EQ(extents(soft(), unnamed.fd()), "");
}

TEST(CagePlan, TakesOnWhatIsNamedAndLeavesOutWhatIsNamed) {
    Wish wish;
    wish.without = "oom,files";
    EXPECT_THAT(on(decide(wish)), AllOf(HasSubstr("core cgroup network "), Not(HasSubstr("files"))));
    wish.without = "all";
    wish.with = "oom";
    EXPECT_EQ(on(decide(wish)), "oom ");
    wish.with = "all";
    EXPECT_THAT(on(decide(wish)), HasSubstr("core oom cgroup network ipc mounts privileges "));
}

TEST(CagePlan, OfASwitchedOffMeasureKnowsThatTheOperatorDidIt) {
    Wish wish = soft();
    wish.without = "oom";
    const Plan plan = decide(wish);
    EXPECT_TRUE(plan.switched[static_cast<unsigned>(Measure::oom)]);
    EXPECT_FALSE(plan.switched[static_cast<unsigned>(Measure::user)]);
    EXPECT_EQ(why(plan, Measure::oom), "switched off (--no-cage)");
}

TEST(CagePlan, RefusesAMeasureThatThereIsNot) {
    for (std::string Wish::*const list : {&Wish::with, &Wish::without}) {
        Wish wish = soft();
        wish.*list = "core,syscals";
        EXPECT_THAT(decide(wish).error, HasSubstr("the cage has no 'syscals'; its measures: environment, "));
    }
    EXPECT_THAT(check_names("all").text(), IsEmpty());
}

TEST(CagePlan, RefusesAUserThatThereIsNot) {
    Wish wish = soft();
    wish.user = "no-such-user";
    EXPECT_EQ(decide(wish).error, "--worker-user no-such-user: there is no such user");
}

TEST(CagePlan, HasTheUserThatIsNamedThoughAllElseIsOff) {
    if (geteuid() != 0) GTEST_SKIP() << "only root can start workers as another user";
    Wish wish = soft();
    wish.without = "all";
    wish.user = "nobody";
    const Plan plan = decide(wish);
    EXPECT_EQ(on(plan), "user ");
    EXPECT_NE(plan.order.user, 0u);
}

TEST(CagePlan, LeavesAToolWhatItNeedsButNotWhatTheOperatorAskedFor) {
    Wish wish = soft();
    wish.wrapped = true;
    EXPECT_EQ(on(decide(wish)), "core oom privileges ");
    wish.with = "syscalls";
    EXPECT_THAT(decide(wish).error, HasSubstr("--cage syscalls: a tool runs around the worker"));
}

TEST(CagePlan, RecordsCallsInsteadOfDenyingThem) {
    Wish wish = soft();
    wish.record = true;
    const Plan plan = decide(wish);
    EXPECT_TRUE(plan.order.record);
    EXPECT_FALSE(plan.order.has(Measure::syscalls));
}

TEST(CagePlan, HandsOnOfTheEnvironmentWhatDriversRead) {
    setenv("ANOTHERS_SECRET", "word", 1);
    setenv("CUDA_CACHE_PATH", "/x", 1);
    std::string all;
    for (char* v : environment(only(Measure::environment)))
        if (v) all += std::string(v) + '\n';
    EXPECT_THAT(all, HasSubstr("CUDA_CACHE_PATH=/x\n"));
    EXPECT_THAT(all, Not(HasSubstr("ANOTHERS_SECRET")));
    unsetenv("ANOTHERS_SECRET");
    unsetenv("CUDA_CACHE_PATH");
}

TEST(CagePlan, RefusesACallThatThereIsNot) {
    Wish wish;
    wish.calls = "ptrace,no_such_call";
    EXPECT_EQ(decide(wish).error, "--allow-call: 'no_such_call' is not a system call of this machine");
    wish.calls = "ptrace";
    EXPECT_TRUE(decide(wish).order.allows(SYS_ptrace));
    EXPECT_FALSE(decide(wish).order.allows(SYS_mount));
}

// What the bridge logs of a plan, in one line for each part.
std::string reported(const Plan& plan) {
    testing::internal::CaptureStderr();
    log::start(stderr, "bridge", "debug");
    report(plan);
    return testing::internal::GetCapturedStderr();
}

TEST(CageReport, SeveralMeasuresThatAreUsuallyNotAvailableHaveOneLine) {
    Plan plan;
    plan.why[static_cast<unsigned>(Measure::cgroup)] = "no cgroup";
    EXPECT_THAT(reported(plan), HasSubstr("the workers' cage lacks 'cgroup' (")) << "one alone has its reason";
    plan.why[static_cast<unsigned>(Measure::oom)] = "no oom";
    const std::string both = reported(plan);
    EXPECT_THAT(both, HasSubstr("info bridge: the workers' cage lacks 'oom', 'cgroup': `barcuda doctor`"));
    EXPECT_THAT(both, HasSubstr("debug bridge: the workers' cage lacks 'oom' ("));
    EXPECT_THAT(both, testing::Not(HasSubstr("info bridge: the workers' cage lacks 'cgroup' (")));
    plan.switched[static_cast<unsigned>(Measure::oom)] = true;
    EXPECT_THAT(reported(plan), HasSubstr("warning bridge: the workers' cage lacks 'oom' ("))
        << "a measure that was switched off is a warning";
}

}  // namespace
}  // namespace barcuda::cage
