// SPDX-License-Identifier: Apache-2.0
// masks.cc: the functions by which programs set the masks of threads: of the calling thread, of one that is about to
// start, of a context that the thread continues in. Once there may be managed memory, SIGSTKFLT replaces SIGSEGV in
// them (masks.h).
#include "guest-allocator/driver/managed/mechanism/masks.h"

#include <errno.h>
#include <pthread.h>
#include <ucontext.h>

#include "guest-allocator/driver/managed.h"
#include "guest-allocator/heap/sanitized.h"

namespace barcuda::guest::managed {

NEXT_FUNCTION(int(int, const sigset_t*, sigset_t*), real_sigmask, "pthread_sigmask");

namespace {

std::atomic<bool> serving{false};  // the library changes masks

// The calling thread's mask may have been set before the library changed masks.
void unblock_faults() noexcept {
    sigset_t is;
    if (real_sigmask(SIG_BLOCK, nullptr, &is) || !sigismember(&is, SIGSEGV)) return;
    is = set_of(without_faults(word_of(is)));
    real_sigmask(SIG_SETMASK, &is, nullptr);
}

}  // namespace

void expect_faults() noexcept {
    if (BARCUDA_SANITIZED) return;  // the library changes no mask
    serving.store(true, std::memory_order_relaxed);
    unblock_faults();
}

}  // namespace barcuda::guest::managed

#if !BARCUDA_SANITIZED  // the sanitizer has these functions
namespace barcuda::guest::managed {
namespace {

NEXT_FUNCTION(int(int, const sigset_t*, sigset_t*), real_procmask, "sigprocmask");
NEXT_FUNCTION(int(int), real_sigblock, "sigblock");
NEXT_FUNCTION(int(int), real_sigsetmask, "sigsetmask");
NEXT_FUNCTION(int(pthread_attr_t*, const sigset_t*), real_attr_setsigmask, "pthread_attr_setsigmask_np");
NEXT_FUNCTION(int(const pthread_attr_t*, sigset_t*), real_attr_getsigmask, "pthread_attr_getsigmask_np");
NEXT_FUNCTION(int(ucontext_t*, const ucontext_t*), real_swapcontext, "swapcontext");
NEXT_FUNCTION(int(const ucontext_t*), real_setcontext, "setcontext");
NEXT_FUNCTION(int(int), real_sighold, "sighold");
NEXT_FUNCTION(int(int), real_sigrelse, "sigrelse");

// In what is blocked or unblocked, the other signal stands for SIGSEGV.
template <class Next> int set_mask(Next& next, int how, const sigset_t* set, sigset_t* before) noexcept {
    if (!serving.load(std::memory_order_relaxed)) return next(how, set, before);
    sigset_t room;
    if (set) {
        const Word wanted = word_of(*set);
        room =
            set_of(how == SIG_UNBLOCK ? wanted | (wanted & bit(SIGSEGV) ? bit(stand_in) : 0) : without_faults(wanted));
        set = &room;
    }
    const int failed = next(how, set, before);
    if (!failed && before) *before = set_of(with_faults(word_of(*before)));
    return failed;
}
// BSD's masks: a bit for each signal.
template <class Next> int set_mask(Next& next, int mask) noexcept {
    if (!serving.load(std::memory_order_relaxed)) return next(mask);
    return static_cast<int>(with_faults(
        static_cast<Word>(static_cast<unsigned>(next(static_cast<int>(without_faults(static_cast<unsigned>(mask))))))));
}

}  // namespace
}  // namespace barcuda::guest::managed

#define PUBLIC extern "C" __attribute__((visibility("default")))
using namespace barcuda::guest::managed;

PUBLIC int pthread_sigmask(int how, const sigset_t* set, sigset_t* before) noexcept {
    return set_mask(real_sigmask, how, set, before);
}
PUBLIC int sigprocmask(int how, const sigset_t* set, sigset_t* before) noexcept {
    return set_mask(real_procmask, how, set, before);
}
PUBLIC int sigblock(int mask) noexcept { return set_mask(real_sigblock, mask); }
PUBLIC int sigsetmask(int mask) noexcept { return set_mask(real_sigsetmask, mask); }

// System V's functions: each is about one signal.
PUBLIC int sighold(int signal) noexcept {
    return real_sighold(signal == SIGSEGV && serving.load(std::memory_order_relaxed) ? stand_in : signal);
}
PUBLIC int sigrelse(int signal) noexcept {
    return real_sigrelse(signal == SIGSEGV && serving.load(std::memory_order_relaxed) ? stand_in : signal);
}

// The mask of a thread that is about to start.
PUBLIC int pthread_attr_setsigmask_np(pthread_attr_t* attributes, const sigset_t* set) {
    if (!real_attr_setsigmask) return ENOSYS;  // before glibc 2.32
    if (!set || !serving.load(std::memory_order_relaxed)) return real_attr_setsigmask(attributes, set);
    const sigset_t room = set_of(without_faults(word_of(*set)));
    return real_attr_setsigmask(attributes, &room);
}
PUBLIC int pthread_attr_getsigmask_np(const pthread_attr_t* attributes, sigset_t* set) {
    if (!real_attr_getsigmask) return ENOSYS;
    const int answer = real_attr_getsigmask(attributes, set);
    if (answer == 0 && serving.load(std::memory_order_relaxed)) *set = set_of(with_faults(word_of(*set)));
    return answer;
}

// A context that the thread continues in brings its own mask. libc's functions save the registers and the stack of
// their caller, which must be the program and not a function of the library: so they are jumped to. This function
// returns where.
extern "C" [[gnu::visibility("hidden")]] const void* barcuda_context(ucontext_t* to, bool swap) noexcept {
    const Word mask = word_of(to->uc_sigmask), without = without_faults(mask);
    if (mask != without && serving.load(std::memory_order_relaxed)) memcpy(&to->uc_sigmask, &without, sizeof without);
    return swap ? real_swapcontext.address() : real_setcontext.address();
}
asm(R"(
    .text
    .globl swapcontext
    .type swapcontext, @function
    .p2align 4
swapcontext:
    .cfi_startproc
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    subq $8, %rsp
    .cfi_adjust_cfa_offset 8
    movq %rsi, %rdi
    movl $1, %esi
    call barcuda_context
    addq $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    jmp *%rax
    .cfi_endproc
    .size swapcontext, . - swapcontext

    .globl setcontext
    .type setcontext, @function
    .p2align 4
setcontext:
    .cfi_startproc
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    xorl %esi, %esi
    call barcuda_context
    popq %rdi
    .cfi_adjust_cfa_offset -8
    jmp *%rax
    .cfi_endproc
    .size setcontext, . - setcontext
)");

#endif
