// SPDX-License-Identifier: Apache-2.0
// memory.cc: host memory and what pointers are. Pinned memory comes from the heap and never leaves the guest's hands:
// host address = device address, so there is nothing to ask the worker. Registered memory outside the region has two.
#include <string.h>

#include <bit>
#include <mutex>
#include <set>

#include "base/os/map.h"
#include "guest-allocator/client/command.h"
#include "guest-allocator/client/mutex.h"
#include "guest-allocator/driver/capture.h"
#include "guest-allocator/driver/context.h"
#include "guest-allocator/driver/copy.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/host_pool.h"
#include "guest-allocator/driver/managed.h"
#include "guest-allocator/driver/pinned.h"
#include "guest-allocator/driver/streams.h"
#include "guest-allocator/heap/heap.h"
#include "guest-allocator/heap/registered.h"

namespace barcuda::guest {
namespace {

bool reachable_host(heap::Kind kind) { return kind != heap::Kind::outside; }
CUdeviceptr as_device(const void* p) { return reinterpret_cast<CUdeviceptr>(p); }
bool is_mapped(const void* p) { return live_memory.kind_of(as_device(p), 1) == LiveMemory::Kind::mapped; }
// The range is in one block of the heap, and the program has unmapped none of it.
bool is_in_one_block(const heap::Found& f, const void* p, std::size_t bytes) {
    if (f.kind != heap::Kind::pageable || !heap::reach(p, bytes)) return false;
    const std::size_t offset = f.offset_of(p);
    return offset < f.bytes && bytes <= f.bytes - offset;
}
// Looks at the first page and at the last one.
bool may_touch(const void* p, std::size_t bytes, bool to_write) {
    return os::may_touch(p, to_write) && os::may_touch(static_cast<const std::byte*>(p) + bytes - 1, to_write);
}
bool is_managed(CUdeviceptr p) { return managed::exists() && managed::extent_of(p).is_managed; }

// Synchronous operations wait for all memory whatever it says (CU_POINTER_ATTRIBUTE_SYNC_MEMOPS). What it says is kept:
// of host memory among the heap's flags; of the device's, where it says yes at first, what was told no.
constexpr unsigned sync_mark = 0x8000;
class SyncWords {
  public:
    void tell(std::uint64_t buffer, bool yes) {
        std::lock_guard lock(mutex_);
        if (yes) no_.erase(buffer);
        else no_.insert(buffer);
    }
    bool says(std::uint64_t buffer) {
        std::lock_guard lock(mutex_);
        return !no_.contains(buffer);
    }

  private:
    Mutex mutex_;
    std::set<std::uint64_t> no_;  // ids of buffers, which are not used again
};
SyncWords& sync_words() {
    static auto& all = *new SyncWords;
    return all;
}

// Attributes of memory in the region (or elsewhere in this process), and of managed memory, answered here.
CUresult host_attribute(void* data, CUpointer_attribute attribute, const void* p, const heap::Found& f) {
    const bool managed = f.is_cudas() && f.flags & managed_mark, pooled = f.flags & pool_mark;
    const std::size_t offset = f.offset_of(p);  // registered memory may have two addresses; either may be asked about
    std::byte* const known = f.device ? f.device : f.base;
    // What CUDA allocates it maps in units of two megabytes.
    constexpr std::uintptr_t unit = 2 << 20;
    const auto begin = reinterpret_cast<std::uintptr_t>(known), end = begin + f.bytes;
    const bool whole_units = f.kind == heap::Kind::pinned;
    const std::uintptr_t mapped_from = whole_units ? begin / unit * unit : begin;
    const std::uintptr_t mapped_to = whole_units ? (end + unit - 1) / unit * unit : end;
    const auto put = [&](auto value) {
        memcpy(data, &value, sizeof value);
        return CUDA_SUCCESS;
    };
    // CUDA does not know plain malloc memory, in the region or elsewhere.
    if (!f.is_cudas()) return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
        case CU_POINTER_ATTRIBUTE_CONTEXT: return put(pooled ? nullptr : context_on(device_in(f.flags)));
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            return put(unsigned{managed ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST});
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
            return f.device ? put(reinterpret_cast<CUdeviceptr>(f.device + offset)) : CUDA_ERROR_INVALID_VALUE;
        case CU_POINTER_ATTRIBUTE_HOST_POINTER: return put(f.base + offset);
        case CU_POINTER_ATTRIBUTE_IS_MANAGED: return put(unsigned{managed});
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return put(device_in(f.flags));
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: return put(reinterpret_cast<CUdeviceptr>(known));
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE: return put(f.bytes);
        case CU_POINTER_ATTRIBUTE_MAPPED: return put(unsigned{1});
        case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: return put(unsigned{managed || f.flags & sync_mark});
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: return put(unsigned{0});
        case CU_POINTER_ATTRIBUTE_BUFFER_ID: return put(reinterpret_cast<unsigned long long>(known));
        case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: return put(std::uint64_t{0});
        case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
            memset(data, 0, sizeof(CUDA_POINTER_ATTRIBUTE_P2P_TOKENS));
            return managed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: return put(host_pool::pool_of(f.base));
        case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID: return put(reinterpret_cast<unsigned long long>(known));
        case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: return put(unsigned{CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE});
        case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: return put(CUdeviceptr{mapped_from});
        case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: return put(mapped_to - mapped_from);
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
        case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: return 4;
        default: return 8;
    }
}

// Memory of pools, and what a program has mapped, is no context's. (Older bridges do not say of other memory.)
CUresult owning_context(CUdeviceptr p, CUcontext& owner) {
    owner = nullptr;
    using Kind = LiveMemory::Kind;
    const Kind kind = live_memory.kind_of(p, 1);
    if (kind == Kind::pooled || kind == Kind::mapped) return CUDA_SUCCESS;
    std::uint64_t device = 0, owned = 0;
    if (CUresult r = command<Op::pointer_attribute>(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p); r != CUDA_SUCCESS)
        return r;
    if (command<Op::pointer_attribute>(&owned, CU_POINTER_ATTRIBUTE_CONTEXT, p) != CUDA_SUCCESS || owned)
        owner = context_on(static_cast<CUdevice>(device));
    return CUDA_SUCCESS;
}

// The host names no pools by itself: those that the program may not have asked for are asked for here.
CUresult pool_of(CUdeviceptr p, CUmemoryPool& pool) {
    std::uint64_t device = 0, named = 0;
    CUresult r = command<Op::pointer_attribute>(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p);
    const auto on = static_cast<CUdevice>(device);
    if (r == CUDA_SUCCESS) r = command<Op::cuDeviceGetDefaultMemPool>(&pool, on);
    if (r == CUDA_SUCCESS) r = command<Op::cuDeviceGetMemPool>(&pool, on);
    if (r == CUDA_SUCCESS) r = command<Op::pointer_attribute>(&named, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p);
    pool = std::bit_cast<CUmemoryPool>(named);
    return r;
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
    if (attribute == CU_POINTER_ATTRIBUTE_CONTEXT) {
        CUcontext owner;
        const CUresult r = owning_context(p, owner);
        memcpy(data, &owner, sizeof owner);
        return r;
    }
    if (attribute == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE) {
        CUmemoryPool pool = nullptr;
        const CUresult r = pool_of(p, pool);
        if (r == CUDA_SUCCESS) memcpy(data, &pool, sizeof pool);
        return r;
    }
    std::uint64_t value = 0;  // no other device reaches the GPU's memory from a guest
    if (attribute != CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE) {
        const bool sync = attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
        const CUpointer_attribute asked = sync ? CU_POINTER_ATTRIBUTE_BUFFER_ID : attribute;
        if (CUresult r = command<Op::pointer_attribute>(&value, asked, p); r != CUDA_SUCCESS) return r;
        if (sync) value = sync_words().says(value);
    }
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

CU cuMemAlloc_v2(CUdeviceptr* p, size_t bytes) {
    const CUresult r = command<Op::cuMemAlloc_v2>(p, bytes);
    if (r != CUDA_SUCCESS && p) *p = 0;  // as NVIDIA's driver (580)
    return r;
}

CU cuMemFree_v2(CUdeviceptr p) {
    if (!p) return CUDA_SUCCESS;
    void* const host = reinterpret_cast<void*>(p);
    if (heap::in_region(host, 1)) {
        const unsigned flags = heap::find(host).flags;
        if (flags & pool_mark) return host_pool::free_now(host);
        if (!(flags & managed_mark)) return CUDA_ERROR_INVALID_VALUE;
        managed::forget_pinned(p);
        return free_pinned(host);
    }
    if (!is_device(p)) return CUDA_ERROR_INVALID_VALUE;
    if (!current_context()) {  // what is freed needs none: any that lives will do
        const std::vector<CUcontext> living = living_contexts();
        if (living.empty()) return CUDA_ERROR_INVALID_VALUE;  // all memory went with them
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
    if (!host_pool::is_one(pool)) return command<Op::cuMemAllocFromPoolAsync>(p, bytes, pool, stream);
    // A graph's memory is a device's (cuGraphAddMemAllocNode).
    return captured ? CUDA_ERROR_NOT_SUPPORTED : host_pool::allocate(p, bytes, pool, stream);
}
CU cuMemFreeAsync(CUdeviceptr p, CUstream stream) {
    bool captured;
    if (const CUresult r = admit(stream, captured); r != CUDA_SUCCESS) return r;
    if (void* const host = reinterpret_cast<void*>(p); heap::in_region(host, 1) && heap::find(host).flags & pool_mark)
        return captured ? CUDA_ERROR_INVALID_VALUE : host_pool::free_in(host, stream);
    if (managed::Found m; managed::find(p, m) && reinterpret_cast<CUdeviceptr>(m.base) == p)
        return CUDA_ERROR_NOT_SUPPORTED;
    // A graph frees what a graph has allocated.
    using Kind = LiveMemory::Kind;
    const Kind kind = captured ? live_memory.kind_of(p, 1) : Kind::none;
    if (kind == Kind::allocated || kind == Kind::pooled) return CUDA_ERROR_INVALID_VALUE;
    return command<Op::cuMemFreeAsync>(p, stream);
}

// ---- other processes' memory: what passes between programs is the bridge's token for the driver's handle

CU cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr p) {
    if (!handle || !p) return CUDA_ERROR_INVALID_VALUE;
    if (!current_context()) return CUDA_ERROR_INVALID_CONTEXT;
    managed::Found m;
    return is_device(p) && !managed::find(p, m) ? command<Op::cuIpcGetMemHandle>(handle, p) : CUDA_ERROR_INVALID_VALUE;
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
    const auto tell = [&](const std::byte* from, std::size_t size) {
        if (base) *base = reinterpret_cast<CUdeviceptr>(from);
        if (bytes) *bytes = size;
        return CUDA_SUCCESS;
    };
    if (managed::Found m; is_managed(p)) return managed::find(p, m) ? tell(m.base, m.bytes) : CUDA_ERROR_NOT_FOUND;
    if (!is_device(p)) {
        const auto* const at = reinterpret_cast<const std::byte*>(p);
        const heap::Found f = heap::find(at);
        if (!f.is_cudas()) return CUDA_ERROR_NOT_FOUND;
        return tell(static_cast<std::size_t>(at - f.base) < f.bytes ? f.base : f.device, f.bytes);
    }
    std::uint64_t type = 0;  // of memory that was freed the worker has none, though its driver may have it still
    if (!live_memory.holds(p, 1) &&
        bare_command<Op::pointer_attribute>(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p) != CUDA_SUCCESS)
        return CUDA_ERROR_NOT_FOUND;
    return command<Op::cuMemGetAddressRange_v2>(base, bytes, p);
}

// ---- mappings. What the driver has mapped for managed memory is not the program's.

CU cuMemUnmap(CUdeviceptr p, size_t bytes) {
    return is_managed(p) ? CUDA_ERROR_INVALID_VALUE : command<Op::cuMemUnmap>(p, bytes);
}
CU cuMemSetAccess(CUdeviceptr p, size_t bytes, const CUmemAccessDesc* access, size_t count) {
    return is_managed(p) ? CUDA_ERROR_INVALID_VALUE : command<Op::cuMemSetAccess>(p, bytes, access, count);
}
CU cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr p) {
    if (!flags || !location || !p) return CUDA_ERROR_INVALID_VALUE;
    *flags = 0;  // of memory that is not mapped, too, and at an address where there is none
    if (managed::Found m; is_managed(p)) return managed::find(p, m) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (!is_device(p))
        return heap::find(reinterpret_cast<void*>(p)).is_cudas() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    return command<Op::cuMemGetAccess>(flags, location, p);
}

CU cuMemHostRegister_v2(void* p, size_t bytes, unsigned flags) {
    if (!current_context()) return CUDA_ERROR_INVALID_CONTEXT;
    if (!p || !bytes || flags & ~15u) return CUDA_ERROR_INVALID_VALUE;  // PORTABLE, DEVICEMAP, IOMEMORY, READ_ONLY
    const heap::Found f = heap::find(p);
    if (is_device(p) || f.kind == heap::Kind::pinned) {  // CUDA's own, or was
        const bool was = is_device(p) && bytes > os::memory_bytes() && !is_there(reinterpret_cast<std::uint64_t>(p), 1);
        return was ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    }
    constexpr unsigned bits_of_a_program = 47;
    if (reinterpret_cast<std::uintptr_t>(p) >> bits_of_a_program) return CUDA_ERROR_NOT_SUPPORTED;
    if (heap::overlaps_registered(p, bytes)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    if (bytes > os::memory_bytes()) return CUDA_ERROR_OUT_OF_MEMORY;
    if (flags & CU_MEMHOSTREGISTER_IOMEMORY) return CUDA_ERROR_INVALID_VALUE;  // another device's: a guest has none
    const bool reads_only = flags & CU_MEMHOSTREGISTER_READ_ONLY;
    if (!is_in_one_block(f, p, bytes) && !(os::is_mapped(p, bytes) && may_touch(p, bytes, !reads_only)))
        return CUDA_ERROR_INVALID_VALUE;
    if (reads_only) {
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
    if (is_mapped(p)) return attribute_of(out, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, as_device(p));
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
    // With unified addressing all host memory is mapped, and all contexts'. NVIDIA's driver (580) answers for memory
    // that can be the host's, and does not tell whether pinned memory was asked to be portable.
    unsigned told = CU_MEMHOSTALLOC_DEVICEMAP;
    if (is_mapped(p)) {
        told |= CU_MEMHOSTALLOC_PORTABLE;
    } else if (managed::Found m; !managed::find(as_device(p), m)) {
        const heap::Found f = heap::find(p);
        if (!f.is_cudas()) return CUDA_ERROR_INVALID_VALUE;
        told |= f.flags & (f.kind == heap::Kind::pinned ? CU_MEMHOSTALLOC_WRITECOMBINED : 7u);
    }
    *flags = told;
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
        if (attributes[i] == CU_POINTER_ATTRIBUTE_RANGE_SIZE) {  // as NVIDIA's driver leaves it
            std::uint64_t reserved = 0;
            if (is_device(p) && !is_managed(p) &&
                bare_command<Op::pointer_attribute>(&reserved, attributes[i], p) == CUDA_SUCCESS && reserved)
                memcpy(data[i], &reserved, sizeof reserved);
            continue;
        }
        memset(data[i], 0, attribute_bytes(attributes[i]));
        if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) *static_cast<int*>(data[i]) = -2;
    }
    return CUDA_SUCCESS;
}

CU cuPointerSetAttribute(const void* value, CUpointer_attribute attribute, CUdeviceptr p) {
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    const auto* const memory = reinterpret_cast<const void*>(p);
    if (is_mapped(memory)) return CUDA_ERROR_NOT_SUPPORTED;
    if (attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) return CUDA_ERROR_INVALID_VALUE;
    unsigned word = 0;
    memcpy(&word, value, sizeof word);
    if (managed::Found m; is_managed(p)) return managed::find(p, m) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (!is_device(p)) {
        const heap::Found f = heap::find(memory);
        const unsigned flags = word ? f.flags | sync_mark : f.flags & ~sync_mark;
        return f.is_cudas() && heap::set_flags(memory, flags) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    std::uint64_t buffer = 0;
    CUresult r = command<Op::set_pointer_attribute>(attribute, word, p);
    if (r == CUDA_SUCCESS) r = command<Op::pointer_attribute>(&buffer, CU_POINTER_ATTRIBUTE_BUFFER_ID, p);
    if (r == CUDA_SUCCESS) sync_words().tell(buffer, word != 0);
    return r;
}
