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

// Managed memory moves between two homes (driver/managed). Lives while a command is posted that may touch some: what the CPU
// has of it goes to the device first, in an order that the command's stream sees. `calm` is 0 as long as there is no such memory.
namespace managed {
extern std::atomic<std::uint64_t> calm;

class Posting {
  public:
    Posting() = default;
    ~Posting() {
        if (counted_ || shown_) [[unlikely]]
            end();
    }
    Posting(const Posting&) = delete;
    // Kernels: they may touch whatever their stream may. Null: nobody knows which stream they run in.
    void kernels(const CUstream* stream) noexcept;
    void range(std::uint64_t address, std::size_t bytes, const CUstream* stream) noexcept;
    // What the program points at may be managed memory too: it is read, or written, while the command is, where nothing can be
    // waited for. First it is brought, and in the end, when it may have gone to the device, shown.
    void argument(const void* p, bool written) noexcept;
    void show_arguments() noexcept;

  private:
    void end() noexcept;
    bool counted_ = false;
    unsigned shown_ = 0;
    std::uintptr_t arguments_[4] = {};
};
}  // namespace managed

// A kernel's assert has failed: its text goes to this process's standard error. (driver/fence.cc)
void show_assert() noexcept;

}  // namespace barcuda::guest
