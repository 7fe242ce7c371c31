// SPDX-License-Identifier: Apache-2.0
// box.cc: copies of rows and boxes, and to and from arrays: every form of the runtime is one of two driver
// descriptors.
//
// Two traps, both the runtime's: in a 3D copy that touches an array, positions and the extent's width are in elements
// (a pitched pointer's are always bytes), while in the 2D forms they are bytes throughout; and the direction names the
// kind of memory of pointers only, arrays are always the device's.
#include <cstring>

#include "guest-allocator/runtime/array.h"
#include "guest-allocator/runtime/box.h"

namespace barcuda::runtime {
namespace {

struct Sides {
    CUmemorytype source, target;
};

cudaError_t sides_of(cudaMemcpyKind kind, Sides* sides) {
    switch (kind) {
        case cudaMemcpyHostToHost: *sides = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_HOST}; return cudaSuccess;
        case cudaMemcpyHostToDevice: *sides = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE}; return cudaSuccess;
        case cudaMemcpyDeviceToHost: *sides = {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST}; return cudaSuccess;
        case cudaMemcpyDeviceToDevice: *sides = {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE}; return cudaSuccess;
        case cudaMemcpyDefault: *sides = {CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED}; return cudaSuccess;
    }
    return cudaErrorInvalidMemcpyDirection;
}

cudaError_t bytes_of(cudaArray_t array, std::size_t* bytes) {
    CUDA_ARRAY3D_DESCRIPTOR its;
    if (CUresult result = cuArray3DGetDescriptor(&its, as<CUarray>(array))) return translate(result);
    *bytes = element_bytes(its.Format, its.NumChannels);
    return *bytes ? cudaSuccess : cudaErrorInvalidValue;
}

// Fills one side of a descriptor. D is CUDA_MEMCPY2D, CUDA_MEMCPY3D or CUDA_MEMCPY3D_PEER: the members' names agree.
template <class D> void source(D* d, Pointer p, CUmemorytype type) {
    d->srcMemoryType = p.array ? CU_MEMORYTYPE_ARRAY : type;
    d->srcArray = as<CUarray>(p.array);
    if (!p.array) {
        d->srcHost = p.memory;
        d->srcDevice = as<CUdeviceptr>(p.memory);
        d->srcPitch = p.pitch;
    }
    d->srcXInBytes = p.x;
    d->srcY = p.y;
}
template <class D> void target(D* d, Pointer p, CUmemorytype type) {
    d->dstMemoryType = p.array ? CU_MEMORYTYPE_ARRAY : type;
    d->dstArray = as<CUarray>(p.array);
    if (!p.array) {
        d->dstHost = p.memory;
        d->dstDevice = as<CUdeviceptr>(p.memory);
        d->dstPitch = p.pitch;
    }
    d->dstXInBytes = p.x;
    d->dstY = p.y;
}

// What the two 3D structures of the runtime share.
template <class D, class P> cudaError_t box(D* d, const P& p, Sides sides) {
    if ((p.srcArray && p.srcPtr.ptr) || (p.dstArray && p.dstPtr.ptr)) return cudaErrorInvalidValue;
    if ((!p.srcArray && !p.srcPtr.ptr) || (!p.dstArray && !p.dstPtr.ptr)) return cudaErrorInvalidValue;
    std::size_t source_element = 1, target_element = 1;
    if (p.srcArray)
        if (cudaError_t error = bytes_of(p.srcArray, &source_element)) return error;
    if (p.dstArray)
        if (cudaError_t error = bytes_of(p.dstArray, &target_element)) return error;
    if (p.srcArray && p.dstArray && source_element != target_element) return cudaErrorInvalidValue;

    *d = {};
    source(d, {p.srcArray, p.srcPtr.ptr, p.srcPtr.pitch, p.srcPos.x * source_element, p.srcPos.y}, sides.source);
    target(d, {p.dstArray, p.dstPtr.ptr, p.dstPtr.pitch, p.dstPos.x * target_element, p.dstPos.y}, sides.target);
    d->srcZ = p.srcPos.z;
    d->dstZ = p.dstPos.z;
    if (!p.srcArray) d->srcHeight = p.srcPtr.ysize;
    if (!p.dstArray) d->dstHeight = p.dstPtr.ysize;
    d->WidthInBytes = p.extent.width * (p.srcArray ? source_element : target_element);
    d->Height = p.extent.height;
    d->Depth = p.extent.depth;
    if (d->Height > 1 || d->Depth > 1)
        if ((!p.srcArray && p.srcPtr.pitch < d->srcXInBytes + d->WidthInBytes) ||
            (!p.dstArray && p.dstPtr.pitch < d->dstXInBytes + d->WidthInBytes))
            return cudaErrorInvalidPitchValue;
    return cudaSuccess;
}

}  // namespace

cudaError_t driver_copy(const cudaMemcpy3DParms& p, CUDA_MEMCPY3D* copy) {
    Sides sides;
    if (CUresult result = ready()) return translate(result);  // arrays are looked at
    if (cudaError_t error = sides_of(p.kind, &sides)) return error;
    return box(copy, p, sides);
}

cudaError_t driver_copy(const cudaMemcpy3DPeerParms& p, CUDA_MEMCPY3D_PEER* copy) {
    if (CUresult result = ready()) return translate(result);
    if (cudaError_t error = box(copy, p, {CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED})) return error;
    if (CUresult result = primary(p.srcDevice, &copy->srcContext)) return translate(result);
    if (CUresult result = primary(p.dstDevice, &copy->dstContext)) return translate(result);
    return cudaSuccess;
}

cudaError_t runtime_copy(const CUDA_MEMCPY3D& d, cudaMemcpy3DParms* p) {
    *p = {};
    std::size_t source_element = 1, target_element = 1;
    p->srcArray = reinterpret_cast<cudaArray_t>(d.srcArray);
    p->dstArray = reinterpret_cast<cudaArray_t>(d.dstArray);
    if (p->srcArray)
        if (cudaError_t error = bytes_of(p->srcArray, &source_element)) return error;
    if (p->dstArray)
        if (cudaError_t error = bytes_of(p->dstArray, &target_element)) return error;
    bool from_host = d.srcMemoryType == CU_MEMORYTYPE_HOST, to_host = d.dstMemoryType == CU_MEMORYTYPE_HOST;
    bool unified = d.srcMemoryType == CU_MEMORYTYPE_UNIFIED || d.dstMemoryType == CU_MEMORYTYPE_UNIFIED;
    if (!p->srcArray)
        p->srcPtr = {from_host ? const_cast<void*>(d.srcHost) : reinterpret_cast<void*>(d.srcDevice), d.srcPitch,
                     d.WidthInBytes, d.srcHeight};
    if (!p->dstArray)
        p->dstPtr = {to_host ? d.dstHost : reinterpret_cast<void*>(d.dstDevice), d.dstPitch, d.WidthInBytes,
                     d.dstHeight};
    p->srcPos = {d.srcXInBytes / source_element, d.srcY, d.srcZ};
    p->dstPos = {d.dstXInBytes / target_element, d.dstY, d.dstZ};
    p->extent = {d.WidthInBytes / (p->srcArray ? source_element : target_element), d.Height, d.Depth};
    p->kind = unified     ? cudaMemcpyDefault
              : from_host ? (to_host ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice)
                          : (to_host ? cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice);
    return cudaSuccess;
}

cudaError_t rows(Pointer to, Pointer from, std::size_t width, std::size_t height, cudaMemcpyKind kind, Stream stream) {
    Sides sides;
    if (cudaError_t error = sides_of(kind, &sides)) return record(error);
    if (height > 1 && ((!to.array && to.pitch < width) || (!from.array && from.pitch < width)))
        return record(cudaErrorInvalidPitchValue);
    CUDA_MEMCPY2D copy = {};
    source(&copy, from, sides.source);
    target(&copy, to, sides.target);
    copy.WidthInBytes = width;
    copy.Height = height;
    if (width == 0 || height == 0) return record(ready());
    // Unaligned: the synchronous form takes any pitch, as cudaMemcpy2D promises.
    return stream.wait ? call(cuMemcpy2DUnaligned, &copy) : call(cuMemcpy2DAsync, &copy, stream.handle);
}

// The linear view of an array: `count` bytes from (x, y) on, row after row: a head, whole rows, a tail.
cudaError_t wrapped(bool into_array, cudaArray_t array, std::size_t x, std::size_t y, void* memory, std::size_t count,
                    cudaMemcpyKind kind, Stream stream) {
    CUDA_ARRAY3D_DESCRIPTOR its;
    if (cudaError_t error = call(cuArray3DGetDescriptor, &its, array)) return error;
    std::size_t row = its.Width * element_bytes(its.Format, its.NumChannels);
    if (row == 0 || x >= row) return record(cudaErrorInvalidValue);
    auto* at = static_cast<char*>(memory);
    auto piece = [&](std::size_t width, std::size_t height) {
        Pointer inside = {array, nullptr, 0, x, y}, outside = {nullptr, at, width, 0, 0};
        cudaError_t error = into_array ? rows(inside, outside, width, height, kind, stream)
                                       : rows(outside, inside, width, height, kind, stream);
        at += width * height;
        count -= width * height;
        y += height;
        x = 0;
        return error;
    };
    if (x != 0 && count != 0)
        if (cudaError_t error = piece(count < row - x ? count : row - x, 1)) return error;
    if (count >= row)
        if (cudaError_t error = piece(row, count / row)) return error;
    return count ? piece(count, 1) : cudaSuccess;
}

}  // namespace barcuda::runtime

using namespace barcuda::runtime;

namespace {
Pointer at(const void* memory, std::size_t pitch) { return {nullptr, const_cast<void*>(memory), pitch, 0, 0}; }
Pointer in(cudaArray_const_t array, std::size_t x, std::size_t y) {
    return {const_cast<cudaArray_t>(array), nullptr, 0, x, y};
}
}  // namespace

// ---- rows ----------------------------------------------------------------------------------------------------------
API cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                 cudaMemcpyKind kind) {
    return rows(at(to, to_pitch), at(from, from_pitch), width, height, kind, then_wait);
}
API cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                      cudaMemcpyKind kind, cudaStream_t stream) {
    return rows(at(to, to_pitch), at(from, from_pitch), width, height, kind, {stream});
}
API cudaMemcpy2DToArray(cudaArray_t to, size_t x, size_t y, const void* from, size_t pitch, size_t width, size_t height,
                        cudaMemcpyKind kind) {
    return rows(in(to, x, y), at(from, pitch), width, height, kind, then_wait);
}
API cudaMemcpy2DToArrayAsync(cudaArray_t to, size_t x, size_t y, const void* from, size_t pitch, size_t width,
                             size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
    return rows(in(to, x, y), at(from, pitch), width, height, kind, {stream});
}
API cudaMemcpy2DFromArray(void* to, size_t pitch, cudaArray_const_t from, size_t x, size_t y, size_t width,
                          size_t height, cudaMemcpyKind kind) {
    return rows(at(to, pitch), in(from, x, y), width, height, kind, then_wait);
}
API cudaMemcpy2DFromArrayAsync(void* to, size_t pitch, cudaArray_const_t from, size_t x, size_t y, size_t width,
                               size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
    return rows(at(to, pitch), in(from, x, y), width, height, kind, {stream});
}
API cudaMemcpy2DArrayToArray(cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from, size_t from_x,
                             size_t from_y, size_t width, size_t height, cudaMemcpyKind kind) {
    return rows(in(to, to_x, to_y), in(from, from_x, from_y), width, height, kind, then_wait);
}

// ---- the linear forms that CUDA deprecates but still exports -------------------------------------------------------
API cudaMemcpyToArray(cudaArray_t to, size_t x, size_t y, const void* from, size_t count, cudaMemcpyKind kind) {
    return wrapped(true, to, x, y, const_cast<void*>(from), count, kind, then_wait);
}
API cudaMemcpyToArrayAsync(cudaArray_t to, size_t x, size_t y, const void* from, size_t count, cudaMemcpyKind kind,
                           cudaStream_t stream) {
    return wrapped(true, to, x, y, const_cast<void*>(from), count, kind, {stream});
}
API cudaMemcpyFromArray(void* to, cudaArray_const_t from, size_t x, size_t y, size_t count, cudaMemcpyKind kind) {
    return wrapped(false, const_cast<cudaArray_t>(from), x, y, to, count, kind, then_wait);
}
API cudaMemcpyFromArrayAsync(void* to, cudaArray_const_t from, size_t x, size_t y, size_t count, cudaMemcpyKind kind,
                             cudaStream_t stream) {
    return wrapped(false, const_cast<cudaArray_t>(from), x, y, to, count, kind, {stream});
}
// One row: the driver has no wrapping copy between arrays.
API cudaMemcpyArrayToArray(cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from, size_t from_x,
                           size_t from_y, size_t count, cudaMemcpyKind kind) {
    return rows(in(to, to_x, to_y), in(from, from_x, from_y), count, 1, kind, then_wait);
}

// ---- boxes ---------------------------------------------------------------------------------------------------------
namespace {
// Then nothing else of it is looked at.
bool is_empty(const cudaMemcpy3DParms& p) { return !p.extent.width || !p.extent.height || !p.extent.depth; }
}  // namespace
API cudaMemcpy3D(const cudaMemcpy3DParms* parameters) {
    CUDA_MEMCPY3D copy;
    if (!parameters) return record(cudaErrorInvalidValue);
    if (is_empty(*parameters)) return record(ready());
    if (cudaError_t error = driver_copy(*parameters, &copy)) return record(error);
    return call(cuMemcpy3D, &copy);
}
API cudaMemcpy3DAsync(const cudaMemcpy3DParms* parameters, cudaStream_t stream) {
    CUDA_MEMCPY3D copy;
    if (!parameters) return record(cudaErrorInvalidValue);
    if (is_empty(*parameters)) return record(ready());
    if (cudaError_t error = driver_copy(*parameters, &copy)) return record(error);
    return call(cuMemcpy3DAsync, &copy, stream);
}
API cudaMemcpy3DPeer(const cudaMemcpy3DPeerParms* parameters) {
    CUDA_MEMCPY3D_PEER copy;
    if (!parameters) return record(cudaErrorInvalidValue);
    if (cudaError_t error = driver_copy(*parameters, &copy)) return record(error);
    return call(cuMemcpy3DPeer, &copy);
}
API cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms* parameters, cudaStream_t stream) {
    CUDA_MEMCPY3D_PEER copy;
    if (!parameters) return record(cudaErrorInvalidValue);
    if (cudaError_t error = driver_copy(*parameters, &copy)) return record(error);
    return call(cuMemcpy3DPeerAsync, &copy, stream);
}

API cudaMemcpy3DBatchAsync(size_t count, cudaMemcpy3DBatchOp* copies, unsigned long long flags, cudaStream_t stream) {
    return call(cuMemcpy3DBatchAsync, count, copies, flags, stream);
}
