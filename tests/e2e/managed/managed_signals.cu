// SPDX-License-Identifier: Apache-2.0
// managed_signals.cu: for test_managed_signals.py. What signals and cancellation promise a program holds for one that
// has managed memory: `managed_signals WHAT`.
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "../../programs/check.h"

__global__ void write_when(volatile int* told, int* data, int value) {
    while (told && *told == 0) {}
    for (int i = 0; i < 1024; i++) data[i] = value;
}

static int *data, *told;  // managed; pinned

static void say(const char* text) {
    if (write(1, text, strlen(text)) < 0) _exit(9);
}
// On the device's side, with `value` in it.
static void give(int value) {
    write_when<<<1, 1>>>(nullptr, data, value);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
}
// Work that a touch waits for, until *told is 1.
static void begin(int value) {
    *told = 0;
    write_when<<<1, 1>>>(told, data, value);
    CHECK(cudaGetLastError());
}
static void let_go() { __atomic_store_n(told, 1, __ATOMIC_SEQ_CST); }
static volatile int* const nowhere = (volatile int*)64;

static void handle(int signal, void (*handler)(int), int flags) {
    struct sigaction action = {};
    action.sa_handler = handler;
    action.sa_flags = flags;
    REQUIRE(sigaction(signal, &action, nullptr) == 0);
}

// ---- a handler of SIGSEGV that itself faults: the process ends, having entered it once
static void fault_again(int) {
    say("entered\n");
    *nowhere = 1;
}
static void nested() {
    handle(SIGSEGV, fault_again, 0);
    give(1);
    REQUIRE(data[0] == 1);
    *nowhere = 1;
}
static int entered;
static void fault_thrice(int) {
    if (++entered == 3) say("three\n"), _exit(0);
    *nowhere = 1;
}
static void nested_nodefer() {
    handle(SIGSEGV, fault_thrice, SA_NODEFER);
    *nowhere = 1;
}

// ---- a handler that touches managed memory, and leaves: it is called for the next fault, too
static sigjmp_buf back;
static void leave(int) {
    give(++entered);
    if (data[5] != entered) _exit(8);
    siglongjmp(back, 1);
}
static void left() {
    handle(SIGSEGV, leave, 0);
    while (entered < 3)
        if (!sigsetjmp(back, 1)) *nowhere = 1;
    say("left three times\n");
}

// ---- a thread that has SIGSEGV blocked: its touches are served, and any other fault ends the process
static void never(int) { say("never\n"), _exit(7); }
static void blocked() {
    handle(SIGSEGV, never, 0);
    sigset_t fault, is;
    sigemptyset(&fault), sigaddset(&fault, SIGSEGV);
    REQUIRE(pthread_sigmask(SIG_BLOCK, &fault, nullptr) == 0);
    REQUIRE(pthread_sigmask(SIG_BLOCK, nullptr, &is) == 0 && sigismember(&is, SIGSEGV));
    give(2);
    REQUIRE(data[0] == 2);
    say("touched\n");
    *nowhere = 1;
}
static void unblocked() {
    handle(SIGSEGV, leave, 0);
    sigset_t all, is;
    sigfillset(&all);
    REQUIRE(sigprocmask(SIG_SETMASK, &all, nullptr) == 0);
    sigemptyset(&all), sigaddset(&all, SIGSEGV);
    REQUIRE(sigprocmask(SIG_UNBLOCK, &all, &is) == 0 && sigismember(&is, SIGSEGV) && sigismember(&is, SIGTERM));
    REQUIRE(sigprocmask(SIG_BLOCK, nullptr, &is) == 0 && !sigismember(&is, SIGSEGV) && sigismember(&is, SIGTERM));
    if (!sigsetjmp(back, 1)) *nowhere = 1;
    REQUIRE(entered == 1);
    say("handled\n");
}

// ---- a thread that is made with all signals blocked
static void* touch(void*) {
    sigset_t is;
    REQUIRE(pthread_sigmask(SIG_BLOCK, nullptr, &is) == 0 && sigismember(&is, SIGSEGV) && sigismember(&is, SIGTERM));
    REQUIRE(data[7] == 3);
    return data;
}
static void full_masks() {
    pthread_attr_t attributes;
    sigset_t all, is;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    REQUIRE(pthread_attr_setsigmask_np(&attributes, &all) == 0);
    REQUIRE(pthread_attr_getsigmask_np(&attributes, &is) == 0 && sigismember(&is, SIGSEGV));
    give(3);
    pthread_t thread;
    void* result = nullptr;
    REQUIRE(pthread_create(&thread, &attributes, touch, nullptr) == 0 && pthread_join(thread, &result) == 0 &&
            result == data);
    say("touched\n");
}

// ---- a context whose mask names all signals
static ucontext_t here, there;
static void touch_there() {
    REQUIRE(data[8] == 4);
    give(5);
    REQUIRE(data[8] == 5);
    swapcontext(&there, &here);
    give(6);
    REQUIRE(data[8] == 6);
    setcontext(&here);
}
static void contexts() {
    static char stack[256 << 10];
    REQUIRE(getcontext(&there) == 0);
    there.uc_stack = {stack, 0, sizeof stack};
    sigfillset(&there.uc_sigmask);
    makecontext(&there, touch_there, 0);
    give(4);
    REQUIRE(swapcontext(&here, &there) == 0);
    sigset_t is;
    REQUIRE(sigprocmask(SIG_BLOCK, nullptr, &is) == 0 && !sigismember(&is, SIGTERM) && !sigismember(&is, SIGSEGV));
    REQUIRE(swapcontext(&here, &there) == 0);
    REQUIRE(data[8] == 6);
    say("touched\n");
}

// ---- a touch that a handler would leave, while another thread launches: the handler waits until the touch is done
static std::atomic<int> calls, leave_now, arrived;
static void leave_touch(int) {
    if (leave_now || ++calls >= 50) siglongjmp(back, 1);
}
static void left_in_touch() {
    handle(SIGUSR1, leave_touch, 0);
    begin(4);
    const pthread_t toucher = pthread_self();
    std::thread other([=] {
        for (int i = 0; i < 1000 && calls < 50; i++) pthread_kill(toucher, SIGUSR1), usleep(500);
        leave_now = 1;
        pthread_kill(toucher, SIGUSR1);
        let_go();
    });
    if (!sigsetjmp(back, 1)) {
        data[0] = 5;
        for (;;) pause();
    }
    other.join();
    std::thread([] {
        give(6);
        REQUIRE(data[1] == 6);
    }).join();
    give(7);
    REQUIRE(data[0] == 7);
    int state;
    REQUIRE(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state) == 0 && state == PTHREAD_CANCEL_ENABLE);
    say("left\n");
}

// ---- a thread that may be cancelled anywhere, in a touch
static void* wait_in_touch(void*) {
    int before;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
    arrived = 1;
    volatile int* const word = data;
    for (;;) (void)*word;
}
static void cancelled() {
    begin(8);
    pthread_t thread;
    REQUIRE(pthread_create(&thread, nullptr, wait_in_touch, nullptr) == 0);
    while (!arrived) sched_yield();
    usleep(100000);  // it waits by then, or is not there yet: both are to end well
    REQUIRE(pthread_cancel(thread) == 0);
    let_go();
    void* result = nullptr;
    REQUIRE(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    REQUIRE(data[0] == 8);
    give(9);
    REQUIRE(data[1] == 9);
    say("cancelled\n");
}

// ---- a signal without a handler ends a program that waits in a touch forever
static void ended() {
    begin(1);
    say("running\n");
    REQUIRE(data[0] == 1);
}

// ---- sigaction() in a handler that has interrupted sigaction(), and in children
static volatile sig_atomic_t ticks;
static void set_again(int) {
    struct sigaction is;
    if (sigaction(SIGSEGV, nullptr, &is) || sigaction(SIGSEGV, &is, nullptr) || signal(SIGUSR2, SIG_IGN) == SIG_ERR)
        _exit(6);
    ticks = ticks + 1;
}
static std::atomic<bool> over;
static void set_actions() {
    handle(SIGSEGV, never, 0);
    struct sigaction is;
    REQUIRE(sigaction(SIGSEGV, nullptr, &is) == 0);
    handle(SIGALRM, set_again, SA_RESTART);
    itimerval often = {{0, 300}, {0, 300}};
    setitimer(ITIMER_REAL, &often, nullptr);
    while (ticks < 500)
        for (int i = 0; i < 1000; i++) REQUIRE(sigaction(SIGSEGV, &is, nullptr) == 0);
    often = {};
    setitimer(ITIMER_REAL, &often, nullptr);
    std::thread busy([&] {
        while (!over) sigaction(SIGSEGV, &is, nullptr);
    });
    for (int i = 0; i < 100; i++) {
        const pid_t pid = fork();
        if (!pid) {
            struct sigaction had;
            _exit(sigaction(SIGSEGV, &is, &had) || had.sa_handler != never);
        }
        int status = -1;
        REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
    }
    over = true;
    busy.join();
    say("set\n");
}

int main(int, char** arguments) {
    CHECK(cudaMallocManaged(&data, 1024 * sizeof *data));
    CHECK(cudaHostAlloc(&told, sizeof *told, 0));
    const struct {
        const char* name;
        void (*run)();
    } all[] = {{"nested", nested},
               {"nested_nodefer", nested_nodefer},
               {"left", left},
               {"blocked", blocked},
               {"unblocked", unblocked},
               {"full_masks", full_masks},
               {"contexts", contexts},
               {"left_in_touch", left_in_touch},
               {"cancelled", cancelled},
               {"ended", ended},
               {"set_actions", set_actions}};
    for (const auto& one : all)
        if (arguments[1] && !strcmp(arguments[1], one.name)) return one.run(), 0;
    return 2;
}
