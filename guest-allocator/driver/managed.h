// SPDX-License-Identifier: Apache-2.0
// managed.h: __managed__ variables. The driver keeps such a variable where the code of kernels names it, in the
// worker's process, out of the guest's reach. The program gets a mirror of it in the region instead. Before a stream
// gets kernels to run, the words of the mirror that the CPU has written go to the variable; behind them, in the
// stream's order, the words of the variable that kernels have written come to the mirror. `known` is what both sides
// had when they last agreed: it says who has written. A kernel that is given a pointer to the mirror gets one to the
// variable.
#pragma once
#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "guest-allocator/client/observer.h"

namespace barcuda {

constexpr unsigned managed_mark = 0x80000000;  // in heap flags: managed memory, not cuMemHostAlloc's

// Around what gives a stream kernels to run.
class Mirrors {
  public:
    explicit Mirrors(CUstream stream) noexcept : stream_(stream) {
        if (there_are()) [[unlikely]]
            push(stream_);
    }
    ~Mirrors() {
        if (there_are()) [[unlikely]]
            pull(stream_);
    }
    Mirrors(const Mirrors&) = delete;
    Mirrors& operator=(const Mirrors&) = delete;

    static bool there_are() noexcept { return somebody_watches.load(std::memory_order_acquire); }
    // In a launch's parameters: pointers to mirrors become those to the variables.
    static void translate(std::byte* parameters, std::size_t bytes) noexcept;
    // A stream has been waited for: the CPU may look at what its kernels wrote.
    static void waited(CUstream stream) noexcept {
        if (there_are()) [[unlikely]]
            settle(stream);
    }

    // The mirror of a library's variable, made by the first who asks.
    static CUresult find(CUlibrary library, const char* name, void** mirror, std::size_t* bytes) noexcept;
    static void forget(CUlibrary library) noexcept;
    static void forget_addresses() noexcept;  // a context is gone, and its variables with it

  private:
    static void settle(CUstream stream) noexcept;
    static void push(CUstream stream) noexcept;
    static void pull(CUstream stream) noexcept;
    const CUstream stream_;
};

}  // namespace barcuda
