// SPDX-License-Identifier: Apache-2.0
// cage_filter_test: which system calls a worker may make, and what it records of the others: each in a child process.
#include "host-bridge/cage/cage.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "host-bridge/between/link.h"
#include "host-bridge/cage/measures.h"
#include "tests/unit/support/caged.h"

namespace barcuda::cage {
namespace {

using testing::HasSubstr;

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

std::string ended_in_nvidias_list_for(const std::function<void()>& call) {
    const Child c = with_nvidias_list([&] {
        call();
        return 0;
    });
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

// Its bridge and other workers have these open, too: what is set of them holds for all, and a copy would have another
// number. (A worker with extents has closed the region, whose number is not among them.)
TEST(CageFilter, LetsNobodyChangeTheDescriptorsThatTheBridgeHasGiven) {
    SKIP_WITH_SANITIZERS();
    int off = 0;
    for (const int fd : {link_fd, errors_fd, doorbell_fd, soft_card_fd}) {
        const std::function<long()> attempts[] = {
            [=] { return fcntl(fd, F_SETFL, 0); },
            [=] { return syscall(SYS_fcntl, std::uint64_t{1} << 32 | static_cast<unsigned>(fd), F_SETFL, 0); },
            [=] { return fcntl(fd, F_DUPFD, 32); },
            [=] { return fcntl(fd, F_DUPFD_CLOEXEC, 32); },
            [=] { return syscall(SYS_fcntl, fd, std::uint64_t{1} << 32 | F_SETFL, 0); },
            [&off, fd] { return ioctl(fd, FIONBIO, &off); },
            [=] { return dup(fd); },
            [=] { return dup2(fd, 32); },
            [=] { return dup3(fd, 32, 0); },
            [=] { return ftruncate(fd, 0); },
            [=] { return fallocate(fd, 0, 0, 4096); }};
        for (const auto& attempt : attempts) {
            const Child c = with_nvidias_list([&] { return attempt() == -1 && errno == EPERM ? 0 : 1; });
            EXPECT_EQ(c.status, 0) << fd << " " << &attempt - attempts;
            EXPECT_THAT(c.log, HasSubstr("for a descriptor of its bridge's, and was refused"));
        }
        for (const int harmless : {F_GETFD, F_SETFD, F_GETFL})
            EXPECT_EQ(with_nvidias_list([=] { return fcntl(fd, harmless, 0) < 0 ? 1 : 0; }).status, 0) << fd;
        const std::pair<const char*, std::function<void()>> of_ours[] = {
            {"fcntl", [=] { fcntl(fd, F_DUPFD_CLOEXEC, 32); }},
            {"ftruncate", [=] { return ftruncate(fd, 0); }},
            {"fallocate", [=] { return fallocate(fd, 0, 0, 4096); }}};
        for (const auto& [name, attempt] : of_ours)
            EXPECT_EQ(ended_for(attempt), std::string("called ") + name + ", which its cage denies (syscalls)") << fd;
    }
    EXPECT_EQ(ended_in_nvidias_list_for([] { fcntl(fcntl(0, F_DUPFD_CLOEXEC, 32), F_SETFL, O_NONBLOCK); }), "");
    EXPECT_EQ(ended_for([] { return ftruncate(memfd_create("own", MFD_CLOEXEC), 4096); }), "");
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

TEST(CageFilter, OfNvidiasDriverLetsItCheckpointItsProcess) {
    SKIP_WITH_SANITIZERS();
    const Child c = with_nvidias_list([] { return reaches_what_a_checkpoint_needs() ? 0 : 1; });
    EXPECT_EQ(c.status, 0);
    EXPECT_EQ(c.denied, Sheet::nothing) << denied(c.denied);
    EXPECT_EQ(c.log, "");
}

}  // namespace
}  // namespace barcuda::cage
