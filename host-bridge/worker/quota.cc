// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/quota.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "host-bridge/log.h"
#include "host-bridge/worker/granter.h"
#include "shm-device/structs.h"

namespace barcuda {
namespace {

// A driver takes device memory in such pieces, and small allocations out of them.
constexpr std::uint64_t unit = 2 << 20;
constexpr std::uint64_t spare = 32 << 20;  // so much that was borrowed is kept for the next allocation
constexpr std::uint64_t whole(std::uint64_t bytes) { return (bytes + unit - 1) / unit * unit; }

class Quota {
  public:
    Quota(const Driver& driver, Granter& granter, std::uint64_t limit)
        : real(driver), granter_(granter), limit_(limit) {}

    const Driver real;
    std::recursive_mutex mutex;

    // ---- bytes of a device
    bool take(CUdevice device, std::uint64_t bytes) {
        Books& b = books_[device];
        if (bytes > limit_ || b.used > limit_ - bytes) return false;
        if (b.used + bytes > b.borrowed) {
            const std::uint64_t more = b.used + bytes - b.borrowed;
            std::uint64_t left = 0;
            if (granter_.borrow(device, whole(more), left)) b.borrowed += whole(more);
            else if (left >= more && granter_.borrow(device, more, left)) b.borrowed += more;  // the last piece
            else return false;
        }
        b.used += bytes;
        return true;
    }
    // The same, of what pools keep and do not use, too.
    bool take_or_trim(CUdevice device, std::uint64_t bytes) {
        return take(device, bytes) || (trim_pools(device), take(device, bytes));
    }
    void give(CUdevice device, std::uint64_t bytes) {
        Books& b = books_[device];
        b.used -= std::min(b.used, bytes);
        if (const std::uint64_t kept = whole(b.used); b.borrowed > kept + spare) {
            granter_.repay(device, b.borrowed - kept);
            b.borrowed = kept;
        }
    }
    // What the client could still have.
    std::uint64_t left(CUdevice device) {
        const Books& b = books_[device];
        std::uint64_t left = 0;
        granter_.borrow(device, 0, left);
        const std::uint64_t own = limit_ - std::min(limit_, b.used), lent = b.borrowed - std::min(b.borrowed, b.used);
        return std::min(own, left > ~lent ? ~std::uint64_t{0} : left + lent);
    }
    std::uint64_t limit() const { return limit_; }
    CUdevice current() const {
        CUdevice device = 0;
        return real.cuCtxGetDevice(&device) == CUDA_SUCCESS ? device : 0;
    }

    // ---- memory that one handle or address names, until that is freed or its context ends
    template <class Allocate> CUresult allocate(std::uint64_t bytes, const Allocate& function) {
        const std::lock_guard lock(mutex);
        const CUdevice device = current();
        if (!take_or_trim(device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
        std::uint64_t name = 0;
        const CUresult r = function(name);
        CUcontext context = nullptr;
        real.cuCtxGetCurrent(&context);
        if (r == CUDA_SUCCESS) things_[name] = {device, bytes, context};
        else give(device, bytes);
        return r;
    }
    void freed(std::uint64_t name) {
        if (const auto t = things_.find(name); t != things_.end())
            give(t->second.device, t->second.bytes), things_.erase(t);
    }
    void context_gone(CUcontext context) {
        std::erase_if(things_, [&](const auto& t) {
            return t.second.context == context && (give(t.second.device, t.second.bytes), true);
        });
    }

    // ---- pools: what they have reserved, which they keep for as long as they like
    void note_pool(CUmemoryPool pool, CUdevice device) { pools_.try_emplace(pool, Pool{device, 0}); }
    void forget_pool(CUmemoryPool pool) {
        if (const auto p = pools_.find(pool); p != pools_.end())
            give(p->second.device, p->second.reserved), pools_.erase(p);
    }
    template <class Allocate> CUresult allocate_from(CUmemoryPool pool, std::uint64_t bytes, const Allocate& function) {
        const std::lock_guard lock(mutex);
        note_pool(pool, current());
        Pool& its = pools_.at(pool);
        count(pool, its);
        if (const std::uint64_t more = lacks(pool, bytes); more && !take(its.device, more)) {
            trim_pools(its.device);
            if (!take(its.device, lacks(pool, bytes))) return CUDA_ERROR_OUT_OF_MEMORY;
            its.reserved += lacks(pool, bytes);
        } else {
            its.reserved += more;
        }
        const CUresult r = function();
        count(pool, its);
        return r;
    }

    // ---- physical memory: freed when nothing holds it and it is mapped nowhere
    CUresult create(CUdevice device, std::uint64_t bytes, CUmemGenericAllocationHandle* handle, const auto& function) {
        const std::lock_guard lock(mutex);
        if (!take_or_trim(device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
        const CUresult r = function();
        if (r == CUDA_SUCCESS) physical_[*handle] = {device, bytes, 1, 0};
        else give(device, bytes);
        return r;
    }
    void held(CUmemGenericAllocationHandle handle, int more) {
        if (const auto p = physical_.find(handle); p != physical_.end()) p->second.handles += more, settle(p);
    }
    void mapped(CUdeviceptr address, std::uint64_t bytes, CUmemGenericAllocationHandle handle) {
        mappings_[address] = {bytes, handle};
        if (const auto p = physical_.find(handle); p != physical_.end()) ++p->second.mappings;
    }
    void unmapped(CUdeviceptr address, std::uint64_t bytes) {
        for (auto m = mappings_.lower_bound(address); m != mappings_.end() && m->first - address < bytes;) {
            if (const auto p = physical_.find(m->second.handle); p != physical_.end()) --p->second.mappings, settle(p);
            m = mappings_.erase(m);
        }
    }

  private:
    struct Books {
        std::uint64_t used = 0, borrowed = 0;
    };
    struct Thing {
        CUdevice device;
        std::uint64_t bytes;
        CUcontext context;
    };
    struct Pool {
        CUdevice device;
        std::uint64_t reserved;
    };
    struct Physical {
        CUdevice device;
        std::uint64_t bytes;
        int handles, mappings;
    };
    struct Mapping {
        std::uint64_t bytes;
        CUmemGenericAllocationHandle handle;
    };

    void settle(std::map<CUmemGenericAllocationHandle, Physical>::iterator p) {
        if (p->second.handles > 0 || p->second.mappings > 0) return;
        give(p->second.device, p->second.bytes);
        physical_.erase(p);
    }
    std::uint64_t attribute(CUmemoryPool pool, CUmemPool_attribute which) const {
        cuuint64_t value = 0;
        real.cuMemPoolGetAttribute(pool, which, &value);
        return value;
    }
    void count(CUmemoryPool pool, Pool& its) {
        const std::uint64_t now = attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
        if (now < its.reserved) give(its.device, its.reserved - now);
        else if (now > its.reserved && !take(its.device, now - its.reserved))
            books_[its.device].used += now - its.reserved;
        its.reserved = now;
    }
    // What the pool would have to reserve for so many bytes more.
    std::uint64_t lacks(CUmemoryPool pool, std::uint64_t bytes) const {
        const std::uint64_t reserved = attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
        const std::uint64_t idle = reserved - std::min(reserved, attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
        return bytes > idle ? bytes - idle : 0;
    }
    void trim_pools(CUdevice device) {
        for (auto& [pool, its] : pools_)
            if (its.device == device) real.cuMemPoolTrimTo(pool, 0), count(pool, its);
    }

    Granter& granter_;
    const std::uint64_t limit_;
    std::map<CUdevice, Books> books_;
    std::map<std::uint64_t, Thing> things_;
    std::map<CUmemoryPool, Pool> pools_;
    std::map<CUmemGenericAllocationHandle, Physical> physical_;
    std::map<CUdeviceptr, Mapping> mappings_;
};

Quota* quota = nullptr;  // of this process; the driver's table has no room for more than a function

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
    return quota->allocate(bytes, [&](std::uint64_t& name) {
        const CUresult r = function(handle, arguments...);
        return name = r == CUDA_SUCCESS ? name_of(*handle) : 0, r;
    });
}
// A call of the driver's, and what it means for the books if it succeeds.
template <class Call, class Then> CUresult noted(const Call& call, const Then& then) {
    const std::lock_guard lock(quota->mutex);
    const CUresult r = call();
    if (r == CUDA_SUCCESS) then();
    return r;
}
template <class Handle> CUresult destroy(CUresult (*function)(Handle), Handle handle) {
    return noted([&] { return function(handle); }, [&] { quota->freed(name_of(handle)); });
}

}  // namespace

void enforce_quota(Driver& driver, Granter& granter, std::uint64_t limit) {
    quota = new Quota(driver, granter, limit);  // as long as the process

    // ---- allocations and arrays
    driver.cuMemAlloc_v2 = [](CUdeviceptr* p, std::size_t bytes) {
        return make(quota->real.cuMemAlloc_v2, bytes, p, bytes);
    };
    driver.cuMemAllocPitch_v2 = [](CUdeviceptr* p, std::size_t* pitch, std::size_t width, std::size_t height,
                                   unsigned element) {
        constexpr std::size_t most_padding = 511;
        const std::uint64_t row = width > ~most_padding ? width : (width + most_padding) & ~most_padding;
        return make(quota->real.cuMemAllocPitch_v2, product(row, height), p, pitch, width, height, element);
    };
    driver.cuMemFree_v2 = [](CUdeviceptr p) { return destroy(quota->real.cuMemFree_v2, p); };
    driver.cuArrayCreate_v2 = [](CUarray* array, const CUDA_ARRAY_DESCRIPTOR* what) {
        return make(quota->real.cuArrayCreate_v2, bytes_of(*what), array, what);
    };
    driver.cuArray3DCreate_v2 = [](CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* what) {
        return make(quota->real.cuArray3DCreate_v2, bytes_of(*what), array, what);
    };
    driver.cuArrayDestroy = [](CUarray array) { return destroy(quota->real.cuArrayDestroy, array); };
    driver.cuMipmappedArrayCreate = [](CUmipmappedArray* array, const CUDA_ARRAY3D_DESCRIPTOR* what, unsigned levels) {
        return make(quota->real.cuMipmappedArrayCreate, bytes_of(*what, levels), array, what, levels);
    };
    driver.cuMipmappedArrayDestroy = [](CUmipmappedArray a) { return destroy(quota->real.cuMipmappedArrayDestroy, a); };

    // ---- pools
    driver.cuMemPoolCreate = [](CUmemoryPool* pool, const CUmemPoolProps* what) {
        return noted([&] { return quota->real.cuMemPoolCreate(pool, what); },
                     [&] { quota->note_pool(*pool, what->location.id); });
    };
    driver.cuMemPoolDestroy = [](CUmemoryPool pool) {
        return noted([&] { return quota->real.cuMemPoolDestroy(pool); }, [&] { quota->forget_pool(pool); });
    };
    driver.cuMemAllocAsync = [](CUdeviceptr* p, std::size_t bytes, CUstream stream) {
        CUmemoryPool pool = nullptr;
        if (CUresult r = quota->real.cuDeviceGetMemPool(&pool, quota->current()); r != CUDA_SUCCESS) return r;
        return quota->allocate_from(pool, bytes, [&] { return quota->real.cuMemAllocAsync(p, bytes, stream); });
    };
    driver.cuMemAllocFromPoolAsync = [](CUdeviceptr* p, std::size_t bytes, CUmemoryPool pool, CUstream stream) {
        return quota->allocate_from(pool, bytes,
                                    [&] { return quota->real.cuMemAllocFromPoolAsync(p, bytes, pool, stream); });
    };

    // ---- physical memory
    driver.cuMemCreate = [](CUmemGenericAllocationHandle* handle, std::size_t bytes, const CUmemAllocationProp* what,
                            unsigned long long flags) {
        const auto create = [&] { return quota->real.cuMemCreate(handle, bytes, what, flags); };
        if (what->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return create();
        return quota->create(what->location.id, bytes, handle, create);
    };
    driver.cuMemRelease = [](CUmemGenericAllocationHandle handle) {
        return noted([&] { return quota->real.cuMemRelease(handle); }, [&] { quota->held(handle, -1); });
    };
    driver.cuMemRetainAllocationHandle = [](CUmemGenericAllocationHandle* handle, void* address) {
        return noted([&] { return quota->real.cuMemRetainAllocationHandle(handle, address); },
                     [&] { quota->held(*handle, 1); });
    };
    driver.cuMemMap = [](CUdeviceptr p, std::size_t bytes, std::size_t offset, CUmemGenericAllocationHandle handle,
                         unsigned long long flags) {
        return noted([&] { return quota->real.cuMemMap(p, bytes, offset, handle, flags); },
                     [&] { quota->mapped(p, bytes, handle); });
    };
    driver.cuMemUnmap = [](CUdeviceptr p, std::size_t bytes) {
        return noted([&] { return quota->real.cuMemUnmap(p, bytes); }, [&] { quota->unmapped(p, bytes); });
    };

    // ---- contexts end with what is in them
    driver.cuCtxDestroy_v2 = [](CUcontext context) {
        return noted([&] { return quota->real.cuCtxDestroy_v2(context); }, [&] { quota->context_gone(context); });
    };
    driver.cuDevicePrimaryCtxReset_v2 = [](CUdevice device) {
        CUcontext context = nullptr;
        if (quota->real.cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS)
            quota->real.cuDevicePrimaryCtxRelease_v2(device);
        return noted([&] { return quota->real.cuDevicePrimaryCtxReset_v2(device); },
                     [&] { quota->context_gone(context); });
    };

    driver.cuMemGetInfo_v2 = [](std::size_t* free, std::size_t* total) {
        return noted([&] { return quota->real.cuMemGetInfo_v2(free, total); },
                     [&] {
                         *total = std::min<std::size_t>(*total, quota->limit());
                         *free = std::min<std::size_t>(*free, quota->left(quota->current()));
                     });
    };
}

}  // namespace barcuda
