// SPDX-License-Identifier: Apache-2.0
// copy.cc: copies whose host memory is outside the region: the command or its reply carries the bytes. (The guest's
// half: guest-allocator/driver/copy.cc and box.cc.)
#include <cstring>

#include "host-bridge/worker/session/session.h"

namespace barcuda::ext {
namespace {

bool packed(const CUDA_MEMCPY3D& c, std::size_t size) {
    if (c.WidthInBytes == 0 || c.Height == 0 || c.Depth == 0 || c.WidthInBytes > size) return false;
    if (c.Height > size / c.WidthInBytes || c.Depth > size / c.WidthInBytes / c.Height) return false;
    return c.WidthInBytes * c.Height * c.Depth == size;
}

}  // namespace

CUresult copy_in(CUdeviceptr to, const void* bytes, std::size_t size, CUstream stream) {
    const void* const pinned = session().bounce().take(bytes, size, stream);
    // From pageable memory: staged before the call returns.
    return driver().cuMemcpyHtoDAsync_v2(to, pinned ? pinned : bytes, size, stream);
}

CUresult copy_out(void* bytes, CUdeviceptr from, std::size_t size, CUstream stream) {
    if (!session().streams().done(stream)) return CUDA_ERROR_NOT_READY;
    if (CUresult r = driver().cuMemcpyDtoHAsync_v2(bytes, from, size, stream); r != CUDA_SUCCESS) return r;
    return driver().cuStreamSynchronize(stream);
}

CUresult box_in(const CUDA_MEMCPY3D* box, const void* bytes, std::size_t size, CUstream stream) {
    if (!packed(*box, size)) return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D c = *box;
    c.srcMemoryType = CU_MEMORYTYPE_HOST;
    c.srcHost = bytes;
    c.srcDevice = 0;
    c.srcArray = nullptr;
    c.srcPitch = c.WidthInBytes;
    c.srcHeight = c.Height;
    c.srcXInBytes = c.srcY = c.srcZ = 0;
    return driver().cuMemcpy3DAsync_v2(&c, stream);  // staged before the call returns, as in copy_in
}

CUresult box_out(const CUDA_MEMCPY3D* box, void* bytes, std::size_t size, CUstream stream) {
    if (!packed(*box, size)) return CUDA_ERROR_INVALID_VALUE;
    if (!session().streams().done(stream)) return CUDA_ERROR_NOT_READY;
    CUDA_MEMCPY3D c = *box;
    c.dstMemoryType = CU_MEMORYTYPE_HOST;
    c.dstHost = bytes;
    c.dstDevice = 0;
    c.dstArray = nullptr;
    c.dstPitch = c.WidthInBytes;
    c.dstHeight = c.Height;
    c.dstXInBytes = c.dstY = c.dstZ = 0;
    if (CUresult r = driver().cuMemcpy3DAsync_v2(&c, stream); r != CUDA_SUCCESS) return r;
    return driver().cuStreamSynchronize(stream);
}

}  // namespace barcuda::ext
