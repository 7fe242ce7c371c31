// SPDX-License-Identifier: Apache-2.0
// cage_measure_test: that the measures of a worker's cage hold, each in a child process. (Attempts from inside a whole
// worker: tests/e2e/trust/test_cage.py.)
#include "host-bridge/cage/cage.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/landlock.h>
#include <seccomp.h>
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

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>

#include "base/message.h"
#include "host-bridge/cage/measures.h"
#include "host-bridge/cage/users.h"
#include "tests/unit/support/caged.h"

namespace barcuda::cage {
namespace {

using testing::HasSubstr;

// Takes the measure in a child process, which then checks it. 77: the measure is not available here.
int in_a_child(Measure m, const std::function<bool()>& holds) {
    const Child c = child([&](std::uint32_t*) {
        if (!row(m).take(only(m), "/nowhere/libcuda.so.1")) return 77;
        return holds() ? 0 : 1;
    });
    return WIFEXITED(c.status) ? WEXITSTATUS(c.status) : -1;
}

// As the bridge makes a worker (bridge/spawn.cc), while another thread of the bridge's is about to start.
TEST(CageMeasure, AChildBecomesAnotherUserWhileThreadsOfItsParentStart) {
    if (geteuid() != 0) GTEST_SKIP() << "needs root: it becomes another user";
    constexpr uid_t another = 65534;
    cage::Order order{};
    order.user = order.groups[0] = another;
    order.group_count = 1;
    const std::jthread starting([](const std::stop_token& stop) {
        while (!stop.stop_requested()) std::thread([] {}).join();
    });
    for (int i = 0; i < 300; ++i) {
        const auto child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, 0));
        if (child == 0) {
            alarm(20);
            _exit(cage::become_user(order) && getuid() == another && getgid() == another ? 0 : 1);
        }
        int status = -1;
        ASSERT_EQ(child, waitpid(child, &status, 0));
        ASSERT_EQ(0, status) << "child " << i;
    }
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
        order.on |= only(Measure::user).on;
        order.user = 65534;
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
    EXPECT_THAT(OwnUser(folder).error(), HasSubstr(folder)) << "another process might hold its locks";
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
        const pid_t forked = fork();
        if (forked == 0) _exit(0);
        return refused(process_vm_readv(getpid(), &own, 1, &own, 1, 0)) && refused(socket(AF_INET, SOCK_STREAM, 0)) &&
                       refused(mount("none", "/nowhere", "tmpfs", 0, nullptr)) &&
                       refused(syscall(SYS_userfaultfd, 0)) && socket(AF_UNIX, SOCK_SEQPACKET, 0) >= 0 &&
                       waitpid(forked, nullptr, 0) > 0
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
