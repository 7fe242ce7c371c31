// SPDX-License-Identifier: Apache-2.0
// pinned.h: pinned memory of the heap: what cuMemHostAlloc returns (memory.cc), and managed memory that stays in the
// region (managed/managed.cc). Both use this file; it uses neither.
#pragma once
#include <cuda.h>

#include <cstddef>

namespace barcuda::guest {

// Among the flags that the heap keeps for a block: managed memory, or a pool's (host_pool.h), not cuMemHostAlloc's.
constexpr unsigned managed_mark = 0x80000000, pool_mark = 0x40000000;

// As cuMemHostAlloc. The heap keeps `flags`, and which device was current.
CUresult allocate_pinned(void** p, std::size_t bytes, unsigned flags) noexcept;
// As cuMemFreeHost: the devices' work is done before the memory is used again.
CUresult free_pinned(void* p) noexcept;

// The flags that the heap keeps for a block: the caller's, and a device's number.
unsigned with_device(unsigned flags, CUdevice device) noexcept;
CUdevice device_in(unsigned flags) noexcept;

// Waits until no GPU may use memory that is about to be released: the current context's GPU, or all contexts'. The
// worker serves other threads during this wait.
CUresult wait_for_device() noexcept;
CUresult wait_for_devices() noexcept;

}  // namespace barcuda::guest
