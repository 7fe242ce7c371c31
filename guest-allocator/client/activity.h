// SPDX-License-Identifier: Apache-2.0
// activity.h: whether the program's calls are recorded (guest-allocator/cupti), and which one this thread makes.
// Functions that programs call are entered through a piece of code that looks here (exports/admission.sh,
// exports/recorded.sh); while something is recorded, that is one of the reasons to watch calls (watched.h).
#pragma once
#include <atomic>
#include <cstdint>

#include "guest-allocator/client/watched.h"

namespace barcuda::guest::activity {

// Of the calling convention: what a called function was given in registers and on the stack.
struct Given {
    std::uint64_t floats[2];
    std::uint64_t words[6];
};
// A recorder hears of each call's begin and end, in the thread that makes it. `function`: its number among the entries,
// with `of_runtime` if they are the runtime's.
inline constexpr std::uint32_t of_runtime = 0x10000;
struct Recorder {
    void (*begins)(std::uint32_t function, const Given* given, const std::uint64_t* on_stack) noexcept;
    void (*ends)(std::uint32_t function, std::uint64_t result) noexcept;
    void (*initialized)() noexcept;  // cuInit has succeeded for the first time
};

// The number of the call that this thread makes, which goes with its commands; 0: none.
extern constinit thread_local std::uint32_t call;
inline std::uint32_t call_of_thread() noexcept {
    return barcuda_watched.load(std::memory_order_relaxed) == 0 ? 0 : call;
}

}  // namespace barcuda::guest::activity

// Null, nearly always: nothing is recorded. A recorder lives forever.
extern "C" [[gnu::visibility("hidden")]] std::atomic<const barcuda::guest::activity::Recorder*> barcuda_recorder;
