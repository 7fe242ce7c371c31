// SPDX-License-Identifier: Apache-2.0
// Device, pinned, registered and managed memory of the software GPU: addresses, limits, copies, errors.
#include <atomic>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/unit/support/soft_fixture.h"

namespace {

struct SoftMemory : SoftGpu {};

TEST_F(SoftMemory, DeviceMemoryIsAlignedAndKeepsWhatIsCopied) {
    const CUdeviceptr at = device_memory(1000);
    EXPECT_EQ(0u, at % 256);
    std::vector<std::uint8_t> bytes(1000);
    std::iota(bytes.begin(), bytes.end(), 0);
    OK(cuMemcpyHtoD(at, bytes.data(), bytes.size()));
    EXPECT_EQ(bytes, read_back<std::uint8_t>(at, 1000));
    OK(cuMemFree(at));
}

TEST_F(SoftMemory, TheDeviceIsFullAtItsConfiguredSize) {
    CUdeviceptr all = 0, more = 0;
    const std::size_t free = free_memory();
    OK(cuMemAlloc(&all, free));
    SAYS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&more, 1));
    OK(cuMemFree(all));
    EXPECT_EQ(free, free_memory());
    SAYS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&more, SIZE_MAX));
}

TEST_F(SoftMemory, ACopyBeyondAnAllocationIsRefused) {
    const CUdeviceptr at = device_memory(100);
    char bytes[200] = {};
    SAYS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(at, bytes, 101));
    SAYS(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(bytes, at + 1, 100));
    SAYS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(at, bytes, SIZE_MAX));
    SAYS(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(at, 0, 101));
    SAYS(CUDA_SUCCESS, cuMemcpyHtoD(at + 50, bytes, 50));
    OK(cuMemFree(at));
    SAYS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(at, bytes, 1));
}

TEST_F(SoftMemory, FreeTakesTheStartOfAnAllocationOnce) {
    const CUdeviceptr at = device_memory(512);
    SAYS(CUDA_ERROR_INVALID_VALUE, cuMemFree(at + 256));
    OK(cuMemFree(at));
    SAYS(CUDA_ERROR_INVALID_VALUE, cuMemFree(at));
    SAYS(CUDA_SUCCESS, cuMemFree(0));
}

TEST_F(SoftMemory, AFillHasElementsOfOneTwoAndFourBytes) {
    const CUdeviceptr at = device_memory(64);
    OK(cuMemsetD32(at, 0x01020304, 4));
    OK(cuMemsetD16(at + 16, 0x0506, 8));
    OK(cuMemsetD8(at + 32, 0x07, 32));
    const auto bytes = read_back<std::uint8_t>(at, 64);
    EXPECT_EQ(4, bytes[0]);
    EXPECT_EQ(1, bytes[3]);
    EXPECT_EQ(6, bytes[16]);
    EXPECT_EQ(5, bytes[31]);
    EXPECT_EQ(7, bytes[63]);
    SAYS(CUDA_ERROR_INVALID_VALUE, cuMemsetD32(at + 2, 0, 1));
    OK(cuMemFree(at));
}

TEST_F(SoftMemory, ARectangleIsCopiedRowByRow) {
    CUdeviceptr at = 0;
    std::size_t pitch = 0;
    OK(cuMemAllocPitch(&at, &pitch, 10, 4, 4));
    EXPECT_EQ(0u, pitch % 512);
    OK(cuMemsetD2D8(at, pitch, 0xee, pitch, 4));
    std::vector<std::uint8_t> source(40);
    std::iota(source.begin(), source.end(), 0);
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = source.data();
    copy.srcPitch = 10;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = at;
    copy.dstPitch = pitch;
    copy.WidthInBytes = 8;
    copy.Height = 3;
    copy.srcXInBytes = 1;
    copy.srcY = 1;
    copy.dstXInBytes = 2;
    OK(cuMemcpy2D(&copy));
    const auto bytes = read_back<std::uint8_t>(at, pitch * 4);
    EXPECT_EQ(0xee, bytes[1]);
    EXPECT_EQ(11, bytes[2]);
    EXPECT_EQ(18, bytes[9]);
    EXPECT_EQ(0xee, bytes[10]);
    EXPECT_EQ(31, bytes[2 * pitch + 2]);
    EXPECT_EQ(0xee, bytes[3 * pitch + 2]);
    copy.Height = 5;
    copy.srcY = 0;
    SAYS(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D(&copy));
    OK(cuMemFree(at));
}

TEST_F(SoftMemory, ABoxIsCopiedSliceBySlice) {
    const CUdeviceptr at = device_memory(4 * 4 * 4);
    OK(cuMemsetD8(at, 0, 64));
    std::uint8_t source[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = source;
    copy.srcPitch = 2;
    copy.srcHeight = 2;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = at;
    copy.dstPitch = 4;
    copy.dstHeight = 4;
    copy.dstXInBytes = copy.dstY = copy.dstZ = 2;
    copy.WidthInBytes = copy.Height = copy.Depth = 2;
    OK(cuMemcpy3D(&copy));
    const auto bytes = read_back<std::uint8_t>(at, 64);
    EXPECT_EQ(1, bytes[2 * 16 + 2 * 4 + 2]);
    EXPECT_EQ(4, bytes[2 * 16 + 3 * 4 + 3]);
    EXPECT_EQ(8, bytes[63]);
    EXPECT_EQ(36, std::accumulate(bytes.begin(), bytes.end(), 0));
    OK(cuMemFree(at));
}

TEST_F(SoftMemory, APageableSourceMayBeReusedWhenAnAsyncCopyReturns) {
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    void* word;
    OK(cuMemHostAlloc(&word, 4, 0));
    auto* const gate = static_cast<std::atomic<std::uint32_t>*>(word);
    *gate = 0;
    const CUdeviceptr at = device_memory(4);
    int value = 41;
    OK(cuStreamWaitValue32(stream, reinterpret_cast<CUdeviceptr>(word), 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuMemcpyHtoDAsync(at, &value, 4, stream));  // the stream waits for the gate
    value = 0;
    *gate = 1;
    OK(cuStreamSynchronize(stream));
    EXPECT_EQ(41, read_back<int>(at, 1)[0]);
    OK(cuMemFree(at));
    OK(cuMemFreeHost(word));
    OK(cuStreamDestroy(stream));
}

// Copies that wait keep the program's bytes, but only a limited amount.
TEST_F(SoftMemory, CopiesThatWaitHoldOnlySoMuchOfTheHostsMemory) {
    constexpr int streams = 4, each = 1000, held = 1024;
    constexpr std::size_t bytes = 64 << 10;
    void* word;
    OK(cuMemHostAlloc(&word, 4, 0));
    auto* const gate = static_cast<std::atomic<std::uint32_t>*>(word);
    *gate = 0;
    const CUdeviceptr at = device_memory(bytes);
    const std::vector<char> mine(bytes, 1);
    std::atomic<int> posted{0};
    std::vector<std::thread> posters;
    std::vector<CUstream> all(streams);
    for (CUstream& stream : all) {
        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        OK(cuStreamWaitValue32(stream, reinterpret_cast<CUdeviceptr>(word), 1, CU_STREAM_WAIT_VALUE_EQ));
        posters.emplace_back([&, stream] {
            OK(cuCtxSetCurrent(context));
            for (int i = 0; i < each; ++i, ++posted) OK(cuMemcpyHtoDAsync(at, mine.data(), bytes, stream));
        });
    }
    while (posted < held) std::this_thread::yield();
    CUstream free;
    OK(cuStreamCreate(&free, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 200; ++i) {  // the device works meanwhile
        OK(cuMemsetD8Async(at, 1, 1, free));
        OK(cuStreamSynchronize(free));
    }
    EXPECT_EQ(held, posted);
    *gate = 1;
    for (std::thread& poster : posters) poster.join();
    for (const CUstream stream : all) {
        OK(cuStreamSynchronize(stream));
        OK(cuStreamDestroy(stream));
    }
    EXPECT_EQ(streams * each, posted);
    OK(cuStreamDestroy(free));
    OK(cuMemFree(at));
    OK(cuMemFreeHost(word));
}

TEST_F(SoftMemory, RegisteredMemoryIsTheDevicesAtItsOwnAddress) {
    std::vector<int> mine(100, 5);
    OK(cuMemHostRegister(mine.data(), 400, CU_MEMHOSTREGISTER_DEVICEMAP));
    CUdeviceptr there = 0;
    OK(cuMemHostGetDevicePointer(&there, mine.data() + 10, 0));
    EXPECT_EQ(reinterpret_cast<CUdeviceptr>(mine.data() + 10), there);
    unsigned flags = 0;
    OK(cuMemHostGetFlags(&flags, mine.data()));
    EXPECT_TRUE(flags & CU_MEMHOSTREGISTER_DEVICEMAP);
    OK(cuMemHostUnregister(mine.data()));
    SAYS(CUDA_ERROR_INVALID_VALUE, cuMemHostGetDevicePointer(&there, mine.data(), 0));
}

TEST_F(SoftMemory, NoByteIsRegisteredTwice) {
    std::vector<char> mine(1000);
    OK(cuMemHostRegister(mine.data() + 100, 500, 0));
    SAYS(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(mine.data(), 101, 0));
    SAYS(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(mine.data() + 599, 10, 0));
    OK(cuMemHostRegister(mine.data(), 100, 0));
    SAYS(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(mine.data() + 101));
    OK(cuMemHostUnregister(mine.data() + 100));
    OK(cuMemHostUnregister(mine.data()));
    SAYS(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(mine.data()));
}

TEST_F(SoftMemory, PointersTellWhatTheyAre) {
    const CUdeviceptr at = device_memory(100);
    CUdeviceptr managed = 0;
    void* pinned = nullptr;
    OK(cuMemAllocManaged(&managed, 8, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemAllocHost(&pinned, 8));
    unsigned type = 0;
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at + 50));
    EXPECT_EQ(CU_MEMORYTYPE_DEVICE, type);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, reinterpret_cast<CUdeviceptr>(pinned)));
    EXPECT_EQ(CU_MEMORYTYPE_HOST, type);
    bool is_managed = false;
    OK(cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, managed));
    EXPECT_TRUE(is_managed);
    CUdeviceptr start = 0;
    OK(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at + 50));
    EXPECT_EQ(at, start);
    SAYS(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at + 100));

    int mine = 0;
    CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_CONTEXT};
    CUcontext owner = context;
    void* answers[] = {&type, &owner};
    OK(cuPointerGetAttributes(2, asked, answers, reinterpret_cast<CUdeviceptr>(&mine)));
    EXPECT_EQ(0u, type);
    EXPECT_EQ(nullptr, owner);

    OK(cuMemFree(at));
    OK(cuMemFree(managed));
    OK(cuMemFreeHost(pinned));
}

TEST_F(SoftMemory, ManagedMemoryIsTheHostsToo) {
    CUdeviceptr managed = 0;
    OK(cuMemAllocManaged(&managed, 8, CU_MEM_ATTACH_GLOBAL));
    *reinterpret_cast<int*>(managed) = 17;
    EXPECT_EQ(17, read_back<int>(managed, 1)[0]);
    OK(cuMemPrefetchAsync(managed, 8, {CU_MEM_LOCATION_TYPE_DEVICE, 0}, 0, nullptr));
    OK(cuMemFree(managed));
}

TEST_F(SoftMemory, AResetContextGivesItsMemoryBack) {
    const std::size_t before = free_memory();
    device_memory(1 << 20);
    void* pinned;
    OK(cuMemAllocHost(&pinned, 4096));
    OK(cuDevicePrimaryCtxReset(device));
    EXPECT_EQ(before, free_memory());
    SAYS(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(pinned));
}

// ---- pools ----------------------------------------------------------------------------------------------------------

TEST_F(SoftMemory, StreamOrderedMemoryIsCountedByItsPool) {
    CUmemoryPool pool;
    OK(cuDeviceGetDefaultMemPool(&pool, device));
    CUdeviceptr at = 0;
    OK(cuMemAllocAsync(&at, 1000, nullptr));
    cuuint64_t used = 0;
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    EXPECT_EQ(1024u, used);
    OK(cuMemsetD8Async(at, 1, 1000, nullptr));
    OK(cuMemFreeAsync(at, nullptr));
    OK(cuStreamSynchronize(nullptr));
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    EXPECT_EQ(0u, used);
}

TEST_F(SoftMemory, MemoryThatAStreamHasYetToFreeIsWaitedFor) {
    CUdeviceptr at = 0;
    for (int i = 0; i < 20; ++i) {
        OK(cuMemAllocAsync(&at, 100 << 20, nullptr));
        OK(cuMemFreeAsync(at, nullptr));
    }
    OK(cuStreamSynchronize(nullptr));
}

}  // namespace
