// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/driver/pinned.h"

#include "guest-allocator/driver/context.h"
#include "guest-allocator/driver/fence.h"
#include "guest-allocator/driver/streams.h"
#include "guest-allocator/heap/heap.h"
#include "shm-device/layout.h"

namespace barcuda::guest {
namespace {

// All devices reach host memory; but programs ask which device was current when it was allocated.
constexpr unsigned device_shift = 16;
static_assert((BARCUDA_MAX_DEVICES - 1) << device_shift < pool_mark);

}  // namespace

unsigned with_device(unsigned flags, CUdevice device) noexcept {
    return flags | static_cast<unsigned>(device) << device_shift;
}
CUdevice device_in(unsigned flags) noexcept {
    return static_cast<CUdevice>((flags & ~(managed_mark | pool_mark)) >> device_shift);
}

CUresult wait_for_device() noexcept {
    const CUcontext whole = owner_of(current_context());
    return whole && gpu_busy(whole) ? wait_for_streams(whole, false) : CUDA_SUCCESS;
}
// Also in a thread that has no context: what it gives up need not be its own.
CUresult wait_for_devices() noexcept {
    return several_contexts() || !current_context() ? wait_for_contexts() : wait_for_device();
}

CUresult allocate_pinned(void** p, std::size_t bytes, unsigned flags) noexcept {
    if (!p || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    if (!current_context()) return CUDA_ERROR_INVALID_CONTEXT;
    flags = with_device(flags, device_of(current_context()));
    *p = heap::pinned_alloc(bytes, flags);
    if (!*p && wait_for_devices() == CUDA_SUCCESS) {  // extents that the worker has not released yet
        heap::forget_refusal();
        *p = heap::pinned_alloc(bytes, flags);
    }
    return *p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult free_pinned(void* p) noexcept {
    if (!p) return CUDA_SUCCESS;
    const heap::Found found = heap::find(p);
    if (found.kind != heap::Kind::pinned || found.base != p || found.flags & pool_mark) return CUDA_ERROR_INVALID_VALUE;
    const CUresult waited = wait_for_devices();
    return heap::pinned_free(p) ? waited : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace barcuda::guest
