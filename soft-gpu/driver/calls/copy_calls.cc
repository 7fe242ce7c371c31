// SPDX-License-Identifier: Apache-2.0
// copy_calls.cc: cuMemcpy* and cuMemset*. What a call has done when it returns is as CUDA documents it: a synchronous
// copy from or to the host is complete; one between device memory, and a fill, is only queued. An asynchronous copy is
// queued, unless the host's memory is pageable: then a source may be reused at once, and a target is already written.
#include "soft-gpu/driver/context.h"
#include "soft-gpu/driver/copy.h"
#include "soft-gpu/driver/driver.h"
#include "soft-gpu/driver/graph.h"

namespace barcuda::soft::driver {
namespace {

// Longer pageable sources are copied before the call returns, as NVIDIA's driver does; so are all when much is staged.
constexpr std::size_t stage_at_most = 64 << 10;

std::uintptr_t address(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

// A copy between devices that belongs to no stream: after all earlier work of both contexts, and before all later work.
void copy_between(Stream& stream, std::shared_ptr<Copy> copy, CUcontext to, CUcontext from) {
    std::vector<std::shared_ptr<Context>> both;
    for (const CUcontext handle : {to, from})
        if (auto context = Driver::get().contexts.try_find(handle)) both.push_back(std::move(context));
    stream.context().post_between(stream, std::move(copy), both);
}

void copy_now(std::shared_ptr<Copy> copy) {
    const auto stream = stream_of_sync_call();
    if (copy->bytes() == 0) return;
    const CUcontext to = copy->to.context, from = copy->from.context;
    if (copy->from.device && copy->to.device && to != from) copy_between(*stream, std::move(copy), to, from);
    else if (copy->from.device && copy->to.device) stream->context().post(*stream, std::move(copy));
    else stream->context().perform(*stream, std::move(copy));
}

void copy_later(std::shared_ptr<Copy> copy, CUstream handle) {
    const auto stream = stream_of(handle);
    bool capturing;
    {
        std::lock_guard lock(stream->context().order);
        capturing = stream->capture != nullptr;
    }
    if (!capturing && copy->bytes() == 0) return;
    if (!capturing && copy->from.pageable && !copy->to.pageable && copy->bytes() <= stage_at_most &&
        copy->height * copy->depth == 1)
        copy->staged = Staged::of(copy->from.start, copy->width);
    if (!capturing && !copy->staged && (copy->from.pageable || copy->to.pageable)) {
        stream->context().perform(*stream, std::move(copy));
        return;
    }
    stream->context().post(*stream, std::move(copy));
}

CUresult fill_later(CUdeviceptr dst, std::size_t pitch, unsigned value, unsigned size, std::size_t width,
                    std::size_t height, CUstream handle, const char* name = __builtin_FUNCTION()) {
    return api(
        [&] {
            const auto stream = stream_of(handle);
            const bool captured = [&] {
                std::lock_guard lock(graphs_mutex());
                return stream->capture != nullptr;
            }();
            stream->context().post(*stream, fill({dst, pitch, value, size, width, height}, captured));
        },
        name);
}

CUresult fill_now(CUdeviceptr dst, std::size_t pitch, unsigned value, unsigned size, std::size_t width,
                  std::size_t height, const char* name = __builtin_FUNCTION()) {
    return api(
        [&] {
            const auto stream = stream_of_sync_call();
            auto operation = fill({dst, pitch, value, size, width, height});
            const auto target = Driver::get().memory.find(dst);
            // NVIDIA's driver also waits for memory that is mapped in pieces (seen with 580.159).
            if (target && target->on_device() && target->kind != Allocation::Kind::mapped)
                stream->context().post(*stream, std::move(operation));
            else stream->context().perform(*stream, std::move(operation));
        },
        name);
}

}  // namespace
}  // namespace barcuda::soft::driver

using namespace barcuda::soft::driver;

// ---- lines ----------------------------------------------------------------------------------------------------------

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) {
    return api([&] { copy_now(copy_line(dst, Where::any, src, Where::any, ByteCount)); });
}
CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream) {
    return api([&] { copy_later(copy_line(dst, Where::any, src, Where::any, ByteCount), hStream); });
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount) {
    return api([&] { copy_now(copy_line(dstDevice, Where::device, address(srcHost), Where::host, ByteCount)); });
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount, CUstream hStream) {
    return api(
        [&] { copy_later(copy_line(dstDevice, Where::device, address(srcHost), Where::host, ByteCount), hStream); });
}
CUresult cuMemcpyDtoH_v2(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount) {
    return api([&] { copy_now(copy_line(address(dstHost), Where::host, srcDevice, Where::device, ByteCount)); });
}
CUresult cuMemcpyDtoHAsync_v2(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream) {
    return api(
        [&] { copy_later(copy_line(address(dstHost), Where::host, srcDevice, Where::device, ByteCount), hStream); });
}
CUresult cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount) {
    return api([&] { copy_now(copy_line(dstDevice, Where::device, srcDevice, Where::device, ByteCount)); });
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream) {
    return api([&] { copy_later(copy_line(dstDevice, Where::device, srcDevice, Where::device, ByteCount), hStream); });
}
CUresult cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
                      size_t ByteCount) {
    return api([&] {
        Driver::get().contexts.find(dstContext);
        Driver::get().contexts.find(srcContext);
        auto copy = copy_line(dstDevice, Where::device, srcDevice, Where::device, ByteCount);
        if (ByteCount != 0) copy_between(*stream_of_sync_call(), std::move(copy), dstContext, srcContext);
    });
}
CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
                           size_t ByteCount, CUstream hStream) {
    return api([&] {
        Driver::get().contexts.find(dstContext);
        Driver::get().contexts.find(srcContext);
        copy_later(copy_line(dstDevice, Where::device, srcDevice, Where::device, ByteCount), hStream);
    });
}

CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                               CUmemcpyAttributes* attrs, size_t* attrsIdxs, size_t numAttrs, CUstream hStream) {
    return api([&] {  // one after the other: an order that every attribute permits
        require(dsts && srcs && sizes && count != 0 && attrs && attrsIdxs && numAttrs != 0 && numAttrs <= count);
        require(hStream != nullptr && hStream != CU_STREAM_LEGACY);
        for (std::size_t i = 0; i < count; ++i)
            copy_later(copy_line(dsts[i], Where::any, srcs[i], Where::any, sizes[i]), hStream);
    });
}
CUresult cuMemcpyBatchAsync(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                            CUmemcpyAttributes* attrs, size_t* attrsIdxs, size_t numAttrs, size_t* failIdx,
                            CUstream hStream) {
    const CUresult result = cuMemcpyBatchAsync_v2(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, hStream);
    if (result != CUDA_SUCCESS && failIdx) *failIdx = SIZE_MAX;  // CUDA's value for "no particular one"
    return result;
}

// ---- rectangles and boxes -------------------------------------------------------------------------------------------

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* pCopy) {
    return api([&] {
        require(pCopy);
        copy_now(copy_box(as_box(*pCopy)));
    });
}
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* pCopy) { return cuMemcpy2D_v2(pCopy); }
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* pCopy, CUstream hStream) {
    return api([&] {
        require(pCopy);
        copy_later(copy_box(as_box(*pCopy)), hStream);
    });
}
CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* pCopy) {
    return api([&] {
        require(pCopy);
        copy_now(copy_box(*pCopy));
    });
}
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* pCopy, CUstream hStream) {
    return api([&] {
        require(pCopy);
        copy_later(copy_box(*pCopy), hStream);
    });
}
CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* pCopy) {
    return api([&] {
        require(pCopy);
        copy_now(copy_box(as_box(*pCopy)));
    });
}
CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* pCopy, CUstream hStream) {
    return api([&] {
        require(pCopy);
        copy_later(copy_box(as_box(*pCopy)), hStream);
    });
}

// ---- arrays, one line -----------------------------------------------------------------------------------------------

namespace {
CUDA_MEMCPY3D line_box(std::size_t bytes) {
    CUDA_MEMCPY3D box{};
    box.WidthInBytes = bytes;
    box.Height = box.Depth = 1;
    return box;
}
void from_array(CUDA_MEMCPY3D& box, CUarray array, std::size_t offset) {
    box.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    box.srcArray = array;
    box.srcXInBytes = offset;
}
void to_array(CUDA_MEMCPY3D& box, CUarray array, std::size_t offset) {
    box.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    box.dstArray = array;
    box.dstXInBytes = offset;
}
}  // namespace

CUresult cuMemcpyDtoA_v2(CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice, size_t ByteCount) {
    return api([&] {
        auto box = line_box(ByteCount);
        box.srcMemoryType = CU_MEMORYTYPE_DEVICE;
        box.srcDevice = srcDevice;
        to_array(box, dstArray, dstOffset);
        copy_now(copy_box(box));
    });
}
CUresult cuMemcpyAtoD_v2(CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset, size_t ByteCount) {
    return api([&] {
        auto box = line_box(ByteCount);
        from_array(box, srcArray, srcOffset);
        box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        box.dstDevice = dstDevice;
        copy_now(copy_box(box));
    });
}
CUresult cuMemcpyHtoA_v2(CUarray dstArray, size_t dstOffset, const void* srcHost, size_t ByteCount) {
    return api([&] {
        auto box = line_box(ByteCount);
        box.srcMemoryType = CU_MEMORYTYPE_HOST;
        box.srcHost = srcHost;
        to_array(box, dstArray, dstOffset);
        copy_now(copy_box(box));
    });
}
CUresult cuMemcpyAtoH_v2(void* dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount) {
    return api([&] {
        auto box = line_box(ByteCount);
        from_array(box, srcArray, srcOffset);
        box.dstMemoryType = CU_MEMORYTYPE_HOST;
        box.dstHost = dstHost;
        copy_now(copy_box(box));
    });
}
CUresult cuMemcpyAtoA_v2(CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset, size_t ByteCount) {
    return api([&] {
        auto box = line_box(ByteCount);
        from_array(box, srcArray, srcOffset);
        to_array(box, dstArray, dstOffset);
        copy_now(copy_box(box));
    });
}
CUresult cuMemcpyHtoAAsync_v2(CUarray dstArray, size_t dstOffset, const void* srcHost, size_t ByteCount,
                              CUstream hStream) {
    return api([&] {
        auto box = line_box(ByteCount);
        box.srcMemoryType = CU_MEMORYTYPE_HOST;
        box.srcHost = srcHost;
        to_array(box, dstArray, dstOffset);
        copy_later(copy_box(box), hStream);
    });
}
CUresult cuMemcpyAtoHAsync_v2(void* dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount, CUstream hStream) {
    return api([&] {
        auto box = line_box(ByteCount);
        from_array(box, srcArray, srcOffset);
        box.dstMemoryType = CU_MEMORYTYPE_HOST;
        box.dstHost = dstHost;
        copy_later(copy_box(box), hStream);
    });
}

// ---- fills ----------------------------------------------------------------------------------------------------------

CUresult cuMemsetD8_v2(CUdeviceptr dst, unsigned char uc, size_t N) { return fill_now(dst, 0, uc, 1, N, 1); }
CUresult cuMemsetD16_v2(CUdeviceptr dst, unsigned short us, size_t N) { return fill_now(dst, 0, us, 2, N, 1); }
CUresult cuMemsetD32_v2(CUdeviceptr dst, unsigned int ui, size_t N) { return fill_now(dst, 0, ui, 4, N, 1); }
CUresult cuMemsetD2D8_v2(CUdeviceptr dst, size_t pitch, unsigned char uc, size_t Width, size_t Height) {
    return fill_now(dst, pitch, uc, 1, Width, Height);
}
CUresult cuMemsetD2D16_v2(CUdeviceptr dst, size_t pitch, unsigned short us, size_t Width, size_t Height) {
    return fill_now(dst, pitch, us, 2, Width, Height);
}
CUresult cuMemsetD2D32_v2(CUdeviceptr dst, size_t pitch, unsigned int ui, size_t Width, size_t Height) {
    return fill_now(dst, pitch, ui, 4, Width, Height);
}
CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char uc, size_t N, CUstream hStream) {
    return fill_later(dst, 0, uc, 1, N, 1, hStream);
}
CUresult cuMemsetD16Async(CUdeviceptr dst, unsigned short us, size_t N, CUstream hStream) {
    return fill_later(dst, 0, us, 2, N, 1, hStream);
}
CUresult cuMemsetD32Async(CUdeviceptr dst, unsigned int ui, size_t N, CUstream hStream) {
    return fill_later(dst, 0, ui, 4, N, 1, hStream);
}
CUresult cuMemsetD2D8Async(CUdeviceptr dst, size_t pitch, unsigned char uc, size_t Width, size_t Height,
                           CUstream hStream) {
    return fill_later(dst, pitch, uc, 1, Width, Height, hStream);
}
CUresult cuMemsetD2D16Async(CUdeviceptr dst, size_t pitch, unsigned short us, size_t Width, size_t Height,
                            CUstream hStream) {
    return fill_later(dst, pitch, us, 2, Width, Height, hStream);
}
CUresult cuMemsetD2D32Async(CUdeviceptr dst, size_t pitch, unsigned int ui, size_t Width, size_t Height,
                            CUstream hStream) {
    return fill_later(dst, pitch, ui, 4, Width, Height, hStream);
}
