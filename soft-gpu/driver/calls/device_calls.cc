// SPDX-License-Identifier: Apache-2.0
// device_calls.cc: cuInit and what the device reports. It is honest: what it cannot do is 0, and it uses its own name.
// Limits that hardware has and a CPU lacks (texture sizes, registers) are those of its compute capability, so that
// programs that divide by them behave as on hardware.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "soft-gpu/driver/context.h"
#include "soft-gpu/driver/driver.h"

namespace barcuda::soft::driver {
namespace {

constexpr int version = 13000;
constexpr int first_bus = 0xBA;

int bus(CUdevice device) { return first_bus + Driver::get().settings.numbers[static_cast<std::size_t>(device)]; }

std::string bus_id(CUdevice device) {
    char text[20];
    std::snprintf(text, sizeof text, "0000:%02X:00.0", static_cast<unsigned>(bus(device)));
    return text;
}

int attribute(CUdevice_attribute which, CUdevice device) {
    const Settings& settings = Driver::get().settings;
    const int cc = settings.compute_capability();
    const int shared_optin = cc >= 90               ? 227 * 1024
                             : cc >= 86 && cc != 87 ? 99 * 1024
                             : cc >= 80             ? 163 * 1024
                             : cc >= 75             ? 64 * 1024
                                                    : 96 * 1024;
    switch (which) {
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: return 1024;
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: return 64;
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: return 0x7fffffff;
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: return 65535;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: return 48 * 1024;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: return shared_optin;
        case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK: return cc >= 80 ? 1024 : 0;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: return shared_optin + (cc >= 80 ? 1024 : 0);
        case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY: return 64 * 1024;
        case CU_DEVICE_ATTRIBUTE_WARP_SIZE: return 32;
        case CU_DEVICE_ATTRIBUTE_MAX_PITCH: return 0x7fffffff;
        case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
        case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: return 65536;
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: return cc == 75 ? 1024 : 2048;
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: return cc == 75 ? 16 : 32;
        case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return settings.cores;
        case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
        case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: return 1000000;  // kHz: what %clock and %globaltimer count, 1 GHz
        case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: return 64;
        case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: return 1 << 20;
        case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
        case CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT: return 512;
        case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT: return 32;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return settings.major;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: return settings.minor;
        case CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO: return 2;
        case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: return bus(device);
        case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID: return 0;
        case CU_DEVICE_ATTRIBUTE_NUMA_ID: return -1;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE: return CU_COMPUTEMODE_DEFAULT;
        case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: return 2;
        case CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT: return 1;
        case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES: return CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING: return CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES;

        // What the device can do.
        case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
        case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
        case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
        case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
        case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
        case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
        case CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
        case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1:
        case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1:
        case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1:
        case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
        case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
        case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
        case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST:
        case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_CAN_TEX2D_GATHER: return 1;

        case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH:
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH:
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH:
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH: return 131072;
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT:
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT:
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT: return 65536;
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH: return 2097120;
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH: return 268435456;
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH:
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT:
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH:
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH:
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT:
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH: return 16384;
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE:
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE: return 8192;
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE: return 32768;
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH:
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH:
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT:
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH:
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT:
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH:
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT:
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH:
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH:
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH:
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH:
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH:
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH:
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT:
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_WIDTH:
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH: return 32768;
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS:
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS:
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS:
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS: return 2048;
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS:
        case CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS: return 2046;

        // What it is not or cannot do: a timeout, an integrated GPU, ECC, a display driver model, several GPUs on a
        // board, pageable memory in kernels, clusters, tensor maps, multicast, compression, external handles.
        default: require(which > 0 && which < CU_DEVICE_ATTRIBUTE_MAX); return 0;
    }
}

}  // namespace
}  // namespace barcuda::soft::driver

using namespace barcuda::soft::driver;

CUresult cuInit(unsigned int Flags) {
    return answer("cuInit", [&] {
        require(Flags == 0);
        return Driver::initialize();
    });
}

CUresult cuDriverGetVersion(int* driverVersion) {
    if (!driverVersion) return CUDA_ERROR_INVALID_VALUE;
    *driverVersion = version;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
    return api([&] {
        require(count);
        *count = Driver::get().settings.devices;
    });
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
    return api([&] {
        require(device);
        require_device(ordinal);
        *device = ordinal;
    });
}

CUresult cuDeviceGetName(char* name, int len, CUdevice dev) {
    return api([&] {
        require(name && len > 0);
        require_device(dev);
        const int cores = Driver::get().settings.cores;
        std::snprintf(name, static_cast<std::size_t>(len), "Barcuda software GPU (%d core%s)", cores,
                      cores == 1 ? "" : "s");
    });
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice dev) {
    return api([&] {
        require(uuid);
        require_device(dev);
        *uuid = uuid_of(Driver::get().settings.numbers[static_cast<std::size_t>(dev)]);
    });
}
CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice dev) { return cuDeviceGetUuid(uuid, dev); }

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice dev) {
    return api([&] {
        require(bytes);
        require_device(dev);
        *bytes = Driver::get().memory.total();
    });
}

CUresult cuDeviceGetAttribute(int* pi, CUdevice_attribute attrib, CUdevice dev) {
    return api([&] {
        require(pi);
        require_device(dev);
        *pi = attribute(attrib, dev);
    });
}

CUresult cuDeviceGetProperties(CUdevprop* prop, CUdevice dev) {
    return api([&] {
        require(prop);
        require_device(dev);
        const auto of = [&](CUdevice_attribute which) { return attribute(which, dev); };
        *prop = CUdevprop{.maxThreadsPerBlock = 1024,
                          .maxThreadsDim = {1024, 1024, 64},
                          .maxGridSize = {0x7fffffff, 65535, 65535},
                          .sharedMemPerBlock = of(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK),
                          .totalConstantMemory = of(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY),
                          .SIMDWidth = 32,
                          .memPitch = of(CU_DEVICE_ATTRIBUTE_MAX_PITCH),
                          .regsPerBlock = of(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK),
                          .clockRate = of(CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
                          .textureAlign = of(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT)};
    });
}

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice dev) {
    return api([&] {
        require(major && minor);
        require_device(dev);
        *major = Driver::get().settings.major;
        *minor = Driver::get().settings.minor;
    });
}

CUresult cuDeviceGetPCIBusId(char* pciBusId, int len, CUdevice dev) {
    return api([&] {
        require_device(dev);
        const std::string id = bus_id(dev);
        require(pciBusId && len > static_cast<int>(id.size()));
        std::memcpy(pciBusId, id.c_str(), id.size() + 1);
    });
}

CUresult cuDeviceGetByPCIBusId(CUdevice* dev, const char* pciBusId) {
    return api([&] {
        require(dev && pciBusId);
        unsigned domain = 0, found_bus = 0, slot = 0, function = 0;
        if (std::sscanf(pciBusId, "%x:%x:%x.%x", &domain, &found_bus, &slot, &function) != 4) {
            domain = 0;
            require(std::sscanf(pciBusId, "%x:%x", &found_bus, &slot) == 2);
        }
        require(domain == 0 && slot == 0 && function == 0, CUDA_ERROR_INVALID_DEVICE);
        CUdevice found = 0;
        while (found < Driver::get().settings.devices && bus(found) != static_cast<int>(found_bus)) ++found;
        require_device(found);
        *dev = found;
    });
}

CUresult cuDeviceCanAccessPeer(int* canAccessPeer, CUdevice dev, CUdevice peerDev) {
    return api([&] {
        require(canAccessPeer);
        require_device(dev);
        require_device(peerDev);
        *canAccessPeer = dev != peerDev;  // a device is not its own peer
    });
}

CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute which, CUdevice srcDevice, CUdevice dstDevice) {
    return api([&] {
        require(value);
        require_device(srcDevice);
        require_device(dstDevice);
        require(srcDevice != dstDevice, CUDA_ERROR_INVALID_DEVICE);
        *value = which != CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK;  // all links are equal
    });
}

CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t* maxWidthInElements, CUarray_format, unsigned numChannels,
                                            CUdevice dev) {
    return api([&] {
        require(maxWidthInElements && (numChannels == 1 || numChannels == 2 || numChannels == 4));
        require_device(dev);
        *maxWidthInElements = 268435456;
    });
}

CUresult cuDeviceGetExecAffinitySupport(int* pi, CUexecAffinityType, CUdevice dev) {
    return api([&] {
        require(pi);
        require_device(dev);
        *pi = 0;
    });
}

// Kernels and the host's threads run on the same processor.
namespace {
void atomics(unsigned* capabilities, const CUatomicOperation* operations, unsigned count) {
    require(capabilities && operations && count != 0);
    for (unsigned i = 0; i < count; ++i) {
        require(operations[i] >= CU_ATOMIC_OPERATION_INTEGER_ADD && operations[i] < CU_ATOMIC_OPERATION_MAX);
        capabilities[i] = CU_ATOMIC_CAPABILITY_SIGNED | CU_ATOMIC_CAPABILITY_UNSIGNED | CU_ATOMIC_CAPABILITY_SCALAR_32 |
                          CU_ATOMIC_CAPABILITY_SCALAR_64;
    }
}
}  // namespace
CUresult cuDeviceGetHostAtomicCapabilities(unsigned int* capabilities, const CUatomicOperation* operations,
                                           unsigned int count, CUdevice dev) {
    return api([&] {
        require_device(dev);
        atomics(capabilities, operations, count);
    });
}
CUresult cuDeviceGetP2PAtomicCapabilities(unsigned int* capabilities, const CUatomicOperation* operations,
                                          unsigned int count, CUdevice srcDevice, CUdevice dstDevice) {
    return api([&] {
        require_device(srcDevice);
        require_device(dstDevice);
        require(srcDevice != dstDevice, CUDA_ERROR_INVALID_DEVICE);
        atomics(capabilities, operations, count);
    });
}

CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget, CUflushGPUDirectRDMAWritesScope) {
    return api([] { current_context(); });  // nothing writes to our memory from outside
}
