// SPDX-License-Identifier: Apache-2.0
// capture.h: whether work on a stream is run or captured for a graph. While no capture is open, which is nearly always,
// the answer is one load.
#pragma once
#include <cuda.h>

#include "guest-allocator/client/observer.h"
#include "guest-allocator/client/watched.h"

namespace barcuda::guest {

inline bool capturing(CUstream stream) noexcept {
    return open_captures.load(std::memory_order_relaxed) > 0 && ask_capturing(stream);
}

// Work that no graph can contain, given to a capturing stream: invalidates the capture, and returns that error.
CUresult spoil_capture(CUstream stream) noexcept;

// Whether captures forbid this thread a call that may wait for the GPU unseen. They are invalidated then.
CUresult forbidden_by_captures() noexcept;

// The same for the legacy stream, which would wait for streams that capture; of another stream nothing, and no error.
CUresult spoil_captures_that_hold(CUstream stream) noexcept;

bool was_captured(CUevent event) noexcept;       // event.cc: its last record is part of a capture
void recorded_by_graph(CUevent event) noexcept;  // event.cc: from now on the worker knows when it is done

}  // namespace barcuda::guest
