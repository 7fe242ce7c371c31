// SPDX-License-Identifier: Apache-2.0
// next.h: functions of the C library that programs find here first, and the ones behind them in the loader's order, to
// which the library's functions pass calls on.
//
// A constructor looks all of them up, never a first call. dlsym() takes the loader's lock. A thread that loads a
// library holds that lock while the library's constructors run, and these may call malloc and CUDA, which take this
// library's locks. So a thread that looks a function up while it holds one of these locks waits for a thread that waits
// for that lock. The rule for all of this library: the loader is not called under a lock (dlopen, dlsym, dladdr,
// dl_iterate_phdr, the registration of a thread_local's destructor); tests/e2e/programs/test_lock_order.py.
#pragma once
#include <atomic>
#include <type_traits>

#include "guest-allocator/heap/sanitized.h"

namespace barcuda::heap {

struct NextName {
    const char* const name;
    std::atomic<void*> to{nullptr};
};
void* look_up(NextName& next) noexcept;  // null: there is none

// `until`: what is called before the constructor has run. Without one such a call, which only other libraries'
// constructors make, looks the function up.
template <class F, auto until = nullptr> struct Next;
template <class R, class... A, auto until> struct Next<R(A...), until> : NextName {
    explicit operator bool() noexcept { return address() != nullptr; }
    R operator()(A... a) { return reinterpret_cast<R (*)(A...)>(address())(a...); }
    void* address() noexcept {
        if (void* const f = to.load(std::memory_order_relaxed)) return f;
        if constexpr (std::is_null_pointer_v<decltype(until)>) return look_up(*this);
        else return reinterpret_cast<void*>(static_cast<R (*)(A...)>(until));
    }
};

// static NEXT_FUNCTION(ssize_t(int, void*, size_t), next_read, "read"); where the constructor finds it. Not in
// templates. NEXT_FUNCTION_OR: with a function for until then. In sanitized builds that one is called all the time:
// what is behind is the sanitizer's.
// NOLINTBEGIN(bugprone-macro-parentheses): a type, and the name of a variable
#define BARCUDA_NEXT __attribute__((section("barcuda_next"), used))
#define NEXT_FUNCTION(type, variable, name)                     \
    constinit barcuda::heap::Next<type> BARCUDA_NEXT variable { \
        { name }                                                \
    }
#if BARCUDA_SANITIZED
#define NEXT_FUNCTION_OR(type, variable, name, until)     \
    constinit barcuda::heap::Next<type, until> variable { \
        { name }                                          \
    }
#else
#define NEXT_FUNCTION_OR(type, variable, name, until)                  \
    constinit barcuda::heap::Next<type, until> BARCUDA_NEXT variable { \
        { name }                                                       \
    }
#endif
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace barcuda::heap
