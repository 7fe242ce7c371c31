// SPDX-License-Identifier: Apache-2.0
// How other processes get the software GPU's memory: descriptors of memory and of pools, and pointers in pools. (Here
// they come back to the same process.)
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/support/soft_fixture.h"

namespace {

constexpr auto posix = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

struct SoftSharing : SoftGpu {
    static constexpr std::size_t granule = 2 << 20;
    static CUmemoryPool pool(CUmemAllocationHandleType type = posix) {
        CUmemPoolProps p{};
        p.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        p.handleTypes = type;
        p.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
        CUmemoryPool made = nullptr;
        EXPECT_EQ(CUDA_SUCCESS, cuMemPoolCreate(&made, &p));
        return made;
    }
    static int file_of(CUmemoryPool pool) {
        int file = -1;
        EXPECT_EQ(CUDA_SUCCESS, cuMemPoolExportToShareableHandle(&file, pool, posix, 0));
        return file;
    }
    static int file_of_memory() {
        CUmemAllocationProp p{};
        p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        p.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
        p.requestedHandleTypes = posix;
        CUmemGenericAllocationHandle memory;
        int file = -1;
        EXPECT_EQ(CUDA_SUCCESS, cuMemCreate(&memory, granule, &p, 0));
        EXPECT_EQ(CUDA_SUCCESS, cuMemExportToShareableHandle(&file, memory, posix, 0));
        EXPECT_EQ(CUDA_SUCCESS, cuMemRelease(memory));
        return file;
    }
    static CUresult import_pool(CUmemoryPool* pool, int file) {
        return cuMemPoolImportFromShareableHandle(pool, reinterpret_cast<void*>(std::intptr_t{file}), posix, 0);
    }
    static CUresult import_memory(CUmemGenericAllocationHandle* memory, int file) {
        return cuMemImportFromShareableHandle(memory, reinterpret_cast<void*>(std::intptr_t{file}), posix);
    }
    static CUdeviceptr allocate(CUmemoryPool pool, std::size_t bytes) {
        CUdeviceptr p = 0;
        EXPECT_EQ(CUDA_SUCCESS, cuMemAllocFromPoolAsync(&p, bytes, pool, nullptr));
        return p;
    }
};

TEST_F(SoftSharing, APointerOfAnImportedPoolIsTheSameMemory) {
    const CUmemoryPool owner = pool();
    allocate(owner, 4096);
    const CUdeviceptr here = allocate(owner, 1 << 20);
    const int file = file_of(owner);
    CUmemoryPool imported = nullptr;
    OK(import_pool(&imported, file));
    close(file);
    CUmemPoolPtrExportData data;
    CUdeviceptr there = 0;
    OK(cuMemPoolExportPointer(&data, here));
    OK(cuMemPoolImportPointer(&there, imported, &data));
    EXPECT_NE(here, there);
    OK(cuMemsetD32(here, 5, 1 << 18));
    EXPECT_EQ(5, read_back<int>(there + (1 << 20) - 4, 1)[0]);
    OK(cuMemsetD32(there, 6, 1));
    EXPECT_EQ(6, read_back<int>(here, 1)[0]);

    OK(cuMemFree(there));  // only here
    SAYS(CUDA_ERROR_INVALID_VALUE, cuMemsetD32(there, 6, 1));
    EXPECT_EQ(6, read_back<int>(here, 1)[0]);
    OK(cuMemPoolImportPointer(&there, imported, &data));
    OK(cuMemFreeAsync(there, nullptr));
    OK(cuCtxSynchronize());
    SAYS(CUDA_ERROR_INVALID_VALUE, cuMemFree(there));
    EXPECT_EQ(6, read_back<int>(here, 1)[0]);
    OK(cuMemPoolDestroy(imported));
    OK(cuMemFree(here));
    OK(cuMemPoolDestroy(owner));
}

TEST_F(SoftSharing, MemoryOutlivesTheProcessThatAllocatedIt) {  // as far as one process can show it
    const CUmemoryPool owner = pool();
    const CUdeviceptr here = allocate(owner, 4096);
    OK(cuMemsetD32(here, 7, 1024));
    const int file = file_of(owner);
    CUmemoryPool imported = nullptr;
    CUdeviceptr there = 0;
    CUmemPoolPtrExportData data;
    OK(import_pool(&imported, file));
    close(file);
    OK(cuMemPoolExportPointer(&data, here));
    OK(cuMemPoolDestroy(owner));
    OK(cuMemPoolImportPointer(&there, imported, &data));
    OK(cuMemPoolDestroy(imported));
    EXPECT_EQ(7, read_back<int>(there, 1)[0]);
    OK(cuMemFree(there));
    OK(cuMemFree(here));
}

TEST_F(SoftSharing, NothingIsAllocatedFromAnImportedPool) {
    const CUmemoryPool owner = pool();
    const int file = file_of(owner);
    CUmemoryPool imported = nullptr;
    CUdeviceptr none = 0;
    OK(import_pool(&imported, file));
    close(file);
    SAYS(CUDA_ERROR_INVALID_VALUE, cuMemAllocFromPoolAsync(&none, 4096, imported, nullptr));
    SAYS(CUDA_ERROR_INVALID_VALUE, cuDeviceSetMemPool(device, imported));
    OK(cuMemPoolDestroy(imported));
    OK(cuMemPoolDestroy(owner));
}

TEST_F(SoftSharing, OnlyAPoolThatIsMadeForItIsShown) {
    const CUmemoryPool hidden = pool(CU_MEM_HANDLE_TYPE_NONE);
    const CUdeviceptr p = allocate(hidden, 4096);
    int file = -1;
    CUmemPoolPtrExportData data;
    CUmemoryPool usual = nullptr;
    OK(cuDeviceGetDefaultMemPool(&usual, device));
    SAYS(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportToShareableHandle(&file, hidden, posix, 0));
    SAYS(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportToShareableHandle(&file, usual, posix, 0));
    SAYS(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer(&data, p));
    OK(cuMemFree(p));
    OK(cuMemPoolDestroy(hidden));
}

TEST_F(SoftSharing, APointerBelongsToItsPool) {
    const CUmemoryPool owner = pool(), other = pool();
    const CUdeviceptr p = allocate(owner, 4096);
    const int file = file_of(other);
    CUmemoryPool imported = nullptr;
    CUmemPoolPtrExportData data;
    CUdeviceptr none = 0;
    OK(import_pool(&imported, file));
    close(file);
    OK(cuMemPoolExportPointer(&data, p));
    SAYS(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer(&none, imported, &data));
    SAYS(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer(&none, owner, &data));
    data = {};
    SAYS(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer(&none, imported, &data));
    SAYS(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer(&data, p + 256));
    OK(cuMemPoolDestroy(imported));
    OK(cuMemFree(p));
    OK(cuMemPoolDestroy(owner));
    OK(cuMemPoolDestroy(other));
}

TEST_F(SoftSharing, OtherFilesAreRefused) {
    const CUmemoryPool owner = pool();
    const int memory = file_of_memory(), of_pool = file_of(owner), null = open("/dev/null", O_RDWR),
              plain = memfd_create("plain", MFD_CLOEXEC);
    OK(ftruncate(plain, granule + 4096) == 0 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN);
    CUmemGenericAllocationHandle none = 0;
    CUmemoryPool no_pool = nullptr;
    for (int file : {of_pool, null, plain, -1}) SAYS(CUDA_ERROR_INVALID_VALUE, import_memory(&none, file));
    for (int file : {memory, null, plain, -1}) SAYS(CUDA_ERROR_INVALID_VALUE, import_pool(&no_pool, file));
    OK(import_memory(&none, memory));
    OK(cuMemRelease(none));
    for (int file : {memory, of_pool, null, plain}) close(file);
    OK(cuMemPoolDestroy(owner));
}

TEST_F(SoftSharing, NobodyCutsMemoryShort) {  // while others have mapped it
    const CUmemoryPool owner = pool();
    for (int file : {file_of_memory(), file_of(owner)}) {
        EXPECT_NE(0, ftruncate(file, 4096));
        EXPECT_NE(0, ftruncate(file, 1 << 30));
        close(file);
    }
    OK(cuMemPoolDestroy(owner));
}

TEST_F(SoftSharing, APoolsMemoryIsTheDevices) {
    const std::size_t before = free_memory();
    const CUmemoryPool owner = pool();
    EXPECT_EQ(before, free_memory());
    const CUdeviceptr p = allocate(owner, granule);
    EXPECT_EQ(before - granule, free_memory());
    OK(cuMemFree(p));
    EXPECT_EQ(before, free_memory());
    OK(cuMemPoolDestroy(owner));
}

}  // namespace
