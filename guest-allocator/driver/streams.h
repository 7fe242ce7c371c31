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

// `captures`: to wait for a stream that is capturing is an error, and ends the capture; else it is passed over.
CUresult wait_for_streams(CUcontext context, bool captures = true) noexcept;
// The same of all contexts whose GPU may be at work, but for captures.
CUresult wait_for_contexts() noexcept;
// And of all contexts, without a word about it (fence.h, wait_quietly); and of these streams, each in its context.
void wait_for_contexts_quietly() noexcept;
void wait_for_streams_quietly(std::span<const std::pair<CUstream, CUcontext>> streams) noexcept;
// Before a stream begins to note down its work for a graph: what it was given until then can be waited for all the
// same. The lock is to be held until it has begun: nobody puts a fence behind a stream meanwhile.
std::unique_lock<Mutex> before_capture(CUstream stream) noexcept;
// While it is held no stream begins to note down its work.
std::unique_lock<Mutex> hold_captures() noexcept;
// Whether nothing of ours may be put behind a stream's work, as it is spelled, because that would become a part of a capture, or end
// it: its own, or, of the legacy stream, one of a stream that it would wait for. The lock is held.
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
// The context that a stream's work is done in, whichever is current. Null: no such stream.
CUcontext context_of(CUstream stream) noexcept;

// A name for what this thread gives to this stream: things of one name happen in the order in which they are given.
// (Ids of streams that were destroyed are used again: a name is not, not soon.) Never 0.
std::uint64_t order_of(CUstream stream) noexcept;

}  // namespace barcuda::guest
