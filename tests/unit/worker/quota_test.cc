// SPDX-License-Identifier: Apache-2.0
// How a worker counts its client's device memory, with a driver that never runs out of memory.
#include "host-bridge/worker/quota/quota.h"

#include <gtest/gtest.h>

#include "host-bridge/worker/quota/granter.h"

namespace barcuda {
namespace {

constexpr std::uint64_t mib = 1 << 20;

struct QuotaTest : testing::Test, Granter {
    Sheet sheet;
    Allowance allowance{sheet};
    Quota quota{driver(), *this, allowance, {}};
    std::uint64_t names = 0;

    static Driver driver() {
        Driver driver;
        driver.cuCtxGetDevice = [](CUdevice* device) {
            *device = 0;
            return CUDA_SUCCESS;
        };
        driver.cuDeviceGetCount = [](int* count) {
            *count = 2;
            return CUDA_SUCCESS;
        };
        driver.cuCtxGetCurrent = [](CUcontext* context) {
            *context = nullptr;
            return CUDA_SUCCESS;
        };
        return driver;
    }
    CUresult allocate(std::uint64_t bytes, CUresult answer = CUDA_SUCCESS) {
        return quota.allocate(bytes, [&](std::uint64_t& name) {
            name = ++names;
            return answer;
        });
    }
    std::uint64_t counted() const { return sheet.device_memory[0]; }

    CUresult grant(std::uint64_t, std::uint64_t&, std::uint64_t&) override { return CUDA_ERROR_OUT_OF_MEMORY; }
    void release(std::uint64_t, std::uint64_t) override {}
    CUresult share(Shared::Kind, Shared::Handle&, const File&) override { return CUDA_ERROR_NOT_SUPPORTED; }
    CUresult find_shared(Shared::Kind, Shared::Handle&, File&) override { return CUDA_ERROR_NOT_SUPPORTED; }
    void withdraw(const Shared::Handle&) override {}
};

TEST_F(QuotaTest, CountsWhatTheDriverHasGiven) {
    EXPECT_EQ(allocate(256 * mib), CUDA_SUCCESS);
    EXPECT_EQ(counted(), 256 * mib);
    EXPECT_EQ(allocate(mib, CUDA_ERROR_OUT_OF_MEMORY), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(counted(), 256 * mib);
    quota.freed(1);
    EXPECT_EQ(counted(), 0u);
}
TEST_F(QuotaTest, ForgetsNothingWhenMoreIsAskedForThanThereAreNumbers) {
    ASSERT_EQ(allocate(256 * mib), CUDA_SUCCESS);
    for (const std::uint64_t much : {~std::uint64_t{0}, ~std::uint64_t{0} - 4095, std::uint64_t{1} << 63}) {
        EXPECT_EQ(allocate(much, CUDA_ERROR_OUT_OF_MEMORY), CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT_EQ(counted(), 256 * mib) << much;
    }
}
TEST_F(QuotaTest, RefusesWhatIsBeyondALimit) {
    sheet.limits[static_cast<unsigned>(Limit::device_memory)] = 100 * mib;
    EXPECT_EQ(allocate(101 * mib), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(allocate(~std::uint64_t{0}), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(allocate(100 * mib), CUDA_SUCCESS);
    EXPECT_EQ(counted(), 100 * mib);
}

// The functions in a driver's table that count follow from the rows.
namespace layer {
std::uint64_t next = 0x1000;
int open = 0;  // by cuIpcOpenMemHandle
CUcontext context = reinterpret_cast<CUcontext>(1);

Driver driver() {
    Driver d;
    d.cuCtxGetDevice = [](CUdevice* device) {
        *device = 0;
        return CUDA_SUCCESS;
    };
    d.cuDeviceGetCount = [](int* count) {
        *count = 2;
        return CUDA_SUCCESS;
    };
    d.cuCtxGetCurrent = [](CUcontext* current) {
        *current = context;
        return CUDA_SUCCESS;
    };
    d.cuMemAlloc_v2 = [](CUdeviceptr* p, std::size_t) {
        *p = next++;
        return CUDA_SUCCESS;
    };
    d.cuMemAllocPitch_v2 = [](CUdeviceptr* p, std::size_t* pitch, std::size_t, std::size_t, unsigned) {
        *p = next++;
        *pitch = 512;
        return CUDA_SUCCESS;
    };
    d.cuMemFree_v2 = [](CUdeviceptr) { return CUDA_SUCCESS; };
    d.cuArrayCreate_v2 = [](CUarray* a, const CUDA_ARRAY_DESCRIPTOR*) {
        *a = reinterpret_cast<CUarray>(next++);
        return CUDA_SUCCESS;
    };
    d.cuArrayDestroy = [](CUarray) { return CUDA_SUCCESS; };
    d.cuMemCreate = [](CUmemGenericAllocationHandle* h, std::size_t, const CUmemAllocationProp*, unsigned long long) {
        *h = next++;
        return CUDA_SUCCESS;
    };
    d.cuMemRelease = [](CUmemGenericAllocationHandle) { return CUDA_SUCCESS; };
    d.cuMemMap = [](CUdeviceptr, std::size_t, std::size_t, CUmemGenericAllocationHandle, unsigned long long) {
        return CUDA_SUCCESS;
    };
    d.cuMemFreeAsync = [](CUdeviceptr, CUstream) { return CUDA_SUCCESS; };
    d.cuIpcOpenMemHandle_v2 = [](CUdeviceptr* p, CUipcMemHandle, unsigned) {
        *p = 0x500000;
        ++open;
        return CUDA_SUCCESS;
    };
    d.cuIpcCloseMemHandle = [](CUdeviceptr) {
        --open;
        return CUDA_SUCCESS;
    };
    d.cuMemPoolImportPointer = [](CUdeviceptr* p, CUmemoryPool, CUmemPoolPtrExportData*) {
        *p = 0x600000;
        return CUDA_SUCCESS;
    };
    d.cuMemGetAddressRange_v2 = [](CUdeviceptr* begin, std::size_t* bytes, CUdeviceptr p) {
        *begin = p;
        *bytes = 3 * mib;
        return CUDA_SUCCESS;
    };
    d.cuMemUnmap = [](CUdeviceptr, std::size_t) { return CUDA_SUCCESS; };
    d.cuTexObjectDestroy = [](CUtexObject) { return CUDA_SUCCESS; };
    d.cuCtxDestroy_v2 = [](CUcontext) { return CUDA_SUCCESS; };
    return d;
}
}  // namespace layer

struct QuotaLayer : QuotaTest {
    Driver below = layer::driver(), table = below;
    QuotaLayer() { enforce_quota(table, *this, allowance, {}); }
};

TEST_F(QuotaLayer, ChargesWhatARowSaysItIsChargedFor) {
    CUdeviceptr p = 0, rows = 0;
    std::size_t pitch = 0;
    ASSERT_EQ(table.cuMemAlloc_v2(&p, 3 * mib), CUDA_SUCCESS);
    EXPECT_EQ(counted(), 3 * mib);
    ASSERT_EQ(table.cuMemAllocPitch_v2(&rows, &pitch, 100, 2048, 4), CUDA_SUCCESS);
    EXPECT_EQ(counted(), 4 * mib);  // 2048 rows of 512 bytes
    EXPECT_EQ(table.cuMemFree_v2(p), CUDA_SUCCESS);
    EXPECT_EQ(table.cuMemFree_v2(rows), CUDA_SUCCESS);
    EXPECT_EQ(counted(), 0u);
}
TEST_F(QuotaLayer, RefundsMemoryThatAStreamFrees) {
    CUdeviceptr p = 0;
    ASSERT_EQ(table.cuMemAlloc_v2(&p, 3 * mib), CUDA_SUCCESS);
    EXPECT_EQ(table.cuMemFreeAsync(p + mib, nullptr), CUDA_SUCCESS);  // a pool's, for all that the books know
    EXPECT_EQ(counted(), 3 * mib);
    EXPECT_EQ(table.cuMemFreeAsync(p, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(counted(), 0u);
    EXPECT_EQ(table.cuMemFreeAsync(p, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(counted(), 0u);
}
TEST_F(QuotaLayer, ChargesAnArrayUntilItIsDestroyed) {
    const CUDA_ARRAY_DESCRIPTOR what{1024, 1024, CU_AD_FORMAT_FLOAT, 1};
    CUarray array = nullptr;
    ASSERT_EQ(table.cuArrayCreate_v2(&array, &what), CUDA_SUCCESS);
    EXPECT_EQ(counted(), 4 * mib);
    EXPECT_EQ(table.cuArrayDestroy(array), CUDA_SUCCESS);
    EXPECT_EQ(counted(), 0u);
}
TEST_F(QuotaLayer, ChargesPhysicalMemoryAsLongAsItIsHeldOrMapped) {
    CUmemAllocationProp what{};
    what.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemGenericAllocationHandle memory = 0;
    ASSERT_EQ(table.cuMemCreate(&memory, 2 * mib, &what, 0), CUDA_SUCCESS);
    ASSERT_EQ(table.cuMemMap(0x100000, 2 * mib, 0, memory, 0), CUDA_SUCCESS);
    ASSERT_EQ(table.cuMemRelease(memory), CUDA_SUCCESS);
    EXPECT_EQ(counted(), 2 * mib);
    ASSERT_EQ(table.cuMemUnmap(0x100000, 2 * mib), CUDA_SUCCESS);
    EXPECT_EQ(counted(), 0u);
}
// Its owner may be gone before this client.
TEST_F(QuotaLayer, ChargesMemoryOfAnotherProcessOnceUntilItIsClosedAsOftenAsItWasOpened) {
    CUdeviceptr p = 0;
    ASSERT_EQ(table.cuIpcOpenMemHandle_v2(&p, CUipcMemHandle{}, 0), CUDA_SUCCESS);
    ASSERT_EQ(table.cuIpcOpenMemHandle_v2(&p, CUipcMemHandle{}, 0), CUDA_SUCCESS);
    EXPECT_EQ(counted(), 3 * mib);
    EXPECT_EQ(table.cuIpcCloseMemHandle(p), CUDA_SUCCESS);
    EXPECT_EQ(counted(), 3 * mib);
    EXPECT_EQ(table.cuIpcCloseMemHandle(p), CUDA_SUCCESS);
    EXPECT_EQ(counted(), 0u);
    CUmemPoolPtrExportData shown{};
    ASSERT_EQ(table.cuMemPoolImportPointer(&p, nullptr, &shown), CUDA_SUCCESS);
    EXPECT_EQ(counted(), 3 * mib);
    EXPECT_EQ(table.cuMemFreeAsync(p, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(counted(), 0u);
}
TEST_F(QuotaLayer, ClosesMemoryOfAnotherProcessThatIsBeyondTheLimit) {
    sheet.limits[static_cast<unsigned>(Limit::device_memory)] = mib;
    CUdeviceptr p = 0;
    layer::open = 0;
    EXPECT_EQ(table.cuIpcOpenMemHandle_v2(&p, CUipcMemHandle{}, 0), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(layer::open, 0);
    EXPECT_EQ(counted(), 0u);
}
TEST_F(QuotaLayer, RefusesPhysicalMemoryThatIsNoDevices) {
    CUmemGenericAllocationHandle memory = 0;
    for (const auto place : {CU_MEM_LOCATION_TYPE_INVALID, CU_MEM_LOCATION_TYPE_HOST, CU_MEM_LOCATION_TYPE_HOST_NUMA}) {
        CUmemAllocationProp what{};
        what.location.type = place;
        EXPECT_NE(table.cuMemCreate(&memory, mib, &what, 0), CUDA_SUCCESS);
    }
    EXPECT_EQ(memory, 0u);
}
// The books have no place for a device that there is not.
TEST_F(QuotaLayer, RefusesPhysicalMemoryOfADeviceThatThereIsNot) {
    CUmemGenericAllocationHandle memory = 0;
    for (const int device : {-1, 2, 1 << 30}) {
        CUmemAllocationProp what{};
        what.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        what.location.id = device;
        EXPECT_EQ(table.cuMemCreate(&memory, mib, &what, 0), CUDA_ERROR_INVALID_DEVICE);
    }
    EXPECT_EQ(memory, 0u);
}
TEST_F(QuotaLayer, RefusesBeforeTheDriverIsAsked) {
    sheet.limits[static_cast<unsigned>(Limit::device_memory)] = mib;
    CUdeviceptr p = 0;
    EXPECT_EQ(table.cuMemAlloc_v2(&p, 2 * mib), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(p, 0u);
}
TEST_F(QuotaLayer, RefundsWhatWasInAContextThatEnds) {
    CUdeviceptr p = 0;
    ASSERT_EQ(table.cuMemAlloc_v2(&p, mib), CUDA_SUCCESS);
    EXPECT_EQ(table.cuCtxDestroy_v2(layer::context), CUDA_SUCCESS);
    EXPECT_EQ(counted(), 0u);
}
TEST_F(QuotaLayer, LeavesAloneWhatIsNoMemory) {  // a texture's number has an address's type
    EXPECT_EQ(table.cuTexObjectDestroy, below.cuTexObjectDestroy);
    EXPECT_NE(table.cuMemFree_v2, below.cuMemFree_v2);
}

}  // namespace
}  // namespace barcuda
