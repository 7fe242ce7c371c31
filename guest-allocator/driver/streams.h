// SPDX-License-Identifier: Apache-2.0
// streams.h: which streams a context has: to wait for all of a context's work is to wait for each of them, in the
// guest, without holding up the worker for other threads.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <span>
#include <utility>

#include "guest-allocator/client/mutex.h"
#include "guest-allocator/client/observer.h"

namespace barcuda::guest {

// Of a device's primary context: for the streams of its green contexts as well.
// `captures`: to wait for a stream that is capturing is an error, and ends the capture; else it is passed over.
CUresult wait_for_streams(CUcontext context, bool captures = true) noexcept;
// The same for all contexts whose GPU may be at work, without captures.
CUresult wait_for_contexts() noexcept;
// And for all contexts, reporting nothing (fence.h, wait_quietly); and for these streams, each in its context.
void wait_for_contexts_quietly() noexcept;
void wait_for_streams_quietly(std::span<const std::pair<CUstream, CUcontext>> streams) noexcept;
// Called before a stream begins to capture: the work that it was given so far can still be waited for. Hold the lock
// until the capture has begun: no thread puts a fence behind a stream meanwhile.
std::unique_lock<Mutex> before_capture(CUstream stream) noexcept;
// All that the context's streams were given has been waited for, as far as this process knows, and none captures. The
// captures' lock (hold_captures) is held. (Of many streams it is not asked.)
bool all_is_idle(CUcontext context) noexcept;
// While it is held no stream begins to capture.
std::unique_lock<Mutex> hold_captures() noexcept;
// True if putting internal work into this stream, as it is spelled, would join or invalidate a capture: the stream's
// own, or, for the legacy stream, one of a stream that it would wait for. The lock is held.
bool is_closed(CUstream stream, CUcontext context) noexcept;
void forget_streams(CUcontext context) noexcept;  // the context is going away

// While true, no stream means the calling thread's own default stream (names.cc).
extern thread_local constinit bool no_stream_is_mine;
struct NoStreamIsMine {
    const bool before = no_stream_is_mine;
    NoStreamIsMine() { no_stream_is_mine = true; }
    ~NoStreamIsMine() { no_stream_is_mine = before; }
};

// cuStreamGetId of a real stream; of none: of the current context's legacy stream.
CUresult stream_id(CUstream stream, unsigned long long* id) noexcept;

// A name for the work that this thread gives to this stream: work of one name is done in the order in which it is
// given. (Ids of destroyed streams are used again; a name is not, for a long time.) Never 0.
std::uint64_t order_of(CUstream stream) noexcept;

}  // namespace barcuda::guest
