// SPDX-License-Identifier: Apache-2.0
// watched.h: whether calls of the program are looked at before they are let in (driver/admission.h), and why.
#pragma once
#include <atomic>

// How many reasons there are at the moment: this process was forked after cuInit, one of its host functions runs, a
// capture is open. Nearly always 0; each driver function looks here first (exports/admission.sh).
extern "C" [[gnu::visibility("hidden")]] std::atomic<unsigned> barcuda_watched;

namespace barcuda::guest {

// Captures of this process that have begun and have not ended (driver/capture.cc).
extern std::atomic<int> open_captures;

// Graphs of this process may allocate memory: whether one may be launched again is the driver's to say.
extern std::atomic<bool> graphs_allocate;

inline void watch_calls() noexcept { barcuda_watched.fetch_add(1, std::memory_order_relaxed); }
inline void stop_watching_calls() noexcept { barcuda_watched.fetch_sub(1, std::memory_order_relaxed); }

}  // namespace barcuda::guest
