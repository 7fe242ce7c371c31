// SPDX-License-Identifier: Apache-2.0
// Virtual memory management of the software GPU: addresses, physical memory, and what joins them.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "tests/unit/support/soft_fixture.h"

namespace {

struct SoftVmm : SoftGpu {
    static constexpr std::size_t granule = 2 << 20;
    static CUmemAllocationProp properties() {
        CUmemAllocationProp made{};
        made.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        made.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
        made.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        return made;
    }
    static CUmemGenericAllocationHandle physical(std::size_t size) {
        CUmemGenericAllocationHandle made = 0;
        const CUmemAllocationProp of = properties();
        EXPECT_EQ(CUDA_SUCCESS, cuMemCreate(&made, size, &of, 0));
        return made;
    }
    static CUdeviceptr reserve(std::size_t size, CUdeviceptr wish = 0) {
        CUdeviceptr at = 0;
        EXPECT_EQ(CUDA_SUCCESS, cuMemAddressReserve(&at, size, 0, wish, 0));
        return at;
    }
    static void give_access(CUdeviceptr at, std::size_t size) {
        const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        EXPECT_EQ(CUDA_SUCCESS, cuMemSetAccess(at, size, &access, 1));
    }
};

TEST_F(SoftVmm, GranularityIsTwoMebibytes) {
    const CUmemAllocationProp of = properties();
    std::size_t size = 0;
    OK(cuMemGetAllocationGranularity(&size, &of, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    EXPECT_EQ(granule, size);
    CUmemGenericAllocationHandle handle;
    SAYS(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, granule / 2, &of, 0));
}

TEST_F(SoftVmm, AnAddressIsReservedWhereItIsWished) {
    constexpr CUdeviceptr wish = 0x7e8000000000;  // an address that sanitizers leave free, too
    const CUdeviceptr at = reserve(4 * granule, wish);
    EXPECT_EQ(wish, at);
    const CUdeviceptr other = reserve(4 * granule, wish);  // in use: elsewhere
    EXPECT_NE(wish, other);
    OK(cuMemAddressFree(at, 4 * granule));
    OK(cuMemAddressFree(other, 4 * granule));
    SAYS(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(other, 4 * granule));
}

TEST_F(SoftVmm, MappedMemoryIsDeviceMemoryOnceItHasAccess) {
    const CUdeviceptr at = reserve(2 * granule);
    const auto memory = physical(granule);
    OK(cuMemMap(at, granule, 0, memory, 0));
    SAYS(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(at, 1, 16));
    give_access(at, granule);
    OK(cuMemsetD8(at, 1, granule));
    SAYS(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(at, 1, granule + 1));
    EXPECT_EQ(1, read_back<std::uint8_t>(at + granule - 1, 1)[0]);
    OK(cuMemUnmap(at, granule));
    SAYS(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(at, 1, 16));
    OK(cuMemRelease(memory));
    OK(cuMemAddressFree(at, 2 * granule));
}

TEST_F(SoftVmm, ACopyCrossesFromOneMappingToTheNext) {
    const CUdeviceptr at = reserve(2 * granule);
    const auto first = physical(granule), second = physical(granule);
    OK(cuMemMap(at, granule, 0, first, 0));
    OK(cuMemMap(at + granule, granule, 0, second, 0));
    OK(cuMemRelease(first));  // the mappings keep the memory
    OK(cuMemRelease(second));
    give_access(at, 2 * granule);
    OK(cuMemsetD8(at + granule - 8, 7, 16));
    EXPECT_EQ(std::vector<std::uint8_t>(16, 7), read_back<std::uint8_t>(at + granule - 8, 16));
    OK(cuMemUnmap(at, 2 * granule));
    OK(cuMemAddressFree(at, 2 * granule));
}

TEST_F(SoftVmm, TheSameMemoryMappedTwiceIsTheSame) {
    const CUdeviceptr at = reserve(2 * granule);
    const auto memory = physical(granule);
    OK(cuMemMap(at, granule, 0, memory, 0));
    OK(cuMemMap(at + granule, granule, 0, memory, 0));
    give_access(at, 2 * granule);
    OK(cuMemsetD32(at, 42, 1));
    EXPECT_EQ(42, read_back<int>(at + granule, 1)[0]);
    OK(cuMemUnmap(at, 2 * granule));
    OK(cuMemRelease(memory));
    OK(cuMemAddressFree(at, 2 * granule));
}

TEST_F(SoftVmm, PhysicalMemoryIsTheDevicesUntilItsLastHolderGoes) {
    const std::size_t before = free_memory();
    const CUdeviceptr at = reserve(granule);
    const auto memory = physical(granule);
    EXPECT_EQ(before - granule, free_memory());
    OK(cuMemMap(at, granule, 0, memory, 0));
    OK(cuMemRelease(memory));
    EXPECT_EQ(before - granule, free_memory());
    OK(cuMemUnmap(at, granule));
    EXPECT_EQ(before, free_memory());
    OK(cuMemAddressFree(at, granule));
}

TEST_F(SoftVmm, AReservedRangeWithMappingsIsNotFreed) {
    const CUdeviceptr at = reserve(granule);
    const auto memory = physical(granule);
    OK(cuMemMap(at, granule, 0, memory, 0));
    SAYS(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(at, granule));
    SAYS(CUDA_ERROR_INVALID_VALUE, cuMemMap(at, granule, 0, memory, 0));
    OK(cuMemUnmap(at, granule));
    OK(cuMemAddressFree(at, granule));
    SAYS(CUDA_ERROR_INVALID_VALUE, cuMemMap(at, granule, 0, memory, 0));
    OK(cuMemRelease(memory));
}

TEST_F(SoftVmm, AnExportedHandleIsTheSameMemory) {
    const CUdeviceptr at = reserve(2 * granule);
    const auto memory = physical(granule);
    int file = -1;
    OK(cuMemExportToShareableHandle(&file, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    CUmemGenericAllocationHandle imported = 0;
    OK(cuMemImportFromShareableHandle(&imported, reinterpret_cast<void*>(static_cast<std::intptr_t>(file)),
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(file);
    OK(cuMemMap(at, granule, 0, memory, 0));
    OK(cuMemMap(at + granule, granule, 0, imported, 0));
    give_access(at, 2 * granule);
    OK(cuMemsetD32(at, 0x1234, 1));
    EXPECT_EQ(0x1234, read_back<int>(at + granule, 1)[0]);
    OK(cuMemUnmap(at, 2 * granule));
    OK(cuMemRelease(memory));
    OK(cuMemRelease(imported));
    OK(cuMemAddressFree(at, 2 * granule));
}

TEST_F(SoftVmm, ARetainedHandleNeedsAReleaseOfItsOwn) {
    const CUdeviceptr at = reserve(granule);
    const auto memory = physical(granule);
    OK(cuMemMap(at, granule, 0, memory, 0));
    CUmemGenericAllocationHandle again = 0;
    OK(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(at)));
    EXPECT_EQ(memory, again);
    OK(cuMemRelease(memory));
    CUmemAllocationProp of;
    OK(cuMemGetAllocationPropertiesFromHandle(&of, again));
    OK(cuMemRelease(again));
    SAYS(CUDA_ERROR_INVALID_VALUE, cuMemRelease(again));
    OK(cuMemUnmap(at, granule));
    OK(cuMemAddressFree(at, granule));
}

// ---- work that outlives its memory

TEST_F(SoftVmm, UnmappingWaitsForTheWorkThatUsesIt) {
    const CUdeviceptr at = reserve(2 * granule);
    const auto memory = physical(granule);
    OK(cuMemMap(at, granule, 0, memory, 0));
    OK(cuMemMap(at + granule, granule, 0, memory, 0));
    give_access(at, 2 * granule);
    void* word;
    OK(cuMemHostAlloc(&word, 4, 0));
    auto* const gate = static_cast<std::atomic<std::uint32_t>*>(word);
    *gate = 0;
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamWaitValue32(stream, reinterpret_cast<CUdeviceptr>(word), 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuMemsetD32Async(at, 42, 1, stream));
    std::thread opener([&] { *gate = 1; });
    OK(cuMemUnmap(at, granule));
    EXPECT_EQ(CUDA_SUCCESS, cuStreamQuery(stream));
    EXPECT_EQ(42, read_back<int>(at + granule, 1)[0]);
    opener.join();
    OK(cuMemUnmap(at + granule, granule));
    OK(cuMemRelease(memory));
    OK(cuMemAddressFree(at, 2 * granule));
    OK(cuStreamDestroy(stream));
    OK(cuMemFreeHost(word));
}

// Each node was checked when it was made, but a graph may run it at any time.
struct SoftVmmGraph : SoftVmm {
    template <class Add> void finds_nothing(const Add& add) {
        const CUdeviceptr at = reserve(granule);
        const auto memory = physical(granule);
        OK(cuMemMap(at, granule, 0, memory, 0));
        give_access(at, granule);
        CUgraph graph;
        CUgraphExec exec;
        OK(cuGraphCreate(&graph, 0));
        add(graph, at);
        OK(cuGraphInstantiate(&exec, graph, 0));
        OK(cuGraphLaunch(exec, nullptr));
        OK(cuCtxSynchronize());
        OK(cuMemUnmap(at, granule));
        OK(cuMemRelease(memory));
        OK(cuMemAddressFree(at, granule));
        testing::internal::CaptureStderr();
        OK(cuGraphLaunch(exec, nullptr));
        SAYS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
        EXPECT_NE(std::string::npos, testing::internal::GetCapturedStderr().find("not there any more"));
        OK(cuDevicePrimaryCtxReset(device));
        OK(cuGraphExecDestroy(exec));
        OK(cuGraphDestroy(graph));
    }
};
TEST_F(SoftVmmGraph, AFillOfUnmappedMemoryIsAFault) {
    finds_nothing([&](CUgraph graph, CUdeviceptr at) {
        CUgraphNode node;
        const CUDA_MEMSET_NODE_PARAMS fill{at, 0, 7, 4, 1, 1};
        OK(cuGraphAddMemsetNode(&node, graph, nullptr, 0, &fill, context));
    });
}
TEST_F(SoftVmmGraph, ACopyOfUnmappedMemoryIsAFault) {
    static int here = 1;
    for (const bool there : {false, true})
        finds_nothing([&](CUgraph graph, CUdeviceptr at) {
            CUgraphNode node;
            CUDA_MEMCPY3D box{};
            box.srcMemoryType = there ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
            box.srcHost = &here;
            box.dstMemoryType = there ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
            box.dstHost = &here;
            box.srcDevice = box.dstDevice = at;
            box.WidthInBytes = 4;
            box.Height = box.Depth = 1;
            OK(cuGraphAddMemcpyNode(&node, graph, nullptr, 0, &box, context));
        });
}
TEST_F(SoftVmmGraph, AWordOfUnmappedMemoryIsAFault) {
    finds_nothing([&](CUgraph graph, CUdeviceptr at) {
        CUgraphNode node;
        CUstreamBatchMemOpParams write{};
        write.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
        write.writeValue.address = at;
        const CUDA_BATCH_MEM_OP_NODE_PARAMS all{context, 1, &write, 0};
        OK(cuGraphAddBatchMemOpNode(&node, graph, nullptr, 0, &all));
    });
}

// A texture is made from an address, and keeps no memory alive.
struct SoftVmmTexture : SoftVmm {
    CUmodule module = nullptr;
    CUfunction read = nullptr, nothing = nullptr;
    void load() {
        OK(cuModuleLoadData(&module, R"(
.version 8.0
.target sm_75
.address_size 64
.visible .entry read(.param .u64 texture, .param .u64 to)
{
    .reg .b64 %rd<3>;
    .reg .f32 %f<5>;
    ld.param.u64 %rd1, [texture];
    ld.param.u64 %rd2, [to];
    tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {2}];
    st.global.f32 [%rd2], %f1;
    ret;
}
.visible .entry nothing()
{
    ret;
}
)"));
        OK(cuModuleGetFunction(&read, module, "read"));
        OK(cuModuleGetFunction(&nothing, module, "nothing"));
    }
    static CUtexObject texture(CUdeviceptr at, std::size_t bytes) {
        CUDA_RESOURCE_DESC resource{};
        resource.resType = CU_RESOURCE_TYPE_LINEAR;
        resource.res.linear = {at, CU_AD_FORMAT_FLOAT, 1, bytes};
        const CUDA_TEXTURE_DESC reading{};
        CUtexObject made = 0;
        EXPECT_EQ(CUDA_SUCCESS, cuTexObjectCreate(&made, &resource, &reading, nullptr));
        return made;
    }
    CUresult reads(CUtexObject texture, CUdeviceptr to) {
        void* parameters[] = {&texture, &to};
        const CUresult r = cuLaunchKernel(read, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr);
        return r == CUDA_SUCCESS ? cuCtxSynchronize() : r;
    }
};
TEST_F(SoftVmmTexture, OfUnmappedMemoryIsAFault) {
    load();
    const CUdeviceptr at = reserve(granule), to = device_memory(4);
    const auto memory = physical(granule);
    OK(cuMemMap(at, granule, 0, memory, 0));
    give_access(at, granule);
    OK(cuMemsetD32(at, 0x40e00000, 16));  // sevens
    const CUtexObject made = texture(at, granule);
    OK(reads(made, to));
    EXPECT_EQ(7, read_back<float>(to, 1)[0]);
    OK(cuMemUnmap(at, granule));
    OK(cuMemRelease(memory));
    testing::internal::CaptureStderr();
    SAYS(CUDA_ERROR_ILLEGAL_ADDRESS, reads(made, to));
    EXPECT_NE(std::string::npos, testing::internal::GetCapturedStderr().find("a texture whose memory is there"));
    OK(cuDevicePrimaryCtxReset(device));
    OK(cuMemAddressFree(at, granule));
}
TEST_F(SoftVmmTexture, IsThereAgainWhenItsMemoryIs) {
    load();
    const CUdeviceptr at = reserve(granule), to = device_memory(4);
    const auto memory = physical(granule);
    const auto map = [&] {
        OK(cuMemMap(at, granule, 0, memory, 0));
        give_access(at, granule);
    };
    map();
    OK(cuMemsetD32(at, 0x40e00000, 16));
    const CUtexObject made = texture(at, granule);
    OK(cuMemUnmap(at, granule));
    OK(cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
    OK(cuCtxSynchronize());
    map();
    OK(reads(made, to));
    EXPECT_EQ(7, read_back<float>(to, 1)[0]);
    OK(cuMemUnmap(at, granule));
    OK(cuTexObjectDestroy(made));
    OK(cuMemRelease(memory));
    OK(cuMemAddressFree(at, granule));
    OK(cuMemFree(to));
    OK(cuModuleUnload(module));
}

TEST_F(SoftVmm, AnAddressThatWasTheDevicesNeverBecomesTheProcesss) {
    constexpr std::size_t size = 8 * granule;
    const CUdeviceptr at = reserve(size);
    OK(cuMemAddressFree(at, size));
    for (int i = 0; i < 100; ++i) {
        void* const own = mmap(nullptr, granule, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        const auto there = reinterpret_cast<CUdeviceptr>(own);
        EXPECT_TRUE(there + granule <= at || there >= at + size);
    }
    const CUdeviceptr first = reserve(2 * granule, at + granule), second = reserve(granule, at), third = reserve(size);
    EXPECT_EQ(at + granule, first);  // but the program's own again
    EXPECT_EQ(at, second);
    EXPECT_TRUE(third + size <= at || third >= at + size);
    OK(cuMemAddressFree(second, granule));
    OK(cuMemAddressFree(first, 2 * granule));
    EXPECT_EQ(at, reserve(size, at));  // as one range
    OK(cuMemAddressFree(at, size));
    OK(cuMemAddressFree(third, size));
}

}  // namespace
