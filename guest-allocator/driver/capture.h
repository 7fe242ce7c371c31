// SPDX-License-Identifier: Apache-2.0
// capture.h: whether work on a stream is run or noted down for a graph. While no capture is open, which is nearly
// always, the answer is one load.
#pragma once
#include <cuda.h>

#include <atomic>

namespace barcuda::guest {

extern std::atomic<int> open_captures;
bool ask_capturing(CUstream stream) noexcept;

inline bool capturing(CUstream stream) noexcept {
    return open_captures.load(std::memory_order_relaxed) > 0 && ask_capturing(stream);
}

void recorded_by_graph(CUevent event) noexcept;  // event.cc: from now on the worker knows when it is done

}  // namespace barcuda::guest
