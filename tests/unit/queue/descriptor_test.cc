// SPDX-License-Identifier: Apache-2.0
// descriptor_test: memory and pools that are passed to other processes as descriptors: what leaves the host, and what
// the worker keeps.
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>

#include "host-bridge/worker/quota/granter.h"
#include "host-bridge/worker/quota/quota.h"
#include "tests/unit/support/loopback.h"

namespace barcuda {
namespace {

struct Told {
    ino_t exported = 0, imported = 0;
    CUmemGenericAllocationHandle at_address = 0;
    unsigned created = 0, released = 0;
};
Told* told = nullptr;

ino_t inode(int fd) {
    struct stat st {};
    return fstat(fd, &st) == 0 ? st.st_ino : 0;
}
int number(void* descriptor) { return static_cast<int>(reinterpret_cast<std::intptr_t>(descriptor)); }
CUresult make(void* descriptor) {
    const int fd = memfd_create("memory", MFD_CLOEXEC);
    told->exported = inode(fd);
    std::memcpy(descriptor, &fd, sizeof fd);
    return CUDA_SUCCESS;
}
constexpr char secret[] = "where it lies on the host";

Driver driver() {
    Driver d = fake::driver();
    d.cuMemCreate = [](CUmemGenericAllocationHandle* memory, std::size_t, const CUmemAllocationProp*,
                       unsigned long long) {
        ++told->created;
        *memory = fake::World::current().give();
        return CUDA_SUCCESS;
    };
    d.cuMemRelease = [](CUmemGenericAllocationHandle) {
        ++told->released;
        return CUDA_SUCCESS;
    };
    d.cuMemRetainAllocationHandle = [](CUmemGenericAllocationHandle* memory, void*) {
        *memory = told->at_address;
        return CUDA_SUCCESS;
    };
    d.cuMemGetAllocationPropertiesFromHandle = [](CUmemAllocationProp* p, CUmemGenericAllocationHandle) {
        p->win32HandleMetaData = told;
        p->allocFlags.compressionType = 1;
        return CUDA_SUCCESS;
    };
    d.cuMemExportToShareableHandle = [](void* out, CUmemGenericAllocationHandle, CUmemAllocationHandleType,
                                        unsigned long long) { return make(out); };
    d.cuMemPoolExportToShareableHandle = [](void* out, CUmemoryPool, CUmemAllocationHandleType, unsigned long long) {
        return make(out);
    };
    d.cuMemImportFromShareableHandle = [](CUmemGenericAllocationHandle* memory, void* fd, CUmemAllocationHandleType) {
        told->imported = inode(number(fd));
        *memory = fake::World::current().give();
        return CUDA_SUCCESS;
    };
    d.cuMemPoolImportFromShareableHandle = [](CUmemoryPool* pool, void* fd, CUmemAllocationHandleType,
                                              unsigned long long) {
        told->imported = inode(number(fd));
        *pool = reinterpret_cast<CUmemoryPool>(fake::World::current().give());
        return CUDA_SUCCESS;
    };
    d.cuMemPoolExportPointer = [](CUmemPoolPtrExportData* data, CUdeviceptr) {
        *data = {};
        std::memcpy(data, secret, sizeof secret);
        return CUDA_SUCCESS;
    };
    d.cuMemPoolImportPointer = [](CUdeviceptr* p, CUmemoryPool, CUmemPoolPtrExportData* data) {
        if (std::memcmp(data, secret, sizeof secret) != 0) return CUDA_ERROR_INVALID_VALUE;
        *p = fake::World::current().memory;
        return CUDA_SUCCESS;
    };
    return d;
}

Driver driver_of(Told& all) {
    told = &all;
    return driver();
}

struct DescriptorTest : Loopback {
    Told all;
    DescriptorTest() : Loopback(driver_of(all)) {}
    CUmemGenericAllocationHandle memory(CUmemAllocationHandleType type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        CUmemGenericAllocationHandle made = 0;
        EXPECT_TRUE(create(made, type).ok());
        return made;
    }
    Verdict create(CUmemGenericAllocationHandle& made, CUmemAllocationHandleType type,
                   CUmemLocationType place = CU_MEM_LOCATION_TYPE_DEVICE) {
        CUmemAllocationProp p{};
        p.requestedHandleTypes = type;
        p.location.type = place;
        return call<Op::cuMemCreate>(&made, std::size_t{1} << 21, static_cast<const CUmemAllocationProp*>(&p), 0ull);
    }
    Verdict create(CUmemoryPool& made, CUmemAllocationHandleType type, CUmemLocationType place,
                   CUmemAllocationType memory = CU_MEM_ALLOCATION_TYPE_PINNED) {
        CUmemPoolProps p{};
        p.allocType = memory;
        p.handleTypes = type;
        p.location.type = place;
        return call<Op::cuMemPoolCreate>(&made, static_cast<const CUmemPoolProps*>(&p));
    }
    CUmemoryPool pool() {
        CUmemoryPool made = nullptr;
        EXPECT_TRUE(create(made, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CU_MEM_LOCATION_TYPE_DEVICE).ok());
        return made;
    }
    static long open_files() {
        long count = 0;
        DIR* here = opendir("/proc/self/fd");
        while (readdir(here)) ++count;
        closedir(here);
        return count;
    }
};

TEST_F(DescriptorTest, MemoryComesBackByItsToken) {
    ext::Token token{};
    CUmemGenericAllocationHandle again = 0;
    ASSERT_TRUE(call<Op::export_memory>(&token, memory()).ok());
    ASSERT_TRUE(call<Op::import_memory>(&again, token).ok());
    EXPECT_NE(all.exported, 0u);
    EXPECT_EQ(all.imported, all.exported);
}
TEST_F(DescriptorTest, SoDoesAPool) {
    ext::Token token{};
    CUmemoryPool again = nullptr;
    ASSERT_TRUE(call<Op::export_pool>(&token, pool()).ok());
    ASSERT_TRUE(call<Op::import_pool>(&again, token).ok());
    EXPECT_NE(all.exported, 0u);
    EXPECT_EQ(all.imported, all.exported);
}
TEST_F(DescriptorTest, ATokenOfMemoryIsNoneOfAPool) {
    ext::Token token{};
    CUmemoryPool none = nullptr;
    ASSERT_TRUE(call<Op::export_memory>(&token, memory()).ok());
    EXPECT_EQ(call<Op::import_pool>(&none, token).result, CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(all.imported, 0u);
}
TEST_F(DescriptorTest, NoOtherTokenLeadsAnywhere) {
    ext::Token token{};
    CUmemGenericAllocationHandle none = 0;
    ASSERT_TRUE(call<Op::export_memory>(&token, memory()).ok());
    for (char& byte : token.bytes) {
        byte ^= 1;
        EXPECT_EQ(call<Op::import_memory>(&none, token).result, CUDA_ERROR_INVALID_HANDLE);
        byte ^= 1;
    }
    EXPECT_EQ(all.imported, 0u);
}
TEST_F(DescriptorTest, WhatIsWithdrawnLeadsNowhere) {
    ext::Token token{};
    CUmemGenericAllocationHandle none = 0;
    ASSERT_TRUE(call<Op::export_memory>(&token, memory()).ok());
    ASSERT_TRUE(call<Op::withdraw>(token).ok());
    EXPECT_EQ(call<Op::import_memory>(&none, token).result, CUDA_ERROR_INVALID_HANDLE);
}
TEST_F(DescriptorTest, TheBridgeAloneKeepsDescriptors) {
    ext::Token token{};
    CUmemGenericAllocationHandle again = 0;
    const long before = open_files();
    ASSERT_TRUE(call<Op::export_memory>(&token, memory()).ok());
    ASSERT_TRUE(call<Op::import_memory>(&again, token).ok());
    EXPECT_EQ(open_files(), before + 1);
    ASSERT_TRUE(call<Op::withdraw>(token).ok());
    EXPECT_EQ(open_files(), before);
}
TEST_F(DescriptorTest, APointerIsToldAsAToken) {
    CUmemPoolPtrExportData data{};
    CUdeviceptr p = 0;
    const CUmemoryPool from = pool();
    ASSERT_TRUE(call<Op::cuMemPoolExportPointer>(&data, world.memory).ok());
    EXPECT_NE(std::memcmp(&data, secret, sizeof secret), 0);
    ASSERT_TRUE(call<Op::cuMemPoolImportPointer>(&p, from, &data).ok());
    EXPECT_EQ(p, world.memory);
    std::memcpy(&data, secret, sizeof secret);  // the driver's own
    EXPECT_EQ(call<Op::cuMemPoolImportPointer>(&p, from, &data).result, CUDA_ERROR_INVALID_HANDLE);
}
TEST_F(DescriptorTest, ThatTokenGoesWithTheMemory) {
    CUmemPoolPtrExportData data{};
    CUdeviceptr p = 0;
    const CUmemoryPool from = pool();
    ASSERT_TRUE(call<Op::cuMemPoolExportPointer>(&data, world.memory).ok());
    ASSERT_TRUE(call<Op::cuMemFreeAsync>(world.memory, CUstream{}).ok());
    EXPECT_EQ(call<Op::cuMemPoolImportPointer>(&p, from, &data).result, CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(ground.shared.size(), 0u);
}

TEST_F(DescriptorTest, WhatIsRetainedHasItsOldNameAndIsHeldOnce) {
    const auto made = memory();
    CUmemGenericAllocationHandle again = 0;
    ASSERT_TRUE(ground.session.handles().find(made, all.at_address));
    ASSERT_TRUE(call<Op::retain_memory>(&again, world.memory).ok());
    EXPECT_EQ(again, made);
    EXPECT_EQ(all.released, 1u) << "the guest counts: the driver's second hold is given back";
}
TEST_F(DescriptorTest, WhatWasReleasedGetsANewNameAndIsKept) {
    const auto made = memory();
    ASSERT_TRUE(ground.session.handles().find(made, all.at_address));
    ASSERT_TRUE(call<Op::cuMemRelease>(made).ok());
    CUmemGenericAllocationHandle again = 0, once_more = 0;
    ASSERT_TRUE(call<Op::retain_memory>(&again, world.memory).ok());
    EXPECT_GE(again, wire::given);
    EXPECT_EQ(all.released, 1u);
    ASSERT_TRUE(call<Op::cuMemRelease>(again).ok());
    EXPECT_FALSE(call<Op::cuMemRelease>(again).ok());
    ASSERT_TRUE(call<Op::retain_memory>(&once_more, world.memory).ok());
    EXPECT_NE(once_more, again) << "an id never comes again";
}
TEST_F(DescriptorTest, MemoryIsRetainedByAnAddressOfTheClients) {
    CUmemGenericAllocationHandle none = 0;
    EXPECT_EQ(call<Op::retain_memory>(&none, reinterpret_cast<CUdeviceptr>(&none)).result, CUDA_ERROR_INVALID_VALUE);
}
TEST_F(DescriptorTest, PropertiesAreTheDriversButForItsPointers) {
    CUmemAllocationProp p{};
    ASSERT_TRUE(call<Op::cuMemGetAllocationPropertiesFromHandle>(&p, memory()).ok());
    EXPECT_EQ(p.allocFlags.compressionType, 1);
    EXPECT_EQ(p.win32HandleMetaData, nullptr);
}
TEST_F(DescriptorTest, HandlesOfOtherTypesAreRefused) {
    CUmemGenericAllocationHandle none = 0;
    CUmemoryPool no_pool = nullptr;
    memory(CU_MEM_HANDLE_TYPE_NONE);
    const auto before = world.calls;
    for (auto type : {CU_MEM_HANDLE_TYPE_FABRIC, CU_MEM_HANDLE_TYPE_WIN32,
                      static_cast<CUmemAllocationHandleType>(CU_MEM_HANDLE_TYPE_FABRIC |
                                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)}) {
        EXPECT_EQ(create(none, type).result, CUDA_ERROR_NOT_SUPPORTED);
        EXPECT_EQ(create(no_pool, type, CU_MEM_LOCATION_TYPE_DEVICE).result, CUDA_ERROR_NOT_SUPPORTED);
    }
    EXPECT_EQ(world.calls, before);
    EXPECT_EQ(all.created, 1u);
}
TEST_F(DescriptorTest, PoolsOfTheHostAreRefused) {
    CUmemoryPool none = nullptr;
    for (auto place :
         {CU_MEM_LOCATION_TYPE_HOST, CU_MEM_LOCATION_TYPE_HOST_NUMA, CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT})
        EXPECT_EQ(create(none, CU_MEM_HANDLE_TYPE_NONE, place).result, CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(create(none, CU_MEM_HANDLE_TYPE_NONE, CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_ALLOCATION_TYPE_MANAGED).result,
              CUDA_ERROR_NOT_SUPPORTED);
}
// With a quota between the session and the driver.
struct Counted : Loopback {
    struct RefusingGranter : Granter {
        CUresult grant(std::uint64_t, std::uint64_t&, std::uint64_t&) override { return CUDA_ERROR_OUT_OF_MEMORY; }
        void release(std::uint64_t, std::uint64_t) override {}
        CUresult share(Shared::Kind, Shared::Handle&, const File&) override { return CUDA_ERROR_NOT_SUPPORTED; }
        CUresult find_shared(Shared::Kind, Shared::Handle&, File&) override { return CUDA_ERROR_NOT_SUPPORTED; }
        void withdraw(const Shared::Handle&) override {}
    };
    static inline Told all;
    static inline RefusingGranter granter;
    static inline Sheet sheet;
    static inline Allowance allowance{sheet};
    static Driver counting() {
        Driver d = driver_of(all);
        d.cuDeviceGetCount = [](int* count) {
            *count = 1;
            return CUDA_SUCCESS;
        };
        enforce_quota(d, granter, allowance, {});
        return d;
    }
    Counted() : Loopback(counting()) {}
};
TEST_F(Counted, MemoryThatIsImportedIsTheImportersToo) {
    CUmemAllocationProp what{};
    what.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    what.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUmemGenericAllocationHandle made = 0, imported = 0;
    ASSERT_TRUE((
        call<Op::cuMemCreate>(&made, std::size_t{1} << 21, static_cast<const CUmemAllocationProp*>(&what), 0ull).ok()));
    ext::Token token{};
    ASSERT_TRUE(call<Op::export_memory>(&token, made).ok());
    ASSERT_TRUE(call<Op::import_memory>(&imported, token).ok());
    ASSERT_TRUE(call<Op::cuMemRelease>(made).ok());
    EXPECT_EQ(sheet.device_memory[0], 1u << 21);
    ASSERT_TRUE(call<Op::cuMemRelease>(imported).ok());
    EXPECT_EQ(sheet.device_memory[0], 0u);
}

// No limit counts it, and the program would have the addresses of the worker's memory.
TEST_F(DescriptorTest, MemoryOfTheHostIsRefused) {
    for (auto place :
         {CU_MEM_LOCATION_TYPE_HOST, CU_MEM_LOCATION_TYPE_HOST_NUMA, CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT}) {
        CUmemGenericAllocationHandle none = 0;
        EXPECT_EQ(create(none, CU_MEM_HANDLE_TYPE_NONE, place).result, CUDA_ERROR_NOT_SUPPORTED);
    }
    EXPECT_EQ(all.created, 0u);
}
TEST_F(DescriptorTest, TheDriversOwnPoolsOfTheHostAreRefused) {
    const CUmemoryPool own = pool();
    const auto before = world.calls;
    for (auto place :
         {CU_MEM_LOCATION_TYPE_HOST, CU_MEM_LOCATION_TYPE_HOST_NUMA, CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT}) {
        CUmemLocation where{};
        where.type = place;
        CUmemoryPool none = nullptr;
        constexpr auto pinned = CU_MEM_ALLOCATION_TYPE_PINNED;
        EXPECT_EQ((call<Op::cuMemGetDefaultMemPool>(&none, &where, pinned).result), CUDA_ERROR_NOT_SUPPORTED);
        EXPECT_EQ((call<Op::cuMemGetMemPool>(&none, &where, pinned).result), CUDA_ERROR_NOT_SUPPORTED);
        EXPECT_EQ((call<Op::cuMemSetMemPool>(&where, pinned, own).result), CUDA_ERROR_NOT_SUPPORTED);
    }
    EXPECT_EQ(world.calls, before);
}

}  // namespace
}  // namespace barcuda
