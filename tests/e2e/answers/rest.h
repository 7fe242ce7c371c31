// SPDX-License-Identifier: Apache-2.0
// rest.h: attributes, contexts, streams, events, graphs, pools, virtual memory, modules, and what is seldom called.
#pragma once
#include <cudaGL.h>

#include "things.h"

namespace {

// ---- attributes. What depends on the hardware is asked under hw/, beside the code.
inline void device_attributes() {
    cuInit(0);
    for (int a = -1; a <= 160; ++a) {
        int v = -77;
        const int rc = cuDeviceGetAttribute(&v, static_cast<CUdevice_attribute>(a), 0);
        question("code/" + number(a), [&] { return number(rc); });
        question("hw/" + number(a), [&] { return number(v); });
        question("runtime/" + number(a), [&] {
            int w = 0;
            return kept(cudaDeviceGetAttribute(&w, static_cast<cudaDeviceAttr>(a), 0));
        });
        question("device_9/" + number(a), [&] {
            int w = 0;
            return number(cuDeviceGetAttribute(&w, static_cast<CUdevice_attribute>(a), 9));
        });
    }
    question("null", [&] { return number(cuDeviceGetAttribute(nullptr, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0)); });
    question("runtime_null", [&] { return kept(cudaDeviceGetAttribute(nullptr, cudaDevAttrWarpSize, 0)); });
    for (int from = 0; from < 2; ++from)
        for (int a = 0; a < 8; ++a)
            question("peer_" + number(from) + "/" + number(a), [&] {
                int v = 77;
                const int rc = cuDeviceGetP2PAttribute(&v, static_cast<CUdevice_P2PAttribute>(a), 0, from);
                return number(rc);
            });
    question("get_bad", [&] {
        CUdevice d;
        return number(cuDeviceGet(&d, 99));
    });
    question("get_negative", [&] {
        CUdevice d;
        return number(cuDeviceGet(&d, -1));
    });
    question("get_null", [&] { return number(cuDeviceGet(nullptr, 0)); });
    question("count_null", [&] { return number(cuDeviceGetCount(nullptr)); });
    question("name_short", [&] {
        char n[4] = {};
        const int rc = cuDeviceGetName(n, 4, 0);
        return number(rc) + " " + number(strlen(n));
    });
    question("name_0", [&] {
        char n[4];
        return number(cuDeviceGetName(n, 0, 0));
    });
    question("name_null", [&] { return number(cuDeviceGetName(nullptr, 4, 0)); });
    question("bus_id_short", [&] {
        char n[14];
        return number(cuDeviceGetPCIBusId(n, 5, 0));
    });
    question("bus_id_bad", [&] {
        CUdevice d;
        return number(cuDeviceGetByPCIBusId(&d, "nonsense"));
    });
    question("bus_id_absent", [&] {
        CUdevice d;
        return number(cuDeviceGetByPCIBusId(&d, "0000:ff:1f.0"));
    });
    question("total_null", [&] { return number(cuDeviceTotalMem(nullptr, 0)); });
    question("affinity", [&] {
        int n = 7;
        const int rc = cuDeviceGetExecAffinitySupport(&n, CU_EXEC_AFFINITY_TYPE_SM_COUNT, 0);
        return number(rc) + " " + number(n);
    });
    question("luid", [&] {
        char l[8];
        unsigned m;
        return number(cuDeviceGetLuid(l, &m, 0));
    });
    question("init_flags", [&] { return number(cuInit(1)); });
    question("properties_bad", [&] {
        cudaDeviceProp p;
        return kept(cudaGetDeviceProperties(&p, 99));
    });
    question("choose_null", [&] { return kept(cudaChooseDevice(nullptr, nullptr)); });
    question("set_bad", [&] { return kept(cudaSetDevice(99)); });
    question("set_negative", [&] { return kept(cudaSetDevice(-1)); });
    question("flags_bad", [&] { return kept(cudaSetDeviceFlags(0x1000)); });
    question("flags", [&] {
        unsigned f = 77;
        const string s = kept(cudaGetDeviceFlags(&f));
        return s + " " + number(f);
    });
    question("valid_devices", [&] {
        int d[] = {0};
        return kept(cudaSetValidDevices(d, 1));
    });
    question("valid_devices_bad", [&] {
        int d[] = {99};
        return kept(cudaSetValidDevices(d, 1));
    });
    question("valid_devices_null", [&] { return kept(cudaSetValidDevices(nullptr, 1)); });
    question("valid_devices_none", [&] { return kept(cudaSetValidDevices(nullptr, 0)); });
    for (unsigned flags : {0u, 1u, 4u, 8u, 0x80u, 0x1000u})
        question("init_device_" + number(flags), [&] { return kept(cudaInitDevice(0, flags, 0)); });
    question("init_device_flags", [&] { return kept(cudaInitDevice(0, 4, cudaInitDeviceFlagsAreValid)); });
    question("init_device_bad", [&] { return kept(cudaInitDevice(99, 0, 0)); });
    cudaDeviceProp p{};
    cudaGetDeviceProperties(&p, 0);
    question("hw/canUseHostPointer", [&] { return number(p.canUseHostPointerForRegisteredMem); });
    question("hw/pageableMemoryAccess", [&] { return number(p.pageableMemoryAccess); });
    question("hw/concurrentManagedAccess", [&] { return number(p.concurrentManagedAccess); });
    question("hw/hostNativeAtomic", [&] { return number(p.hostNativeAtomicSupported); });
    question("hw/memoryPools",
             [&] { return number(p.memoryPoolsSupported) + " " + number(p.memoryPoolSupportedHandleTypes); });
    question("hw/timeline", [&] {
        return number(p.timelineSemaphoreInteropSupported) + number(p.ipcEventSupported) + number(p.clusterLaunch) +
               number(p.unifiedFunctionPointers);
    });
    question("hw/rdma", [&] {
        return number(p.gpuDirectRDMASupported) + " " + number(p.gpuDirectRDMAFlushWritesOptions) + " " +
               number(p.gpuDirectRDMAWritesOrdering);
    });
    question("hw/sparse", [&] {
        return number(p.sparseCudaArraySupported) + number(p.deferredMappingCudaArraySupported) +
               number(p.hostRegisterReadOnlySupported) + number(p.hostRegisterSupported);
    });
}

// ---- functions and launches
inline void functions() {
    Things t;
    start();
    t.make();
    cudaStream_t s = t.stream;
    ask::looks_behind = true;
    for (int a = -1; a <= 20; ++a) {
        question("get/" + number(a), [&] {
            int v = -77;
            const int rc = cuFuncGetAttribute(&v, static_cast<CUfunction_attribute>(a), t.function);
            return number(rc) + (v == -77 ? " untouched" : a >= 8 ? " " + number(v) : "");
        });
        for (int v : {-1, 0, 1, 8, 1024, 1 << 20})
            question("set/" + number(a) + "/" + number(v), [&] {
                const int rc = cuFuncSetAttribute(t.function, static_cast<CUfunction_attribute>(a), v);
                cuFuncSetAttribute(t.function, static_cast<CUfunction_attribute>(a), 0);
                return number(rc);
            });
        question("runtime/" + number(a),
                 [&] { return kept(cudaFuncSetAttribute(touch, static_cast<cudaFuncAttribute>(a), 0)); });
    }
    void* parameters[] = {&t.device};
    for (unsigned g : {0u, 1u, 65536u, 0x80000000u})
        for (unsigned b : {0u, 1u, 65u, 1024u, 1025u}) {
            question("grid_x_" + number(g) + "_block_" + number(b), [&] {
                return g > 65536 && b == 1024
                           ? ""
                           : number(cuLaunchKernel(t.function, g, 1, 1, b, 1, 1, 0, s, parameters, nullptr));
            });
            question("grid_y_" + number(g) + "_block_y_" + number(b),
                     [&] { return number(cuLaunchKernel(t.function, 1, g, 1, 1, b, 1, 0, s, parameters, nullptr)); });
            question("grid_z_" + number(g) + "_block_z_" + number(b),
                     [&] { return number(cuLaunchKernel(t.function, 1, 1, g, 1, 1, b, 0, s, parameters, nullptr)); });
            question("runtime_grid_" + number(g) + "_block_" + number(b), [&] {
                return g > 65536 ? "" : kept(cudaLaunchKernel(touch, dim3(g), dim3(b), parameters, 0, s));
            });
        }
    for (unsigned shared : {0u, 1u, 49152u, 49153u, 1u << 20, 1u << 30})
        question("shared_" + number(shared),
                 [&] { return number(cuLaunchKernel(t.function, 1, 1, 1, 1, 1, 1, shared, s, parameters, nullptr)); });
    question("null_function",
             [&] { return number(cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, s, parameters, nullptr)); });
    question("null_parameters",
             [&] { return number(cuLaunchKernel(t.function, 1, 1, 1, 1, 1, 1, 0, s, nullptr, nullptr)); });
    question("runtime_null", [&] {
        return kept(cudaLaunchKernel(static_cast<const void*>(nullptr), dim3(1), dim3(1), parameters, 0, s));
    });
    question("runtime_no_kernel", [&] {
        return kept(cudaLaunchKernel(reinterpret_cast<const void*>(&start), dim3(1), dim3(1), parameters, 0, s));
    });
    int eight = 8;
    size_t few = 8, many = 1 << 20;
    void* extra_good[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &t.device, CU_LAUNCH_PARAM_BUFFER_SIZE, &few,
                          CU_LAUNCH_PARAM_END};
    void* extra_long[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, scratch, CU_LAUNCH_PARAM_BUFFER_SIZE, &many,
                          CU_LAUNCH_PARAM_END};
    void* extra_bad[] = {reinterpret_cast<void*>(77), &eight, CU_LAUNCH_PARAM_END};
    question("extra", [&] { return number(cuLaunchKernel(t.function, 1, 1, 1, 1, 1, 1, 0, s, nullptr, extra_good)); });
    question("extra_and_parameters",
             [&] { return number(cuLaunchKernel(t.function, 1, 1, 1, 1, 1, 1, 0, s, parameters, extra_good)); });
    question("extra_bad",
             [&] { return number(cuLaunchKernel(t.function, 1, 1, 1, 1, 1, 1, 0, s, nullptr, extra_bad)); });
    question("extra_short", [&] {
        size_t four = 4;
        void* e[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &t.device, CU_LAUNCH_PARAM_BUFFER_SIZE, &four,
                     CU_LAUNCH_PARAM_END};
        return number(cuLaunchKernel(t.function, 1, 1, 1, 1, 1, 1, 0, s, nullptr, e));
    });
    question("cooperative",
             [&] { return number(cuLaunchCooperativeKernel(t.function, 1, 1, 1, 1, 1, 1, 0, s, parameters)); });
    question("cooperative_large", [&] {
        return number(cuLaunchCooperativeKernel(t.function, 1 << 20, 1, 1, 1024, 1, 1, 0, s, parameters));
    });
    for (int id = 0; id <= 18; ++id)
        question("launch_attribute_" + number(id), [&] {
            CUlaunchConfig c{1, 1, 1, 1, 1, 1, 0, s, nullptr, 1};
            CUlaunchAttribute a{};
            a.id = static_cast<CUlaunchAttributeID>(id);
            c.attrs = &a;
            return number(cuLaunchKernelEx(&c, t.function, parameters, nullptr));
        });
    question("launch_ex_null", [&] { return number(cuLaunchKernelEx(nullptr, t.function, parameters, nullptr)); });
    for (int threads : {-1, 0, 1, 64, 1024, 1025, 4096})
        for (size_t shared : {0ul, 1024ul, 1ul << 20})
            question("occupancy_" + number(threads) + "_" + number(shared), [&] {
                int n = 77;
                const int rc = cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, t.function, threads, shared);
                return number(rc);
            });
    question("occupancy_null",
             [&] { return number(cuOccupancyMaxActiveBlocksPerMultiprocessor(nullptr, t.function, 64, 0)); });
    question("occupancy_flags", [&] {
        int n;
        return number(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&n, t.function, 64, 0, 0x10));
    });
    question("occupancy_potential", [&] {
        int a, b;
        return number(cuOccupancyMaxPotentialBlockSize(&a, &b, t.function, nullptr, 0, 0));
    });
    question("occupancy_clusters", [&] {
        int n = 77;
        CUlaunchConfig c{1, 1, 1, 64, 1, 1, 0, s, nullptr, 0};
        return number(cuOccupancyMaxActiveClusters(&n, t.function, &c));
    });
    question("cache_config", [&] { return number(cuFuncSetCacheConfig(t.function, static_cast<CUfunc_cache>(9))); });
    question("param_info_0", [&] {
        size_t a = 7, b = 7;
        const int rc = cuFuncGetParamInfo(t.function, 0, &a, &b);
        return number(rc) + " " + number(a) + " " + number(b);
    });
    question("param_info_1", [&] {
        size_t a, b;
        return number(cuFuncGetParamInfo(t.function, 1, &a, &b));
    });
    question("is_loaded", [&] {
        CUfunctionLoadingState l;
        const int rc = cuFuncIsLoaded(&l, t.function);
        return number(rc) + " " + number(l);
    });
    question("name", [&] {
        const char* n = nullptr;
        const int rc = cuFuncGetName(&n, t.function);
        return number(rc) + " " + (n ? n : "null");
    });
    question("name_null", [&] { return number(cuFuncGetName(nullptr, t.function)); });
    question("module_null", [&] { return number(cuFuncGetModule(nullptr, t.function)); });
    question("attributes_null", [&] { return kept(cudaFuncGetAttributes(nullptr, touch)); });
    question("attributes_no_kernel", [&] {
        cudaFuncAttributes a;
        return kept(cudaFuncGetAttributes(&a, &start));
    });
}

// ---- contexts
inline void contexts() {
    cuInit(0);
    CUcontext a = nullptr, b = nullptr, c = nullptr;
    unsigned f = 0;
    int active = 0;
    const auto current = [] {
        CUcontext now = nullptr;
        cuCtxGetCurrent(&now);
        return now;
    };
    question("primary_state", [&] {
        const int rc = cuDevicePrimaryCtxGetState(0, &f, &active);
        return number(rc) + " " + number(f) + " " + number(active);
    });
    question("primary_release", [&] { return number(cuDevicePrimaryCtxRelease(0)); });
    question("primary_reset", [&] { return number(cuDevicePrimaryCtxReset(0)); });
    question("primary_flags", [&] { return number(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_YIELD)); });
    question("primary_flags_bad", [&] { return number(cuDevicePrimaryCtxSetFlags(0, 0x1000)); });
    question("primary_retain_null", [&] { return number(cuDevicePrimaryCtxRetain(nullptr, 0)); });
    question("primary_retain_bad", [&] { return number(cuDevicePrimaryCtxRetain(&c, 99)); });
    question("push_null", [&] { return number(cuCtxPushCurrent(nullptr)); });
    question("pop_none", [&] { return number(cuCtxPopCurrent(&c)); });
    question("set_null", [&] { return number(cuCtxSetCurrent(nullptr)); });
    question("destroy_null", [&] { return number(cuCtxDestroy(nullptr)); });
    question("create_null", [&] { return number(cuCtxCreate(nullptr, nullptr, 0, 0)); });
    question("create_bad_device", [&] { return number(cuCtxCreate(&c, nullptr, 0, 99)); });
    question("create_bad_flags", [&] { return number(cuCtxCreate(&c, nullptr, 0x1000, 0)); });
    cuCtxCreate(&a, nullptr, 0, 0);
    question("current_created", [&] { return string(current() == a ? "it" : "other"); });
    question("flags", [&] {
        const int rc = cuCtxGetFlags(&f);
        return number(rc) + " " + number(f);
    });
    for (unsigned flags : {0u, 1u, 2u, 3u, 4u, 5u, 8u, 16u, 32u, 64u, 128u, 256u})
        question("create_flags_" + number(flags), [&] {
            CUcontext d = nullptr;
            const int rc = cuCtxCreate(&d, nullptr, flags, 0);
            unsigned g = 0;
            if (d) {
                cuCtxGetFlags(&g);
                cuCtxDestroy(d);
            }
            return number(rc) + " " + number(g);
        });
    question("set_flags", [&] { return number(cuCtxSetFlags(CU_CTX_SCHED_SPIN)); });
    question("set_flags_bad", [&] { return number(cuCtxSetFlags(0x1000)); });
    for (int l = -1; l <= 9; ++l) {
        question("limit_get_" + number(l), [&] {
            size_t v = 77;
            return number(cuCtxGetLimit(&v, static_cast<CUlimit>(l)));
        });
        for (size_t v : {0ul, 1ul, 1024ul, 1ul << 20, 1ul << 40})
            question("limit_set_" + number(l) + "_" + number(v),
                     [&] { return l == 2 && v > 1 << 20 ? "" : number(cuCtxSetLimit(static_cast<CUlimit>(l), v)); });
    }
    question("limit_null", [&] { return number(cuCtxGetLimit(nullptr, CU_LIMIT_STACK_SIZE)); });
    question("api_version", [&] {
        unsigned v = 0;
        const int rc = cuCtxGetApiVersion(a, &v);
        return number(rc) + " " + number(v);
    });
    question("api_version_bad", [&] {
        unsigned v;
        return number(cuCtxGetApiVersion(a, nullptr)) + number(cuCtxGetApiVersion(nullptr, &v));
    });
    question("id", [&] {
        unsigned long long n = 0;
        const int rc = cuCtxGetId(a, &n);
        return number(rc) + (n ? " some" : " 0");
    });
    question("id_null", [&] { return number(cuCtxGetId(a, nullptr)); });
    question("device_null", [&] { return number(cuCtxGetDevice(nullptr)); });
    question("current_null", [&] { return number(cuCtxGetCurrent(nullptr)); });
    question("attach", [&] {
        CUcontext d = nullptr;
        return number(cuCtxAttach(&d, 0));
    });
    question("attach_flags", [&] {
        CUcontext d = nullptr;
        return number(cuCtxAttach(&d, 1));
    });
    question("detach", [&] { return number(cuCtxDetach(a)); });
    question("detach_null", [&] { return number(cuCtxDetach(nullptr)); });
    question("priority_null", [&] { return number(cuCtxGetStreamPriorityRange(nullptr, nullptr)); });
    question("cache_null", [&] { return number(cuCtxGetCacheConfig(nullptr)); });
    question("cache_bad", [&] { return number(cuCtxSetCacheConfig(static_cast<CUfunc_cache>(9))); });
    question("shared_config", [&] {
        CUsharedconfig s;
        return number(cuCtxGetSharedMemConfig(&s));
    });
    question("shared_config_set",
             [&] { return number(cuCtxSetSharedMemConfig(CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE)); });
    question("peer_self", [&] { return number(cuCtxEnablePeerAccess(a, 0)); });
    question("peer_null", [&] { return number(cuCtxEnablePeerAccess(nullptr, 0)); });
    question("peer_flags", [&] { return number(cuCtxEnablePeerAccess(a, 1)); });
    question("peer_disable", [&] { return number(cuCtxDisablePeerAccess(a)); });
    question("affinity", [&] {
        CUexecAffinityParam p;
        return number(cuCtxGetExecAffinity(&p, CU_EXEC_AFFINITY_TYPE_SM_COUNT));
    });
    cuCtxCreate(&b, nullptr, 0, 0);
    CUdeviceptr p = 0;
    CUstream s = nullptr;
    CUevent e = nullptr;
    cuMemAlloc(&p, 512);
    cuStreamCreate(&s, 0);
    cuEventCreate(&e, 0);
    cuCtxSetCurrent(a);
    question("free_of_other", [&] { return number(cuMemFree(p)); });
    question("copy_of_other", [&] { return number(cuMemcpyHtoD(p, scratch, 16)); });
    question("stream_of_other", [&] { return number(cuStreamSynchronize(s)); });
    question("event_of_other", [&] { return number(cuEventQuery(e)); });
    question("record_of_other", [&] { return number(cuEventRecord(e, nullptr)); });
    question("record_stream_of_other", [&] {
        CUevent own;
        cuEventCreate(&own, 0);
        return number(cuEventRecord(own, s));
    });
    question("wait_of_other", [&] { return number(cuStreamWaitEvent(nullptr, e, 0)); });
    question("stream_ctx_of_other", [&] {
        CUcontext d = nullptr;
        const int rc = cuStreamGetCtx(s, &d);
        return number(rc) + (d == b ? " it" : " other");
    });
    question("destroy_not_current", [&] { return number(cuCtxDestroy(b)); });
    question("destroy_again", [&] { return number(cuCtxDestroy(b)); });
    question("set_destroyed", [&] { return number(cuCtxSetCurrent(b)); });
    question("push_destroyed", [&] { return number(cuCtxPushCurrent(b)); });
    question("stream_of_destroyed", [&] { return number(cuStreamSynchronize(s)); });
    question("event_of_destroyed", [&] { return number(cuEventQuery(e)); });
    question("memory_of_destroyed", [&] { return number(cuMemFree(p)); });
    question("pop", [&] {
        const int rc = cuCtxPopCurrent(&c);
        return number(rc) + (c == a ? " it" : " other");
    });
    question("pop_again", [&] { return number(cuCtxPopCurrent(&c)); });
    question("retain", [&] {
        const int rc = cuDevicePrimaryCtxRetain(&c, 0);
        return number(rc) + (c ? " some" : " null");
    });
    question("destroy_primary", [&] { return number(cuCtxDestroy(c)); });
    question("flags_active", [&] { return number(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_SPIN)); });
    question("state_active", [&] {
        const int rc = cuDevicePrimaryCtxGetState(0, &f, &active);
        return number(rc) + " " + number(f) + " " + number(active);
    });
    question("release", [&] { return number(cuDevicePrimaryCtxRelease(0)); });
    question("release_again", [&] { return number(cuDevicePrimaryCtxRelease(0)); });
    question("set_released", [&] { return number(cuCtxSetCurrent(c)); });
    question("synchronize_released", [&] { return number(cuCtxSynchronize()); });
    question("exec_null", [&] { return number(cuCtxRecordEvent(nullptr, nullptr)); });
}

// ---- streams and events
inline void streams_and_events() {
    start();
    ask::looks_behind = true;
    cudaStream_t s = nullptr;
    cudaEvent_t e = nullptr, untimed = nullptr, fresh = nullptr, second = nullptr;
    cudaStreamCreate(&s);
    cudaEventCreate(&e);
    cudaEventCreate(&second);
    cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming);
    cudaEventCreate(&fresh);
    cudaEventRecord(e, s);
    cudaEventRecord(second, s);
    cudaEventRecord(untimed, s);
    cudaStreamSynchronize(s);
    for (unsigned flags = 0; flags < 16; ++flags) {
        question("stream_flags_" + number(flags), [&] {
            cudaStream_t t = nullptr;
            const string a = kept(cudaStreamCreateWithFlags(&t, flags));
            return a;
        });
        question("event_flags_" + number(flags), [&] {
            cudaEvent_t t = nullptr;
            return kept(cudaEventCreateWithFlags(&t, flags));
        });
        question("record_flags_" + number(flags), [&] { return kept(cudaEventRecordWithFlags(fresh, s, flags)); });
        question("wait_flags_" + number(flags), [&] { return kept(cudaStreamWaitEvent(s, e, flags)); });
        question("driver_record_flags_" + number(flags),
                 [&] { return number(cuEventRecordWithFlags(fresh, s, flags)); });
        question("driver_wait_flags_" + number(flags), [&] { return number(cuStreamWaitEvent(s, e, flags)); });
    }
    for (int priority : {-100, -6, -5, -1, 0, 1, 100})
        question("priority_" + number(priority), [&] {
            cudaStream_t t = nullptr;
            int p = 77;
            const string a = kept(cudaStreamCreateWithPriority(&t, 1, priority));
            if (t) cudaStreamGetPriority(t, &p);
            return a + " " + number(p);
        });
    struct Named {
        const char* name;
        cudaStream_t s;
    };
    cudaStream_t gone;
    cudaStreamCreate(&gone);
    const cudaStream_t destroyed = gone;
    cudaStreamDestroy(gone);
    const Named all[] = {{"null", nullptr},
                         {"legacy", cudaStreamLegacy},
                         {"per_thread", cudaStreamPerThread},
                         {"own", s},
                         {"destroyed", destroyed}};
    for (const Named& n : all) {
        const string at = string(n.name) + "/";
        if (n.s == destroyed && n.s) {  // undefined: native ends here or answers
            question(at + "query", [&] { return kept(cudaStreamQuery(n.s)); });
            question(at + "synchronize", [&] { return kept(cudaStreamSynchronize(n.s)); });
            question(at + "destroy", [&] { return kept(cudaStreamDestroy(n.s)); });
            continue;
        }
        question(at + "query", [&] { return kept(cudaStreamQuery(n.s)); });
        question(at + "synchronize", [&] { return kept(cudaStreamSynchronize(n.s)); });
        question(at + "flags", [&] {
            unsigned f = 77;
            const string a = kept(cudaStreamGetFlags(n.s, &f));
            return a + " " + number(f);
        });
        question(at + "priority", [&] {
            int f = 77;
            const string a = kept(cudaStreamGetPriority(n.s, &f));
            return a + " " + number(f);
        });
        question(at + "id", [&] {
            unsigned long long f = 0;
            const string a = kept(cudaStreamGetId(n.s, &f));
            return a + (f ? " some" : " 0");
        });
        question(at + "device", [&] {
            int f = 77;
            const string a = kept(cudaStreamGetDevice(n.s, &f));
            return a + " " + number(f);
        });
        question(at + "capturing", [&] {
            cudaStreamCaptureStatus c;
            const string a = kept(cudaStreamIsCapturing(n.s, &c));
            return a;
        });
        question(at + "wait_null", [&] { return kept(cudaStreamWaitEvent(n.s, nullptr, 0)); });
        question(at + "wait_fresh", [&] { return kept(cudaStreamWaitEvent(n.s, fresh, 0)); });
        question(at + "record_null", [&] { return kept(cudaEventRecord(nullptr, n.s)); });
        question(at + "attach_null", [&] {
            return kept(cudaStreamAttachMemAsync(n.s, static_cast<void*>(nullptr), 0, cudaMemAttachGlobal));
        });
        if (n.s != s) question(at + "destroy", [&] { return kept(cudaStreamDestroy(n.s)); });
        for (int id = 0; id <= 18; ++id) {
            question(at + "get_attribute_" + number(id), [&] {
                cudaStreamAttrValue v{};
                return kept(cudaStreamGetAttribute(n.s, static_cast<cudaStreamAttrID>(id), &v));
            });
            question(at + "set_attribute_" + number(id), [&] {
                cudaStreamAttrValue v{};
                return kept(cudaStreamSetAttribute(n.s, static_cast<cudaStreamAttrID>(id), &v));
            });
        }
        question(at + "copy_attributes", [&] { return kept(cudaStreamCopyAttributes(n.s, s)); });
    }
    question("stream_null", [&] { return kept(cudaStreamCreate(nullptr)); });
    question("event_null", [&] { return kept(cudaEventCreate(nullptr)); });
    question("event_destroy_null", [&] { return kept(cudaEventDestroy(nullptr)); });
    question("event_query_null", [&] { return kept(cudaEventQuery(nullptr)); });
    question("event_synchronize_null", [&] { return kept(cudaEventSynchronize(nullptr)); });
    question("event_query_fresh", [&] {
        cudaEvent_t f;
        cudaEventCreate(&f);
        return kept(cudaEventQuery(f));
    });
    question("event_synchronize_fresh", [&] {
        cudaEvent_t f;
        cudaEventCreate(&f);
        return kept(cudaEventSynchronize(f));
    });
    question("elapsed_fresh", [&] {
        cudaEvent_t f;
        cudaEventCreate(&f);
        float ms;
        return kept(cudaEventElapsedTime(&ms, e, f));
    });
    question("elapsed_untimed", [&] {
        float ms;
        return kept(cudaEventElapsedTime(&ms, e, untimed));
    });
    question("elapsed_null", [&] {
        float ms;
        return kept(cudaEventElapsedTime(&ms, e, nullptr));
    });
    question("elapsed_null_time", [&] { return kept(cudaEventElapsedTime(nullptr, e, second)); });
    question("elapsed_same", [&] {
        float ms = -1;
        const string a = kept(cudaEventElapsedTime(&ms, e, e));
        return a + (ms == 0 ? " 0" : " other");
    });
    question("elapsed", [&] {
        float ms = -1;
        const string a = kept(cudaEventElapsedTime(&ms, e, second));
        return a + (ms >= 0 ? " positive" : " negative");
    });
    question("driver_destroy_null", [&] { return number(cuStreamDestroy(nullptr)); });
    question("driver_event_null", [&] { return number(cuEventDestroy(nullptr)); });
    question("driver_query_null", [&] { return number(cuEventQuery(nullptr)); });
    question("driver_flags", [&] {
        CUstream t;
        return number(cuStreamCreate(&t, 2));
    });
    question("driver_event_flags", [&] {
        CUevent t;
        return number(cuEventCreate(&t, 0x10));
    });
    question("driver_event_interprocess", [&] {
        CUevent t;
        return number(cuEventCreate(&t, CU_EVENT_INTERPROCESS));
    });
    question("ipc_event", [&] {
        CUipcEventHandle h;
        return number(cuIpcGetEventHandle(&h, e));
    });
    question("ipc_event_good", [&] {
        CUevent t;
        cuEventCreate(&t, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
        CUipcEventHandle h;
        return number(cuIpcGetEventHandle(&h, t));
    });
    question("ipc_event_garbage", [&] {
        CUipcEventHandle h{};
        CUevent t;
        return number(cuIpcOpenEventHandle(&t, h));
    });
    question("ipc_memory_garbage", [&] {
        CUipcMemHandle h{};
        CUdeviceptr p;
        return number(cuIpcOpenMemHandle(&p, h, 1));
    });
    question("ipc_memory_flags", [&] {
        CUipcMemHandle h{};
        CUdeviceptr p;
        return number(cuIpcOpenMemHandle(&p, h, 0));
    });
    question("reset_device_last", [&] { return kept(cudaDeviceReset()); });
}

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

// ---- modules, libraries, linking
inline void modules() {
    start();
    CUmodule m = nullptr;
    cuModuleLoadData(&m, tiny);
    CUfunction f = nullptr;
    question("load_null", [&] {
        CUmodule n;
        return number(cuModuleLoadData(&n, nullptr));
    });
    question("load_null_module", [&] { return number(cuModuleLoadData(nullptr, tiny)); });
    question("load_garbage", [&] {
        CUmodule n;
        return number(cuModuleLoadData(&n, "garbage"));
    });
    question("load_empty", [&] {
        CUmodule n;
        return number(cuModuleLoadData(&n, ""));
    });
    question("load_bad_ptx", [&] {
        CUmodule n;
        return number(cuModuleLoadData(&n, ".version 6.4\n.target sm_50\n.address_size 64\nnonsense\n"));
    });
    question("load_new_ptx", [&] {
        CUmodule n;
        return number(cuModuleLoadData(&n, ".version 99.0\n.target sm_50\n.address_size 64\n"));
    });
    question("load_new_target", [&] {
        CUmodule n;
        return number(cuModuleLoadData(&n, ".version 6.4\n.target sm_999\n.address_size 64\n"));
    });
    question("load_file_absent", [&] {
        CUmodule n;
        return number(cuModuleLoad(&n, "/nonexistent"));
    });
    question("load_file_null", [&] {
        CUmodule n;
        return number(cuModuleLoad(&n, nullptr));
    });
    question("load_file_folder", [&] {
        CUmodule n;
        return number(cuModuleLoad(&n, "/"));
    });
    question("unload_null", [&] { return number(cuModuleUnload(nullptr)); });
    question("function", [&] { return number(cuModuleGetFunction(&f, m, "k")); });
    question("function_absent", [&] { return number(cuModuleGetFunction(&f, m, "absent")); });
    question("function_null", [&] { return number(cuModuleGetFunction(nullptr, m, "k")); });
    question("function_name_null", [&] { return number(cuModuleGetFunction(&f, m, nullptr)); });
    question("function_module_null", [&] { return number(cuModuleGetFunction(&f, nullptr, "k")); });
    question("global", [&] {
        CUdeviceptr p;
        size_t n = 0;
        const int rc = cuModuleGetGlobal(&p, &n, m, "w");
        return number(rc) + " " + number(n);
    });
    question("global_absent", [&] {
        CUdeviceptr p;
        size_t n;
        return number(cuModuleGetGlobal(&p, &n, m, "absent"));
    });
    question("global_nulls", [&] { return number(cuModuleGetGlobal(nullptr, nullptr, m, "w")); });
    question("global_name_null", [&] {
        CUdeviceptr p;
        return number(cuModuleGetGlobal(&p, nullptr, m, nullptr));
    });
    question("count", [&] {
        unsigned n = 7;
        const int rc = cuModuleGetFunctionCount(&n, m);
        return number(rc) + " " + number(n);
    });
    question("count_null", [&] { return number(cuModuleGetFunctionCount(nullptr, m)); });
    question("enumerate", [&] {
        CUfunction g[2];
        return number(cuModuleEnumerateFunctions(g, 2, m));
    });
    question("texture", [&] {
        CUtexref r;
        return number(cuModuleGetTexRef(&r, m, "absent"));
    });
    question("surface", [&] {
        CUsurfref r;
        return number(cuModuleGetSurfRef(&r, m, "absent"));
    });
    for (int option = -1; option <= 40; ++option)
        question("option_" + number(option), [&] {
            CUmodule n = nullptr;
            CUjit_option o[] = {static_cast<CUjit_option>(option)};
            void* v[] = {nullptr};
            const int rc = cuModuleLoadDataEx(&n, tiny, 1, o, v);
            if (!rc) cuModuleUnload(n);
            return number(rc);
        });
    question("options_null", [&] {
        CUmodule n;
        return number(cuModuleLoadDataEx(&n, tiny, 1, nullptr, nullptr));
    });
    CUlibrary l = nullptr;
    cuLibraryLoadData(&l, tiny, nullptr, nullptr, 0, nullptr, nullptr, 0);
    CUkernel k = nullptr;
    question("library_null", [&] {
        CUlibrary n;
        return number(cuLibraryLoadData(&n, nullptr, nullptr, nullptr, 0, nullptr, nullptr, 0));
    });
    question("library_garbage", [&] {
        CUlibrary n;
        return number(cuLibraryLoadData(&n, "garbage", nullptr, nullptr, 0, nullptr, nullptr, 0));
    });
    question("library_file", [&] {
        CUlibrary n;
        return number(cuLibraryLoadFromFile(&n, "/nonexistent", nullptr, nullptr, 0, nullptr, nullptr, 0));
    });
    for (int option = 0; option < 3; ++option)
        question("library_option_" + number(option), [&] {
            CUlibrary n;
            CUlibraryOption o[] = {static_cast<CUlibraryOption>(option)};
            void* v[] = {nullptr};
            return number(cuLibraryLoadData(&n, tiny, nullptr, nullptr, 0, o, v, 1));
        });
    question("kernel", [&] { return number(cuLibraryGetKernel(&k, l, "k")); });
    if (!k) cuLibraryGetKernel(&k, l, "k");
    question("kernel_absent", [&] {
        CUkernel n;
        return number(cuLibraryGetKernel(&n, l, "absent"));
    });
    question("kernel_null", [&] { return number(cuLibraryGetKernel(nullptr, l, "k")); });
    question("library_global", [&] {
        CUdeviceptr p;
        size_t n = 0;
        const int rc = cuLibraryGetGlobal(&p, &n, l, "w");
        return number(rc) + " " + number(n);
    });
    question("library_global_absent", [&] {
        CUdeviceptr p;
        return number(cuLibraryGetGlobal(&p, nullptr, l, "absent"));
    });
    question("library_managed", [&] {
        CUdeviceptr p;
        return number(cuLibraryGetManaged(&p, nullptr, l, "w"));
    });
    question("library_unified", [&] {
        void* p;
        return number(cuLibraryGetUnifiedFunction(&p, l, "k"));
    });
    question("library_module", [&] {
        CUmodule n;
        return number(cuLibraryGetModule(&n, l));
    });
    question("library_count", [&] {
        unsigned n = 7;
        const int rc = cuLibraryGetKernelCount(&n, l);
        return number(rc) + " " + number(n);
    });
    question("library_count_null", [&] { return number(cuLibraryGetKernelCount(nullptr, l)); });
    question("kernel_name", [&] {
        const char* n = nullptr;
        const int rc = cuKernelGetName(&n, k);
        return number(rc) + " " + (n ? n : "null");
    });
    question("kernel_library", [&] {
        CUlibrary n = nullptr;
        const int rc = cuKernelGetLibrary(&n, k);
        return number(rc) + (n == l ? " it" : " other");
    });
    question("kernel_function", [&] {
        CUfunction n = nullptr;
        return number(cuKernelGetFunction(&n, k));
    });
    question("kernel_param", [&] {
        size_t a, b;
        return number(cuKernelGetParamInfo(k, 0, &a, &b));
    });
    for (int a = -1; a <= 17; ++a) {
        question("kernel_get_" + number(a), [&] {
            int v = 0;
            return number(cuKernelGetAttribute(&v, static_cast<CUfunction_attribute>(a), k, 0));
        });
        question("kernel_set_" + number(a),
                 [&] { return number(cuKernelSetAttribute(static_cast<CUfunction_attribute>(a), 0, k, 0)); });
        question("kernel_get_device_" + number(a), [&] {
            int v = 0;
            return number(cuKernelGetAttribute(&v, static_cast<CUfunction_attribute>(a), k, 99));
        });
    }
    question("library_unload_null", [&] { return number(cuLibraryUnload(nullptr)); });
    CUlinkState link = nullptr;
    question("link", [&] { return number(cuLinkCreate(0, nullptr, nullptr, &link)); });
    question("link_null", [&] { return number(cuLinkCreate(0, nullptr, nullptr, nullptr)); });
    for (int type = 0; type <= 7; ++type)
        question("link_add_" + number(type), [&] {
            CUlinkState x = nullptr;
            cuLinkCreate(0, nullptr, nullptr, &x);
            const int rc = cuLinkAddData(x, static_cast<CUjitInputType>(type), const_cast<char*>(tiny), sizeof tiny,
                                         "k", 0, nullptr, nullptr);
            cuLinkDestroy(x);
            return number(rc);
        });
    question("link_complete_empty", [&] {
        CUlinkState x = nullptr;
        cuLinkCreate(0, nullptr, nullptr, &x);
        void* p;
        size_t n;
        const int rc = cuLinkComplete(x, &p, &n);
        cuLinkDestroy(x);
        return number(rc);
    });
    question("link_file", [&] {
        CUlinkState x = nullptr;
        cuLinkCreate(0, nullptr, nullptr, &x);
        const int rc = cuLinkAddFile(x, CU_JIT_INPUT_PTX, "/nonexistent", 0, nullptr, nullptr);
        cuLinkDestroy(x);
        return number(rc);
    });
    void* p = nullptr;
    size_t n = 0;
    static int no_symbol;
    question("symbol_address", [&] { return kept(cudaGetSymbolAddress(&p, symbol)); });
    question("symbol_address_bad", [&] { return kept(cudaGetSymbolAddress(&p, &no_symbol)); });
    question("symbol_address_null", [&] { return kept(cudaGetSymbolAddress(&p, static_cast<const void*>(nullptr))); });
    question("symbol_size", [&] {
        const string a = kept(cudaGetSymbolSize(&n, symbol));
        return a + " " + number(n);
    });
    question("symbol_size_bad", [&] { return kept(cudaGetSymbolSize(&n, &no_symbol)); });
    for (size_t off : {0ul, 4ul, 4096ul, 4097ul})
        for (size_t count : {0ul, 4ul, 4096ul, 4097ul}) {
            question("to_symbol_" + number(off) + "_" + number(count), [&] {
                static char from[8192];
                return kept(cudaMemcpyToSymbol(symbol, from, count, off));
            });
            question("from_symbol_" + number(off) + "_" + number(count), [&] {
                static char to[8192];
                return kept(cudaMemcpyFromSymbol(to, symbol, count, off));
            });
        }
    for (int kind : {0, 1, 2, 3, 4, 9}) {
        question("to_symbol_kind_" + number(kind),
                 [&] { return kept(cudaMemcpyToSymbol(word, scratch, 4, 0, static_cast<cudaMemcpyKind>(kind))); });
        question("from_symbol_kind_" + number(kind),
                 [&] { return kept(cudaMemcpyFromSymbol(scratch, word, 4, 0, static_cast<cudaMemcpyKind>(kind))); });
    }
    question("function_by_symbol", [&] {
        cudaFunction_t g;
        return kept(cudaGetFuncBySymbol(&g, reinterpret_cast<const void*>(touch)));
    });
    question("function_by_symbol_bad", [&] {
        cudaFunction_t g;
        return kept(cudaGetFuncBySymbol(&g, &no_symbol));
    });
    question("kernel_by_symbol", [&] {
        cudaKernel_t g;
        return kept(cudaGetKernel(&g, reinterpret_cast<const void*>(touch)));
    });
    question("kernel_by_symbol_bad", [&] {
        cudaKernel_t g;
        return kept(cudaGetKernel(&g, &no_symbol));
    });
}

// ---- graphs
inline void graphs() {
    Things t;
    start();
    t.make();
    ask::looks_behind = true;
    CUgraph g = nullptr;
    CUgraphNode a = nullptr, b = nullptr, n = nullptr;
    cuGraphCreate(&g, 0);
    cuGraphAddEmptyNode(&a, g, nullptr, 0);
    cuGraphAddEmptyNode(&b, g, &a, 1);
    CUcontext context;
    cuCtxGetCurrent(&context);
    question("create_flags", [&] {
        CUgraph h;
        return number(cuGraphCreate(&h, 1));
    });
    question("create_null", [&] { return number(cuGraphCreate(nullptr, 0)); });
    question("destroy_null", [&] { return number(cuGraphDestroy(nullptr)); });
    question("exec_destroy_null", [&] { return number(cuGraphExecDestroy(nullptr)); });
    question("node_destroy_null", [&] { return number(cuGraphDestroyNode(nullptr)); });
    question("add_null", [&] { return number(cuGraphAddEmptyNode(nullptr, g, nullptr, 0)); });
    question("add_no_graph", [&] { return number(cuGraphAddEmptyNode(&n, nullptr, nullptr, 0)); });
    question("add_twice_dependency", [&] {
        CUgraphNode d[] = {a, a};
        return number(cuGraphAddEmptyNode(&n, g, d, 2));
    });
    question("add_null_dependency", [&] {
        CUgraphNode d[] = {nullptr};
        return number(cuGraphAddEmptyNode(&n, g, d, 1));
    });
    question("add_foreign_dependency", [&] {
        CUgraph h;
        cuGraphCreate(&h, 0);
        return number(cuGraphAddEmptyNode(&n, h, &a, 1));
    });
    question("cycle", [&] {
        CUgraph h;
        CUgraphNode x, y;
        cuGraphCreate(&h, 0);
        cuGraphAddEmptyNode(&x, h, nullptr, 0);
        cuGraphAddEmptyNode(&y, h, &x, 1);
        const int r = cuGraphAddDependencies(h, &y, &x, nullptr, 1);
        CUgraphExec e;
        return number(r) + " " + number(cuGraphInstantiate(&e, h, 0));
    });
    question("self_dependency", [&] { return number(cuGraphAddDependencies(g, &a, &a, nullptr, 1)); });
    question("dependency_again", [&] { return number(cuGraphAddDependencies(g, &a, &b, nullptr, 1)); });
    question("remove_absent", [&] { return number(cuGraphRemoveDependencies(g, &b, &a, nullptr, 1)); });
    question("nodes", [&] {
        size_t c = 0;
        const int rc = cuGraphGetNodes(g, nullptr, &c);
        return number(rc) + " " + number(c);
    });
    question("nodes_few", [&] {
        size_t c = 1;
        CUgraphNode l[1];
        const int rc = cuGraphGetNodes(g, l, &c);
        return number(rc) + " " + number(c);
    });
    question("nodes_many", [&] {
        size_t c = 9;
        CUgraphNode l[9];
        l[8] = a;
        const int rc = cuGraphGetNodes(g, l, &c);
        return number(rc) + " " + number(c) + (l[8] ? " kept" : " null");
    });
    question("nodes_null", [&] { return number(cuGraphGetNodes(g, nullptr, nullptr)); });
    question("roots", [&] {
        size_t c = 0;
        const int rc = cuGraphGetRootNodes(g, nullptr, &c);
        return number(rc) + " " + number(c);
    });
    question("edges", [&] {
        size_t c = 0;
        const int rc = cuGraphGetEdges(g, nullptr, nullptr, nullptr, &c);
        return number(rc) + " " + number(c);
    });
    question("type", [&] {
        CUgraphNodeType y;
        const int rc = cuGraphNodeGetType(a, &y);
        return number(rc) + " " + number(y);
    });
    question("type_null", [&] { return number(cuGraphNodeGetType(a, nullptr)); });
    question("kernel_params_of_empty", [&] {
        CUDA_KERNEL_NODE_PARAMS p;
        return number(cuGraphKernelNodeGetParams(a, &p));
    });
    question("memset_params_of_empty", [&] {
        CUDA_MEMSET_NODE_PARAMS p;
        return number(cuGraphMemsetNodeGetParams(a, &p));
    });
    for (unsigned flags = 0; flags <= 16; ++flags)
        question("instantiate_flags_" + number(flags), [&] {
            CUgraphExec e = nullptr;
            cuuint64_t had = 77;
            const int rc = cuGraphInstantiate(&e, g, flags);
            int get = -1;
            if (e) {
                get = cuGraphExecGetFlags(e, &had);
                cuGraphExecDestroy(e);
            }
            return number(rc) + " " + number(get) + " " + number(had);
        });
    question("instantiate_null", [&] { return number(cuGraphInstantiate(nullptr, g, 0)); });
    question("instantiate_no_graph", [&] {
        CUgraphExec e;
        return number(cuGraphInstantiate(&e, nullptr, 0));
    });
    for (unsigned long long flags : {0ull, 1ull, 2ull, 3ull, 4ull, 8ull, 16ull})
        question("instantiate_params_" + number(flags), [&] {
            CUgraphExec e = nullptr;
            CUDA_GRAPH_INSTANTIATE_PARAMS p{};
            p.flags = flags;
            p.hUploadStream = t.stream;
            const int rc = cuGraphInstantiateWithParams(&e, g, &p);
            if (e) cuGraphExecDestroy(e);
            return number(rc) + " " + number(p.result_out);
        });
    question("launch_null", [&] { return number(cuGraphLaunch(nullptr, t.stream)); });
    question("upload_null", [&] { return number(cuGraphUpload(nullptr, t.stream)); });
    question("upload", [&] { return number(cuGraphUpload(t.exec, t.stream)); });
    question("launch_legacy", [&] { return number(cuGraphLaunch(t.exec, nullptr)); });
    CUDA_KERNEL_NODE_PARAMS k{};
    void* parameters[] = {&t.device};
    k.func = t.function;
    k.gridDimX = k.gridDimY = k.gridDimZ = k.blockDimX = k.blockDimY = k.blockDimZ = 1;
    k.kernelParams = parameters;
    question("kernel", [&] { return number(cuGraphAddKernelNode(&n, g, nullptr, 0, &k)); });
    question("kernel_null", [&] { return number(cuGraphAddKernelNode(&n, g, nullptr, 0, nullptr)); });
    question("kernel_no_function", [&] {
        CUDA_KERNEL_NODE_PARAMS q = k;
        q.func = nullptr;
        return number(cuGraphAddKernelNode(&n, g, nullptr, 0, &q));
    });
    question("kernel_no_parameters", [&] {
        CUDA_KERNEL_NODE_PARAMS q = k;
        q.kernelParams = nullptr;
        return number(cuGraphAddKernelNode(&n, g, nullptr, 0, &q));
    });
    for (unsigned block : {0u, 1024u, 1025u})
        for (unsigned grid : {0u, 1u, 0x80000000u})
            question("kernel_shape_" + number(grid) + "_" + number(block), [&] {
                CUDA_KERNEL_NODE_PARAMS q = k;
                q.blockDimX = block;
                q.gridDimX = grid;
                CUgraph h;
                cuGraphCreate(&h, 0);
                const int rc = cuGraphAddKernelNode(&n, h, nullptr, 0, &q);
                CUgraphExec e;
                return number(rc) + " " + (rc ? "" : number(cuGraphInstantiate(&e, h, 0)));
            });
    question("kernel_shared", [&] {
        CUDA_KERNEL_NODE_PARAMS q = k;
        q.sharedMemBytes = 1 << 24;
        CUgraph h;
        cuGraphCreate(&h, 0);
        const int rc = cuGraphAddKernelNode(&n, h, nullptr, 0, &q);
        CUgraphExec e;
        return number(rc) + " " + (rc ? "" : number(cuGraphInstantiate(&e, h, 0)));
    });
    // Fills and copies as nodes: the same mistakes as calls.
    for (const string& kind : kinds) {
        question("memset_of/" + kind, [&] {
            const Place place = make(kind);
            CUDA_MEMSET_NODE_PARAMS p{D(place.p), 0, 0, 1, 64, 1};
            CUgraph h;
            cuGraphCreate(&h, 0);
            const int rc = cuGraphAddMemsetNode(&n, h, nullptr, 0, &p, context);
            cuGraphDestroy(h);
            return number(rc);
        });
        question("memcpy_to/" + kind, [&] {
            const Place place = make(kind);
            cudaGraph_t h;
            cudaGraphCreate(&h, 0);
            cudaGraphNode_t m;
            const string rc =
                kept(cudaGraphAddMemcpyNode1D(&m, h, nullptr, 0, place.p, t.device, 64, cudaMemcpyDefault));
            cudaGraphDestroy(h);
            return rc;
        });
        question("memfree_of/" + kind, [&] {
            const Place place = make(kind);
            CUgraph h;
            cuGraphCreate(&h, 0);
            const int rc = cuGraphAddMemFreeNode(&n, h, nullptr, 0, D(place.p));
            cuGraphDestroy(h);
            return number(rc);
        });
    }
    for (unsigned unit : {0u, 1u, 2u, 3u, 4u, 8u})
        for (size_t width : {0ul, 16ul, 1ul << 20})
            for (size_t height : {0ul, 1ul, 4ul})
                question("memset_" + number(unit) + "_" + number(width) + "_" + number(height), [&] {
                    CUDA_MEMSET_NODE_PARAMS p{D(t.device), 64, 0, unit, width, height};
                    CUgraph h;
                    cuGraphCreate(&h, 0);
                    const int rc = cuGraphAddMemsetNode(&n, h, nullptr, 0, &p, context);
                    cuGraphDestroy(h);
                    return number(rc);
                });
    question("host_null", [&] {
        CUDA_HOST_NODE_PARAMS p{};
        return number(cuGraphAddHostNode(&n, g, nullptr, 0, &p));
    });
    question("child_null", [&] { return number(cuGraphAddChildGraphNode(&n, g, nullptr, 0, nullptr)); });
    question("child_self", [&] { return number(cuGraphAddChildGraphNode(&n, g, nullptr, 0, g)); });
    question("event_record_null", [&] { return number(cuGraphAddEventRecordNode(&n, g, nullptr, 0, nullptr)); });
    question("event_wait_null", [&] { return number(cuGraphAddEventWaitNode(&n, g, nullptr, 0, nullptr)); });
    // Memory nodes, and what may be done with such a graph.
    CUgraph m = nullptr;
    CUgraphNode alloc = nullptr;
    CUDA_MEM_ALLOC_NODE_PARAMS mem{};
    mem.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    mem.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    mem.bytesize = 512;
    cuGraphCreate(&m, 0);
    const int added = cuGraphAddMemAllocNode(&alloc, m, nullptr, 0, &mem);
    CUgraphExec me = nullptr;
    const int made = cuGraphInstantiate(&me, m, 0);
    question("memory_node", [&] { return number(added) + " " + number(made); });
    question("memory_instantiate_twice", [&] {
        CUgraphExec e;
        return number(cuGraphInstantiate(&e, m, 0));
    });
    question("memory_clone", [&] {
        CUgraph c;
        return number(cuGraphClone(&c, m));
    });
    question("memory_child", [&] { return number(cuGraphAddChildGraphNode(&n, g, nullptr, 0, m)); });
    question("memory_destroy_node", [&] { return number(cuGraphDestroyNode(alloc)); });
    question("memory_launch", [&] { return number(cuGraphLaunch(me, t.stream)); });
    question("memory_launch_twice", [&] { return number(cuGraphLaunch(me, t.stream)); });
    question("memory_free", [&] {
        cuGraphLaunch(me, t.stream);
        return number(cuMemFreeAsync(mem.dptr, t.stream));
    });
    question("memory_size_0", [&] {
        CUDA_MEM_ALLOC_NODE_PARAMS p = mem;
        p.bytesize = 0;
        CUgraph c;
        cuGraphCreate(&c, 0);
        return number(cuGraphAddMemAllocNode(&n, c, nullptr, 0, &p));
    });
    // Updates.
    for (int what = 0; what < 6; ++what)
        question("update_" + number(what), [&] {
            CUgraph o, u;
            CUgraphNode x, y;
            cuGraphCreate(&o, 0);
            cuGraphCreate(&u, 0);
            cuGraphAddKernelNode(&x, o, nullptr, 0, &k);
            CUDA_KERNEL_NODE_PARAMS q = k;
            if (what == 1) q.blockDimX = 64;
            if (what == 4) q.blockDimX = 4096;
            if (what == 2) cuGraphAddEmptyNode(&y, u, nullptr, 0);
            else cuGraphAddKernelNode(&y, u, nullptr, 0, &q);
            if (what == 3) cuGraphAddEmptyNode(&n, u, &y, 1);
            if (what == 5) cuGraphAddEmptyNode(&n, u, nullptr, 0);
            CUgraphExec e = nullptr;
            cuGraphInstantiate(&e, o, 0);
            CUgraphExecUpdateResultInfo info{};
            const int rc = cuGraphExecUpdate(e, u, &info);
            return number(rc) + " " + number(info.result);
        });
    question("exec_kernel_set", [&] {
        CUgraph o;
        CUgraphNode x;
        cuGraphCreate(&o, 0);
        cuGraphAddKernelNode(&x, o, nullptr, 0, &k);
        CUgraphExec e;
        cuGraphInstantiate(&e, o, 0);
        const int r = cuGraphExecKernelNodeSetParams(e, x, &k);
        return number(r) + " " + number(cuGraphExecKernelNodeSetParams(e, a, &k));
    });
    question("enabled", [&] {
        CUgraph o;
        CUgraphNode x;
        cuGraphCreate(&o, 0);
        cuGraphAddKernelNode(&x, o, nullptr, 0, &k);
        CUgraphExec e;
        cuGraphInstantiate(&e, o, 0);
        unsigned on = 7;
        const int r = cuGraphNodeGetEnabled(e, x, &on);
        return number(r) + " " + number(on) + " " + number(cuGraphNodeSetEnabled(e, x, 0));
    });
    // Conditional nodes.
    for (int type = 0; type < 4; ++type)
        for (unsigned size : {0u, 1u, 2u, 3u})
            for (unsigned flags : {0u, 1u, 2u})
                question("conditional_" + number(type) + "_" + number(size) + "_" + number(flags), [&] {
                    CUgraph c;
                    cuGraphCreate(&c, 0);
                    CUgraphConditionalHandle handle = 0;
                    const int h = cuGraphConditionalHandleCreate(&handle, c, context, 1, flags);
                    CUgraphNodeParams p{};
                    p.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
                    p.conditional.handle = handle;
                    p.conditional.type = static_cast<CUgraphConditionalNodeType>(type);
                    p.conditional.size = size;
                    p.conditional.ctx = context;
                    const int add = cuGraphAddNode(&n, c, nullptr, nullptr, 0, &p);
                    CUgraphNode second;
                    const int twice = add ? -1 : cuGraphAddNode(&second, c, nullptr, nullptr, 0, &p);
                    CUgraphExec e = nullptr;
                    const int inst = add ? -1 : cuGraphInstantiate(&e, c, 0);
                    return number(h) + " " + number(add) + " " + number(twice) + " " + number(inst);
                });
    question("user_object_0", [&] {
        CUuserObject u;
        return number(cuUserObjectCreate(&u, nullptr, nothing, 0, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    });
    question("user_object_flags", [&] {
        CUuserObject u;
        return number(cuUserObjectCreate(&u, nullptr, nothing, 1, 0));
    });
    question("user_object", [&] {
        CUuserObject u = nullptr;
        const int r = cuUserObjectCreate(&u, nullptr, nothing, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
        return number(r) + " " + number(cuGraphRetainUserObject(g, u, 1, 0)) + " " +
               number(cuGraphReleaseUserObject(g, u, 1));
    });
    question("debug_print", [&] { return number(cuGraphDebugDotPrint(g, "/dev/null", 0)); });
    question("debug_print_folder", [&] { return number(cuGraphDebugDotPrint(g, "/nonexistent/a", 0)); });
}

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
