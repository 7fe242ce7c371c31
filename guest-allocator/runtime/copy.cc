// SPDX-License-Identifier: Apache-2.0
// copy.cc: linear copies and fills, by pointer and by symbol.
//
// The direction picks the driver function, which is what says what may be reused when a call returns. With the default
// direction the driver finds out from the addresses, which never overlap between host and device.
#include "guest-allocator/runtime/registry.h"

using namespace barcuda::runtime;

// ---- pointers ------------------------------------------------------------------------------------------------------
API cudaMemcpy(void* target, const void* source, size_t count, cudaMemcpyKind kind) {
    switch (kind) {
        case cudaMemcpyHostToDevice: return call(cuMemcpyHtoD, target, source, count);
        case cudaMemcpyDeviceToHost: return call(cuMemcpyDtoH, target, source, count);
        case cudaMemcpyDeviceToDevice: return call(cuMemcpyDtoD, target, source, count);
        case cudaMemcpyHostToHost:
        case cudaMemcpyDefault: return call(cuMemcpy, target, source, count);
    }
    return record(cudaErrorInvalidMemcpyDirection);
}

API cudaMemcpyAsync(void* target, const void* source, size_t count, cudaMemcpyKind kind, cudaStream_t stream) {
    switch (kind) {
        case cudaMemcpyHostToDevice: return call(cuMemcpyHtoDAsync, target, source, count, stream);
        case cudaMemcpyDeviceToHost: return call(cuMemcpyDtoHAsync, target, source, count, stream);
        case cudaMemcpyDeviceToDevice: return call(cuMemcpyDtoDAsync, target, source, count, stream);
        case cudaMemcpyHostToHost:
        case cudaMemcpyDefault: return call(cuMemcpyAsync, target, source, count, stream);
    }
    return record(cudaErrorInvalidMemcpyDirection);
}

API cudaMemcpyPeer(void* target, int target_device, const void* source, int source_device, size_t count) {
    CUcontext to = nullptr, from = nullptr;
    if (CUresult result = primary(target_device, &to)) return record(result);
    if (CUresult result = primary(source_device, &from)) return record(result);
    return call(cuMemcpyPeer, target, to, source, from, count);
}

API cudaMemcpyPeerAsync(void* target, int target_device, const void* source, int source_device, size_t count,
                        cudaStream_t stream) {
    CUcontext to = nullptr, from = nullptr;
    if (CUresult result = primary(target_device, &to)) return record(result);
    if (CUresult result = primary(source_device, &from)) return record(result);
    return call(cuMemcpyPeerAsync, target, to, source, from, count, stream);
}

API cudaMemcpyBatchAsync(void* const* targets, const void* const* sources, const size_t* sizes, size_t count,
                         cudaMemcpyAttributes* attributes, size_t* indices, size_t attribute_count,
                         cudaStream_t stream) {
    // Arrays of pointers are arrays of addresses to the driver, which only reads them.
    auto to = reinterpret_cast<CUdeviceptr*>(const_cast<void**>(targets));
    auto from = reinterpret_cast<CUdeviceptr*>(const_cast<void**>(sources));
    return call(cuMemcpyBatchAsync, to, from, const_cast<size_t*>(sizes), count, attributes, indices, attribute_count,
                stream);
}

// ---- symbols -------------------------------------------------------------------------------------------------------
namespace {

// Where `count` bytes at `offset` of a variable lie.
cudaError_t within(const void* symbol, std::size_t count, std::size_t offset, void** address) {
    CUdeviceptr base = 0;
    std::size_t size = 0;
    if (cudaError_t error = address_of(symbol, &base, &size)) return error;
    if (offset > size || count > size - offset) return cudaErrorInvalidValue;
    *address = reinterpret_cast<void*>(base + offset);
    return cudaSuccess;
}

bool into_device(cudaMemcpyKind kind) {
    return kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault;
}
bool out_of_device(cudaMemcpyKind kind) {
    return kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault;
}

}  // namespace

API cudaMemcpyToSymbol(const void* symbol, const void* source, size_t count, size_t offset, cudaMemcpyKind kind) {
    void* target = nullptr;
    if (!into_device(kind)) return record(cudaErrorInvalidMemcpyDirection);
    if (cudaError_t error = within(symbol, count, offset, &target)) return record(error);
    return cudaMemcpy(target, source, count, kind);
}

API cudaMemcpyFromSymbol(void* target, const void* symbol, size_t count, size_t offset, cudaMemcpyKind kind) {
    void* source = nullptr;
    if (!out_of_device(kind)) return record(cudaErrorInvalidMemcpyDirection);
    if (cudaError_t error = within(symbol, count, offset, &source)) return record(error);
    return cudaMemcpy(target, source, count, kind);
}

API cudaMemcpyToSymbolAsync(const void* symbol, const void* source, size_t count, size_t offset, cudaMemcpyKind kind,
                            cudaStream_t stream) {
    void* target = nullptr;
    if (!into_device(kind)) return record(cudaErrorInvalidMemcpyDirection);
    if (cudaError_t error = within(symbol, count, offset, &target)) return record(error);
    return cudaMemcpyAsync(target, source, count, kind, stream);
}

API cudaMemcpyFromSymbolAsync(void* target, const void* symbol, size_t count, size_t offset, cudaMemcpyKind kind,
                              cudaStream_t stream) {
    void* source = nullptr;
    if (!out_of_device(kind)) return record(cudaErrorInvalidMemcpyDirection);
    if (cudaError_t error = within(symbol, count, offset, &source)) return record(error);
    return cudaMemcpyAsync(target, source, count, kind, stream);
}

API cudaGetSymbolAddress(void** address, const void* symbol) {
    CUdeviceptr base = 0;
    std::size_t size = 0;
    if (!address) return record(cudaErrorInvalidValue);
    if (cudaError_t error = address_of(symbol, &base, &size)) return record(error);
    *address = reinterpret_cast<void*>(base);
    return cudaSuccess;
}

API cudaGetSymbolSize(size_t* size, const void* symbol) {
    CUdeviceptr base = 0;
    if (!size) return record(cudaErrorInvalidValue);
    return record(address_of(symbol, &base, size));
}

// ---- fills ---------------------------------------------------------------------------------------------------------
API cudaMemset(void* memory, int value, size_t count) {
    return call(cuMemsetD8, memory, static_cast<unsigned char>(value), count);
}
API cudaMemsetAsync(void* memory, int value, size_t count, cudaStream_t stream) {
    return call(cuMemsetD8Async, memory, static_cast<unsigned char>(value), count, stream);
}
API cudaMemset2D(void* memory, size_t pitch, int value, size_t width, size_t height) {
    return call(cuMemsetD2D8, memory, pitch, static_cast<unsigned char>(value), width, height);
}
API cudaMemset2DAsync(void* memory, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream) {
    return call(cuMemsetD2D8Async, memory, pitch, static_cast<unsigned char>(value), width, height, stream);
}

namespace {

// A box is its slices; one fill if they touch.
template <class Fill> cudaError_t fill_box(cudaPitchedPtr memory, cudaExtent extent, Fill fill) {
    if (extent.height == memory.ysize) return fill(memory.ptr, extent.height * extent.depth);
    for (std::size_t slice = 0; slice < extent.depth; slice++)
        if (cudaError_t error =
                fill(static_cast<char*>(memory.ptr) + slice * memory.pitch * memory.ysize, extent.height))
            return error;
    return cudaSuccess;
}

}  // namespace

API cudaMemset3D(cudaPitchedPtr memory, int value, cudaExtent extent) {
    return fill_box(memory, extent, [&](void* slice, std::size_t rows) {
        return cudaMemset2D(slice, memory.pitch, value, extent.width, rows);
    });
}
API cudaMemset3DAsync(cudaPitchedPtr memory, int value, cudaExtent extent, cudaStream_t stream) {
    return fill_box(memory, extent, [&](void* slice, std::size_t rows) {
        return cudaMemset2DAsync(slice, memory.pitch, value, extent.width, rows, stream);
    });
}
