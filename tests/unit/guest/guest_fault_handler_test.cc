// SPDX-License-Identifier: Apache-2.0
// The library's handler of SIGSEGV: when it is installed, and how many questions to the kernel that takes.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest-allocator/driver/managed/mechanism/signals.h"
#include "guest-allocator/heap/sanitized.h"

namespace barcuda::guest::managed {
namespace {

using Body = void (*)();

// As the kernel has it.
struct Action {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)();
    unsigned long mask;
};
void own_handler(int) {}
void set_without_libc(int signal) {
    const Action action{own_handler, 0, nullptr, 0};
    if (syscall(SYS_rt_sigaction, signal, &action, nullptr, sizeof action.mask)) _exit(2);
}
Action in_kernel(int signal) {
    Action is{};
    syscall(SYS_rt_sigaction, signal, nullptr, &is, sizeof is.mask);
    return is;
}

// The exit status of a child that runs `body`.
int status_of(Body body) {
    const pid_t child = fork();
    if (child == 0) {
        body();
        _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// How often `body` calls the kernel about a handler, after `before`. -1: no process may be traced here.
int questions(Body before, Body body) {
    const pid_t child = fork();
    if (child == 0) {
        before();
        if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr)) _exit(77);
        syscall(SYS_tgkill, getpid(), gettid(), SIGSTOP);
        body();
        _exit(0);
    }
    int count = 0, status = 0;
    for (bool first = true; waitpid(child, &status, 0) == child && WIFSTOPPED(status); first = false) {
        if (first) ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
        __ptrace_syscall_info call{};
        if (WSTOPSIG(status) == (SIGTRAP | 0x80) && ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof call, &call) > 0)
            count += call.op == PTRACE_SYSCALL_INFO_ENTRY && call.entry.nr == SYS_rt_sigaction;
        ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? count : -1;
}

class FaultHandler : public ::testing::Test {
    void SetUp() override {
        if (BARCUDA_SANITIZED) GTEST_SKIP() << "the sanitizer has these functions";
    }
};

TEST_F(FaultHandler, AsksAboutEverySignalOnce) {
    const int first = questions([] {}, [] { take_faults(); });
    if (first < 0) GTEST_SKIP() << "no process may be traced here";
    EXPECT_GT(first, 62);
    EXPECT_EQ(3, questions([] { take_faults(); },
                           [] {
                               for (int i = 0; i < 3; ++i) take_faults();
                           }));
}
TEST_F(FaultHandler, IsInstalledAgainAfterAHandlerThatWasSetWithoutLibc) {
    EXPECT_EQ(0, status_of([] {
                  take_faults();
                  const auto library = in_kernel(SIGSEGV).handler;
                  set_without_libc(SIGSEGV);
                  take_faults();
                  if (in_kernel(SIGSEGV).handler != library) _exit(3);
                  struct sigaction seen {};
                  if (sigaction(SIGSEGV, nullptr, &seen) || seen.sa_handler != own_handler) _exit(4);
              }));
}
TEST_F(FaultHandler, DefersHandlersThatWereSetWithoutLibcWithItsOwn) {
    EXPECT_EQ(0, status_of([] {
                  take_faults();
                  set_without_libc(SIGSEGV);
                  set_without_libc(SIGUSR1);
                  take_faults();
                  const HandlersDeferred deferred;
                  sigset_t blocked;
                  if (sigprocmask(SIG_SETMASK, nullptr, &blocked)) _exit(3);
                  if (!sigismember(&blocked, SIGUSR1) || sigismember(&blocked, SIGUSR2)) _exit(4);
              }));
}
TEST_F(FaultHandler, DefersHandlersThatAreSetLaterWithLibc) {
    EXPECT_EQ(0, status_of([] {
                  take_faults();
                  signal(SIGUSR2, own_handler);
                  take_faults();
                  const HandlersDeferred deferred;
                  sigset_t blocked;
                  if (sigprocmask(SIG_SETMASK, nullptr, &blocked)) _exit(3);
                  if (sigismember(&blocked, SIGUSR1) || !sigismember(&blocked, SIGUSR2)) _exit(4);
              }));
}

}  // namespace
}  // namespace barcuda::guest::managed
