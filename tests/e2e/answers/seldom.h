// SPDX-License-Identifier: Apache-2.0
// seldom.h: what programs seldom call.
#pragma once
#include "things.h"

namespace {

// ---- what is seldom called
inline void seldom() {
    Things t;
    start();
    t.make();
    ask::looks_behind = true;
    int fd = open("/dev/null", O_RDONLY);
    for (int type = 0; type <= 10; ++type) {
        question("external_memory_" + number(type), [&] {
            cudaExternalMemory_t m = nullptr;
            cudaExternalMemoryHandleDesc d{};
            d.type = static_cast<cudaExternalMemoryHandleType>(type);
            d.handle.fd = fd;
            d.size = 4096;
            return kept(cudaImportExternalMemory(&m, &d));
        });
        question("external_semaphore_" + number(type), [&] {
            cudaExternalSemaphore_t m = nullptr;
            cudaExternalSemaphoreHandleDesc d{};
            d.type = static_cast<cudaExternalSemaphoreHandleType>(type);
            d.handle.fd = fd;
            return kept(cudaImportExternalSemaphore(&m, &d));
        });
    }
    question("external_null", [&] { return kept(cudaImportExternalMemory(nullptr, nullptr)); });
    CUdevResource whole{}, part[8] = {}, rest{};
    const int got = cuDeviceGetDevResource(0, &whole, CU_DEV_RESOURCE_TYPE_SM);
    question("resource", [&] { return number(got) + " " + number(whole.type); });
    question("hw/resource_sms", [&] { return number(whole.sm.smCount); });
    question("resource_bad", [&] {
        CUdevResource r;
        return number(cuDeviceGetDevResource(0, &r, static_cast<CUdevResourceType>(7)));
    });
    unsigned parts = 2;
    question("resource_split", [&] {
        parts = 2;
        const int rc = cuDevSmResourceSplitByCount(part, &parts, &whole, &rest, 0, 8);
        return number(rc) + " " + number(parts);
    });
    question("resource_split_0", [&] {
        unsigned n = 0;
        return number(cuDevSmResourceSplitByCount(nullptr, &n, &whole, nullptr, 0, 8));
    });
    question("resource_split_many", [&] {
        unsigned n = 1;
        return number(cuDevSmResourceSplitByCount(part, &n, &whole, &rest, 0, 10000));
    });
    CUdevResourceDesc description = nullptr;
    question("resource_description", [&] { return number(cuDevResourceGenerateDesc(&description, part, 1)); });
    if (ask::skipped) {
        parts = 2;
        cuDevSmResourceSplitByCount(part, &parts, &whole, &rest, 0, 8);
        cuDevResourceGenerateDesc(&description, part, 1);
    }
    CUgreenCtx green = nullptr;
    question("green_flags_0", [&] {
        CUgreenCtx x;
        return number(cuGreenCtxCreate(&x, description, 0, 0));
    });
    question("green", [&] { return number(cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM)); });
    CUcontext from = nullptr;
    question("green_context", [&] { return number(cuCtxFromGreenCtx(&from, green)); });
    question("green_stream", [&] {
        CUstream s;
        return number(cuGreenCtxStreamCreate(&s, green, CU_STREAM_NON_BLOCKING, 0));
    });
    question("green_resource", [&] {
        CUdevResource r{};
        return number(cuGreenCtxGetDevResource(green, &r, CU_DEV_RESOURCE_TYPE_SM));
    });
    question("context_resource", [&] {
        CUdevResource r{};
        return number(cuCtxGetDevResource(nullptr, &r, CU_DEV_RESOURCE_TYPE_SM));
    });
    question("green_destroy", [&] { return number(cuGreenCtxDestroy(green)); });
    question("stream_green", [&] {
        CUgreenCtx x;
        return number(cuStreamGetGreenCtx(t.stream, &x));
    });
    for (int a = 1; a <= 8; ++a) {
        question("coredump_" + number(a), [&] {
            char v[1024] = {};
            size_t n = sizeof v;
            return number(cuCoredumpGetAttribute(static_cast<CUcoredumpSettings>(a), v, &n));
        });
        question("coredump_global_" + number(a), [&] {
            char v[1024] = {};
            size_t n = sizeof v;
            return number(cuCoredumpGetAttributeGlobal(static_cast<CUcoredumpSettings>(a), v, &n));
        });
    }
    question("multicast_granularity", [&] {
        CUmulticastObjectProp p{};
        p.numDevices = 1;
        p.size = 2 << 20;
        size_t n;
        return number(cuMulticastGetGranularity(&n, &p, CU_MULTICAST_GRANULARITY_MINIMUM));
    });
    question("checkpoint", [&] {
        CUprocessState s;
        return number(cuCheckpointProcessGetState(getpid(), &s));
    });
    question("logs_level", [&] { return number(cuLogsRegisterCallback(nullptr, nullptr, nullptr)); });
    question("profiler_stop", [&] { return number(cuProfilerStop()); });
    question("flush_rdma", [&] {
        return number(cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                                                 CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER));
    });
    question("export_table_null", [&] {
        const void* p;
        return number(cuGetExportTable(&p, nullptr));
    });
    question("export_table_unknown", [&] {
        const void* p;
        CUuuid u{};
        return number(cuGetExportTable(&p, &u));
    });
    question("memory_notification", [&] {
        CUasyncCallbackHandle h;
        return number(cuDeviceRegisterAsyncNotification(0, nullptr, nullptr, &h));
    });
    question("l2_reset", [&] { return kept(cudaCtxResetPersistingL2Cache()); });
    question("linear_width", [&] {
        size_t n;
        cudaChannelFormatDesc f = cudaCreateChannelDesc<float>();
        return kept(cudaDeviceGetTexture1DLinearMaxWidth(&n, &f, 0));
    });
    question("limit_bad", [&] {
        size_t n;
        return kept(cudaDeviceGetLimit(&n, static_cast<cudaLimit>(77)));
    });
    question("cache_config", [&] {
        cudaFuncCache c;
        const string a = kept(cudaDeviceGetCacheConfig(&c));
        return a + " " + number(c);
    });
    question("shared_config", [&] {
        cudaSharedMemConfig c;
        const string a = kept(cudaDeviceGetSharedMemConfig(&c));
        return a + " " + number(c);
    });
    question("can_access", [&] {
        int n = 7;
        const string a = kept(cudaDeviceCanAccessPeer(&n, 0, 0));
        return a + " " + number(n);
    });
    question("can_access_bad", [&] {
        int n = 7;
        return kept(cudaDeviceCanAccessPeer(&n, 0, 99));
    });
    question("enable_self", [&] { return kept(cudaDeviceEnablePeerAccess(0, 0)); });
    question("bus_id", [&] { return kept(cudaDeviceGetPCIBusId(nullptr, 3, 0)); });
    question("by_bus_id", [&] {
        int d;
        return kept(cudaDeviceGetByPCIBusId(&d, "nonsense"));
    });
    for (int advice = 0; advice <= 8; ++advice)
        for (int type = 0; type <= 5; ++type)
            question("advise_" + number(advice) + "_" + number(type), [&] {
                CUmemLocation l{static_cast<CUmemLocationType>(type), {0}};
                return number(cuMemAdvise(D(t.managed), room, static_cast<CUmem_advise>(advice), l));
            });
    for (int a = 0; a <= 9; ++a)
        for (size_t n : {0ul, 4ul, 8ul})
            question("range_" + number(a) + "_" + number(n), [&] {
                long long v[2] = {77, 77};
                const int rc = cuMemRangeGetAttribute(v, n, static_cast<CUmem_range_attribute>(a), D(t.managed), room);
                return number(rc) + " " + number(static_cast<int>(v[0]));
            });
    for (int type = 0; type <= 5; ++type)
        question("prefetch_" + number(type), [&] {
            CUmemLocation l{static_cast<CUmemLocationType>(type), {0}};
            return number(cuMemPrefetchAsync(D(t.managed), room, l, 0, t.stream));
        });
    question("prefetch_flags", [&] {
        CUmemLocation l{CU_MEM_LOCATION_TYPE_DEVICE, {0}};
        return number(cuMemPrefetchAsync(D(t.managed), room, l, 1, t.stream));
    });
    question("prefetch_past", [&] {
        CUmemLocation l{CU_MEM_LOCATION_TYPE_DEVICE, {0}};
        return number(cuMemPrefetchAsync(D(t.managed), room * 64, l, 0, t.stream));
    });
    question("prefetch_bad_device", [&] {
        CUmemLocation l{CU_MEM_LOCATION_TYPE_DEVICE, {99}};
        return number(cuMemPrefetchAsync(D(t.managed), room, l, 0, t.stream));
    });
    question("attach_flags", [&] { return number(cuStreamAttachMemAsync(t.stream, D(t.managed), 0, 7)); });
    question("attach_size",
             [&] { return number(cuStreamAttachMemAsync(t.stream, D(t.managed), 100, CU_MEM_ATTACH_SINGLE)); });
    question("attach_single_legacy",
             [&] { return number(cuStreamAttachMemAsync(nullptr, D(t.managed), 0, CU_MEM_ATTACH_SINGLE)); });
    question("tensor_map_null", [&] {
        return number(cuTensorMapEncodeTiled(nullptr, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 1, nullptr, nullptr, nullptr,
                                             nullptr, nullptr, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                             CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    });
}

}  // namespace
