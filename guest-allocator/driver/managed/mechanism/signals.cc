// SPDX-License-Identifier: Apache-2.0
// signals.cc: the handler of SIGSEGV. It resolves a fault in managed memory as the kernel resolves a page fault: on a
// stack of the library's own, while the thread's other handlers are deferred. Every other fault is the program's. The
// program's handler, flags and mask are kept here, and get what the kernel would have passed. So the functions by which
// programs set handlers are the library's.
#include "guest-allocator/driver/managed/mechanism/signals.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>

#include "base/os/thread_end.h"
#include "guest-allocator/driver/managed.h"
#include "guest-allocator/driver/managed/mechanism/faults.h"
#include "guest-allocator/driver/managed/mechanism/masks.h"
#include "guest-allocator/driver/managed/state/ranges.h"
#include "guest-allocator/heap/next.h"
#include "guest-allocator/heap/sanitized.h"

namespace barcuda::guest::managed {
namespace {

NEXT_FUNCTION(int(int, const struct sigaction*, struct sigaction*), real_sigaction, "sigaction");

// ---- the program's handlers: written under a lock, read by the handler without one
struct sigaction programs[2];
std::atomic<unsigned> current{0};
std::atomic<bool> installed{false};
std::atomic<bool> asked{false};  // handlers that are set from now on are noted by the threads that set them
std::atomic<Word> handled{0};    // signals that have a handler, as far as is known

// A handler may call sigaction(), and so may a child of a process whose other thread did. So the thread that has the
// lock runs no handler, and a child may take what a thread of its parent has locked.
std::atomic<pid_t> holder{0};
class HandlerLock {
  public:
    HandlerLock() noexcept {
        sigset_t all;
        sigfillset(&all);
        real_sigmask(SIG_SETMASK, &all, &before_);
        const pid_t own = getpid();
        for (pid_t is = 0; !holder.compare_exchange_weak(is, own, std::memory_order_acquire);)
            if (is == own) {  // else it is free, or a thread of the parent has it
                is = 0;
                sched_yield();
            }
    }
    ~HandlerLock() {
        holder.store(0, std::memory_order_release);
        real_sigmask(SIG_SETMASK, &before_, nullptr);
    }
    HandlerLock(const HandlerLock&) = delete;

  private:
    sigset_t before_;
};

// Signals that are deferred while a fault is resolved: those with handlers, and the cancellation of threads, which is
// one of libc's own signals. Not the faults of the thread itself: while they are blocked they would end the process.
Word deferred_signals() noexcept {
    constexpr Word faults = bit(SIGSEGV) | bit(SIGBUS) | bit(SIGFPE) | bit(SIGILL) | bit(SIGTRAP) | bit(SIGSYS);
    constexpr int cancellation = 32;
    return (handled.load(std::memory_order_relaxed) & ~faults) | bit(cancellation);
}

void on_signal(int signal, siginfo_t* info, void* context);

// Installs the library's handler: on the alternative stack if the program's would be there. That stack may be a small
// one.
void install(const struct sigaction& programs_own) noexcept {
    struct sigaction own {};
    own.sa_sigaction = on_signal;
    own.sa_flags = SA_SIGINFO | SA_NODEFER | (programs_own.sa_flags & (SA_ONSTACK | SA_RESTART));
    own.sa_mask = set_of(deferred_signals());
    real_sigaction(SIGSEGV, &own, nullptr);
}
bool is_handler(const struct sigaction& action) noexcept {  // the kernel does not look at the flags
    return action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
}
void set_programs(const struct sigaction& action) noexcept {
    const unsigned other = current.load(std::memory_order_relaxed) ^ 1;
    programs[other] = action;
    current.store(other, std::memory_order_release);
}
// Under the lock. True: the signal has a handler now and had none before, or the reverse.
bool note_handler(int signal) noexcept {
    struct sigaction now {};
    if (real_sigaction(signal, nullptr, &now)) return false;
    const bool is = is_handler(now);
    const Word before = is ? handled.fetch_or(bit(signal)) : handled.fetch_and(~bit(signal));
    return is != static_cast<bool>(before & bit(signal));
}

// ---- this thread's stack for faults
struct SignalStack {
    static constexpr std::size_t bytes = 256 << 10;
    std::byte* memory;
    bool in_use;
};
constinit thread_local SignalStack own_stack __attribute__((tls_model("initial-exec"))) = {};
constinit os::ThreadEnd thread_end{[]() noexcept {
    if (own_stack.memory) {
        munmap(own_stack.memory, SignalStack::bytes);
        own_stack.memory = nullptr;
    }
}};

struct Touch {
    std::uintptr_t address;
    bool write, ours;
};

}  // namespace

extern "C" [[gnu::visibility("hidden")]] void barcuda_resolve_touch(Touch* touch) noexcept {
    thread_end.await();
    touch->ours = fault_in(touch->address, 1, touch->write);
}

// barcuda_on_stack(touch, top): resolves it on a stack that ends at `top`.
extern "C" [[gnu::visibility("hidden")]] void barcuda_on_stack(Touch* touch, std::byte* top) noexcept;
asm(R"(
    .text
    .globl barcuda_on_stack
    .hidden barcuda_on_stack
    .type barcuda_on_stack, @function
    .p2align 4
barcuda_on_stack:
    .cfi_startproc
    pushq %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset rbp, -16
    movq %rsp, %rbp
    .cfi_def_cfa_register rbp
    movq %rsi, %rsp
    call barcuda_resolve_touch
    movq %rbp, %rsp
    popq %rbp
    .cfi_def_cfa rsp, 8
    ret
    .cfi_endproc
    .size barcuda_on_stack, . - barcuda_on_stack
)");

namespace {

// True: the thread may continue. The stack on which the handler was called may be of any size, and what the library
// needs, too.
bool resolve(std::uintptr_t address, bool write) noexcept {
    if (own_stack.in_use) return false;
    if (!own_stack.memory) {
        void* const fresh = mmap(nullptr, SignalStack::bytes, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
        if (fresh != MAP_FAILED) own_stack.memory = static_cast<std::byte*>(fresh);
    }
    Touch touch{address, write, false};
    own_stack.in_use = true;
    if (own_stack.memory) barcuda_on_stack(&touch, own_stack.memory + SignalStack::bytes);
    else barcuda_resolve_touch(&touch);
    own_stack.in_use = false;
    return touch.ours;
}

// Does what the kernel would have done. A fault that has no handler, or that the thread has blocked, is repeated, and
// ends the process where it happened.
void forward(int signal, siginfo_t* info, void* context) {
    struct sigaction a = programs[current.load(std::memory_order_acquire)];
    const bool fault = info->si_code > 0;
    const Word interrupted = word_of(static_cast<ucontext_t*>(context)->uc_sigmask);
    if (!is_handler(a) || (fault && interrupted & bit(stand_in))) {
        if (a.sa_handler == SIG_IGN && !fault) return;
        struct sigaction end {};
        end.sa_handler = SIG_DFL;
        real_sigaction(SIGSEGV, &end, nullptr);
        if (!fault) syscall(SYS_tgkill, getpid(), gettid(), signal);
        return;
    }
    if (a.sa_flags & static_cast<int>(SA_RESETHAND)) {
        struct sigaction end {};
        end.sa_handler = SIG_DFL;
        set_programs(end);
    }
    // Until the handler returns, or leaves by siglongjmp(). Both restore the thread's mask.
    const Word own = a.sa_flags & SA_NODEFER ? 0 : bit(SIGSEGV);
    const sigset_t mask = set_of(interrupted | without_faults(word_of(a.sa_mask) | own));
    real_sigmask(SIG_SETMASK, &mask, nullptr);
    if (a.sa_flags & SA_SIGINFO) a.sa_sigaction(signal, info, context);
    else a.sa_handler(signal);
}

// The program's handler, or cancellation, may leave it: so no frame of the library's has anything to restore.
void on_signal(int signal, siginfo_t* info, void* context) {
    const int error_before = errno;
    auto* const interrupted = static_cast<ucontext_t*>(context);
    const auto& registers = interrupted->uc_mcontext.gregs;
    constexpr greg_t page_fault = 14, written = 2, by_code = 16, by_key = 32;  // as the processor numbers them
    const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
    const greg_t error = registers[REG_ERR];
    if (info->si_code > 0 && registers[REG_TRAPNO] == page_fault && !(error & (by_code | by_key)) &&
        may_be_managed(address, 1)) {
        // A thread that may be cancelled at any time is cancelled at its own instruction, and not within the library.
        int cancelled = PTHREAD_CANCEL_DEFERRED;
        pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &cancelled);
        const bool ours = resolve(address, error & written);
        errno = error_before;
        if (cancelled != PTHREAD_CANCEL_DEFERRED) {
            const sigset_t mask = set_of(word_of(interrupted->uc_sigmask));
            real_sigmask(SIG_SETMASK, &mask, nullptr);
            pthread_setcanceltype(cancelled, nullptr);
        }
        if (ours) return;
    }
    forward(signal, info, context);
    errno = error_before;
}

}  // namespace

// Called whenever a range is made: a program (Go's runtime) may have set handlers without libc. If it has left
// SIGSEGV's alone, all other handlers are known.
void take_faults() noexcept {
    expect_faults();
    const HandlerLock lock;
    struct sigaction now {};
    real_sigaction(SIGSEGV, nullptr, &now);
    if (now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_signal) return;
    set_programs(now);
    asked.store(true);
    for (int signal = 1; signal <= 64; ++signal)
        if (signal != 32 && signal != 33) note_handler(signal);  // these are libc's own
    install(now);
    installed.store(true, std::memory_order_release);
}

HandlersDeferred::HandlersDeferred() noexcept {
    const sigset_t mask = set_of(deferred_signals() & ~bit(32));
    real_sigmask(SIG_BLOCK, &mask, &before_);
}
HandlersDeferred::~HandlersDeferred() { real_sigmask(SIG_SETMASK, &before_, nullptr); }

}  // namespace barcuda::guest::managed

#if !BARCUDA_SANITIZED  // the sanitizer has these functions
namespace barcuda::guest::managed {
namespace {

NEXT_FUNCTION(sighandler_t(int, sighandler_t), real_signal, "signal");
NEXT_FUNCTION(sighandler_t(int, sighandler_t), real_bsd_signal, "bsd_signal");
NEXT_FUNCTION(sighandler_t(int, sighandler_t), real_ssignal, "ssignal");
NEXT_FUNCTION(sighandler_t(int, sighandler_t), real_sysv_signal, "sysv_signal");
NEXT_FUNCTION(sighandler_t(int, sighandler_t), real_sysv_signal_, "__sysv_signal");
NEXT_FUNCTION(sighandler_t(int, sighandler_t), real_sigset, "sigset");
NEXT_FUNCTION(int(int), real_sigignore, "sigignore");

// After the program has set a handler, or removed one.
void handler_set(int signal) noexcept {
    if (!asked.load()) return;
    const int error = errno;
    const HandlerLock lock;
    if (note_handler(signal)) install(programs[current.load(std::memory_order_relaxed)]);
    errno = error;
}

int set_action(int signal, const struct sigaction* action, struct sigaction* before) noexcept {
    if (signal != SIGSEGV || !installed.load(std::memory_order_acquire)) {
        const int failed = real_sigaction(signal, action, before);
        if (action && !failed) handler_set(signal);
        return failed;
    }
    const struct sigaction wanted =
        action ? *action : (struct sigaction){};  // `action` may lie in managed memory: read before the lock
    struct sigaction had;
    {
        const HandlerLock lock;
        had = programs[current.load(std::memory_order_relaxed)];
        if (action) {
            set_programs(wanted);
            install(wanted);
        }
    }
    if (before) *before = had;
    return 0;
}

sighandler_t set_handler(int signal, sighandler_t handler, int flags) noexcept {
    struct sigaction action {
    }, before{};
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigemptyset(&action.sa_mask);
    if (!(static_cast<unsigned>(flags) & SA_NODEFER)) sigaddset(&action.sa_mask, signal);
    return set_action(signal, &action, &before) ? SIG_ERR : before.sa_handler;
}
// Other signals are libc's, with what it knows about them (siginterrupt).
template <class Next> sighandler_t set_handler(Next& next, int signal, sighandler_t handler, int flags) noexcept {
    if (signal == SIGSEGV) return set_handler(signal, handler, flags);
    const sighandler_t before = next(signal, handler);
    if (before != SIG_ERR) handler_set(signal);
    return before;
}

}  // namespace
}  // namespace barcuda::guest::managed

#define PUBLIC extern "C" __attribute__((visibility("default")))
using namespace barcuda::guest::managed;

PUBLIC int sigaction(int signal, const struct sigaction* action, struct sigaction* before) noexcept {
    return set_action(signal, action, before);
}
PUBLIC sighandler_t signal(int signal, sighandler_t handler) noexcept {
    return set_handler(real_signal, signal, handler, SA_RESTART);
}
PUBLIC sighandler_t bsd_signal(int signal, sighandler_t handler) noexcept {
    return set_handler(real_bsd_signal, signal, handler, SA_RESTART);
}
PUBLIC sighandler_t ssignal(int signal, sighandler_t handler) noexcept {
    return set_handler(real_ssignal, signal, handler, SA_RESTART);
}
constexpr int once = static_cast<int>(SA_RESETHAND | SA_NODEFER);
PUBLIC sighandler_t sysv_signal(int signal, sighandler_t handler) noexcept {
    return set_handler(real_sysv_signal, signal, handler, once);
}
PUBLIC sighandler_t __sysv_signal(int signal, sighandler_t handler) noexcept {
    return set_handler(real_sysv_signal_, signal, handler, once);
}
PUBLIC int sigignore(int signal) noexcept {
    if (signal == SIGSEGV) return set_handler(signal, SIG_IGN, 0) == SIG_ERR ? -1 : 0;
    const int failed = real_sigignore(signal);
    if (!failed) handler_set(signal);
    return failed;
}

// Returns SIG_HOLD if the signal was blocked, and unblocks it if it sets a handler.
PUBLIC sighandler_t sigset(int signal, sighandler_t handler) noexcept {
    if (signal != SIGSEGV) return set_handler(real_sigset, signal, handler, 0);
    sigset_t fault, before;
    sigemptyset(&fault);
    sigaddset(&fault, SIGSEGV);
    if (sigprocmask(handler == SIG_HOLD ? SIG_BLOCK : SIG_UNBLOCK, &fault, &before)) return SIG_ERR;
    struct sigaction had {};
    const bool held = sigismember(&before, SIGSEGV);
    const sighandler_t was = handler != SIG_HOLD                 ? set_handler(signal, handler, 0)
                             : set_action(signal, nullptr, &had) ? SIG_ERR
                                                                 : had.sa_handler;
    return held && was != SIG_ERR ? SIG_HOLD : was;
}

#endif
