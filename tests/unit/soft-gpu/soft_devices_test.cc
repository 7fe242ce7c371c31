// SPDX-License-Identifier: Apache-2.0
// A software GPU of two devices: what each has of its own, what they share, and the order of work between them.
#include <atomic>

#include "tests/unit/support/soft_fixture.h"

namespace {

constexpr char ptx[] = R"(
    .version 7.0
    .target sm_70
    .address_size 64
    .global .u32 own = 5;
    .global .attribute(.managed) .u32 shared = 5;
    .visible .entry tell(.param .u64 to) {
        .reg .u64 %a; .reg .u32 %v;
        ld.param.u64 %a, [to];
        ld.global.u32 %v, [own];
        st.global.u32 [%a], %v;
        ld.global.u32 %v, [shared];
        st.global.u32 [%a+4], %v;
        ret;
    }
)";

struct SoftDevices : testing::Test {
    static void SetUpTestSuite() {
        setenv("BARCUDA_SOFT_MEMORY", "64M", 1);
        setenv("BARCUDA_SOFT_DEVICES", "2", 1);
        OK(cuInit(0));
    }
    CUcontext contexts[2] = {};
    void SetUp() override {
        for (int d : {0, 1}) OK(cuDevicePrimaryCtxRetain(&contexts[d], d));
        use(0);
    }
    void TearDown() override {
        cuCtxSetCurrent(nullptr);
        for (int d : {0, 1}) OK(cuDevicePrimaryCtxRelease(d));
    }
    void use(int d) { OK(cuCtxSetCurrent(contexts[d])); }
    CUdeviceptr on(int d, std::size_t bytes) {
        CUdeviceptr p = 0;
        use(d);
        EXPECT_EQ(CUDA_SUCCESS, cuMemAlloc(&p, bytes));
        return p;
    }
    static unsigned word(CUdeviceptr p) {
        unsigned value = 0;
        EXPECT_EQ(CUDA_SUCCESS, cuMemcpyDtoH(&value, p, 4));
        return value;
    }
    static std::size_t left() {
        std::size_t free = 0, total = 0;
        EXPECT_EQ(CUDA_SUCCESS, cuMemGetInfo(&free, &total));
        return free;
    }
};

TEST_F(SoftDevices, AreTwoThatDiffer) {
    int count = 0, can = 0;
    OK(cuDeviceGetCount(&count));
    EXPECT_EQ(2, count);
    CUuuid first, second;
    OK(cuDeviceGetUuid(&first, 0));
    OK(cuDeviceGetUuid(&second, 1));
    EXPECT_NE(0, std::memcmp(&first, &second, sizeof first));
    char id[20];
    CUdevice found = -1;
    OK(cuDeviceGetPCIBusId(id, sizeof id, 1));
    OK(cuDeviceGetByPCIBusId(&found, id));
    EXPECT_EQ(1, found);
    OK(cuDeviceCanAccessPeer(&can, 0, 1));
    EXPECT_EQ(1, can);
    OK(cuDeviceCanAccessPeer(&can, 1, 1));
    EXPECT_EQ(0, can);
    SAYS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&found, 2));
}

TEST_F(SoftDevices, HaveMemoryOfTheirOwn) {
    const CUdeviceptr p = on(1, 32 << 20);
    int device = -1;
    OK(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
    EXPECT_EQ(1, device);
    EXPECT_EQ(std::size_t{32} << 20, left());
    use(0);
    EXPECT_EQ(std::size_t{64} << 20, left());
    CUdeviceptr pooled = 0;
    OK(cuMemAllocAsync(&pooled, 16 << 20, nullptr));
    EXPECT_EQ(std::size_t{48} << 20, left());
    OK(cuMemFreeAsync(pooled, nullptr));
    OK(cuMemFree(p));  // whichever context is current
    use(1);
    EXPECT_EQ(std::size_t{64} << 20, left());
}

TEST_F(SoftDevices, KeepALibrarysVariablesWhenAnotherDeviceIsReset) {
    CUlibrary library;
    OK(cuLibraryLoadData(&library, ptx, nullptr, nullptr, 0, nullptr, nullptr, 0));
    CUdeviceptr first[2] = {}, now = 0;
    for (int d : {0, 1}) {
        use(d);
        OK(cuLibraryGetGlobal(&first[d], nullptr, library, "own"));
    }
    EXPECT_NE(first[0], first[1]);
    OK(cuDevicePrimaryCtxReset(0));
    use(1);
    OK(cuLibraryGetGlobal(&now, nullptr, library, "own"));
    EXPECT_EQ(first[1], now);
    OK(cuDevicePrimaryCtxRelease(0));
    OK(cuDevicePrimaryCtxRetain(&contexts[0], 0));
    use(0);
    OK(cuLibraryGetGlobal(&now, nullptr, library, "own"));
    EXPECT_EQ(5u, word(now));
    OK(cuLibraryUnload(library));
}

TEST_F(SoftDevices, HaveALibrarysVariablesForThemselvesButTheManagedOnes) {
    CUlibrary library;
    CUkernel kernel;
    OK(cuLibraryLoadData(&library, ptx, nullptr, nullptr, 0, nullptr, nullptr, 0));
    OK(cuLibraryGetKernel(&kernel, library, "tell"));
    for (int d : {0, 1}) {
        CUdeviceptr variable = 0, shared = 0;
        use(d);
        OK(cuLibraryGetGlobal(&variable, nullptr, library, "own"));
        OK(cuMemsetD32(variable, 10u + static_cast<unsigned>(d), 1));
        if (d == 0) continue;
        OK(cuLibraryGetManaged(&shared, nullptr, library, "shared"));
        OK(cuMemsetD32(shared, 20, 1));
        OK(cuCtxSynchronize());
    }
    CUfunction functions[2];
    const auto told = [&](int d, CUfunction function) {
        const CUdeviceptr to = on(d, 8);
        void* parameters[] = {const_cast<CUdeviceptr*>(&to)};
        EXPECT_EQ(CUDA_SUCCESS, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
        EXPECT_EQ(20u, word(to + 4));
        return word(to);
    };
    for (int d : {0, 1}) {
        use(d);
        OK(cuKernelGetFunction(&functions[d], kernel));
        EXPECT_EQ(10u + static_cast<unsigned>(d), told(d, functions[d]));
        EXPECT_EQ(10u + static_cast<unsigned>(d), told(d, reinterpret_cast<CUfunction>(kernel)));
    }
    EXPECT_NE(functions[0], functions[1]);
    for (int d : {0, 1}) {
        const CUdeviceptr to = on(d, 8);
        void* parameters[] = {const_cast<CUdeviceptr*>(&to)};
        SAYS(CUDA_ERROR_INVALID_HANDLE,
             cuLaunchKernel(functions[1 - d], 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
    }
    OK(cuDevicePrimaryCtxReset(1));  // in its initial state; the other one is unchanged
    EXPECT_EQ(5u, told(1, reinterpret_cast<CUfunction>(kernel)));
    EXPECT_EQ(10u, told(0, functions[0]));
    OK(cuLibraryUnload(library));
}

TEST_F(SoftDevices, WaitForThemselvesAlone) {
    const CUdeviceptr gates[] = {on(0, 8), on(1, 8)};
    for (int d : {0, 1}) {
        use(d);
        OK(cuMemsetD32(gates[d], 0, 2));
        OK(cuCtxSynchronize());
        OK(cuStreamWaitValue32(nullptr, gates[d], 1, CU_STREAM_WAIT_VALUE_EQ));
        OK(cuStreamWriteValue32(nullptr, gates[d] + 4, 1, 0));
    }
    CUstream side;
    OK(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
    OK(cuStreamWriteValue32(side, gates[0], 1, 0));
    use(0);
    OK(cuCtxSynchronize());
    SAYS(CUDA_SUCCESS, cuStreamQuery(nullptr));
    use(1);
    SAYS(CUDA_ERROR_NOT_READY, cuStreamQuery(nullptr));
    OK(cuStreamWriteValue32(side, gates[1], 1, 0));
    OK(cuCtxSynchronize());
    EXPECT_EQ(1u, word(gates[1] + 4));
    OK(cuStreamDestroy(side));
}

// Both ways, whichever context is current: a copy that belongs to no stream comes after all earlier work of both
// devices, and before all later work.
struct SoftDevicesCopies : SoftDevices {
    void in_the_order_of_both(CUdeviceptr gate, CUdeviceptr from, CUdeviceptr to);
};
void SoftDevicesCopies::in_the_order_of_both(CUdeviceptr gate, CUdeviceptr from, CUdeviceptr to) {
    for (int current : {0, 1})
        for (bool peer : {true, false}) {
            use(0);
            OK(cuMemsetD32(gate, 0, 1));
            OK(cuMemsetD32(from, 1, 1));
            OK(cuCtxSynchronize());
            CUstream before, after;
            OK(cuStreamCreate(&before, CU_STREAM_NON_BLOCKING));
            OK(cuStreamWaitValue32(before, gate, 1, CU_STREAM_WAIT_VALUE_EQ));
            OK(cuMemsetD32Async(from, 7, 1, before));
            use(current);
            OK(peer ? cuMemcpyPeer(to, contexts[1], from, contexts[0], 4) : cuMemcpyDtoD(to, from, 4));
            use(1);
            OK(cuStreamCreate(&after, CU_STREAM_NON_BLOCKING));
            OK(cuMemsetD32Async(from, 9, 1, after));
            SAYS(CUDA_ERROR_NOT_READY, cuStreamQuery(after));
            std::atomic_ref(*reinterpret_cast<unsigned*>(gate)) = 1;
            OK(cuCtxSynchronize());
            EXPECT_EQ(7u, word(to));
            EXPECT_EQ(9u, word(from));
            for (CUstream s : {before, after}) OK(cuStreamDestroy(s));
        }
}

TEST_F(SoftDevicesCopies, CopyBetweenThemselvesInTheOrderOfBoth) { in_the_order_of_both(on(0, 4), on(0, 4), on(1, 4)); }
TEST_F(SoftDevicesCopies, SoDoCopiesOfMappedMemory) {
    constexpr std::size_t granule = 2 << 20;
    CUdeviceptr at = 0;
    OK(cuMemAddressReserve(&at, 2 * granule, 0, 0, 0));
    for (int d : {0, 1}) {
        CUmemAllocationProp what{};
        what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        what.location = {CU_MEM_LOCATION_TYPE_DEVICE, d};
        const CUmemAccessDesc access{what.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        CUmemGenericAllocationHandle memory = 0;
        OK(cuMemCreate(&memory, granule, &what, 0));
        OK(cuMemMap(at + static_cast<std::size_t>(d) * granule, granule, 0, memory, 0));
        OK(cuMemRelease(memory));
        OK(cuMemSetAccess(at + static_cast<std::size_t>(d) * granule, granule, &access, 1));
    }
    in_the_order_of_both(on(0, 4), at, at + granule);
    OK(cuMemUnmap(at, 2 * granule));
    OK(cuMemAddressFree(at, 2 * granule));
}

TEST_F(SoftDevices, EndAlone) {
    const CUdeviceptr gate = on(0, 4), mine = on(0, 4), others = on(1, 4);
    use(0);
    OK(cuMemsetD32(gate, 0, 1));
    OK(cuCtxSynchronize());
    OK(cuStreamWaitValue32(nullptr, gate, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuMemsetD32Async(mine, 3, 1, nullptr));
    OK(cuDevicePrimaryCtxReset(1));
    SAYS(CUDA_ERROR_NOT_READY, cuStreamQuery(nullptr));
    std::size_t size = 0;
    SAYS(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(nullptr, &size, others));
    std::atomic_ref(*reinterpret_cast<unsigned*>(gate)) = 1;
    OK(cuCtxSynchronize());
    EXPECT_EQ(3u, word(mine));
}

TEST_F(SoftDevices, OpenTheirMemoryToEachOtherOnce) {
    use(0);
    SAYS(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(contexts[1]));
    OK(cuCtxEnablePeerAccess(contexts[1], 0));
    SAYS(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess(contexts[1], 0));
    OK(cuCtxDisablePeerAccess(contexts[1]));
}

}  // namespace
