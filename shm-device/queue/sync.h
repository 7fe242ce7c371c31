// SPDX-License-Identifier: Apache-2.0
// sync.h: every memory ordering between guest and host, by name. (Threads of one process order their own memory in
// place.)
//
// Two programs that never share a lock meet in the region. Whatever one says to the other crosses at one of the points
// below. Each point has two halves: those of AVAIL, USED, KICK and WAKE carry the point's name, so that `grep AVAIL`
// finds both; those of WORD and CLAIM are the calls of publish, observe and claim.
//
//   point    one side                                        the other side
//   AVAIL    Driver::post: release-store of the first tail    Device::next: acquire-load of it
//   USED     Device::flush: release-store of a used tail      Driver::reap: acquire-load of it
//   KICK     Driver::should_kick: post, fence, load event     Device::enable_kick: store event, fence all, look again
//   WAKE     wants_wake: flush, fence, load event            Driver::enable_wake: store event, fence, look again
//   WORD     publish(word, value): release-store              observe(word): acquire-load
//   CLAIM    claim(word, from, to): compare-and-swap          claim or observe, by any other process
//
// AVAIL and USED carry the queue (and with it the bytes of requests and replies); KICK and WAKE are the two places
// where a store must be seen before a later load is done, which only a full fence gives. The driver's half of KICK
// stands in the path of every command, where a fence would wait for a cache line that the device has just read: so the
// device, which sleeps seldom, executes both halves (fence_all) where the two share a kernel. WORD carries every lone
// word: the header's magic, a slot's counters, a channel's state and its fences (a GPU writes some of those: to the CPU
// that is a release-store by a device, which x86 and PCIe order after the data that it completes).
#pragma once
#include <atomic>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "base/os/barrier.h"

namespace barcuda {

static_assert(std::endian::native == std::endian::little,
              "the region is little-endian; no big-endian machine has been tried");

// What the queue is built from. A model checker puts its own in this place (tests/unit/support/model.h).
struct Smp {
    template <class T> using Atomic = std::atomic<T>;
    // Full fence. The builtin, because g++ refuses std::atomic_thread_fence under -fsanitize=thread, where its lack of
    // modelling matters only to code that orders plain data by fences alone: here every fence orders atomics.
    static void fence() { __sync_synchronize(); }
    // A full fence here, and one in every thread of every process that called os::join_barrier(). Other kernels'
    // processes (a guest's) fence for themselves.
    static bool fence_all() {
        fence();
        return os::barrier_everywhere();
    }
};

// Lone words of layout.h are plain integers, since C and the kernel read that header too. The const_cast is for words
// in read-only mappings: std::atomic_ref<const T> comes with C++26, and a lock-free load writes nothing.
template <class T> T observe(const T& word) {  // WORD, CLAIM
    static_assert(std::is_integral_v<T> && std::atomic_ref<T>::is_always_lock_free);
    return std::atomic_ref<T>(const_cast<T&>(word)).load(std::memory_order_acquire);
}

template <class T> void publish(T& word, std::type_identity_t<T> value) {  // WORD
    static_assert(std::is_integral_v<T> && std::atomic_ref<T>::is_always_lock_free);
    std::atomic_ref<T>(word).store(value, std::memory_order_release);
}

template <class T> bool claim(T& word, std::type_identity_t<T> from, std::type_identity_t<T> to) {  // CLAIM
    static_assert(std::is_integral_v<T> && std::atomic_ref<T>::is_always_lock_free);
    return std::atomic_ref<T>(word).compare_exchange_strong(from, to, std::memory_order_acq_rel,
                                                            std::memory_order_acquire);
}

}  // namespace barcuda
