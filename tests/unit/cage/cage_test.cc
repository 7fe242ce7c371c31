// SPDX-License-Identifier: Apache-2.0
// cage_test: which measures a worker's cage has for each wish of an operator, and that they hold: each in a child
// process. (Attempts from inside a whole worker: tests/e2e/test_cage.py.)
#include "host-bridge/cage/cage.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "base/message.h"
#include "host-bridge/between/link.h"
#include "host-bridge/cage/measures.h"
#include "host-bridge/cage/users.h"

namespace barcuda::cage {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

#ifdef BARCUDA_SANITIZED
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

#define SKIP_WITH_SANITIZERS() \
    if (sanitized) GTEST_SKIP() << "sanitizers make calls of their own"

Wish soft() {
    Wish wish;
    wish.software = true;
    return wish;
}
std::string why(const Plan& plan, Measure m) { return plan.why[static_cast<unsigned>(m)]; }
Order only(Measure m) {
    Order order;
    order.on = 1u << static_cast<unsigned>(m);
    order.software = true;
    return order;
}
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
    wish.without = "all", wish.user = "nobody";
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
    setenv("ANOTHERS_SECRET", "word", 1), setenv("CUDA_CACHE_PATH", "/x", 1);
    std::string all;
    for (char* v : environment(only(Measure::environment)))
        if (v) all += std::string(v) + '\n';
    EXPECT_THAT(all, HasSubstr("CUDA_CACHE_PATH=/x\n"));
    EXPECT_THAT(all, Not(HasSubstr("ANOTHERS_SECRET")));
    unsetenv("ANOTHERS_SECRET"), unsetenv("CUDA_CACHE_PATH");
}

// The result of a child: its exit status, and what it has noted.
struct Child {
    int status = -1;
    std::uint32_t denied = Sheet::nothing;
    std::string log;  // what it wrote to log_fd
};
Child child(const std::function<int(std::uint32_t* denied)>& body) {
    auto* const denied = static_cast<std::uint32_t*>(
        mmap(nullptr, sizeof(std::uint32_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    *denied = Sheet::nothing;
    int log[2];
    if (pipe(log) != 0) return {};
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(log[1], log_fd);
        _exit(body(denied));
    }
    ::close(log[1]);
    Child c;
    char text[4096];
    for (ssize_t n; (n = read(log[0], text, sizeof text)) > 0;) c.log.append(text, static_cast<std::size_t>(n));
    ::close(log[0]);
    waitpid(pid, &c.status, 0);
    c.denied = *denied;
    munmap(denied, sizeof *denied);
    return c;
}

// Makes `call` under the software GPU's list of system calls. Returns the name of the call that ended the child.
std::string ended_for(const std::function<void()>& call, CodePlace code = {}) {
    const Child c = child([&](std::uint32_t* denied) {
        if (close(only(Measure::syscalls), denied, code)) return 2;
        call();
        return 0;
    });
    if (c.denied != Sheet::nothing) return WEXITSTATUS(c.status) == 1 ? denied(c.denied) : "it lives on";
    return c.status == 0 ? "" : "status " + std::to_string(c.status);
}

TEST(CageFilter, EndsWhoMakesACallThatIsNotInTheList) {
    SKIP_WITH_SANITIZERS();
    EXPECT_EQ(ended_for([] { socket(AF_INET, SOCK_STREAM, 0); }), "called socket, which its cage denies (syscalls)");
    EXPECT_EQ(ended_for([] { open("/etc/passwd", O_RDONLY); }), "called openat, which its cage denies (syscalls)");
    EXPECT_EQ(ended_for([parent = getpid()] { kill(parent, SIGCONT); }),
              "called kill, which its cage denies (syscalls)");
    EXPECT_EQ(ended_for([] { signal(SIGSYS, SIG_IGN); }), "called rt_sigaction, which its cage denies (syscalls)");
}

TEST(CageFilter, LooksAtArguments) {
    SKIP_WITH_SANITIZERS();
    const auto map = [](int how) { mmap(nullptr, 4096, how, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); };
    EXPECT_EQ(ended_for([&] { map(PROT_READ | PROT_WRITE); }), "");
    EXPECT_EQ(ended_for([&] { map(PROT_READ | PROT_EXEC); }), "called mmap, which its cage denies (syscalls)");
    EXPECT_EQ(ended_for([parent = getpid()] { kill(parent, 0); }), "");
    EXPECT_EQ(ended_for([] { return write(region_fd, "", 1); }), "called write, which its cage denies (syscalls)");
}

// The software GPU's compiled kernels become executable in their place, and nothing else does: not even they while they
// are writable.
TEST(CageFilter, LetsCodeBeMadeInItsPlaceAlone) {
    SKIP_WITH_SANITIZERS();
    constexpr std::size_t size = 1 << 20;
    char* const there = static_cast<char*>(mmap(nullptr, 3 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    const auto base = (reinterpret_cast<std::uintptr_t>(there) + size - 1) / size * size;
    const auto ended = [&](std::uintptr_t at, int how, std::size_t bytes = 4096) {
        return ended_for([&] { mprotect(reinterpret_cast<void*>(at), bytes, how); }, {base, size});
    };
    EXPECT_EQ(ended(base, PROT_READ | PROT_WRITE), "");
    EXPECT_EQ(ended(base, PROT_READ | PROT_EXEC), "");
    EXPECT_EQ(ended(base + size - 4096, PROT_READ | PROT_EXEC), "");
    const std::string denied = "called mprotect, which its cage denies (syscalls)";
    EXPECT_EQ(ended(base, PROT_READ | PROT_WRITE | PROT_EXEC), denied);
    EXPECT_EQ(ended(base + size, PROT_READ | PROT_EXEC), denied);
    EXPECT_EQ(ended(base + size - 4096, PROT_READ | PROT_EXEC, 8192), denied) << "it ends beyond";
    EXPECT_EQ(ended(base - 4096, PROT_READ | PROT_EXEC), denied);
    munmap(there, 3 * size);
}

TEST(CageFilter, KeepsHugePagesFromAWorker) {
    SKIP_WITH_SANITIZERS();
    EXPECT_EQ(ended_for([] { memfd_create("x", MFD_HUGETLB); }),
              "called memfd_create, which its cage denies (syscalls)");
    EXPECT_EQ(ended_for([] { mmap(nullptr, 2 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0); }),
              "called mmap, which its cage denies (syscalls)");
}

TEST(CageFilter, HoldsForThreadsThatThereWereBefore) {
    SKIP_WITH_SANITIZERS();
    const Child c = child([](std::uint32_t* denied) {
        std::atomic<bool> closed = false;
        std::thread early([&] {
            while (!closed) sched_yield();
            socket(AF_INET, SOCK_STREAM, 0);
        });
        if (close(only(Measure::syscalls), denied)) return 2;
        closed = true;
        early.join();
        return 0;
    });
    EXPECT_EQ(WEXITSTATUS(c.status), 1);
    EXPECT_EQ(c.denied, static_cast<std::uint32_t>(SYS_socket));
}

// Runs `body` under the list of NVIDIA's driver, with these additional calls.
Child with_nvidias_list(const std::function<int()>& body, const char* calls = "") {
    return child([&](std::uint32_t* denied) {
        Order order = only(Measure::syscalls);
        order.software = false;
        if (allow_calls(calls, order)) return 3;
        return close(order, denied) ? 2 : body();
    });
}
std::string ended_in_nvidias_list_for(const std::function<void()>& call) {
    const Child c = with_nvidias_list([&] { return call(), 0; });
    if (c.denied != Sheet::nothing) return WEXITSTATUS(c.status) == 1 ? denied(c.denied) : "it lives on";
    return c.status == 0 ? "" : "status " + std::to_string(c.status);
}

TEST(CageFilter, OfNvidiasDriverEndsWhoMakesACallThatNoDriverNeeds) {
    SKIP_WITH_SANITIZERS();
    EXPECT_EQ(ended_in_nvidias_list_for([] { ::close(open("/dev/null", O_RDONLY)); }), "");
    EXPECT_EQ(ended_in_nvidias_list_for([] { execl("/bin/true", "true", nullptr); }),
              "called execve, which its cage denies (syscalls)");
    EXPECT_EQ(ended_in_nvidias_list_for([parent = getpid()] { kill(parent, SIGCONT); }),
              "called kill, which its cage denies (syscalls)");
    EXPECT_EQ(ended_in_nvidias_list_for([] { signal(SIGSYS, SIG_IGN); }),
              "called rt_sigaction, which its cage denies (syscalls)");
    EXPECT_EQ(ended_in_nvidias_list_for([] { return write(region_fd, "", 1); }),
              "called write, which its cage denies (syscalls)");
}

TEST(CageFilter, OfNvidiasDriverRefusesACallThatItDoesNotKnowAndNamesTheRemedyOnce) {
    SKIP_WITH_SANITIZERS();
    const auto attempt = [] {
        const auto refused = [](long result) { return result == -1 && errno == EPERM; };
        const bool all = refused(chmod("/nowhere", 0600)) && refused(chmod("/nowhere", 0600));
        return all && syscall(SYS_landlock_create_ruleset, 0, 0, 0) == -1 && errno == ENOSYS ? 0 : 1;
    };
    Child c = with_nvidias_list(attempt);
    EXPECT_EQ(c.status, 0);
    EXPECT_EQ(c.denied, Sheet::nothing);
    EXPECT_THAT(c.log, HasSubstr("the driver called chmod (0x"));
    EXPECT_THAT(c.log, HasSubstr("start its bridge with --allow-call chmod,"));
    EXPECT_EQ(std::count(c.log.begin(), c.log.end(), '\n'), 2) << c.log;
    c = with_nvidias_list([] { return chmod("/nowhere", 0600) == -1 && errno == ENOENT ? 0 : 1; }, "fchmod,chmod");
    EXPECT_EQ(c.status, 0);
    EXPECT_EQ(c.log, "");
}

// Attempts of an attacker in NVIDIA's worker against other processes, files of its user, and processes that have such a
// file open.
TEST(CageFilter, OfNvidiasDriverReachesNobodyElse) {
    SKIP_WITH_SANITIZERS();
    const pid_t parent = getpid();
    const std::pair<const char*, std::function<long()>> attempts[] = {
        {"chmod", [] { return chmod("/", 0755); }},
        {"fchmod", [] { return fchmod(0, 0600); }},
        {"fchmodat", [] { return fchmodat(AT_FDCWD, "/", 0755, 0); }},
        {"chown", [] { return chown("/", 0, 0); }},
        {"fchown", [] { return fchown(0, 0, 0); }},
        {"setxattr", [] { return syscall(SYS_setxattr, "/", "user.x", "", 0, 0); }},
        {"fsetxattr", [] { return syscall(SYS_fsetxattr, 0, "user.x", "", 0, 0); }},
        {"utimensat", [] { return utimensat(AT_FDCWD, "/", nullptr, 0); }},
        {"link", [] { return link("/x", "/y"); }},
        {"mknod", [] { return mknod("/x", S_IFIFO, 0); }},
        {"truncate", [] { return truncate("/x", 0); }},
        {"prlimit", [=] { return prlimit(parent, RLIMIT_CPU, nullptr, nullptr); }},
        {"own prlimit",
         [] {
             rlimit same{};
             return getrlimit(RLIMIT_CORE, &same) ? 0 : setrlimit(RLIMIT_CORE, &same);
         }},
        {"affinity", [=] { return sched_setaffinity(parent, 0, nullptr); }},
        {"scheduler", [=] { return syscall(SYS_sched_setscheduler, parent, 0, nullptr); }},
        {"sched_setattr", [=] { return syscall(SYS_sched_setattr, parent, nullptr, 0); }},
        {"nice", [=] { return setpriority(PRIO_PROCESS, static_cast<id_t>(parent), 19); }},
        {"ioprio", [=] { return syscall(SYS_ioprio_set, 1, parent, 0); }},
        {"migrate_pages", [=] { return syscall(SYS_migrate_pages, parent, 0, nullptr, nullptr); }},
        {"move_pages", [=] { return syscall(SYS_move_pages, parent, 0, nullptr, nullptr, nullptr, 0); }},
        {"socket", [] { return socket(AF_UNIX, SOCK_STREAM, 0); }},
        {"socketpair",
         [] {
             int ends[2];
             return socketpair(AF_UNIX, SOCK_DGRAM, 0, ends);
         }},
        {"connect", [] { return connect(0, nullptr, 0); }},
        {"message",
         [] {
             msghdr m{};
             return sendmsg(0, &m, 0);
         }},
        {"terminal", [] { return ioctl(0, TIOCSTI, ""); }},
        {"listener", [] { return ioctl(0, SECCOMP_IOCTL_NOTIF_RECV, nullptr); }},
        {"owner", [=] { return fcntl(0, F_SETOWN, parent); }},
        {"dumpable", [] { return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); }},
        {"tracer", [=] { return prctl(PR_SET_PTRACER, parent, 0, 0, 0); }},
        {"huge file", [] { return memfd_create("x", MFD_HUGETLB); }},
        {"huge memory", [] {
             return mmap(nullptr, 2 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0) == MAP_FAILED
                        ? -1
                        : 0;
         }}};
    for (const auto& one : attempts) {
        const Child c = with_nvidias_list([&] { return one.second() == -1 && errno == EPERM ? 0 : 1; });
        EXPECT_EQ(c.status, 0) << one.first;
        EXPECT_THAT(c.log, HasSubstr("--allow-call ")) << one.first;
    }
    EXPECT_EQ(with_nvidias_list([] {
                  return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == -1 && errno == EAGAIN ? 0 : 1;
              }).status,
              0);
    rlimit limit;
    EXPECT_EQ(with_nvidias_list([&] { return getrlimit(RLIMIT_STACK, &limit); }).status, 0);
}

TEST(CagePlan, RefusesACallThatThereIsNot) {
    Wish wish;
    wish.calls = "ptrace,no_such_call";
    EXPECT_EQ(decide(wish).error, "--allow-call: 'no_such_call' is not a system call of this machine");
    wish.calls = "ptrace";
    EXPECT_TRUE(decide(wish).order.allows(SYS_ptrace));
    EXPECT_FALSE(decide(wish).order.allows(SYS_mount));
}

TEST(CageRecord, TellsEachUnknownCallOnceAndHasItDone) {
    SKIP_WITH_SANITIZERS();
    const Child c = child([](std::uint32_t* denied) {
        Order order;
        order.record = true;
        if (close_bridge(decide({}))) return 77;  // a worker has its bridge's filter, too
        if (close(order, denied)) return 77;
        for (int i = 0; i < 3; ++i)
            if (open("/dev/null", O_RDONLY) < 0) return 2;
        if (open("/no\nsuch\x1b", O_RDONLY) >= 0) return 4;
        return socket(AF_UNIX, SOCK_STREAM, 0) < 0 ? 3 : 0;
    });
    if (WEXITSTATUS(c.status) == 77) GTEST_SKIP() << "no seccomp user notification in this kernel";
    EXPECT_EQ(c.status, 0);
    EXPECT_EQ(c.log, "recorded openat /dev/null\nrecorded openat /no?such?\nrecorded socket 0x1\n");
}

// Takes the measure in a child process, which then checks it. 77: the measure is not available here.
int in_a_child(Measure m, const std::function<bool()>& holds) {
    const Child c = child([&](std::uint32_t*) {
        if (!row(m).take(only(m), "/nowhere/libcuda.so.1")) return 77;
        return holds() ? 0 : 1;
    });
    return WIFEXITED(c.status) ? WEXITSTATUS(c.status) : -1;
}

TEST(CageMeasure, FilesAreReadWhereTheSystemHasItsLibrariesAndNowhereElse) {
    const int result = in_a_child(Measure::files, [] {
        errno = 0;
        const bool shut = open("/etc/passwd", O_RDONLY) < 0 && errno == EACCES &&
                          open("/tmp", O_TMPFILE | O_WRONLY, 0600) < 0 && errno == EACCES;
        return shut && open("/usr", O_RDONLY | O_DIRECTORY) >= 0 && open("/usr/x", O_CREAT | O_WRONLY, 0600) < 0;
    });
    if (result == 77) GTEST_SKIP() << "no Landlock in this kernel (5.13, CONFIG_SECURITY_LANDLOCK, lsm=landlock)";
    EXPECT_EQ(result, 0);
}

TEST(CageMeasure, FilesOfNvidiasDriverAreTheNamesOfItsThreadsToo) {
    const Child c = child([](std::uint32_t*) {
        Order order = only(Measure::files);
        order.software = false;
        if (!row(Measure::files).take(order, "/nowhere/libcuda.so.1")) return 77;
        const std::string name = "/proc/self/task/" + std::to_string(gettid()) + "/comm";
        const int file = open(name.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
        return file >= 0 && write(file, "a name", 6) == 6 && open("/tmp", O_TMPFILE | O_WRONLY, 0600) < 0 ? 0 : 1;
    });
    if (WEXITSTATUS(c.status) == 77) GTEST_SKIP() << "no Landlock in this kernel";
    EXPECT_EQ(c.status, 0);
}

// What NVIDIA's driver was seen to do (580.159.04) in cuCheckpointProcess* of its own process, apart from its devices.
bool reaches_what_a_checkpoint_needs() {
    const std::string self = "/proc/" + std::to_string(getpid());
    int pipes[2];
    if (pipe2(pipes, O_CLOEXEC) != 0) return false;
    const auto opens = [&](const std::string& path, int how) { return open((self + path).c_str(), how | O_CLOEXEC); };
    const int again = opens("/fd/" + std::to_string(pipes[0]), O_RDONLY | O_NONBLOCK);
    const int name = opens("/task/" + std::to_string(gettid()) + "/comm", O_RDWR), maps = opens("/maps", O_RDONLY);
    char byte;
    return again >= 0 && name >= 0 && maps >= 0 && read(maps, &byte, 1) == 1 &&
           open("/proc/devices", O_RDONLY | O_CLOEXEC) >= 0 && dup2(pipes[1], name) == name &&
           dup3(pipes[0], maps, O_CLOEXEC) == maps;
}

TEST(CageMeasure, FilesOfNvidiasDriverAreThoseOfACheckpointToo) {
    const Child c = child([](std::uint32_t*) {
        Order order = only(Measure::files);
        order.software = false;
        if (!row(Measure::files).take(order, "/nowhere/libcuda.so.1")) return 77;
        return reaches_what_a_checkpoint_needs() ? 0 : 1;
    });
    if (WEXITSTATUS(c.status) == 77) GTEST_SKIP() << "no Landlock in this kernel";
    EXPECT_EQ(c.status, 0);
}

TEST(CageFilter, OfNvidiasDriverLetsItCheckpointItsProcess) {
    SKIP_WITH_SANITIZERS();
    const Child c = with_nvidias_list([] { return reaches_what_a_checkpoint_needs() ? 0 : 1; });
    EXPECT_EQ(c.status, 0);
    EXPECT_EQ(c.denied, Sheet::nothing) << denied(c.denied);
    EXPECT_EQ(c.log, "");
}

TEST(CageMeasure, MountsShowTheWorkersASharedFolderOfTheirOwn) {
    const Order order = only(Measure::mounts);
    const Namespaces mounts(order);
    if (mounts.error(Measure::mounts)) GTEST_SKIP() << "this user may make no namespaces here";
    const std::string name = shared_files + std::string("/barcuda-cage-test-") + std::to_string(getpid());
    const auto opens = [&](int how) { return File(open(name.c_str(), how | O_CLOEXEC, 0600)); };
    const auto one = [&](int how) {
        return child([&](std::uint32_t*) { return !mounts.join(order) ? 2 : opens(how) ? 0 : 1; }).status;
    };
    EXPECT_EQ(one(O_RDWR | O_CREAT | O_EXCL), 0);
    EXPECT_FALSE(opens(O_RDWR)) << "it lies in the host's";
    EXPECT_EQ(one(O_RDWR), 0) << "another worker of the bridge shares it";
    EXPECT_NE(child([&](std::uint32_t*) { return Namespaces(order).join(order) && opens(O_RDWR) ? 0 : 1; }).status, 0);
}

TEST(CageMeasure, MountsShowAWorkerItsDriversFilesAndNoOthers) {
    const std::string folder = testing::TempDir() + "barcuda-cage-test-" + std::to_string(getpid());
    const auto make = [&](const std::string& name) {
        std::filesystem::create_directories(std::filesystem::path(folder + name).parent_path());
        File(open((folder + name).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
    };
    for (const char* name : {"/driver/libcuda.so.1", "/named/file", "/other"}) make(name);
    std::filesystem::create_symlink(folder + "/named", folder + "/link");
    setenv(more_files, (folder + "/link").c_str(), 1);
    const std::string region = folder + "/region";
    make("/region");
    for (const bool software : {true, false}) {
        Order order = only(Measure::mounts);
        order.software = software;
        const Namespaces mounts(order, folder + "/driver/libcuda.so.1");
        if (mounts.error(Measure::mounts)) GTEST_SKIP() << "this user may make no namespaces here";
        const auto sees = [&](const std::string& path) {
            return child([&](std::uint32_t*) {
                       return mounts.join(order) && access(path.c_str(), F_OK) == 0 ? 0 : 1;
                   }).status == 0;
        };
        const auto writes = [&](const std::string& path) {
            return child([&](std::uint32_t*) {
                       return mounts.join(order) && open(path.c_str(), O_RDWR) >= 0 ? 0 : 1;
                   }).status == 0;
        };
        for (const char* path : {"/usr", "/lib", "/dev/null", "/dev/urandom", "/proc/self/maps"})
            EXPECT_TRUE(sees(path)) << path;
        EXPECT_TRUE(sees(folder + "/driver/libcuda.so.1"));
        EXPECT_TRUE(sees(folder + "/link/file"));
        EXPECT_TRUE(writes("/dev/null"));
        for (const char* path :
             {"/etc/passwd", "/run", "/home", "/root/.ssh", "/var/lib", "/boot", "/sys/fs", "/dev/mem", "/dev/kvm"})
            EXPECT_FALSE(sees(path)) << path;
        EXPECT_FALSE(sees(folder + "/other"));
        EXPECT_FALSE(writes(folder + "/named/file"));
        EXPECT_FALSE(writes("/proc/sys/kernel/core_pattern"));
        EXPECT_EQ(child([&](std::uint32_t*) {
                      return mounts.join(order) && std::filesystem::current_path() == "/" ? 0 : 1;
                  }).status,
                  0);
        for (const char* made : {"/x", "/dev/x", "/usr/x"})
            EXPECT_NE(child([&](std::uint32_t*) {
                          return mounts.join(order) && open(made, O_CREAT | O_WRONLY, 0600) >= 0 ? 0 : 1;
                      }).status,
                      0)
                << made;
    }
    unsetenv(more_files);
    std::filesystem::remove_all(folder);
}

// Linux 5.12 can restrict a mount and everything below it; older kernels only the mount.
TEST(CageMeasure, MountsAreReadOnlyInAnOlderKernelToo) {
    SKIP_WITH_SANITIZERS();
    const Child c = child([](std::uint32_t*) {
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        const scmp_filter_ctx older = seccomp_init(SCMP_ACT_ALLOW);
        if (seccomp_rule_add(older, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(mount_setattr), 0) != 0 ||
            seccomp_load(older) != 0)
            return 77;
        const Order order = only(Measure::mounts);
        const Namespaces mounts(order);
        if (mounts.error(Measure::mounts)) return mounts.error(Measure::mounts) == EPERM ? 77 : 2;
        if (!mounts.join(order)) return 3;
        if (open("/usr/x", O_CREAT | O_WRONLY, 0600) >= 0 || errno != EROFS) return 4;
        return open("/dev/null", O_RDWR) >= 0 && open("/etc/passwd", O_RDONLY) < 0 ? 0 : 5;
    });
    if (WEXITSTATUS(c.status) == 77) GTEST_SKIP() << "this user may make no namespaces here";
    EXPECT_EQ(WEXITSTATUS(c.status), 0);
}

// The workers of another user cannot write to a cache of the bridge's user.
TEST(CageMeasure, MountsGiveAWorkerACacheOfCodeThatItCanWrite) {
    const std::string folder = testing::TempDir() + "barcuda-cage-cache-" + std::to_string(getpid());
    std::filesystem::create_directory(folder);
    setenv("CUDA_CACHE_PATH", folder.c_str(), 1);
    Order order = only(Measure::mounts);
    order.software = false;
    const auto makes_one = [&](const Order& with) {
        const Namespaces mounts(with);
        if (mounts.error(Measure::mounts)) return 77;
        return WEXITSTATUS(child([&](std::uint32_t*) {
                               return mounts.join(with) &&
                                              open((folder + "/code").c_str(), O_CREAT | O_EXCL | O_RDWR, 0600) >= 0
                                          ? 0
                                          : 1;
                           }).status);
    };
    const int first = makes_one(order);
    if (first == 77) GTEST_SKIP() << "this user may make no namespaces here";
    EXPECT_EQ(first, 0);
    EXPECT_TRUE(std::filesystem::exists(folder + "/code")) << "it is kept";
    if (geteuid() == 0) {
        order.on |= only(Measure::user).on, order.user = 65534;
        EXPECT_EQ(makes_one(order), 0);
    }
    unsetenv("CUDA_CACHE_PATH");
    std::filesystem::remove_all(folder);
}

TEST(CageMeasure, NamespacesShowTheWorkersNoNetworkAndNoObjectsOfOthers) {
    Order both = only(Measure::network);
    both.on |= only(Measure::ipc).on;
    const Namespaces namespaces(both);
    if (namespaces.error(Measure::network) || namespaces.error(Measure::ipc))
        GTEST_SKIP() << "this user may make no namespaces here";
    EXPECT_EQ(namespaces.error(Measure::mounts), 0) << "none was asked for, so none is missing";
    const auto space = [](const char* name) {
        char text[64] = {};
        return readlink(name, text, sizeof text - 1) > 0 ? std::string(text) : "";
    };
    // What a worker with these measures sees.
    constexpr std::size_t room = 4096;
    auto* const seen =
        static_cast<char*>(mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    const auto worker = [&](const Order& order) {
        child([&](std::uint32_t*) {
            const std::string all = !namespaces.join(order)
                                        ? "it cannot join"
                                        : space("/proc/self/ns/net") + " " + space("/proc/self/ns/ipc");
            seen[all.copy(seen, room - 1)] = '\0';
            return 0;
        });
        return std::string(seen);
    };
    const std::string net = space("/proc/self/ns/net"), ipc = space("/proc/self/ns/ipc"), first = worker(both);
    EXPECT_THAT(first, AllOf(HasSubstr("net:["), HasSubstr("ipc:["), Not(HasSubstr(net)), Not(HasSubstr(ipc))));
    EXPECT_EQ(worker(both), first) << "another worker of the bridge shares them";
    EXPECT_THAT(worker(only(Measure::ipc)), AllOf(HasSubstr(net), Not(HasSubstr(ipc))));
    EXPECT_THAT(worker(only(Measure::network)), AllOf(HasSubstr(ipc), Not(HasSubstr(net))));
    munmap(seen, room);
}

TEST(CageUser, IsOneThatNobodyHasAndIsFreeWhenItsBridgeHasGone) {
    if (geteuid() != 0) GTEST_SKIP() << "only root has users to give";
    const std::string folder = testing::TempDir() + "barcuda-cage-users-" + std::to_string(getpid()) + "/users";
    uid_t freed = 0;
    {
        const OwnUser one(folder), another(folder);
        EXPECT_EQ(one.error() + another.error(), "");
        EXPECT_GE(one.number(), first_user);
        EXPECT_LE(another.number(), last_user);
        EXPECT_NE(one.number(), another.number());
        EXPECT_NE(child([&](std::uint32_t*) { return OwnUser(folder).number() == one.number() ? 0 : 1; }).status, 0);
        freed = one.number();
        // A worker of a bridge that was killed.
        int ends[2];
        ASSERT_EQ(pipe(ends), 0);
        const pid_t left = fork();
        if (left == 0) {
            ::close(ends[1]);
            if (setresuid(freed, freed, freed) != 0) _exit(1);
            char nothing;
            _exit(read(ends[0], &nothing, 1) < 0);
        }
        ::close(ends[0]);
        rlimit limit;
        while (prlimit(left, RLIMIT_CORE, nullptr, &limit) == 0 && getpriority(PRIO_USER, freed) == -1 &&
               errno == ESRCH) {}
        EXPECT_NE(child([&](std::uint32_t*) { return OwnUser(folder).number() == freed ? 0 : 1; }).status, 0);
        ::close(ends[1]);
        waitpid(left, nullptr, 0);
    }
    // A worker of another bridge of this machine, with other locks, may use that user number for some time.
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (OwnUser(folder).number() != freed && std::chrono::steady_clock::now() < end) usleep(1000);
    EXPECT_EQ(OwnUser(folder).number(), freed);
    chmod(folder.c_str(), 0777);
    EXPECT_THAT(OwnUser(folder).error(), HasSubstr(folder)) << "somebody else might hold its locks";
    std::filesystem::remove_all(folder);
}

// A bridge that root has started continues as an unprivileged user, and can still start workers as one other user.
TEST(CageUser, IsHadByABridgeThatIsRootsNoMore) {
    if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
    auto* const number =
        static_cast<uid_t*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    const Child c = child([&](std::uint32_t*) {
        Wish wish = soft();
        wish.without = "cgroup";
        if (step_down("nobody", wish.own) || !wish.own) return 2;
        if (!wish.own->number()) return 77;
        *number = wish.own->number();
        if (getuid() == 0 || setresuid(0, 0, 0) == 0 || kill(getppid(), 0) == 0) return 3;
        const Plan p = plan(wish, "/nowhere/libcuda.so.1");
        if (!p.why[static_cast<unsigned>(Measure::user)].empty()) return 4;
        const pid_t worker = fork();
        if (worker == 0) {
            if (!join(p) || geteuid() != *number || getegid() != *number || setresuid(0, 0, 0) == 0) _exit(1);
            if (setresuid(getuid() - 1, 0, 0) == 0 || kill(getppid(), 0) == 0 || errno != EPERM) _exit(2);
            for (;;) pause();
        }
        rlimit limit{1 << 30, 1 << 30};
        int status = 0;
        while (prlimit(worker, RLIMIT_DATA, &limit, nullptr) != 0 || getpriority(PRIO_USER, *number) == -1)
            if (waitpid(worker, &status, WNOHANG) == worker) return 10 + WEXITSTATUS(status);
        if (kill(worker, SIGKILL) != 0) return 5;
        waitpid(worker, &status, 0);
        return WIFSIGNALED(status) ? 0 : 6;
    });
    if (WEXITSTATUS(c.status) == 77) GTEST_SKIP() << "no namespaces of users here";
    EXPECT_EQ(c.status, 0) << WEXITSTATUS(c.status);
    EXPECT_NE(*number, 0u);
    munmap(number, 4096);
}

TEST(CageMeasure, CapabilitiesAreGoneAndDoNotComeBack) {
    EXPECT_EQ(
        in_a_child(Measure::capabilities, [] { return prctl(PR_CAPBSET_READ, 0, 0, 0, 0) == 0 || getuid() != 0; }), 0);
    if (getuid() != 0) GTEST_SKIP() << "only root has capabilities to lose";
    EXPECT_EQ(in_a_child(Measure::capabilities, [] { return setuid(65534) != 0 && errno == EPERM; }), 0);
}

TEST(CageMeasure, PrivilegesDumpsAndCoresAreOff) {
    EXPECT_EQ(in_a_child(Measure::privileges, [] { return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1; }), 0);
    EXPECT_EQ(in_a_child(Measure::dumpable, [] { return prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0; }), 0);
    EXPECT_EQ(in_a_child(Measure::core,
                         [] {
                             rlimit limit;
                             return getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_max == 1;
                         }),
              0);
}

TEST(CageMeasure, TheBridgeLivesWithoutOtherProcessesMemoryAndWithoutANetwork) {
    SKIP_WITH_SANITIZERS();
    Plan plan = decide(soft());
    const Child c = child([&](std::uint32_t*) {
        if (close_bridge(plan)) return 77;
        char byte = 0;
        const iovec own{&byte, 1};
        const auto refused = [](long result) { return result == -1 && errno == EPERM; };
        return refused(process_vm_readv(getpid(), &own, 1, &own, 1, 0)) && refused(socket(AF_INET, SOCK_STREAM, 0)) &&
                       refused(mount("none", "/nowhere", "tmpfs", 0, nullptr)) &&
                       refused(syscall(SYS_userfaultfd, 0)) && socket(AF_UNIX, SOCK_SEQPACKET, 0) >= 0 &&
                       waitpid(fork() ? -1 : (_exit(0), 0), nullptr, 0) > 0
                   ? 0
                   : 1;
    });
    if (WEXITSTATUS(c.status) == 77) GTEST_SKIP() << "no seccomp in this kernel";
    EXPECT_EQ(c.status, 0);
    Wish wish = soft();
    wish.without = "privileges";
    EXPECT_EQ(why(decide(wish), Measure::bridge), "it needs 'privileges'");
}

}  // namespace
}  // namespace barcuda::cage
