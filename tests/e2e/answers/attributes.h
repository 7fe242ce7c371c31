// SPDX-License-Identifier: Apache-2.0
// attributes.h: what a device is asked for: attributes, names, limits, properties.
#pragma once
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

}  // namespace
