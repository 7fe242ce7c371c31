// SPDX-License-Identifier: Apache-2.0
// device.cc: the manual's "Device Management" and "Version Management": which device is current, its flags, limits,
// ids.
#include <cstdio>
#include <cstring>

#include "guest-allocator/runtime/array.h"
#include "guest-allocator/runtime/context.h"
#include "guest-allocator/runtime/registry.h"

using namespace barcuda::runtime;

namespace {

// Runs a driver function of one device (by ordinal) without a context.
template <class... P, class... A> cudaError_t ask_device(int device, CUresult (*function)(P...), A... arguments) {
    if (CUresult result = init()) return record(result);
    if (device < 0 || device >= device_count()) return record(cudaErrorInvalidDevice);
    return ask(function, arguments...);
}

}  // namespace

// ---- which device --------------------------------------------------------------------------------------------------
API cudaGetDeviceCount(int* count) {
    if (!count) return record(cudaErrorInvalidValue);
    *count = 0;
    // A child that was forked is told what its parent knew.
    if (CUresult result = known_device_count() ? CUDA_SUCCESS : init()) return record(result);
    *count = known_device_count();
    return cudaSuccess;
}

API cudaSetDevice(int device) { return record(bind(device)); }

API cudaGetDevice(int* device) { return record(device ? current_device(device) : CUDA_ERROR_INVALID_VALUE); }

// Of threads that have set no device: those that have a context, or are told of their device, have one.
API cudaSetValidDevices(int* devices, int count) {
    if (CUresult result = init()) return record(result);
    if (count < 0 || count > device_count() || (count && !devices)) return record(cudaErrorInvalidValue);
    const std::span wanted(devices, static_cast<std::size_t>(count));
    for (int device : wanted)
        if (device < 0 || device >= device_count()) return record(cudaErrorInvalidDevice);
    prefer_devices(wanted);
    return record(cudaSuccess);
}

API cudaInitDevice(int device, unsigned device_flags, unsigned flags) {
    if (flags & ~unsigned{cudaInitDeviceFlagsAreValid}) return record(cudaErrorInvalidValue);
    if (flags & cudaInitDeviceFlagsAreValid) {
        cudaError_t error = ask_device(device, cuDevicePrimaryCtxSetFlags, device, device_flags & ~cudaDeviceMapHost);
        if (error) return error;
    }
    CUcontext context = nullptr;
    return record(primary(device, &context));
}

API cudaDeviceReset() {
    int device = 0;
    CUresult result = current_device(&device);
    if (result == CUDA_SUCCESS) result = reset(device);
    if (result == CUDA_SUCCESS) {
        forget_device(device);
        thread.error = cudaSuccess;  // the dead context is gone, and its error with it
    }
    return record(result);
}

API cudaDeviceSynchronize() { return call(cuCtxSynchronize); }

// The device that agrees with most of what is wanted; of equals, the one with the lowest number.
API cudaChooseDevice(int* device, const cudaDeviceProp* wanted) {
    if (!device || !wanted) return record(cudaErrorInvalidValue);
    if (CUresult result = init()) return record(result);
    int best = -1;
    for (int candidate = 0; candidate < device_count(); candidate++) {
        cudaDeviceProp has;
        if (cudaError_t error = cudaGetDeviceProperties(&has, candidate)) return error;
        int score = 0;
        score +=
            wanted->major && (has.major > wanted->major || (has.major == wanted->major && has.minor >= wanted->minor));
        score += wanted->totalGlobalMem && has.totalGlobalMem >= wanted->totalGlobalMem;
        score += wanted->multiProcessorCount && has.multiProcessorCount >= wanted->multiProcessorCount;
        score += wanted->sharedMemPerBlock && has.sharedMemPerBlock >= wanted->sharedMemPerBlock;
        score += wanted->name[0] && std::strcmp(has.name, wanted->name) == 0;
        if (score > best) {
            best = score;
            *device = candidate;
        }
    }
    return cudaSuccess;
}

// ---- flags, limits, caches -----------------------------------------------------------------------------------------
// Mapped host memory is always on: the flag is accepted, reported, and means nothing.
API cudaSetDeviceFlags(unsigned flags) {
    int device = 0;
    if (CUresult result = current_device(&device)) return record(result);
    return ask(cuDevicePrimaryCtxSetFlags, device, flags & ~cudaDeviceMapHost);
}

API cudaGetDeviceFlags(unsigned* flags) {
    if (!flags) return record(cudaErrorInvalidValue);
    int device = 0, active = 0;
    if (CUresult result = current_device(&device)) return record(result);
    cudaError_t error = ask(cuDevicePrimaryCtxGetState, device, flags, &active);
    *flags |= cudaDeviceMapHost;
    return error;
}

API cudaDeviceSetLimit(cudaLimit limit, size_t value) { return call(cuCtxSetLimit, limit, value); }
API cudaDeviceGetLimit(size_t* value, cudaLimit limit) { return call(cuCtxGetLimit, value, limit); }
API cudaDeviceGetCacheConfig(cudaFuncCache* config) { return call(cuCtxGetCacheConfig, config); }
API cudaDeviceSetCacheConfig(cudaFuncCache config) { return call(cuCtxSetCacheConfig, config); }
API cudaCtxResetPersistingL2Cache() { return call(cuCtxResetPersistingL2Cache); }

// The width of shared memory's banks could be chosen on Kepler only; since then it is four bytes.
API cudaDeviceGetSharedMemConfig(cudaSharedMemConfig* config) {
    if (!config) return record(cudaErrorInvalidValue);
    *config = cudaSharedMemBankSizeFourByte;
    return record(ready());
}
API cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) { return record(ready()); }

API cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    return call(cuCtxGetStreamPriorityRange, least, greatest);
}

API cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTarget target,
                                       cudaFlushGPUDirectRDMAWritesScope scope) {
    return call(cuFlushGPUDirectRDMAWrites, target, scope);
}

// ---- what a device is ----------------------------------------------------------------------------------------------
API cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
    return ask_device(device, cuDeviceGetAttribute, value, static_cast<CUdevice_attribute>(attribute), device);
}

API cudaDeviceGetPCIBusId(char* id, int length, int device) {
    return ask_device(device, cuDeviceGetPCIBusId, id, length, device);
}

API cudaDeviceGetByPCIBusId(int* device, const char* id) { return ask(cuDeviceGetByPCIBusId, device, id); }

API cudaDeviceGetTexture1DLinearMaxWidth(size_t* width, const cudaChannelFormatDesc* format, int device) {
    if (!width || !format) return record(cudaErrorInvalidValue);
    CUarray_format element;
    unsigned channels;
    if (cudaError_t error = element_of(*format, &element, &channels)) return record(error);
    return ask_device(device, cuDeviceGetTexture1DLinearMaxWidth, width, element, channels, device);
}

API cudaDeviceGetHostAtomicCapabilities(unsigned* capabilities, const cudaAtomicOperation* operations, unsigned count,
                                        int device) {
    return ask_device(device, cuDeviceGetHostAtomicCapabilities, capabilities, operations, count, device);
}

// ---- peers ---------------------------------------------------------------------------------------------------------
API cudaDeviceCanAccessPeer(int* can, int device, int peer) {
    return ask_device(device, cuDeviceCanAccessPeer, can, device, peer);
}

API cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute, int source, int target) {
    return ask_device(source, cuDeviceGetP2PAttribute, value, attribute, source, target);
}

API cudaDeviceGetP2PAtomicCapabilities(unsigned* capabilities, const cudaAtomicOperation* operations, unsigned count,
                                       int source, int target) {
    return ask_device(source, cuDeviceGetP2PAtomicCapabilities, capabilities, operations, count, source, target);
}

API cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
    CUcontext context = nullptr;
    int own = 0;
    if (CUresult result = current_device(&own)) return record(result);
    if (peer == own) return record(cudaErrorPeerAccessUnsupported);
    if (CUresult result = primary(peer, &context)) return record(result);
    return call(cuCtxEnablePeerAccess, context, flags);
}

API cudaDeviceDisablePeerAccess(int peer) {
    CUcontext context = nullptr;
    if (CUresult result = primary(peer, &context)) return record(result);
    return call(cuCtxDisablePeerAccess, context);
}

// ---- versions ------------------------------------------------------------------------------------------------------
// Both answer without a device, as doctors and installers expect.
API cudaDriverGetVersion(int* version) { return record(cuDriverGetVersion(version)); }

API cudaRuntimeGetVersion(int* version) {
    if (!version) return record(cudaErrorInvalidValue);
    *version = runtime_version;
    return cudaSuccess;
}
