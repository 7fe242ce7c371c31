// SPDX-License-Identifier: Apache-2.0
// fence.h: a wait in the guest is a look at memory that the GPU writes. Each waiting thread has a fence of its own: it asks for its
// next value to be written when the stream has got that far, and looks until it is. Fences lie in the client's extents, the first of which
// the driver knows before a client comes: the channel need not be registered with it, while the client waits for its first call. It has
// fences as well, for when the region is full.
#pragma once
#include <cuda.h>

#include <atomic>
#include <cstdint>

#include "guest-allocator/client/observer.h"
#include "shm-device/queue/sync.h"

namespace barcuda::guest {

// Waits until all work that was posted to the stream before this call is done. Returns the error of that work, if any.
CUresult wait_for(CUstream stream) noexcept;
// The same for work that nobody asks how it went, and in the middle of whatever the program does: nothing is printed.
CUresult wait_quietly(CUstream stream) noexcept;
// Nothing has been posted to any stream since this one was last waited for: it is as idle as it was.
bool idle_since_wait(CUstream stream) noexcept;

// It has been given work since it, or all of the context, was last waited for.
bool may_be_busy(CUcontext context, CUstream stream) noexcept;
// The same of work that no stream was named for.
bool unnamed_may_be_busy(CUcontext context) noexcept;

// Has the fence at this address of the region (host-visible, 8 bytes) reached the value? Waits until it has.
CUresult wait_until(const unsigned long long& fence, unsigned long long value) noexcept;
// The same by a thread that sleeps as soon as it can.
CUresult sleep_until(const unsigned long long& fence, unsigned long long value) noexcept;

// A thread's, an event's, or that of a stream which is gone while its work goes on.
struct Fence {
    unsigned long long* word;             // in the region: the GPU writes it
    std::atomic<std::uint64_t> asked{0};  // the value to come last; only grows, through every owner
    std::uint64_t order = 0;              // the queue that its values come by: streams.h, order_of()
    Fence* next = nullptr;                // while it is recycled
    explicit Fence(unsigned long long* w) noexcept : word(w) {}
    bool pending() const noexcept { return observe(*word) < asked.load(std::memory_order_relaxed); }
};
// Nothing is pending on it; null: the region is full, and so is the channel. Such a new one takes so many words of 8 bytes, a power of 2.
Fence* take_fence(std::uint64_t order, unsigned words = 1) noexcept;
void recycle_fence(Fence*) noexcept;  // may be taken again once its last value has been written

// Whether anything has been posted since all of the context's work was last done. note_idle(): all of the context's
// work up to command number `work` (Queue::work) is done.
bool gpu_busy(CUcontext context = current_context()) noexcept;
void note_idle(CUcontext context, std::uint64_t work) noexcept;

// Device printf that the host has collected goes to this process's standard output. After a wait.
void show_output() noexcept;
// The end of a wait for all work of the stream up to command number `work` (Queue::work): shows what kernels printed,
// and returns the error of the work, if any.
CUresult finish_wait(CUstream stream, std::uint64_t work) noexcept;
// Whether any code that was loaded may print: then waits look for output. (Found out by host-bridge/worker/session/print_search.h.)
bool may_print() noexcept;
void module_prints() noexcept;  // a worker of an older version says so of a function

}  // namespace barcuda::guest
