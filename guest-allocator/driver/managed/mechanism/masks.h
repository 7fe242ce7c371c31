// SPDX-License-Identifier: Apache-2.0
// masks.h: SIGSEGV is blocked nowhere: a thread that blocks it would be ended by its first touch of memory on the
// device. In masks another signal stands for it, which Linux never sends (SIGSTKFLT): so the kernel puts it back
// wherever it puts back a mask, and a fault that is not ours finds out whether the thread has SIGSEGV blocked.
#pragma once
#include <signal.h>
#include <string.h>

#include "guest-allocator/heap/next.h"

namespace barcuda::guest::managed {

extern heap::Next<int(int, const sigset_t*, sigset_t*)> real_sigmask;

constexpr int stand_in = SIGSTKFLT;

// The kernel's sets have a word; libc's are longer, and what follows a set of the kernel's in memory is none of it.
using Word = unsigned long;
inline Word word_of(const sigset_t& set) noexcept {
    Word word;
    memcpy(&word, &set, sizeof word);
    return word;
}
inline sigset_t set_of(Word word) noexcept {
    sigset_t set;
    sigemptyset(&set);
    memcpy(&set, &word, sizeof word);
    return set;
}
constexpr Word bit(int signal) noexcept { return Word{1} << (signal - 1); }

// As a thread's mask is to be, and as the program is told that it is.
inline Word without_faults(Word mask) noexcept {
    return mask & bit(SIGSEGV) ? (mask & ~bit(SIGSEGV)) | bit(stand_in) : mask;
}
inline Word with_faults(Word mask) noexcept { return mask & bit(stand_in) ? mask | bit(SIGSEGV) : mask; }

}  // namespace barcuda::guest::managed
