// SPDX-License-Identifier: Apache-2.0
// fence.h: a wait in the guest polls memory that the GPU writes. Each waiting thread has a fence of its own: it asks
// for the fence's next value to be written when the stream reaches that point, and polls. Fences are in the client's
// extents, of which the driver knows the first before a client comes. So a worker need not register the channel with
// the driver while the client waits for its first call. The channel has fences as well, for a full region.
#pragma once
#include <cuda.h>

#include <atomic>
#include <cstdint>

#include "guest-allocator/client/observer.h"
#include "shm-device/queue/sync.h"

namespace barcuda::guest {

// Waits until all work that was posted to the stream before this call is done. Returns the error of that work, if any.
CUresult wait_for(CUstream stream) noexcept;
// The same as a program's own wait: managed memory that the CPU touches behind each of them comes with it.
CUresult synchronize(CUstream stream) noexcept;
// The same for work whose result no caller wants, in the middle of any work of the program: nothing is printed.
CUresult wait_quietly(CUstream stream) noexcept;
// Nothing has been posted to any stream since this one was last waited for.
bool idle_since_wait(CUstream stream) noexcept;

// True if work was posted to the stream since the last wait for the stream or its context.
bool may_be_busy(CUcontext context, CUstream stream) noexcept;
// The same for work that names no stream.
bool unnamed_may_be_busy(CUcontext context) noexcept;
// All that the stream was given has been waited for, and so has all that may be in it without naming it.
bool is_idle(CUcontext context, CUstream stream) noexcept;

// Has the fence at this address of the region (host-visible, 8 bytes) reached the value? Waits until it has.
CUresult wait_until(const unsigned long long& fence, unsigned long long value) noexcept;
// The same by a thread that sleeps as soon as it can.
CUresult sleep_until(const unsigned long long& fence, unsigned long long value) noexcept;

// Of a thread, of an event, or of a destroyed stream whose work continues.
struct Fence {
    unsigned long long* word;             // in the region: the GPU writes it
    std::atomic<std::uint64_t> asked{0};  // the value to come last; only grows, through every owner
    std::uint64_t order = 0;              // the queue that its values come by: streams.h, order_of()
    Fence* next = nullptr;                // while it is recycled
    const bool apart;                     // it has a cache line of its own
    Fence(unsigned long long* w, bool alone) noexcept : word(w), apart(alone) {}
    bool pending() const noexcept { return observe(*word) < asked.load(std::memory_order_relaxed); }
};
// Returns an idle fence, or null if region and channel are full. `apart`: a thread will poll it, and the GPU's writes
// of other fences must not disturb that thread. (The channel has no room for such fences, and gives what it has.)
Fence* take_fence(std::uint64_t order, bool apart = false) noexcept;
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
// Whether any code that was loaded may print: then waits look for output. (host-bridge/worker/session/print_search.h
// finds that out.)
bool may_print() noexcept;
void module_prints() noexcept;  // a worker of an older version says so of a function

}  // namespace barcuda::guest
