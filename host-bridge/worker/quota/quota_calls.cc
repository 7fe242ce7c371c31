// SPDX-License-Identifier: Apache-2.0
// quota_calls.cc: the driver's functions that take and give back device memory, as the session calls them: each asks the books
// first (quota.h), and tells them what has come of it.
#include <algorithm>
#include <mutex>
#include <utility>

#include "host-bridge/worker/quota/quota.h"
#include "shm-device/kinds/structs.h"

namespace barcuda {
namespace {

Quota* of_this_process = nullptr;  // the driver's table has no room for more than a function

template <class Handle> std::uint64_t name_of(Handle handle) { return reinterpret_cast<std::uint64_t>(handle); }
std::uint64_t name_of(CUdeviceptr address) { return address; }

// Saturates: no driver has so much.
std::uint64_t product(std::uint64_t a, std::uint64_t b) {
    std::uint64_t result = 0;
    return __builtin_mul_overflow(a, b, &result) ? ~std::uint64_t{0} : result;
}
std::uint64_t texel_bytes(const CUDA_ARRAY3D_DESCRIPTOR& a) {
    constexpr std::uint64_t most = 16;  // of compressed and other formats, too
    const std::uint64_t bytes = crossing::element_bytes(a.Format, a.NumChannels);
    return bytes ? bytes : most;
}
std::uint64_t bytes_of(const CUDA_ARRAY3D_DESCRIPTOR& a) {
    const std::uint64_t faces = std::max<std::uint64_t>(a.Depth, 1), rows = std::max<std::uint64_t>(a.Height, 1);
    return product(product(product(a.Width, texel_bytes(a)), rows), faces);
}
std::uint64_t bytes_of(const CUDA_ARRAY_DESCRIPTOR& a) {
    return bytes_of(CUDA_ARRAY3D_DESCRIPTOR{a.Width, a.Height, 0, a.Format, a.NumChannels, 0});
}
std::uint64_t bytes_of(CUDA_ARRAY3D_DESCRIPTOR a, unsigned levels) {
    std::uint64_t sum = 0;
    for (unsigned level = 0; level < std::min(levels, 64u); ++level) {
        const std::uint64_t bytes = bytes_of(a);
        sum = bytes > ~sum ? ~std::uint64_t{0} : sum + bytes;
        const bool layers = a.Flags & CUDA_ARRAY3D_LAYERED;
        a.Width = std::max<std::size_t>(a.Width / 2, 1),
        a.Height = a.Height ? std::max<std::size_t>(a.Height / 2, 1) : 0;
        if (!layers && a.Depth) a.Depth = std::max<std::size_t>(a.Depth / 2, 1);
    }
    return sum;
}

// An object of `bytes` bytes by a function of the driver's that has it for its first argument.
template <class Handle, class... A>
CUresult make(CUresult (*function)(Handle*, A...), std::uint64_t bytes, Handle* handle, A... arguments) {
    return quota()->allocate(bytes, [&](std::uint64_t& name) {
        const CUresult r = function(handle, arguments...);
        return name = r == CUDA_SUCCESS ? name_of(*handle) : 0, r;
    });
}
// A call of the driver's, and what it means for the books if it succeeds.
template <class Call, class Then> CUresult noted(const Call& call, const Then& then) {
    const std::lock_guard lock(quota()->mutex);
    const CUresult r = call();
    if (r == CUDA_SUCCESS) then();
    return r;
}
// A call by which the driver takes memory of its own: undone if that is too much.
template <class Call, class Undo> CUresult admitted(const Call& call, const Undo& undo) {
    const std::lock_guard lock(quota()->mutex);
    const CUresult r = call();
    if (r != CUDA_SUCCESS || quota()->admits_the_driver(quota()->current())) return r;
    return undo(), CUDA_ERROR_OUT_OF_MEMORY;
}
// One by which it may have, what nothing undoes.
template <class Call> CUresult found(const Call& call) {
    const CUresult r = call();
    return r == CUDA_SUCCESS && quota()->over() ? CUDA_ERROR_OUT_OF_MEMORY : r;
}
template <class Handle> CUresult destroy(CUresult (*function)(Handle), Handle handle) {
    return noted([&] { return function(handle); }, [&] { quota()->freed(name_of(handle)); });
}

}  // namespace

Quota* quota() { return of_this_process; }

void enforce_quota(Driver& driver, Granter& granter, Allowance& allowance, OwnMemory own) {
    of_this_process = new Quota(driver, granter, allowance, std::move(own));  // as long as the process

    // ---- allocations and arrays
    driver.cuMemAlloc_v2 = [](CUdeviceptr* p, std::size_t bytes) {
        return make(quota()->real.cuMemAlloc_v2, bytes, p, bytes);
    };
    driver.cuMemAllocPitch_v2 = [](CUdeviceptr* p, std::size_t* pitch, std::size_t width, std::size_t height,
                                   unsigned element) {
        constexpr std::size_t most_padding = 511;
        const std::uint64_t row = width > ~most_padding ? width : (width + most_padding) & ~most_padding;
        return make(quota()->real.cuMemAllocPitch_v2, product(row, height), p, pitch, width, height, element);
    };
    driver.cuMemFree_v2 = [](CUdeviceptr p) { return destroy(quota()->real.cuMemFree_v2, p); };
    driver.cuArrayCreate_v2 = [](CUarray* array, const CUDA_ARRAY_DESCRIPTOR* what) {
        return make(quota()->real.cuArrayCreate_v2, bytes_of(*what), array, what);
    };
    driver.cuArray3DCreate_v2 = [](CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* what) {
        return make(quota()->real.cuArray3DCreate_v2, bytes_of(*what), array, what);
    };
    driver.cuArrayDestroy = [](CUarray array) { return destroy(quota()->real.cuArrayDestroy, array); };
    driver.cuMipmappedArrayCreate = [](CUmipmappedArray* array, const CUDA_ARRAY3D_DESCRIPTOR* what, unsigned levels) {
        return make(quota()->real.cuMipmappedArrayCreate, bytes_of(*what, levels), array, what, levels);
    };
    driver.cuMipmappedArrayDestroy = [](CUmipmappedArray a) {
        return destroy(quota()->real.cuMipmappedArrayDestroy, a);
    };

    // ---- pools
    driver.cuMemPoolCreate = [](CUmemoryPool* pool, const CUmemPoolProps* what) {
        return noted([&] { return quota()->real.cuMemPoolCreate(pool, what); },
                     [&] { quota()->note_pool(*pool, what->location.id); });
    };
    driver.cuMemPoolDestroy = [](CUmemoryPool pool) {
        return noted([&] { return quota()->real.cuMemPoolDestroy(pool); }, [&] { quota()->forget_pool(pool); });
    };
    driver.cuMemAllocAsync = [](CUdeviceptr* p, std::size_t bytes, CUstream stream) {
        CUmemoryPool pool = nullptr;
        if (CUresult r = quota()->real.cuDeviceGetMemPool(&pool, quota()->current()); r != CUDA_SUCCESS) return r;
        return quota()->allocate_from(pool, bytes, [&] { return quota()->real.cuMemAllocAsync(p, bytes, stream); });
    };
    driver.cuMemAllocFromPoolAsync = [](CUdeviceptr* p, std::size_t bytes, CUmemoryPool pool, CUstream stream) {
        return quota()->allocate_from(pool, bytes,
                                      [&] { return quota()->real.cuMemAllocFromPoolAsync(p, bytes, pool, stream); });
    };

    // ---- physical memory
    driver.cuMemCreate = [](CUmemGenericAllocationHandle* handle, std::size_t bytes, const CUmemAllocationProp* what,
                            unsigned long long flags) {
        const auto create = [&] { return quota()->real.cuMemCreate(handle, bytes, what, flags); };
        if (what->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return create();
        return quota()->create(what->location.id, bytes, handle, create);
    };
    driver.cuMemRelease = [](CUmemGenericAllocationHandle handle) {
        return noted([&] { return quota()->real.cuMemRelease(handle); }, [&] { quota()->held(handle, -1); });
    };
    driver.cuMemRetainAllocationHandle = [](CUmemGenericAllocationHandle* handle, void* address) {
        return noted([&] { return quota()->real.cuMemRetainAllocationHandle(handle, address); },
                     [&] { quota()->held(*handle, 1); });
    };
    driver.cuMemMap = [](CUdeviceptr p, std::size_t bytes, std::size_t offset, CUmemGenericAllocationHandle handle,
                         unsigned long long flags) {
        return noted([&] { return quota()->real.cuMemMap(p, bytes, offset, handle, flags); },
                     [&] { quota()->mapped(p, bytes, handle); });
    };
    driver.cuMemUnmap = [](CUdeviceptr p, std::size_t bytes) {
        return noted([&] { return quota()->real.cuMemUnmap(p, bytes); }, [&] { quota()->unmapped(p, bytes); });
    };

    // ---- graphs
    driver.cuGraphAddMemAllocNode = [](CUgraphNode* node, CUgraph graph, const CUgraphNode* after, std::size_t count,
                                       CUDA_MEM_ALLOC_NODE_PARAMS* memory) {
        return quota()->add_node(memory->poolProps.location.id, memory->bytesize, [&] {
            return quota()->real.cuGraphAddMemAllocNode(node, graph, after, count, memory);
        });
    };
    driver.cuGraphInstantiateWithFlags = [](CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
        return noted([&] { return quota()->real.cuGraphInstantiateWithFlags(exec, graph, flags); },
                     [&] { quota()->instantiated(graph, *exec); });
    };
    driver.cuGraphExecDestroy = [](CUgraphExec exec) {
        return noted([&] { return quota()->real.cuGraphExecDestroy(exec); }, [&] { quota()->forget_exec(exec); });
    };
    driver.cuGraphDestroy = [](CUgraph graph) {
        return noted([&] { return quota()->real.cuGraphDestroy(graph); }, [&] { quota()->count_graphs(); });
    };
    driver.cuDeviceGraphMemTrim = [](CUdevice device) {
        return noted([&] { return quota()->real.cuDeviceGraphMemTrim(device); }, [&] { quota()->trimmed(device); });
    };
    driver.cuGraphUpload = [](CUgraphExec exec, CUstream stream) {
        if (!quota()->has_allocating_graphs()) return quota()->real.cuGraphUpload(exec, stream);
        return quota()->launch(exec, [&] { return quota()->real.cuGraphUpload(exec, stream); });
    };
    driver.cuGraphLaunch = [](CUgraphExec exec, CUstream stream) {
        if (!quota()->has_allocating_graphs()) return quota()->real.cuGraphLaunch(exec, stream);
        return quota()->launch(exec, [&] { return quota()->real.cuGraphLaunch(exec, stream); });
    };

    // ---- code: with its variables. A library's are there when a context first uses it.
    driver.cuModuleLoadDataEx = [](CUmodule* module, const void* image, unsigned count, CUjit_option* options,
                                   void** values) {
        return admitted([&] { return quota()->real.cuModuleLoadDataEx(module, image, count, options, values); },
                        [&] { quota()->real.cuModuleUnload(*module); });
    };
    driver.cuLibraryLoadData = [](CUlibrary* library, const void* code, CUjit_option* options, void** values,
                                  unsigned count, CUlibraryOption* others, void** other_values, unsigned other_count) {
        return admitted(
            [&] {
                return quota()->real.cuLibraryLoadData(library, code, options, values, count, others, other_values,
                                                       other_count);
            },
            [&] { quota()->real.cuLibraryUnload(*library); });
    };
    driver.cuLibraryGetModule = [](CUmodule* module, CUlibrary library) {
        return found([&] { return quota()->real.cuLibraryGetModule(module, library); });
    };
    driver.cuLibraryGetGlobal = [](CUdeviceptr* address, std::size_t* bytes, CUlibrary library, const char* name) {
        return found([&] { return quota()->real.cuLibraryGetGlobal(address, bytes, library, name); });
    };
    driver.cuKernelGetFunction = [](CUfunction* function, CUkernel kernel) {
        return found([&] { return quota()->real.cuKernelGetFunction(function, kernel); });
    };

    // ---- contexts end with what is in them
    driver.cuCtxDestroy_v2 = [](CUcontext context) {
        return noted([&] { return quota()->real.cuCtxDestroy_v2(context); }, [&] { quota()->context_gone(context); });
    };
    driver.cuDevicePrimaryCtxReset_v2 = [](CUdevice device) {
        CUcontext context = nullptr;
        if (quota()->real.cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS)
            quota()->real.cuDevicePrimaryCtxRelease_v2(device);
        return noted([&] { return quota()->real.cuDevicePrimaryCtxReset_v2(device); },
                     [&] { quota()->context_gone(context); });
    };

    driver.cuMemGetInfo_v2 = [](std::size_t* free, std::size_t* total) {
        return noted([&] { return quota()->real.cuMemGetInfo_v2(free, total); },
                     [&] {
                         const std::uint64_t limit = quota()->limit();
                         if (limit == 0) return;
                         *total = std::min<std::size_t>(*total, limit);
                         *free = std::min<std::size_t>({*free, *total, quota()->left(quota()->current())});
                     });
    };
}

}  // namespace barcuda
