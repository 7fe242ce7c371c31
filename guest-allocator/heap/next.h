// SPDX-License-Identifier: Apache-2.0
// next.h: functions of the C library that programs find here first, and the ones behind them in the loader's order, to which ours
// pass calls on.
//
// All are looked up by a constructor, never at a first call. dlsym() takes the loader's lock. A thread that loads a library holds that
// lock while the library's constructors run, and these may call malloc and CUDA, which take our locks. So a thread of ours that looks
// something up under one of our locks waits for a thread that waits for it. The rule for all of this library: the loader is not called
// under a lock (dlopen, dlsym, dladdr, dl_iterate_phdr, the registration of a thread_local's destructor); tests/e2e/lock_order_test.sh.
#pragma once
#include <atomic>

namespace barcuda::heap {

struct NextName {
    const char* const name;
    std::atomic<void*> to{nullptr};
};
void* look_up(NextName& next) noexcept;  // null: there is none

template <class F> struct Next;
template <class R, class... A> struct Next<R(A...)> : NextName {
    explicit operator bool() noexcept { return address() != nullptr; }
    R operator()(A... a) { return reinterpret_cast<R (*)(A...)>(address())(a...); }
    void* address() noexcept {
        void* const f = to.load(std::memory_order_relaxed);
        return f ? f : look_up(*this);  // another library's constructor calls, before ours has run
    }
};

// static NEXT_FUNCTION(ssize_t(int, void*, size_t), next_read, "read"); where the constructor finds it. Not in templates.
// NOLINTBEGIN(bugprone-macro-parentheses): a type, and the name of a variable
#define NEXT_FUNCTION(type, variable, name)                                                       \
    constinit barcuda::heap::Next<type> variable __attribute__((section("barcuda_next"), used)) { \
        { name }                                                                                  \
    }
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace barcuda::heap
