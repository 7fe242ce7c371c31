// SPDX-License-Identifier: Apache-2.0
// Virtual memory management of the software GPU: addresses, physical memory, and what joins them.
#include <sys/mman.h>
#include <unistd.h>

#include "soft_fixture.h"

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
    const CUdeviceptr other = reserve(4 * granule, wish);  // taken: elsewhere
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
    OK(cuMemRelease(first));  // the mappings keep them
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

}  // namespace
