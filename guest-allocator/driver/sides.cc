// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/driver/sides.h"

#include "guest-allocator/client/live_memory.h"
#include "guest-allocator/driver/copy.h"
#include "guest-allocator/heap/heap.h"

namespace barcuda::guest {
namespace {

CUresult side_of(CUmemorytype type, const void* host, CUdeviceptr device, std::size_t pitch, std::size_t rows,
                 std::size_t x, std::size_t y, std::size_t z, const CUDA_MEMCPY3D& c, Side& side) {
    side = {type, nullptr, pitch, rows, x, y, z};
    switch (type) {
        case CU_MEMORYTYPE_ARRAY: return CUDA_SUCCESS;
        case CU_MEMORYTYPE_HOST:
            side.start = static_cast<std::byte*>(const_cast<void*>(host));
            if (is_device(host)) side.type = CU_MEMORYTYPE_DEVICE;  // managed memory, which copies find there
            break;
        case CU_MEMORYTYPE_DEVICE:
            if (device && look_at(device, 1) == Named::refused) return CUDA_ERROR_INVALID_VALUE;
            [[fallthrough]];
        case CU_MEMORYTYPE_UNIFIED:
            side.start = reinterpret_cast<std::byte*>(device);
            side.type = is_device(device) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
            break;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
    if (!side.start) return CUDA_ERROR_INVALID_VALUE;
    const bool one_row = c.Height == 1 && c.Depth == 1 && y == 0 && z == 0;
    if (!(one_row && pitch == 0) && pitch < x + c.WidthInBytes) return CUDA_ERROR_INVALID_VALUE;
    if ((c.Depth > 1 || z) && rows < y + c.Height) return CUDA_ERROR_INVALID_VALUE;
    // Without a second row no pitch matters, and the worker takes none as large as that (shm-device/kinds/structs.h).
    if (one_row && (side.pitch == 0 || side.pitch >> 40)) side.pitch = x + c.WidthInBytes;
    if (side.rows == 0) side.rows = y + c.Height;
    return CUDA_SUCCESS;
}

}  // namespace

void put_source(CUDA_MEMCPY3D& c, const Side& s) {
    c.srcMemoryType = s.type;
    c.srcHost = s.start;
    c.srcDevice = reinterpret_cast<CUdeviceptr>(s.start);
    c.srcPitch = s.pitch;
    c.srcHeight = s.rows;
    c.srcXInBytes = s.x;
    c.srcY = s.y;
    c.srcZ = s.z;
}
void put_target(CUDA_MEMCPY3D& c, const Side& s) {
    c.dstMemoryType = s.type;
    c.dstHost = s.start;
    c.dstDevice = reinterpret_cast<CUdeviceptr>(s.start);
    c.dstPitch = s.pitch;
    c.dstHeight = s.rows;
    c.dstXInBytes = s.x;
    c.dstY = s.y;
    c.dstZ = s.z;
}

CUresult find_sides(CUDA_MEMCPY3D& c, Side& source, Side& target) {
    if (CUresult r = side_of(c.srcMemoryType, c.srcHost, c.srcDevice, c.srcPitch, c.srcHeight, c.srcXInBytes, c.srcY,
                             c.srcZ, c, source);
        r != CUDA_SUCCESS)
        return r;
    if (CUresult r = side_of(c.dstMemoryType, c.dstHost, c.dstDevice, c.dstPitch, c.dstHeight, c.dstXInBytes, c.dstY,
                             c.dstZ, c, target);
        r != CUDA_SUCCESS)
        return r;
    put_source(c, source);
    put_target(c, target);
    return CUDA_SUCCESS;
}

bool reaches(const Side& s, const CUDA_MEMCPY3D& c, Side& near) {
    near = s;
    if (s.type != CU_MEMORYTYPE_HOST || is_empty(c)) return true;
    const Bounds b(s, c);
    const std::byte* there = heap::reach(b.first, b.bytes);
    if (there) near.start += there - b.first;
    return there;
}

}  // namespace barcuda::guest
