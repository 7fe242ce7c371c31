// SPDX-License-Identifier: Apache-2.0
// signals.cc: the handler of SIGSEGV. A fault in managed memory makes the thread go on at fault_entry.cc; every other one is the
// program's, whose handler, flags and mask are kept here and given what the kernel would have given them. So the functions by which
// programs set that handler are ours, and SIGSEGV is blocked nowhere: a thread that blocks it would be ended by its first touch of
// memory on the device.
#include "guest-allocator/driver/managed/signals.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <mutex>

#include "guest-allocator/client/client.h"
#include "guest-allocator/client/thread_end.h"
#include "guest-allocator/driver/managed/table.h"
#include "guest-allocator/heap/next.h"
#include "guest-allocator/heap/sanitized.h"

namespace barcuda::guest::managed {
namespace {

NEXT_FUNCTION(int(int, const struct sigaction*, struct sigaction*), real_sigaction, "sigaction");
NEXT_FUNCTION(int(int, const sigset_t*, sigset_t*), real_sigmask, "pthread_sigmask");

// ---- the program's handler: written under a lock, read by the handler without one
std::mutex setting;
struct sigaction programs[2];
std::atomic<unsigned> current{0};
std::atomic<bool> installed{false};

void on_signal(int signal, siginfo_t* info, void* context) noexcept;

// Ours in its place: on the alternative stack where the program's would be, which then may be a small one.
void take_place(const struct sigaction& programs_own) {
    struct sigaction own {};
    own.sa_sigaction = on_signal;
    own.sa_flags = SA_SIGINFO | SA_NODEFER | (programs_own.sa_flags & (SA_ONSTACK | SA_RESTART));
    sigemptyset(&own.sa_mask);
    real_sigaction(SIGSEGV, &own, nullptr);
}
void set_programs(const struct sigaction& action) {
    const unsigned other = current.load(std::memory_order_relaxed) ^ 1;
    programs[other] = action;
    current.store(other, std::memory_order_release);
}

// ---- this thread's stacks for faults; a handler of the program's may touch managed memory while one is in use
struct Faults {
    static constexpr std::size_t stack_bytes = 256 << 10, depths = 2;
    std::byte* stacks[depths];
    unsigned depth;
    std::uint64_t foreign_address,
        foreign_rip;  // what turned out not to be ours: the instruction is repeated for the program
};
constinit thread_local Faults faults __attribute__((tls_model("initial-exec"))) = {};
constinit ThreadEnd thread_end{[]() noexcept {
    for (std::byte*& stack : faults.stacks)
        if (stack) munmap(stack, Faults::stack_bytes), stack = nullptr;
}};

std::uint64_t place_for_frame(std::uint64_t rsp) noexcept {
    constexpr std::uint64_t red_zone = 128;
    if (faults.depth < Faults::depths) {
        std::byte*& stack = faults.stacks[faults.depth];
        if (!stack) {
            void* const fresh = mmap(nullptr, Faults::stack_bytes, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
            if (fresh != MAP_FAILED) stack = static_cast<std::byte*>(fresh);
        }
        if (stack) rsp = reinterpret_cast<std::uint64_t>(stack) + Faults::stack_bytes + red_zone;
    }
    ++faults.depth;
    return (rsp - red_zone - sizeof(FaultFrame)) & ~std::uint64_t{63};
}

// As the kernel would have done it. A fault that nobody handles is repeated, and ends the process where it happened.
void forward(int signal, siginfo_t* info, void* context) noexcept {
    struct sigaction a = programs[current.load(std::memory_order_acquire)];
    const bool fault = info->si_code > 0;
    if (!(a.sa_flags & SA_SIGINFO) && (a.sa_handler == SIG_DFL || a.sa_handler == SIG_IGN)) {
        if (a.sa_handler == SIG_IGN && !fault) return;
        struct sigaction none {};
        none.sa_handler = SIG_DFL;
        real_sigaction(SIGSEGV, &none, nullptr);
        if (!fault) syscall(SYS_tgkill, getpid(), gettid(), signal);
        return;
    }
    if (a.sa_flags & static_cast<int>(SA_RESETHAND)) {
        struct sigaction none {};
        none.sa_handler = SIG_DFL;
        set_programs(none);
    }
    sigdelset(&a.sa_mask, SIGSEGV);
    real_sigmask(SIG_BLOCK, &a.sa_mask, nullptr);  // until the handler returns, which puts the thread's mask back
    if (a.sa_flags & SA_SIGINFO) a.sa_sigaction(signal, info, context);
    else a.sa_handler(signal);
}

void on_signal(int signal, siginfo_t* info, void* context) noexcept {
    const int error_before = errno;
    auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    constexpr greg_t page_fault = 14, written = 2, by_code = 16, by_key = 32;  // the processor's own numbers
    const auto address = reinterpret_cast<std::uint64_t>(info->si_addr);
    const auto rip = static_cast<std::uint64_t>(registers[REG_RIP]);
    const greg_t error = registers[REG_ERR];
    const bool known = faults.foreign_address == address && faults.foreign_rip == rip;
    if (info->si_code <= 0 || registers[REG_TRAPNO] != page_fault || error & (by_code | by_key) || known ||
        !near_homes(address, 1)) {
        faults.foreign_address = faults.foreign_rip = 0;
        forward(signal, info, context);
        errno = error_before;
        return;
    }
    const auto rsp = static_cast<std::uint64_t>(registers[REG_RSP]);
    const std::uint64_t at = place_for_frame(rsp);
    *reinterpret_cast<FaultFrame*>(at) = {rip, rsp, address, static_cast<std::uint64_t>(error & written)};
    registers[REG_RSP] = static_cast<greg_t>(at);
    registers[REG_RIP] = reinterpret_cast<greg_t>(&barcuda_fault_entry);
    errno = error_before;
}

}  // namespace

extern "C" void barcuda_fault_resolve(FaultFrame* frame) noexcept {
    thread_end.await();
    const bool ours = bring(frame->address, 1, frame->write != 0);
    faults.foreign_address = ours ? 0 : frame->address;
    faults.foreign_rip = ours ? 0 : frame->rip;
    // Behind the red zone, for fault_entry.cc's last instruction.
    frame->rsp -= 128 + 8;
    *reinterpret_cast<std::uint64_t*>(frame->rsp) = frame->rip;
    --faults.depth;
}

// Again whenever a home is made: a program (Go's runtime) may have set a handler past libc.
void take_faults() noexcept {
    std::lock_guard lock(setting);
    struct sigaction now {};
    real_sigaction(SIGSEGV, nullptr, &now);
    if (now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_signal) return;
    set_programs(now);
    take_place(now);
    installed.store(true, std::memory_order_release);
}

}  // namespace barcuda::guest::managed

#if !BARCUDA_SANITIZED  // whose own these functions are then
namespace barcuda::guest::managed {
namespace {

int set_action(int signal, const struct sigaction* action, struct sigaction* before) {
    if (signal != SIGSEGV || !installed.load(std::memory_order_acquire)) return real_sigaction(signal, action, before);
    std::lock_guard lock(setting);
    const struct sigaction had = programs[current.load(std::memory_order_relaxed)];
    if (action) set_programs(*action), take_place(*action);
    if (before) *before = had;
    return 0;
}

// A mask without SIGSEGV, if the set is one that is blocked.
const sigset_t* without_faults(int how, const sigset_t* set, sigset_t& room) {
    if (!set || how == SIG_UNBLOCK || !sigismember(set, SIGSEGV)) return set;
    room = *set;
    sigdelset(&room, SIGSEGV);
    return &room;
}

sighandler_t set_handler(int signal, sighandler_t handler, int flags) {
    struct sigaction action {
    }, before{};
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigemptyset(&action.sa_mask);
    if (!(static_cast<unsigned>(flags) & SA_NODEFER)) sigaddset(&action.sa_mask, signal);
    return set_action(signal, &action, &before) ? SIG_ERR : before.sa_handler;
}

}  // namespace
}  // namespace barcuda::guest::managed

#define PUBLIC extern "C" __attribute__((visibility("default")))
using namespace barcuda::guest::managed;

PUBLIC int sigaction(int signal, const struct sigaction* action, struct sigaction* before) noexcept {
    return set_action(signal, action, before);
}
// What is not SIGSEGV is libc's, with what it knows of it (siginterrupt).
#define NEXT(name, type, ...)              \
    static NEXT_FUNCTION(type, to, #name); \
    if (signal != SIGSEGV) return to(__VA_ARGS__);
PUBLIC sighandler_t signal(int signal, sighandler_t handler) noexcept {
    NEXT(signal, sighandler_t(int, sighandler_t), signal, handler)
    return set_handler(signal, handler, SA_RESTART);
}
PUBLIC sighandler_t bsd_signal(int signal, sighandler_t handler) noexcept {
    NEXT(bsd_signal, sighandler_t(int, sighandler_t), signal, handler)
    return set_handler(signal, handler, SA_RESTART);
}
PUBLIC sighandler_t ssignal(int signal, sighandler_t handler) noexcept {
    NEXT(ssignal, sighandler_t(int, sighandler_t), signal, handler)
    return set_handler(signal, handler, SA_RESTART);
}
PUBLIC sighandler_t sysv_signal(int signal, sighandler_t handler) noexcept {
    NEXT(sysv_signal, sighandler_t(int, sighandler_t), signal, handler)
    return set_handler(signal, handler, static_cast<int>(SA_RESETHAND | SA_NODEFER));
}
PUBLIC sighandler_t __sysv_signal(int signal, sighandler_t handler) noexcept {
    NEXT(__sysv_signal, sighandler_t(int, sighandler_t), signal, handler)
    return set_handler(signal, handler, static_cast<int>(SA_RESETHAND | SA_NODEFER));
}
PUBLIC sighandler_t sigset(int signal, sighandler_t handler) noexcept {
    NEXT(sigset, sighandler_t(int, sighandler_t), signal, handler)
    if (handler != SIG_HOLD) return set_handler(signal, handler, 0);
    struct sigaction before {};
    return set_action(signal, nullptr, &before) ? SIG_ERR : before.sa_handler;
}
PUBLIC int sigignore(int signal) noexcept {
    NEXT(sigignore, int(int), signal)
    return set_handler(signal, SIG_IGN, 0) == SIG_ERR ? -1 : 0;
}
PUBLIC int sighold(int signal) noexcept {
    NEXT(sighold, int(int), signal)
    return 0;
}
#undef NEXT

PUBLIC int pthread_sigmask(int how, const sigset_t* set, sigset_t* before) noexcept {
    sigset_t room;
    return real_sigmask(how, without_faults(how, set, room), before);
}
PUBLIC int sigprocmask(int how, const sigset_t* set, sigset_t* before) noexcept {
    static NEXT_FUNCTION(int(int, const sigset_t*, sigset_t*), to, "sigprocmask");
    sigset_t room;
    return to(how, without_faults(how, set, room), before);
}
// The masks of BSD: a bit for each signal.
constexpr int fault_bit = 1 << (SIGSEGV - 1);
PUBLIC int sigblock(int mask) noexcept {
    static NEXT_FUNCTION(int(int), to, "sigblock");
    return to(mask & ~fault_bit);
}
PUBLIC int sigsetmask(int mask) noexcept {
    static NEXT_FUNCTION(int(int), to, "sigsetmask");
    return to(mask & ~fault_bit);
}

#endif
