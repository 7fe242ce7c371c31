// SPDX-License-Identifier: Apache-2.0
// masks.h: no thread blocks SIGSEGV: its first touch of memory on the device's side would end it. In masks another
// signal stands for it, which Linux never sends (SIGSTKFLT). So the kernel restores it wherever it restores a mask, and
// a fault that is the program's shows whether the thread has blocked SIGSEGV.
#pragma once
#include <signal.h>
#include <string.h>

#include "guest-allocator/heap/next.h"

namespace barcuda::guest::managed {

extern heap::Next<int(int, const sigset_t*, sigset_t*)> real_sigmask;

constexpr int stand_in = SIGSTKFLT;

// The kernel's sets are one word. libc's are longer, and what follows a kernel's set in memory is not part of it.
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

// What a thread's mask becomes, and what the program sees of it.
inline Word without_faults(Word mask) noexcept {
    return mask & bit(SIGSEGV) ? (mask & ~bit(SIGSEGV)) | bit(stand_in) : mask;
}
inline Word with_faults(Word mask) noexcept { return mask & bit(stand_in) ? mask | bit(SIGSEGV) : mask; }

}  // namespace barcuda::guest::managed
