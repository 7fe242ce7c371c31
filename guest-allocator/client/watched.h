// SPDX-License-Identifier: Apache-2.0
// watched.h: whether calls of the program are looked at before they are let in (driver/admission.h), and why.
#pragma once
#include <atomic>

// How many reasons there are at the moment: nothing has called cuInit yet, this process was forked
// after cuInit, one of its host functions runs, a capture is open, a fault of the GPU has ended
// the context. Nearly always 0; each driver function looks here first (exports/admission.sh).
extern "C" [[gnu::visibility("hidden")]] std::atomic<unsigned> barcuda_watched;

namespace barcuda::guest {

// Captures of this process that have begun and have not ended (driver/capture.cc).
extern std::atomic<int> open_captures;

// The error of a fault that has ended this client's contexts, for good; 0: none. After a reset of the primary context,
// which NVIDIA's driver does not refuse, CUDA_ERROR_CONTEXT_IS_DESTROYED.
extern std::atomic<int> lost_context;

// Graphs of this process may allocate memory: whether one may be launched again is the driver's to say.
extern std::atomic<bool> graphs_allocate;

inline void watch_calls() noexcept { barcuda_watched.fetch_add(1, std::memory_order_relaxed); }
inline void stop_watching_calls() noexcept { barcuda_watched.fetch_sub(1, std::memory_order_relaxed); }

}  // namespace barcuda::guest
