// SPDX-License-Identifier: Apache-2.0
// memory.cc: host memory and what pointers are. Pinned memory comes from the heap and never leaves the guest's hands:
// host address = device address, so there is nothing to ask the worker. Registered memory outside the region has two.
#include <string.h>

#include "base/os/map.h"
#include "guest-allocator/client/command.h"
#include "guest-allocator/driver/capture.h"
#include "guest-allocator/driver/context.h"
#include "guest-allocator/driver/copy.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/managed.h"
#include "guest-allocator/driver/pinned.h"
#include "guest-allocator/driver/streams.h"
#include "guest-allocator/heap/heap.h"
#include "guest-allocator/heap/registered.h"

namespace barcuda::guest {
namespace {

bool reachable_host(heap::Kind kind) { return kind != heap::Kind::outside; }

// Attributes of memory in the region (or elsewhere in this process), and of managed memory, answered here.
CUresult host_attribute(void* data, CUpointer_attribute attribute, const void* p, const heap::Found& f) {
    const bool managed = f.is_cudas() && f.flags & managed_mark;
    const std::size_t offset = f.offset_of(p);  // registered memory may have two addresses; either may be asked about
    std::byte* const known = f.device ? f.device : f.base;
    const auto put = [&](auto value) {
        memcpy(data, &value, sizeof value);
        return CUDA_SUCCESS;
    };
    // CUDA does not know plain malloc memory, in the region or elsewhere.
    if (!f.is_cudas()) return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
        case CU_POINTER_ATTRIBUTE_CONTEXT: return put(context_on(device_in(f.flags)));
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            return put(unsigned{managed ? CU_MEMORYTYPE_UNIFIED : CU_MEMORYTYPE_HOST});
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
            return f.device ? put(reinterpret_cast<CUdeviceptr>(f.device + offset)) : CUDA_ERROR_INVALID_VALUE;
        case CU_POINTER_ATTRIBUTE_HOST_POINTER: return put(f.base + offset);
        case CU_POINTER_ATTRIBUTE_IS_MANAGED: return put(unsigned{managed});
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return put(device_in(f.flags));
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: return put(reinterpret_cast<CUdeviceptr>(known));
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE: return put(f.bytes);
        case CU_POINTER_ATTRIBUTE_MAPPED: return put(unsigned{1});
        case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: return put(unsigned{0});
        case CU_POINTER_ATTRIBUTE_BUFFER_ID: return put(reinterpret_cast<unsigned long long>(known));
        case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: return put(std::uint64_t{0});
        case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
            memset(data, 0, sizeof(CUDA_POINTER_ATTRIBUTE_P2P_TOKENS));
            return CUDA_ERROR_INVALID_VALUE;
        case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: return put(CUmemoryPool{});
        case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID: return put(reinterpret_cast<unsigned long long>(known));
        case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: return put(unsigned{CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE});
        case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: return put(reinterpret_cast<CUdeviceptr>(known));
        case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: return put(f.bytes);
        case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE: return put(unsigned{0});
        default: return CUDA_ERROR_INVALID_VALUE;
    }
}

std::size_t attribute_bytes(CUpointer_attribute attribute) {
    switch (attribute) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        case CU_POINTER_ATTRIBUTE_MAPPED:
        case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: return 4;
        default: return 8;
    }
}

CUresult attribute_of(void* data, CUpointer_attribute attribute, CUdeviceptr p) {
    if (!data) return CUDA_ERROR_INVALID_VALUE;
    const void* const memory = reinterpret_cast<const void*>(p);
    if (!is_device(p)) return host_attribute(data, attribute, memory, heap::find(memory));
    if (managed::Found m; managed::find(p, m)) {
        if (attribute == CU_POINTER_ATTRIBUTE_CONTEXT) {
            memcpy(data, &m.context, sizeof m.context);
            return CUDA_SUCCESS;
        }
        const unsigned flags = with_device(m.flags, device_of(m.context));
        return host_attribute(data, attribute, memory, {heap::Kind::pinned, m.base, m.bytes, flags, m.base});
    }
    if (attribute < CU_POINTER_ATTRIBUTE_CONTEXT || attribute > CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE ||
        !is_there(p, 1))
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER) {
        memset(data, 0, sizeof(void*));
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS) {
        memset(data, 0, sizeof(CUDA_POINTER_ATTRIBUTE_P2P_TOKENS));
        return CUDA_SUCCESS;
    }
    if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) {
        constexpr unsigned type = CU_MEMORYTYPE_DEVICE;
        memcpy(data, &type, sizeof type);
        return CUDA_SUCCESS;
    }
    std::uint64_t value = 0;  // no other device reaches the GPU's memory from a guest
    if (attribute == CU_POINTER_ATTRIBUTE_CONTEXT) {
        const CUresult r = command<Op::pointer_attribute>(&value, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p);
        const CUcontext context = r == CUDA_SUCCESS ? context_on(static_cast<CUdevice>(value)) : nullptr;
        memcpy(data, &context, sizeof context);
        return r;
    }
    if (attribute != CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE)
        if (CUresult r = command<Op::pointer_attribute>(&value, attribute, p); r != CUDA_SUCCESS) return r;
    memcpy(data, &value, attribute_bytes(attribute));
    return CUDA_SUCCESS;
}

}  // namespace
}  // namespace barcuda::guest

using namespace barcuda::guest;

CU cuMemHostAlloc(void** p, size_t bytes, unsigned flags) {
    if (flags & ~7u) return CUDA_ERROR_INVALID_VALUE;  // PORTABLE, DEVICEMAP, WRITECOMBINED
    if (p && bytes == 0 && current_context()) {        // NVIDIA's driver (580); its documentation has an error
        *p = nullptr;
        return CUDA_SUCCESS;
    }
    return allocate_pinned(p, bytes, flags);
}
CU cuMemAllocHost_v2(void** p, size_t bytes) { return allocate_pinned(p, bytes, 0); }
CU cuMemFreeHost(void* p) { return free_pinned(p); }

CU cuMemFree_v2(CUdeviceptr p) {
    if (!p) return CUDA_SUCCESS;
    void* const host = reinterpret_cast<void*>(p);
    if (heap::in_region(host, 1)) {
        if (!(heap::find(host).flags & managed_mark)) return CUDA_ERROR_INVALID_VALUE;
        managed::forget_pinned(p);
        return free_pinned(host);
    }
    if (!is_device(p)) return CUDA_ERROR_INVALID_VALUE;
    if (!current_context()) {  // what is freed needs none: any that lives will do
        const std::vector<CUcontext> living = living_contexts();
        if (living.empty()) return CUDA_ERROR_INVALID_CONTEXT;
        const CUresult waited = wait_for_contexts();
        const InContext in{living.front()};
        const CUresult freed = cuMemFree_v2(p);
        return waited == CUDA_SUCCESS ? freed : waited;
    }
    if (managed::Found m; managed::find(p, m)) {
        const CUresult waited = wait_for_devices(), freed = managed::free(p);
        return waited == CUDA_SUCCESS ? freed : waited;
    }
    // The worker may free later, and could then not say that nothing begins there. (Managed memory that was freed is
    // its driver's ordinary memory: the guest knows better.)
    using Kind = LiveMemory::Kind;
    if (const Kind kind = live_memory.kind_of(p, 1); kind == Kind::none || kind == Kind::learned) {
        CUdeviceptr begin = 0;
        if (look_at(p, 1) == Named::refused ||
            command<Op::cuMemGetAddressRange_v2>(&begin, nullptr, p) != CUDA_SUCCESS || begin != p)
            return CUDA_ERROR_INVALID_VALUE;
    }
    const CUresult waited = wait_for_device(), freed = command<Op::cuMemFree_v2>(p);
    return waited == CUDA_SUCCESS ? freed : waited;
}

// ---- memory in a stream's order: what a stream that captures is asked for, its graph does. Others may have to wait.
namespace {
CUresult admit(CUstream stream, bool& captured) {
    captured = false;
    if (open_captures.load(std::memory_order_relaxed) == 0) [[likely]]
        return CUDA_SUCCESS;
    captured = real(stream) && capturing(stream);
    return captured ? CUDA_SUCCESS : forbidden_by_captures();
}
}  // namespace

CU cuMemAllocAsync(CUdeviceptr* p, size_t bytes, CUstream stream) {
    bool captured;
    if (const CUresult r = admit(stream, captured); r != CUDA_SUCCESS) return r;
    return command<Op::cuMemAllocAsync>(p, bytes, stream);
}
CU cuMemAllocFromPoolAsync(CUdeviceptr* p, size_t bytes, CUmemoryPool pool, CUstream stream) {
    bool captured;
    if (const CUresult r = admit(stream, captured); r != CUDA_SUCCESS) return r;
    return command<Op::cuMemAllocFromPoolAsync>(p, bytes, pool, stream);
}
CU cuMemFreeAsync(CUdeviceptr p, CUstream stream) {
    bool captured;
    if (const CUresult r = admit(stream, captured); r != CUDA_SUCCESS) return r;
    // A graph frees what a graph has allocated.
    using Kind = LiveMemory::Kind;
    const Kind kind = captured ? live_memory.kind_of(p, 1) : Kind::none;
    if (kind == Kind::allocated || kind == Kind::pooled) return CUDA_ERROR_INVALID_VALUE;
    return command<Op::cuMemFreeAsync>(p, stream);
}

// ---- other processes' memory: what passes between programs is the bridge's token for the driver's handle

CU cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr p) {
    if (!current_context()) return CUDA_ERROR_INVALID_CONTEXT;
    managed::Found m;
    return handle && is_device(p) && !managed::find(p, m) ? command<Op::cuIpcGetMemHandle>(handle, p)
                                                          : CUDA_ERROR_INVALID_VALUE;
}

CU cuIpcOpenMemHandle_v2(CUdeviceptr* p, CUipcMemHandle handle, unsigned flags) {
    if (!current_context()) return CUDA_ERROR_INVALID_CONTEXT;
    return p ? command<Op::cuIpcOpenMemHandle_v2>(p, handle, flags) : CUDA_ERROR_INVALID_VALUE;
}

CU cuIpcCloseMemHandle(CUdeviceptr p) {
    if (!current_context()) return CUDA_ERROR_INVALID_CONTEXT;
    if (!is_device(p)) return CUDA_ERROR_INVALID_VALUE;
    const CUresult waited = wait_for_device(), closed = command<Op::cuIpcCloseMemHandle>(p);
    return waited == CUDA_SUCCESS ? closed : waited;
}

CU cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr p) {
    if (!current_context()) return CUDA_ERROR_INVALID_CONTEXT;
    managed::Found m;
    if (!managed::find(p, m)) {
        std::uint64_t type = 0;  // of memory that was freed the worker has none, though its driver may have it still
        if (is_device(p) && !live_memory.holds(p, 1) &&
            bare_command<Op::pointer_attribute>(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p) != CUDA_SUCCESS)
            return CUDA_ERROR_NOT_FOUND;
        return command<Op::cuMemGetAddressRange_v2>(base, bytes, p);
    }
    if (base) *base = reinterpret_cast<CUdeviceptr>(m.base);
    if (bytes) *bytes = m.bytes;
    return CUDA_SUCCESS;
}

CU cuMemHostRegister_v2(void* p, size_t bytes, unsigned flags) {
    if (!current_context()) return CUDA_ERROR_INVALID_CONTEXT;
    if (flags & ~15u) return CUDA_ERROR_INVALID_VALUE;  // PORTABLE, DEVICEMAP, IOMEMORY, READ_ONLY
    if (flags & CU_MEMHOSTREGISTER_IOMEMORY) return CUDA_ERROR_INVALID_VALUE;  // another device's: a guest has none
    if (is_device(p) || heap::find(p).kind == heap::Kind::pinned) return CUDA_ERROR_INVALID_VALUE;  // CUDA's own
    constexpr unsigned bits_of_a_program = 47;
    if (reinterpret_cast<std::uintptr_t>(p) >> bits_of_a_program) return CUDA_ERROR_NOT_SUPPORTED;
    if (p && bytes && !os::is_mapped(p, bytes)) return CUDA_ERROR_INVALID_VALUE;
    if (flags & CU_MEMHOSTREGISTER_READ_ONLY) {
        CUdevice device;
        int can = 0;
        if (CUresult r = cuCtxGetDevice(&device); r != CUDA_SUCCESS) return r;
        cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, device);
        if (!can) return CUDA_ERROR_NOT_SUPPORTED;
    }
    return static_cast<CUresult>(heap::register_host(p, bytes, with_device(flags, device_of(current_context()))));
}
CU cuMemHostUnregister(void* p) {
    const heap::Found f = heap::find(p);
    if (f.kind == heap::Kind::registered) wait_for_devices();
    else if (f.kind == heap::Kind::pinned || (is_device(p) && is_there(reinterpret_cast<std::uint64_t>(p), 1)))
        return CUDA_ERROR_INVALID_VALUE;  // memory that is CUDA's by itself
    return static_cast<CUresult>(heap::unregister_host(p));
}

CU cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* p, unsigned flags) {
    if (!current_context()) return CUDA_ERROR_INVALID_CONTEXT;
    if (!out || !p || flags) return CUDA_ERROR_INVALID_VALUE;
    const heap::Found f = heap::find(p);
    if (!reachable_host(f.kind) || f.kind == heap::Kind::pageable) return CUDA_ERROR_INVALID_VALUE;
    if (!f.device) return CUDA_ERROR_NOT_SUPPORTED;  // registered, and yet out of the device's reach: staged
    const auto* at = static_cast<std::byte*>(p);
    if (static_cast<std::size_t>(at - f.base) >= f.bytes) return CUDA_ERROR_INVALID_VALUE;  // no host pointer
    *out = reinterpret_cast<CUdeviceptr>(f.device + (at - f.base));
    return CUDA_SUCCESS;
}

CU cuMemHostGetFlags(unsigned* flags, void* p) {
    if (!current_context()) return CUDA_ERROR_INVALID_CONTEXT;
    if (!flags || !p) return CUDA_ERROR_INVALID_VALUE;
    const heap::Found f = heap::find(p);
    if (!f.is_cudas()) return CUDA_ERROR_INVALID_VALUE;
    *flags = (f.flags & 7u) |
             CU_MEMHOSTALLOC_DEVICEMAP;  // every pinned block is mapped, as on any device with unified addressing
    return CUDA_SUCCESS;
}

CU cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr p) {
    return attribute_of(data, attribute, p);
}

// As documented, an unknown pointer is no error here: its values read as zero.
CU cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** data, CUdeviceptr p) {
    if (!attributes || !data) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; ++i) {
        if (!data[i]) return CUDA_ERROR_INVALID_VALUE;
        if (attribute_of(data[i], attributes[i], p) == CUDA_SUCCESS) continue;
        if (attributes[i] == CU_POINTER_ATTRIBUTE_RANGE_SIZE) continue;  // as NVIDIA's driver leaves it
        memset(data[i], 0, attribute_bytes(attributes[i]));
        if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) *static_cast<int*>(data[i]) = -2;
    }
    return CUDA_SUCCESS;
}

// Synchronous operations wait for the host's memory whatever it says.
CU cuPointerSetAttribute(const void* value, CUpointer_attribute attribute, CUdeviceptr p) {
    if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) return CUDA_ERROR_INVALID_VALUE;
    unsigned word = 0;
    memcpy(&word, value, sizeof word);
    if (is_device(p)) return command<Op::set_pointer_attribute>(attribute, word, p);
    return reachable_host(heap::find(reinterpret_cast<void*>(p)).kind) ? CUDA_ERROR_NOT_SUPPORTED
                                                                       : CUDA_ERROR_INVALID_VALUE;
}
