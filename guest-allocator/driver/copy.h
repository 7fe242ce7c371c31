// SPDX-License-Identifier: Apache-2.0
// copy.h: what kind of memory an address is, and one-dimensional copies between any two kinds.
#pragma once
#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "guest-allocator/client/device_window.h"
#include "guest-allocator/heap/heap.h"
#include "shm-device/layout.h"

namespace barcuda::guest {

// What a call owes its caller when it returns.
enum class Until {
    reusable,  // host memory that was pageable may be reused; pinned memory may still be in use (the *Async calls)
    done,      // the copy has happened (the synchronous calls)
};
CUresult copy_to_device(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream, Until until) noexcept;
CUresult copy_to_host(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream, Until until) noexcept;
CUresult copy_any(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream, Until until) noexcept;

// Up to here the driver stages a pageable source before its call returns, so the command's own bytes may be the source.
constexpr std::size_t most_inline_bytes = 64 * 1024;
// Whether a copy to the device has to travel that way, though the device reaches the bytes: the program may change them
// when the call returns, and to wait for what the GPU is at could be to wait for the program itself.
bool takes_bytes_along(const void* from, std::size_t bytes, Until until) noexcept;
// What posted work before has come to, if the call itself succeeded.
CUresult finished(CUresult r) noexcept;

// Rows and boxes, arrays included (box.cc).
CUresult copy_box(const CUDA_MEMCPY3D& box, CUstream stream, Until until) noexcept;

inline bool pinned(const void* p, std::size_t bytes) noexcept {
    const heap::Kind kind = heap::kind_of(p, bytes);
    return kind == heap::Kind::pinned || kind == heap::Kind::registered;
}

}  // namespace barcuda::guest
