// SPDX-License-Identifier: Apache-2.0
// managed.h: the door to managed memory (cudaMallocManaged, __managed__ variables): the one header of this folder, and
// all that the rest of the driver layer knows of it.
//
//   managed.cc     what programs ask for: pinned memory of the region under another name
//   variables.cc   __managed__ variables, which the driver keeps where kernels' code names them: the program has a mirror
//
// The driver layer says here when a stream gets work, what a kernel is given, and what has been waited for. Which
// memory commands may write the client's end of the channel says by itself (client/observer.h). Where no managed
// variable is in use each is one load.
#pragma once
#include <cuda.h>

#include <cstddef>

#include "guest-allocator/client/observer.h"

namespace barcuda::guest::managed {

constexpr unsigned mark =
    0x80000000;  // among the flags that the heap keeps for a block: managed memory, not cuMemHostAlloc's

inline bool variables_in_use() noexcept { return addresses_watched.load(std::memory_order_acquire); }
void before_work(CUstream stream) noexcept;
void behind_work(CUstream stream) noexcept;
const void* changed_for_kernel(const void* packed, std::size_t bytes, std::byte* room) noexcept;
void look_after_wait(CUstream stream) noexcept;

// Lives while a stream is given kernels to run.
class Work {
  public:
    explicit Work(CUstream stream) noexcept : stream_(stream) {
        if (variables_in_use()) [[unlikely]]
            before_work(stream_);
    }
    ~Work() {
        if (variables_in_use()) [[unlikely]]
            behind_work(stream_);
    }
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;

  private:
    const CUstream stream_;
};

// A kernel's packed parameters as it is to get them: these, or a changed copy in `room`, where they may lie already.
inline const void* for_kernel(const void* packed, std::size_t bytes, std::byte* room) noexcept {
    return variables_in_use() ? changed_for_kernel(packed, bytes, room) : packed;
}

// A stream has been waited for: the CPU may look at what its kernels wrote.
inline void waited(CUstream stream) noexcept {
    if (variables_in_use()) [[unlikely]]
        look_after_wait(stream);
}

// A device's context was reset, and has its variables at new addresses.
void context_reset() noexcept;
// A library is gone, and its variables with it.
void unloaded(CUlibrary library) noexcept;

}  // namespace barcuda::guest::managed
