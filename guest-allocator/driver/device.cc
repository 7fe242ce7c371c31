// SPDX-License-Identifier: Apache-2.0
// device.cc: devices, answered from the region's table: no question about a device leaves the guest.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "guest-allocator/client/client.h"
#include "guest-allocator/driver/descriptor.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/managed.h"
#include "guest-allocator/heap/heap.h"

using namespace barcuda::guest;

namespace {

// One line on the first failure, since most programs print only "no CUDA-capable device is detected". Programs that
// asked for no device get no line.
CUresult no_client() {
    static std::atomic_flag told;
    if (Client::why().text[0] && !told.test_and_set()) {
        char line[600];
        const int n = snprintf(line, sizeof line, "barcuda: no GPU: %s\n", Client::why().text);
        if (n > 0 && write(STDERR_FILENO, line, static_cast<std::size_t>(n)) < 0) return CUDA_ERROR_NO_DEVICE;
    }
    return CUDA_ERROR_NO_DEVICE;
}

const barcuda_device* device(int ordinal) {
    Client* client = Client::initialized();
    return client ? client->device(ordinal) : nullptr;
}

CUresult copy_name(char* to, int room, const char* from) {
    if (!to || room <= 0) return CUDA_ERROR_INVALID_VALUE;
    strncpy(to, from, static_cast<std::size_t>(room) - 1);
    to[room - 1] = 0;
    return CUDA_SUCCESS;
}

}  // namespace

CU cuInit(unsigned flags) {
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    if (!Client::initialize()) return no_client();
    managed::expect_faults();
    heap::activate();
    return CUDA_SUCCESS;
}

CU cuDriverGetVersion(int* version) {
    if (!version) return CUDA_ERROR_INVALID_VALUE;
    *version = CUDA_VERSION;
    if (Client* client = Client::current()) {
        *version = static_cast<int>(client->region().driver_version());
        return CUDA_SUCCESS;
    }
    // Not connected yet, and this question does not connect: cuInit settles which devices the program has.
    if (barcuda::Region region; !region.open(nullptr)) *version = static_cast<int>(region.driver_version());
    return CUDA_SUCCESS;
}

CU cuDeviceGetCount(int* count) {
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    Client* client = Client::initialized();
    if (!client) return CUDA_ERROR_NOT_INITIALIZED;
    *count = client->device_count();
    return CUDA_SUCCESS;
}

CU cuDeviceGet(CUdevice* out, int ordinal) {
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    if (!Client::initialized()) return CUDA_ERROR_NOT_INITIALIZED;
    if (!device(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
    *out = ordinal;
    return CUDA_SUCCESS;
}

CU cuDeviceGetName(char* name, int room, CUdevice d) {
    return device(d) ? copy_name(name, room, device(d)->name) : CUDA_ERROR_INVALID_DEVICE;
}

CU cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice d) {
    if (!uuid) return CUDA_ERROR_INVALID_VALUE;
    if (!device(d)) return CUDA_ERROR_INVALID_DEVICE;
    memcpy(uuid->bytes, device(d)->uuid, sizeof uuid->bytes);
    return CUDA_SUCCESS;
}

CU cuDeviceGetPCIBusId(char* id, int room, CUdevice d) {
    if (!device(d)) return CUDA_ERROR_INVALID_DEVICE;
    if (id && room > 0 && static_cast<std::size_t>(room) <= strlen(device(d)->pci_bus_id))
        return CUDA_ERROR_INVALID_VALUE;
    return copy_name(id, room, device(d)->pci_bus_id);
}

CU cuDeviceGetByPCIBusId(CUdevice* out, const char* id) {
    if (!out || !id) return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; device(i); ++i)
        if (strcasecmp(device(i)->pci_bus_id, id) == 0) {
            *out = i;
            return CUDA_SUCCESS;
        }
    unsigned domain, bus, slot;
    const bool is_one = sscanf(id, "%x:%x:%x", &domain, &bus, &slot) == 3 || sscanf(id, "%x:%x", &bus, &slot) == 2;
    return is_one ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
}

CU cuDeviceTotalMem_v2(size_t* bytes, CUdevice d) {
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    if (!device(d)) return CUDA_ERROR_INVALID_DEVICE;
    *bytes = device(d)->total_memory;
    return CUDA_SUCCESS;
}

CU cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice d) {
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    const barcuda_device* dev = device(d);
    if (!dev) return CUDA_ERROR_INVALID_DEVICE;
    const auto a = static_cast<unsigned>(attribute);
    if (a == 0 || a >= dev->attribute_count || dev->attributes[a] == BARCUDA_ATTRIBUTE_UNKNOWN)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
        // A block of managed memory is on one side at a time, and migrates when work is launched: a CPU that touches it
        // waits for that work. In the region host and device may both touch it at any time.
        case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
            *value = managed::stays_in_region() ? dev->attributes[a] : 0;
            break;
        // True for the GPU, but not for a guest: the device cannot touch memory outside the region. Memory that is
        // registered at its place has another address on the device: cuMemHostGetDevicePointer returns it.
        case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
        case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
        case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES:
        case CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST:
        case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED:
        // What is refused (shm-device/cuda/refused.h).
        case CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH:
        case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK:
        case CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_MAXIMUM_LENGTH:
        case CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS:
        case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: *value = 0; break;
        case CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED:
            *value = 1;
            break;  // host_pool.h
        // Of the ways to share memory between processes, the one that a guest has too.
        case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES:
            *value = barcuda::guest::descriptors::there_are()
                         ? dev->attributes[a] & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
                         : 0;
            break;
        default: *value = dev->attributes[a];
    }
    return CUDA_SUCCESS;
}
