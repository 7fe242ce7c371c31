// SPDX-License-Identifier: Apache-2.0
// observer.h: what the channel needs from the layer above it, which defines these (guest-allocator/driver): a command is given
// handles and addresses as programs know them, and says which context it is for.
#pragma once
#include <cuda.h>

#include <atomic>
#include <cstdint>

namespace barcuda::guest {

// The top of this thread's stack of contexts; null: none. (driver/context.cc)
CUcontext current_context() noexcept;
inline std::uint32_t current_context_id() noexcept {
    return static_cast<std::uint32_t>(reinterpret_cast<std::uint64_t>(current_context()));
}

// What a handle means: each thread's default stream is a real one of its own (driver/stream.cc); a kernel where a function is
// expected is its function in the current context (driver/module.cc).
CUstream real(CUstream stream) noexcept;
CUfunction real(CUfunction function) noexcept;
template <class T> T real(T argument) noexcept { return argument; }

// A command names this memory, and may write it later than now. (driver/managed/variables.cc: a managed variable may lie there.)
extern std::atomic<bool> addresses_watched;
void address_named(std::uint64_t address) noexcept;
inline void note_address(std::uint64_t address) noexcept {
    if (addresses_watched.load(std::memory_order_acquire)) [[unlikely]]
        address_named(address);
}

// A kernel's assert has failed: its text goes to this process's standard error. (driver/fence.cc)
void show_assert() noexcept;

}  // namespace barcuda::guest
