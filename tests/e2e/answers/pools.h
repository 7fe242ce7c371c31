// SPDX-License-Identifier: Apache-2.0
// pools.h: pools, and virtual memory: reservations, handles, mappings.
#pragma once
#include "things.h"

namespace {

// ---- pools and virtual memory
inline void pools() {
    start();
    ask::looks_behind = true;
    CUmemoryPool standard = nullptr, own = nullptr;
    cuDeviceGetDefaultMemPool(&standard, 0);
    CUmemPoolProps props{};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    cuMemPoolCreate(&own, &props);
    for (int a = 0; a <= 14; ++a)
        for (const auto& [name, pool] : {std::pair{"standard", standard}, {"own", own}}) {
            question(string(name) + "/get_" + number(a), [&] {
                cuuint64_t v = 77;
                const int rc = cuMemPoolGetAttribute(pool, static_cast<CUmemPool_attribute>(a), &v);
                return number(rc) + " " + (a < 5 ? number(static_cast<int>(v)) : number(v));
            });
            for (cuuint64_t v : {0ull, 1ull, 4096ull})
                question(string(name) + "/set_" + number(a) + "_" + number(v), [&] {
                    cuuint64_t w = v;
                    return number(cuMemPoolSetAttribute(pool, static_cast<CUmemPool_attribute>(a), &w));
                });
        }
    for (int type = 0; type <= 7; ++type)
        for (int id : {0, 1, 99})
            for (int handle : {0, 1, 2, 8})
                question("create/" + number(type) + "_" + number(id) + "_" + number(handle), [&] {
                    CUmemPoolProps q = props;
                    q.location = {static_cast<CUmemLocationType>(type), {id}};
                    q.handleTypes = static_cast<CUmemAllocationHandleType>(handle);
                    CUmemoryPool p = nullptr;
                    const int rc = cuMemPoolCreate(&p, &q);
                    if (!rc) cuMemPoolDestroy(p);
                    return number(rc);
                });
    for (int type = 0; type < 4; ++type)
        question("create_kind/" + number(type), [&] {
            CUmemPoolProps q = props;
            q.allocType = static_cast<CUmemAllocationType>(type);
            CUmemoryPool p = nullptr;
            return number(cuMemPoolCreate(&p, &q));
        });
    for (size_t size : {1ul, 4096ul, 1ul << 30, 1ul << 44})
        question("create_max/" + number(size), [&] {
            CUmemPoolProps q = props;
            q.maxSize = size;
            CUmemoryPool p = nullptr;
            return number(cuMemPoolCreate(&p, &q));
        });
    question("create_null", [&] { return number(cuMemPoolCreate(nullptr, &props)); });
    question("create_no_properties", [&] {
        CUmemoryPool p;
        return number(cuMemPoolCreate(&p, nullptr));
    });
    question("destroy_standard", [&] { return number(cuMemPoolDestroy(standard)); });
    question("destroy_null", [&] { return number(cuMemPoolDestroy(nullptr)); });
    question("runtime_destroy_null", [&] { return kept(cudaMemPoolDestroy(nullptr)); });
    question("trim", [&] { return number(cuMemPoolTrimTo(own, 1 << 20)); });
    question("access_get", [&] {
        CUmemAccess_flags f;
        CUmemLocation l{CU_MEM_LOCATION_TYPE_DEVICE, {0}};
        const int rc = cuMemPoolGetAccess(&f, own, &l);
        return number(rc) + " " + number(f);
    });
    question("access_get_host", [&] {
        CUmemAccess_flags f;
        CUmemLocation l{CU_MEM_LOCATION_TYPE_HOST, {0}};
        return number(cuMemPoolGetAccess(&f, own, &l));
    });
    for (int flags : {0, 1, 2, 3, 4})
        for (int id : {0, 1, 99})
            question("access_set/" + number(flags) + "_" + number(id), [&] {
                CUmemAccessDesc d{{CU_MEM_LOCATION_TYPE_DEVICE, {id}}, static_cast<CUmemAccess_flags>(flags)};
                return number(cuMemPoolSetAccess(own, &d, 1));
            });
    question("access_set_none", [&] {
        CUmemAccessDesc d{{CU_MEM_LOCATION_TYPE_DEVICE, {0}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        return number(cuMemPoolSetAccess(own, &d, 0));
    });
    question("access_set_host", [&] {
        CUmemAccessDesc d{{CU_MEM_LOCATION_TYPE_HOST, {0}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        return number(cuMemPoolSetAccess(own, &d, 1));
    });
    question("export", [&] {
        int f;
        return number(cuMemPoolExportToShareableHandle(&f, own, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    });
    question("export_flags", [&] {
        int f;
        return number(cuMemPoolExportToShareableHandle(&f, own, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1));
    });
    question("export_pointer", [&] {
        CUdeviceptr p;
        cuMemAllocFromPoolAsync(&p, 512, own, nullptr);
        CUmemPoolPtrExportData d;
        return number(cuMemPoolExportPointer(&d, p));
    });
    question("import_bad", [&] {
        CUmemoryPool p;
        return number(cuMemPoolImportFromShareableHandle(&p, P(2), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    });
    for (size_t size : {0ul, 1ul, 1ul << 50}) {
        question("alloc/" + number(size), [&] {
            CUdeviceptr p = 0;
            return number(cuMemAllocAsync(&p, size, nullptr));
        });
        question("runtime_alloc/" + number(size), [&] {
            void* p = nullptr;
            return kept(cudaMallocAsync(&p, size, nullptr));
        });
        question("malloc/" + number(size), [&] {
            void* p = nullptr;
            return kept(cudaMalloc(&p, size));
        });
        question("malloc_host/" + number(size), [&] {
            void* p = nullptr;
            return kept(cudaMallocHost(&p, size));
        });
        question("malloc_managed/" + number(size), [&] {
            void* p = nullptr;
            return kept(cudaMallocManaged(&p, size));
        });
        question("driver_malloc/" + number(size), [&] {
            CUdeviceptr p = 0;
            return number(cuMemAlloc(&p, size));
        });
        question("driver_host/" + number(size), [&] {
            void* p = nullptr;
            return number(cuMemHostAlloc(&p, size, 0));
        });
    }
    for (unsigned flags = 0; flags <= 8; ++flags) {
        question("host_flags/" + number(flags), [&] {
            void* p = nullptr;
            unsigned f = 77;
            const string a = kept(cudaHostAlloc(&p, 512, flags));
            if (p) cudaHostGetFlags(&f, p);
            return a + " " + number(f);
        });
        question("managed_flags/" + number(flags), [&] {
            void* p = nullptr;
            return kept(cudaMallocManaged(&p, 512, flags));
        });
    }
    question("alloc_null", [&] { return number(cuMemAllocAsync(nullptr, 512, nullptr)); });
    question("malloc_null", [&] { return kept(cudaMalloc(static_cast<void**>(nullptr), 512)); });
    question("host_null", [&] { return kept(cudaMallocHost(static_cast<void**>(nullptr), 512)); });
    question("info_null", [&] { return number(cuMemGetInfo(nullptr, nullptr)); });
    question("runtime_info_null", [&] { return kept(cudaMemGetInfo(nullptr, nullptr)); });
    question("pool_null", [&] {
        CUdeviceptr p;
        return number(cuMemAllocFromPoolAsync(&p, 512, nullptr, nullptr));
    });
    question("set_pool_null", [&] { return number(cuDeviceSetMemPool(0, nullptr)); });
    question("set_pool_bad", [&] { return number(cuDeviceSetMemPool(99, own)); });
    question("get_pool_bad", [&] {
        CUmemoryPool p;
        return number(cuDeviceGetMemPool(&p, 99));
    });
    question("location_pool", [&] {
        CUmemoryPool p = nullptr;
        CUmemLocation l{CU_MEM_LOCATION_TYPE_DEVICE, {0}};
        return number(cuMemGetDefaultMemPool(&p, &l, CU_MEM_ALLOCATION_TYPE_PINNED));
    });
    question("location_pool_host", [&] {
        CUmemoryPool p = nullptr;
        CUmemLocation l{CU_MEM_LOCATION_TYPE_HOST, {0}};
        return number(cuMemGetDefaultMemPool(&p, &l, CU_MEM_ALLOCATION_TYPE_PINNED));
    });
    for (int a = 0; a < 5; ++a) {
        question("graph_attribute/" + number(a), [&] {
            cuuint64_t v = 77;
            const int rc = cuDeviceGetGraphMemAttribute(0, static_cast<CUgraphMem_attribute>(a), &v);
            return number(rc) + " " + number(v);
        });
        question("graph_attribute_set/" + number(a), [&] {
            cuuint64_t v = 0;
            return number(cuDeviceSetGraphMemAttribute(0, static_cast<CUgraphMem_attribute>(a), &v));
        });
    }
}

inline void virtual_memories() {
    start();
    ask::looks_behind = true;
    constexpr size_t size = 2 << 20;
    CUmemAllocationProp good{};
    good.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    good.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    for (int type = 0; type <= 7; ++type)
        for (int id : {0, 1, 99})
            for (int handle : {0, 1, 2, 4, 8}) {
                CUmemAllocationProp p = good;
                p.location = {static_cast<CUmemLocationType>(type), {id}};
                p.requestedHandleTypes = static_cast<CUmemAllocationHandleType>(handle);
                const string name = number(type) + "_" + number(id) + "_" + number(handle);
                question("create/" + name, [&] {
                    CUmemGenericAllocationHandle h = 0;
                    const int rc = cuMemCreate(&h, size, &p, 0);
                    if (!rc) cuMemRelease(h);
                    return number(rc);
                });
                question("granularity/" + name, [&] {
                    size_t n = 0;
                    const int rc = cuMemGetAllocationGranularity(&n, &p, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
                    return number(rc) + " " + number(n);
                });
            }
    for (size_t n : {0ul, 1ul, 4096ul, size + 1, 1ul << 46}) {
        question("create_size/" + number(n), [&] {
            CUmemGenericAllocationHandle h = 0;
            const int rc = cuMemCreate(&h, n, &good, 0);
            return number(rc);
        });
        question("reserve_size/" + number(n), [&] {
            CUdeviceptr p = 0;
            const int rc = cuMemAddressReserve(&p, n, 0, 0, 0);
            return number(rc);
        });
        question("reserve_alignment/" + number(n), [&] {
            CUdeviceptr p = 0;
            const int rc = cuMemAddressReserve(&p, size, n, 0, 0);
            return number(rc);
        });
    }
    question("create_flags", [&] {
        CUmemGenericAllocationHandle h = 0;
        return number(cuMemCreate(&h, size, &good, 1));
    });
    question("create_null", [&] { return number(cuMemCreate(nullptr, size, &good, 0)); });
    question("reserve_flags", [&] {
        CUdeviceptr p = 0;
        return number(cuMemAddressReserve(&p, size, 0, 0, 1));
    });
    question("reserve_null", [&] { return number(cuMemAddressReserve(nullptr, size, 0, 0, 0)); });
    CUdeviceptr at = 0;
    CUmemGenericAllocationHandle h = 0;
    cuMemAddressReserve(&at, 4 * size, 0, 0, 0);
    cuMemCreate(&h, size, &good, 0);
    CUmemAccessDesc both{good.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    question("set_before_map", [&] { return number(cuMemSetAccess(at, size, &both, 1)); });
    question("map_odd", [&] { return number(cuMemMap(at + 4096, size, 0, h, 0)); });
    question("map_offset", [&] { return number(cuMemMap(at, size, 4096, h, 0)); });
    question("map_flags", [&] { return number(cuMemMap(at, size, 0, h, 1)); });
    question("map_large", [&] { return number(cuMemMap(at, 2 * size, 0, h, 0)); });
    question("map_no_handle", [&] { return number(cuMemMap(at, size, 0, 12345, 0)); });
    question("map_unreserved", [&] { return number(cuMemMap(at + 64 * size, size, 0, h, 0)); });
    question("map", [&] { return number(cuMemMap(at, size, 0, h, 0)); });
    question("map_again", [&] { return number(cuMemMap(at, size, 0, h, 0)); });
    question("copy_without_access", [&] { return number(cuMemcpyHtoD(at, scratch, 16)); });
    question("access_before", [&] {
        unsigned long long f = 7;
        const int rc = cuMemGetAccess(&f, &good.location, at);
        return number(rc) + " " + number(f);
    });
    question("set_access", [&] { return number(cuMemSetAccess(at, size, &both, 1)); });
    question("set_access_bad_device", [&] {
        CUmemAccessDesc d{{CU_MEM_LOCATION_TYPE_DEVICE, {99}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        return number(cuMemSetAccess(at, size, &d, 1));
    });
    question("set_access_part", [&] { return number(cuMemSetAccess(at, 4096, &both, 1)); });
    question("set_access_more", [&] { return number(cuMemSetAccess(at, 2 * size, &both, 1)); });
    question("set_access_none", [&] { return number(cuMemSetAccess(at, size, &both, 0)); });
    question("set_access_host", [&] {
        CUmemAccessDesc d{{CU_MEM_LOCATION_TYPE_HOST, {0}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        return number(cuMemSetAccess(at, size, &d, 1));
    });
    question("copy", [&] { return number(cuMemcpyHtoD(at, scratch, 16)); });
    question("alias", [&] {
        const int a = cuMemMap(at + size, size, 0, h, 0);
        const int b = a ? -1 : cuMemSetAccess(at + size, size, &both, 1);
        int v = 77, w = 0;
        cuMemcpyHtoD(at, &v, 4);
        cuMemcpyDtoH(&w, at + size, 4);
        return number(a) + " " + number(b) + " " + number(w);
    });
    question("free_mapped", [&] { return number(cuMemFree(at)); });
    question("address_free_mapped", [&] { return number(cuMemAddressFree(at, 4 * size)); });
    question("release", [&] { return number(cuMemRelease(h)); });
    question("release_again", [&] { return number(cuMemRelease(h)); });
    question("properties", [&] {
        CUmemAllocationProp p{};
        return number(cuMemGetAllocationPropertiesFromHandle(&p, h));
    });
    question("unmap_part", [&] { return number(cuMemUnmap(at, 4096)); });
    question("unmap_more", [&] { return number(cuMemUnmap(at, 4 * size)); });
    question("unmap", [&] { return number(cuMemUnmap(at, size)); });
    question("unmap_again", [&] { return number(cuMemUnmap(at, size)); });
    question("address_free_part", [&] { return number(cuMemAddressFree(at, size)); });
    question("export", [&] {
        int f = -1;
        return number(cuMemExportToShareableHandle(&f, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    });
    question("import_bad", [&] {
        CUmemGenericAllocationHandle i;
        return number(cuMemImportFromShareableHandle(&i, P(2), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    });
    question("range_handle", [&] {
        int f = -1;
        return number(cuMemGetHandleForAddressRange(&f, at, size, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
    });
}

}  // namespace
