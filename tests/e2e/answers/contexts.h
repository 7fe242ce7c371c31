// SPDX-License-Identifier: Apache-2.0
// contexts.h: contexts: current ones, limits, flags, the primary one.
#pragma once
#include "things.h"

namespace {

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

}  // namespace
