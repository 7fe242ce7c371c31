// SPDX-License-Identifier: Apache-2.0
// Memory as the runtime sees it: what of nothing is, which way a copy goes, what a pointer is.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

namespace {

struct RuntimeMemory : testing::Test {
    void SetUp() override { cudaGetLastError(); }
    void TearDown() override { cudaGetLastError(); }
    static std::vector<unsigned char> numbers(std::size_t count) {
        std::vector<unsigned char> bytes(count);
        std::iota(bytes.begin(), bytes.end(), 1);
        return bytes;
    }
};

struct DeviceMemory {
    explicit DeviceMemory(std::size_t bytes) { EXPECT_EQ(cudaSuccess, cudaMalloc(&at, bytes)); }
    ~DeviceMemory() { EXPECT_EQ(cudaSuccess, cudaFree(at)); }
    char* operator+(std::size_t offset) const { return static_cast<char*>(at) + offset; }
    void* at = nullptr;
};

TEST_F(RuntimeMemory, NothingIsANullPointerThatCanBeFreed) {
    void* memory = &memory;
    EXPECT_EQ(cudaSuccess, cudaMalloc(&memory, 0));
    EXPECT_EQ(nullptr, memory);
    EXPECT_EQ(cudaSuccess, cudaFree(nullptr));
    EXPECT_EQ(cudaSuccess, cudaFreeHost(nullptr));
    EXPECT_EQ(cudaSuccess, cudaFreeArray(nullptr));
    EXPECT_EQ(cudaSuccess, cudaFreeAsync(nullptr, nullptr));
}

// As NVIDIA's runtime does (580.159), whatever is documented: PyTorch with an allocator of managed memory asks for
// none.
TEST_F(RuntimeMemory, NoManagedMemoryIsANullPointer) {
    void* memory = &memory;
    EXPECT_EQ(cudaSuccess, cudaMallocManaged(&memory, 0, cudaMemAttachGlobal));
    EXPECT_EQ(nullptr, memory);
    EXPECT_EQ(cudaErrorInvalidValue, cudaMallocManaged(static_cast<void**>(nullptr), 0, cudaMemAttachGlobal));
}

TEST_F(RuntimeMemory, TooMuchIsAnErrorThatIsRememberedAndCleared) {
    void* memory = nullptr;
    EXPECT_EQ(cudaErrorMemoryAllocation, cudaMalloc(&memory, std::size_t{1} << 60));
    EXPECT_EQ(cudaErrorMemoryAllocation, cudaGetLastError());
    EXPECT_EQ(cudaSuccess, cudaGetLastError());
}

TEST_F(RuntimeMemory, ACopyOfNoDirectionIsRefused) {
    char a[4] = {}, b[4] = {};
    EXPECT_EQ(cudaErrorInvalidMemcpyDirection, cudaMemcpy(a, b, 4, static_cast<cudaMemcpyKind>(9)));
    EXPECT_EQ(cudaErrorInvalidMemcpyDirection, cudaMemcpyAsync(a, b, 4, static_cast<cudaMemcpyKind>(9), nullptr));
    EXPECT_EQ(cudaErrorInvalidMemcpyDirection, cudaMemcpy2D(a, 4, b, 4, 4, 1, static_cast<cudaMemcpyKind>(9)));
}

TEST_F(RuntimeMemory, ADefaultCopyFindsItsDirectionInTheAddresses) {
    auto bytes = numbers(64);
    std::vector<unsigned char> back(64);
    DeviceMemory first(64), second(64);
    EXPECT_EQ(cudaSuccess, cudaMemcpy(first.at, bytes.data(), 64, cudaMemcpyDefault));
    EXPECT_EQ(cudaSuccess, cudaMemcpy(second.at, first.at, 64, cudaMemcpyDefault));
    EXPECT_EQ(cudaSuccess, cudaMemcpy(back.data(), second.at, 64, cudaMemcpyDefault));
    EXPECT_EQ(bytes, back);
}

TEST_F(RuntimeMemory, RowsKeepTheirPitches) {
    auto bytes = numbers(60);  // 5 rows of 12, of which 7 bytes each are copied
    std::vector<unsigned char> back(5 * 10, 0);
    void* device = nullptr;
    std::size_t pitch = 0;
    ASSERT_EQ(cudaSuccess, cudaMallocPitch(&device, &pitch, 7, 5));
    EXPECT_GE(pitch, 7u);
    EXPECT_EQ(cudaSuccess, cudaMemcpy2D(device, pitch, bytes.data(), 12, 7, 5, cudaMemcpyHostToDevice));
    EXPECT_EQ(cudaSuccess, cudaMemcpy2D(back.data(), 10, device, pitch, 7, 5, cudaMemcpyDeviceToHost));
    for (int row = 0; row < 5; row++) {
        EXPECT_EQ(0, std::memcmp(&back[row * 10], &bytes[row * 12], 7)) << row;
        EXPECT_EQ(0, back[row * 10 + 7]) << "the gap behind row " << row << " was written";
    }
    EXPECT_EQ(cudaSuccess, cudaFree(device));
}

TEST_F(RuntimeMemory, RowsThatNoNumberCountsAreRefused) {
    constexpr std::size_t half = std::size_t{1} << 32;
    void* device = nullptr;
    std::size_t pitch = 0;
    cudaPitchedPtr box;
    EXPECT_EQ(cudaErrorMemoryAllocation, cudaMallocPitch(&device, &pitch, half, half));
    EXPECT_EQ(cudaErrorMemoryAllocation, cudaMalloc3D(&box, {1, half, half}));
    EXPECT_EQ(cudaErrorMemoryAllocation, cudaMalloc3D(&box, {half, half / 2, 2}));
    EXPECT_EQ(cudaErrorMemoryAllocation, cudaGetLastError());
    EXPECT_EQ(cudaSuccess, cudaMalloc3D(&box, {0, half, half}));
    EXPECT_EQ(nullptr, box.ptr);
}

TEST_F(RuntimeMemory, RowsWiderThanTheirPitchAreRefused) {
    char a[16] = {}, b[16] = {};
    EXPECT_EQ(cudaErrorInvalidPitchValue, cudaMemcpy2D(a, 4, b, 8, 8, 2, cudaMemcpyHostToHost));
}

TEST_F(RuntimeMemory, ABoxIsCopiedOutOfABox) {
    auto bytes = numbers(4 * 5 * 6);
    cudaPitchedPtr box;
    ASSERT_EQ(cudaSuccess, cudaMalloc3D(&box, {4, 5, 6}));
    cudaMemcpy3DParms in = {};
    in.srcPtr = {bytes.data(), 4, 4, 5};
    in.dstPtr = box;
    in.extent = {4, 5, 6};
    in.kind = cudaMemcpyHostToDevice;
    EXPECT_EQ(cudaSuccess, cudaMemcpy3D(&in));

    std::vector<unsigned char> back(2 * 2 * 2);
    cudaMemcpy3DParms out = {};
    out.srcPtr = box;
    out.srcPos = {1, 2, 3};
    out.dstPtr = {back.data(), 2, 2, 2};
    out.extent = {2, 2, 2};
    out.kind = cudaMemcpyDeviceToHost;
    EXPECT_EQ(cudaSuccess, cudaMemcpy3D(&out));
    for (int z = 0; z < 2; z++)
        for (int y = 0; y < 2; y++)
            for (int x = 0; x < 2; x++) EXPECT_EQ(bytes[((3 + z) * 5 + 2 + y) * 4 + 1 + x], back[(z * 2 + y) * 2 + x]);
    EXPECT_EQ(cudaSuccess, cudaFree(box.ptr));
}

TEST_F(RuntimeMemory, ABoxBetweenTwoPlacesAtOnceIsRefused) {
    cudaMemcpy3DParms none = {};
    none.extent = {1, 1, 1};
    EXPECT_EQ(cudaErrorInvalidValue, cudaMemcpy3D(&none));
}

TEST_F(RuntimeMemory, AFillOfABoxLeavesTheRowsBetweenItsSlices) {
    cudaPitchedPtr box;
    ASSERT_EQ(cudaSuccess, cudaMalloc3D(&box, {4, 3, 2}));
    EXPECT_EQ(cudaSuccess, cudaMemset(box.ptr, 1, box.pitch * 3 * 2));
    EXPECT_EQ(cudaSuccess, cudaMemset3D(box, 9, {4, 2, 2}));
    std::vector<unsigned char> back(4 * 3 * 2);
    EXPECT_EQ(cudaSuccess, cudaMemcpy2D(back.data(), 4, box.ptr, box.pitch, 4, 6, cudaMemcpyDeviceToHost));
    for (int row = 0; row < 6; row++) EXPECT_EQ(row % 3 == 2 ? 1 : 9, back[row * 4]) << row;
    EXPECT_EQ(cudaSuccess, cudaFree(box.ptr));
}

// ---- what a pointer is ---------------------------------------------------------------------------------------------
TEST_F(RuntimeMemory, APointerThatCudaNeverSawIsTheHosts) {
    int here = 0;
    cudaPointerAttributes attributes;
    EXPECT_EQ(cudaSuccess, cudaPointerGetAttributes(&attributes, &here));
    EXPECT_EQ(cudaMemoryTypeUnregistered, attributes.type);
    EXPECT_EQ(&here, attributes.hostPointer);
    EXPECT_EQ(nullptr, attributes.devicePointer);
    EXPECT_EQ(cudaSuccess, cudaGetLastError());
}

TEST_F(RuntimeMemory, APointerInsideAnAllocationIsKnown) {
    DeviceMemory memory(4096);
    cudaPointerAttributes attributes;
    EXPECT_EQ(cudaSuccess, cudaPointerGetAttributes(&attributes, memory + 100));
    EXPECT_EQ(cudaMemoryTypeDevice, attributes.type);
    EXPECT_EQ(0, attributes.device);
    EXPECT_EQ(memory + 100, attributes.devicePointer);
    EXPECT_EQ(nullptr, attributes.hostPointer);
}

TEST_F(RuntimeMemory, PinnedMemoryHasTwoPointers) {
    void *memory = nullptr, *device = nullptr;
    ASSERT_EQ(cudaSuccess, cudaMallocHost(&memory, 4096));
    ASSERT_EQ(cudaSuccess, cudaHostGetDevicePointer(&device, memory, 0));
    cudaPointerAttributes attributes;
    EXPECT_EQ(cudaSuccess, cudaPointerGetAttributes(&attributes, memory));
    EXPECT_EQ(cudaMemoryTypeHost, attributes.type);
    EXPECT_EQ(memory, attributes.hostPointer);
    EXPECT_EQ(device, attributes.devicePointer);
    EXPECT_EQ(cudaSuccess, cudaFreeHost(memory));
}

TEST_F(RuntimeMemory, ManagedMemoryIsManaged) {
    void* memory = nullptr;
    ASSERT_EQ(cudaSuccess, cudaMallocManaged(&memory, 4096, cudaMemAttachGlobal));
    cudaPointerAttributes attributes;
    EXPECT_EQ(cudaSuccess, cudaPointerGetAttributes(&attributes, memory));
    EXPECT_EQ(cudaMemoryTypeManaged, attributes.type);
    EXPECT_EQ(cudaSuccess, cudaFree(memory));
}

// ---- formats -------------------------------------------------------------------------------------------------------
TEST_F(RuntimeMemory, AChannelDescriptorWithUnequalChannelsIsRefused) {
    cudaChannelFormatDesc odd = cudaCreateChannelDesc(8, 16, 0, 0, cudaChannelFormatKindUnsigned);
    cudaChannelFormatDesc three = cudaCreateChannelDesc(8, 8, 8, 0, cudaChannelFormatKindUnsigned);
    cudaArray_t array = nullptr;
    EXPECT_EQ(cudaErrorInvalidChannelDescriptor, cudaMallocArray(&array, &odd, 4, 4, 0));
    EXPECT_EQ(cudaErrorInvalidChannelDescriptor, cudaMallocArray(&array, &three, 4, 4, 0));
}

}  // namespace
