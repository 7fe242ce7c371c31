// SPDX-License-Identifier: Apache-2.0
// idle_test: what a session puts off until the GPU is idle, and whose freed memory is recycled.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "host-bridge/worker/bodies/body.h"
#include "shm-device/rows/commands.h"
#include "tests/unit/support/fake_driver.h"

namespace barcuda {
namespace {

struct Told {
    bool busy = false;
    CUcontext busy_in = nullptr;  // null: in all contexts
    CUcontext faulty = nullptr;
    std::vector<CUcontext> registered;  // where the one extent was, one after the other; null: nowhere
    CUdeviceptr next = 0x1000;
    std::vector<CUdeviceptr> freed, closed;
    CUcontext current = nullptr;
    CUmemoryPool used[3] = {};  // of three devices
    std::vector<CUdevice> released;
    std::vector<CUcontext> waited_in;
    std::vector<CUstream> waited_for;
    bool has_buffers = false;  // the driver has memory at every address
    unsigned pools_destroyed = 0, destroyed = 0, reset = 0;
};
Told* told = nullptr;

const CUmemoryPool always[] = {reinterpret_cast<CUmemoryPool>(0x500), reinterpret_cast<CUmemoryPool>(0x510),
                               reinterpret_cast<CUmemoryPool>(0x520)},
                   own = reinterpret_cast<CUmemoryPool>(0x600);

Driver driver() {
    Driver d = fake::driver();
    d.cuMemAlloc_v2 = [](CUdeviceptr* p, std::size_t) {
        *p = told->next += 0x1000;
        return CUDA_SUCCESS;
    };
    d.cuMemFree_v2 = [](CUdeviceptr p) {
        told->freed.push_back(p);
        return CUDA_SUCCESS;
    };
    d.cuModuleUnload = [](CUmodule) { return CUDA_SUCCESS; };
    d.cuStreamQuery = [](CUstream) {
        if (told->faulty && told->faulty == told->current) return CUDA_ERROR_ILLEGAL_ADDRESS;
        const bool here = !told->busy_in || told->busy_in == told->current;
        return told->busy && here ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
    };
    d.cuMemHostRegister_v2 = [](void*, std::size_t, unsigned) {
        told->registered.push_back(told->current);
        return CUDA_SUCCESS;
    };
    d.cuMemHostUnregister = [](void*) {
        told->registered.push_back(nullptr);
        return CUDA_SUCCESS;
    };
    d.cuCtxDestroy_v2 = [](CUcontext) {
        ++told->destroyed;
        return CUDA_SUCCESS;
    };
    d.cuDevicePrimaryCtxReset_v2 = [](CUdevice) {
        ++told->reset;
        return CUDA_SUCCESS;
    };
    d.cuCtxSetCurrent = [](CUcontext c) {
        told->current = c;
        return CUDA_SUCCESS;
    };
    d.cuDeviceGetDefaultMemPool = [](CUmemoryPool* p, CUdevice d) {
        *p = always[d];
        return CUDA_SUCCESS;
    };
    d.cuDeviceGetCount = [](int* count) {
        *count = 3;
        return CUDA_SUCCESS;
    };
    d.cuDevicePrimaryCtxRelease_v2 = [](CUdevice d) {
        told->released.push_back(d);
        return CUDA_SUCCESS;
    };
    d.cuDeviceGetMemPool = [](CUmemoryPool* p, CUdevice d) {
        *p = told->used[d];
        return CUDA_SUCCESS;
    };
    d.cuDeviceSetMemPool = [](CUdevice d, CUmemoryPool p) {
        told->used[d] = p;
        return CUDA_SUCCESS;
    };
    d.cuMemGetAddressRange_v2 = [](CUdeviceptr* base, std::size_t*, CUdeviceptr p) {
        *base = p & ~CUdeviceptr{0xfff};
        return CUDA_SUCCESS;
    };
    d.cuIpcGetMemHandle = [](CUipcMemHandle* handle, CUdeviceptr p) {
        *handle = {};
        std::memcpy(handle->reserved, &p, sizeof p);
        return CUDA_SUCCESS;
    };
    d.cuIpcOpenMemHandle_v2 = [](CUdeviceptr* p, CUipcMemHandle handle, unsigned) {
        std::memcpy(p, handle.reserved, sizeof *p);
        return CUDA_SUCCESS;
    };
    d.cuIpcCloseMemHandle = [](CUdeviceptr p) {
        told->closed.push_back(p);
        return CUDA_SUCCESS;
    };
    d.cuMemFreeAsync = [](CUdeviceptr, CUstream) { return CUDA_SUCCESS; };
    d.cuStreamSynchronize = [](CUstream s) {
        told->waited_in.push_back(told->current);
        told->waited_for.push_back(s);
        return CUDA_SUCCESS;
    };
    d.cuPointerGetAttribute = [](void* value, CUpointer_attribute, CUdeviceptr) {
        if (!told->has_buffers) return CUDA_ERROR_INVALID_VALUE;
        *static_cast<unsigned long long*>(value) = 1;
        return CUDA_SUCCESS;
    };
    d.cuPointerGetAttributes = [](unsigned, CUpointer_attribute*, void**, CUdeviceptr) {
        return told->has_buffers ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    };
    d.cuMemPoolDestroy = [](CUmemoryPool) {
        ++told->pools_destroyed;
        return CUDA_SUCCESS;
    };
    return d;
}

Driver driver_of(Told& all) {
    told = &all;
    return driver();
}

struct IdleTest : testing::Test {
    Told all;
    fake::Ground ground{fake::ground_base, driver_of(all)};
    Session& session = ground.session;
    const CUcontext one = reinterpret_cast<CUcontext>(0x100), two = reinterpret_cast<CUcontext>(0x200);
    static constexpr std::size_t MiB = 1 << 20;

    IdleTest() {
        session.contexts().ready(two);
        session.contexts().ready(one);
    }
    CUdeviceptr allocate(std::size_t bytes) {
        CUdeviceptr p = 0;
        EXPECT_EQ(session.deferred().allocate(p, bytes), CUDA_SUCCESS);
        return p;
    }
    void busy(CUcontext context = nullptr) {
        all.busy = true;
        all.busy_in = context;
        session.note_work();
    }
    const unsigned long long* fence(CUcontext context, std::uint64_t offset) {  // asked to become 1
        session.contexts().ready(context);
        EXPECT_TRUE(session.promise({offset, 1}).ok());
        EXPECT_EQ(session.fences().write(nullptr), CUDA_SUCCESS);
        return reinterpret_cast<const unsigned long long*>(fake::ground_base + offset);
    }
    CUresult retain(CUcontext& context, CUdevice device) { return session.contexts().retain(context, device); }
    CUresult reset(CUdevice device) {
        const SessionScope scope(session);
        return body::cuDevicePrimaryCtxReset_v2(device);
    }
    CUresult destroy(CUcontext context) {
        const SessionScope scope(session);
        return body::cuCtxDestroy_v2(context);
    }
};

TEST_F(IdleTest, WhatIsFreedIsHadAgainOnce) {
    const CUdeviceptr p = allocate(4096);
    session.deferred().free(p);
    EXPECT_EQ(allocate(4096), p);
    EXPECT_NE(allocate(4096), p);
    EXPECT_TRUE(all.freed.empty());
}
TEST_F(IdleTest, OfAnotherSizeItIsNot) {
    const CUdeviceptr p = allocate(4096);
    session.deferred().free(p);
    EXPECT_NE(allocate(4095), p);
}
TEST_F(IdleTest, NorByAnotherContext) {
    const CUdeviceptr p = allocate(4096);
    session.deferred().free(p);
    session.contexts().ready(two);
    EXPECT_NE(allocate(4096), p);
}
TEST_F(IdleTest, MemoryOfOneContextIsNotHadInAnother) {
    const CUdeviceptr p = allocate(4096);
    session.contexts().ready(two);
    session.deferred().free(p);  // as CUDA allows
    EXPECT_NE(allocate(4096), p);
    EXPECT_EQ(all.freed, std::vector{p});
}
TEST_F(IdleTest, NorIsItInItsOwnAfterThat) {  // the guest has waited for the other context's work
    busy();
    const CUdeviceptr p = allocate(4096);
    session.contexts().ready(two);
    session.deferred().free(p);
    session.contexts().ready(one);
    EXPECT_NE(allocate(4096), p);
}
TEST_F(IdleTest, MemoryThatIsFreedFromAnotherContextEndsWithItsOwn) {
    session.contexts().ready(two);
    const CUdeviceptr p = allocate(4096);
    session.contexts().ready(one);
    busy();
    session.deferred().free(p);
    session.deferred().context_gone(two);
    all.busy = false;
    session.deferred().reap();
    EXPECT_TRUE(all.freed.empty()) << "the driver has freed it with its context";
}
TEST_F(IdleTest, NorIsMemoryThatWasShownToOthers) {
    const SessionScope scope(session);
    const CUdeviceptr p = allocate(4096);
    CUipcMemHandle token;
    ASSERT_EQ(body::cuIpcGetMemHandle(&token, p + 256), CUDA_SUCCESS);
    session.deferred().free(p);
    EXPECT_EQ(all.freed, std::vector{p});
}

TEST_F(IdleTest, WhatGoesToOthersIsATokenAndNotTheDriversHandle) {
    const SessionScope scope(session);
    CUipcMemHandle token, drivers{};
    const CUdeviceptr p = allocate(4096);
    std::memcpy(drivers.reserved, &p, sizeof p);
    ASSERT_EQ(body::cuIpcGetMemHandle(&token, p), CUDA_SUCCESS);
    EXPECT_NE(std::memcmp(&token, &drivers, sizeof token), 0);
    CUdeviceptr opened = 0;
    EXPECT_EQ(body::cuIpcOpenMemHandle_v2(&opened, drivers, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(body::cuIpcOpenMemHandle_v2(&opened, token, 0), CUDA_SUCCESS);
    EXPECT_EQ(opened, p);
}

TEST_F(IdleTest, OthersMemoryIsClosedWhenTheGpuIsIdleAsOftenAsItWasOpened) {
    session.addresses().note_opened(0x9000);
    session.addresses().note_opened(0x9000);
    busy();
    EXPECT_EQ(session.deferred().close(0x9000), CUDA_SUCCESS);
    EXPECT_EQ(session.deferred().close(0x9000), CUDA_SUCCESS);
    EXPECT_EQ(session.deferred().close(0x9000), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(all.closed.size(), 0u);
    all.busy = false;
    session.deferred().reap();
    EXPECT_EQ(all.closed, (std::vector<CUdeviceptr>{0x9000, 0x9000}));
    EXPECT_EQ(all.freed.size(), 0u);
}

TEST_F(IdleTest, AVariableIsNotFreedWhateverTheGpuDoes) {
    session.addresses().note_variable(0x9000, 64, 0, one);
    busy();
    EXPECT_EQ(session.deferred().free(0x9000), CUDA_ERROR_INVALID_VALUE);
    session.addresses().retire_variables(0);  // its code is unloaded when the GPU is idle
    EXPECT_EQ(session.deferred().free(0x9000), CUDA_ERROR_INVALID_VALUE);
    all.busy = false;
    session.deferred().reap();
    EXPECT_TRUE(all.freed.empty());
}

TEST_F(IdleTest, MuchMemoryGoesAtOnce) {
    const CUdeviceptr small = allocate(MiB), large = allocate(256 * MiB);
    session.deferred().free(small);
    session.deferred().free(large);
    EXPECT_EQ(all.freed, (std::vector{small, large}));
    EXPECT_FALSE(session.deferred().pending());
}
TEST_F(IdleTest, FreedMemoryKeepsNothingElseWaiting) {
    session.deferred().free(allocate(4096));
    EXPECT_EQ(session.deferred().release(0, fake::Ground::granted), CUDA_SUCCESS);
    EXPECT_FALSE(session.deferred().pending());
}
TEST_F(IdleTest, TidyingLeavesTheContextAsItWas) {
    session.deferred().free(allocate(4096));
    session.contexts().ready(two);
    session.deferred().reap(true);
    EXPECT_EQ(session.contexts().current(), two);
    EXPECT_EQ(all.current, two);
}
TEST_F(IdleTest, FreedMemoryIsNotHadAgainAfterAFaultOfTheGpu) {
    const CUdeviceptr p = allocate(4096), q = allocate(4096);
    session.deferred().free(p);
    session.fences().end_command(0, CUDA_ERROR_ILLEGAL_ADDRESS, true);
    session.deferred().free(q);
    CUdeviceptr none = 0;
    EXPECT_EQ(session.deferred().allocate(none, 4096), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(none, 0u);
}

TEST_F(IdleTest, NobodyFillsTheWorkersMemoryWithWhatIsPutOff) {
    busy();
    CUresult r = CUDA_SUCCESS;
    for (CUdeviceptr p = 1; p < 200'000 && r == CUDA_SUCCESS; ++p)
        r = session.deferred().unload(reinterpret_cast<CUmodule>(p));
    EXPECT_EQ(r, CUDA_ERROR_OUT_OF_MEMORY);
}
TEST_F(IdleTest, WhoAsksForAnAddressOfFreedMemoryFindsNone) {
    const CUdeviceptr p = allocate(4096);
    session.deferred().free(p);
    session.begin_command(static_cast<std::uint32_t>(Op::pointer_attribute));
    EXPECT_EQ(all.freed, std::vector{p});
}
TEST_F(IdleTest, WhatIsFreedInOrderIsNotFreedAgainUntilItIsGivenAgain) {
    const CUdeviceptr p = allocate(4096);
    busy();
    {
        const SessionScope scope(session);
        EXPECT_EQ(CUDA_SUCCESS, body::cuMemFreeAsync(p, nullptr));
        EXPECT_TRUE(session.is_freed(p)) << "a driver may take a second free for a first one";
        CUdeviceptr again = 0;
        EXPECT_EQ(CUDA_SUCCESS, body::cuMemAllocAsync(&again, 4096, nullptr));
        EXPECT_TRUE(session.is_freed(p)) << "that is other memory";
        session.addresses().given_again(p);
        EXPECT_FALSE(session.is_freed(p));
        EXPECT_EQ(CUDA_SUCCESS, body::cuMemFreeAsync(p, nullptr));
    }
    all.busy = false;
    EXPECT_TRUE(session.deferred().check_idle());
    EXPECT_TRUE(session.is_freed(p)) << "the GPU is done, and no thread has waited for it";
    session.deferred().reap();
    EXPECT_EQ(all.waited_in, std::vector{one});
    EXPECT_FALSE(session.is_freed(p)) << "now the driver knows";
}
// NVIDIA's driver gives memory back that was freed in a stream's order when a thread waits for that stream, and not for
// another one.
TEST_F(IdleTest, WhatWasFreedInAStreamIsWaitedForThere) {
    all.has_buffers = true;
    const CUdeviceptr p = allocate(4096);
    const auto stream = reinterpret_cast<CUstream>(0x900), gone = reinterpret_cast<CUstream>(0x910);
    session.handles().keep(wire::first_id, stream);
    {
        const SessionScope scope(session);
        EXPECT_EQ(CUDA_SUCCESS, body::cuMemFreeAsync(p, stream));
        EXPECT_EQ(CUDA_SUCCESS, body::cuMemFreeAsync(0x7000, gone));
    }
    session.deferred().reap();
    EXPECT_EQ(all.waited_for, (std::vector<CUstream>{nullptr, stream}))
        << "a stream that was destroyed crashes the driver";
    EXPECT_TRUE(session.is_freed(p)) << "the driver still has it";
    EXPECT_FALSE(session.deferred().pending());
    {
        const SessionScope scope(session);
        std::uint64_t type = 0;
        EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, ext::pointer_attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
    }
    all.has_buffers = false;
    {
        const SessionScope scope(session);
        EXPECT_EQ(CUDA_SUCCESS, body::cuMemFreeAsync(0x7000, stream));
    }
    session.deferred().reap();
    EXPECT_FALSE(session.is_freed(p)) << "now it has not";
}
TEST_F(IdleTest, AVariableGoesWithItsCodeThoughTheDriverStillHasIt) {
    constexpr CUdeviceptr at = 0x7f0000000000;
    constexpr std::uint64_t code = 0x700, other = 0x800;
    Addresses& addresses = session.addresses();
    addresses.note_variable(at, 16, code, one);
    addresses.note_variable(at + 64, 16, other, one);
    addresses.note_variable(at + 128, 16, code, two);
    addresses.context_gone(two);
    EXPECT_FALSE(addresses.went_with_its_code(at, 1));
    busy();
    EXPECT_EQ(CUDA_SUCCESS, session.deferred().unload(reinterpret_cast<CUmodule>(code)));
    EXPECT_TRUE(addresses.went_with_its_code(at, 1));
    EXPECT_TRUE(addresses.went_with_its_code(at + 15, 1));
    EXPECT_TRUE(addresses.went_with_its_code(at - 8, 9)) << "it ends in the variable";
    EXPECT_FALSE(addresses.went_with_its_code(at - 8, 8));
    EXPECT_FALSE(addresses.went_with_its_code(at + 16, 64)) << "the other code is there";
    EXPECT_FALSE(addresses.went_with_its_code(at + 128, 1)) << "it went with its context";
    all.busy = false;
    EXPECT_TRUE(session.deferred().reap());
    EXPECT_FALSE(addresses.went_with_its_code(at, 1)) << "now the driver knows";
}
TEST_F(IdleTest, ADriverIsWaitedForOnceWhereAPoolsMemoryWasFreed) {
    {
        const SessionScope scope(session);
        body::cuMemFreeAsync(0x1000, nullptr);
        body::cuMemFreeAsync(0x2000, nullptr);
    }
    busy();
    EXPECT_TRUE(session.deferred().pending());
    session.deferred().reap();
    EXPECT_TRUE(all.waited_in.empty());
    all.busy = false;
    session.contexts().ready(two);
    session.deferred().reap();
    EXPECT_EQ(all.waited_in, std::vector{one});
    EXPECT_FALSE(session.deferred().pending());
}
// The GPU frees it, in the order of the null stream.
TEST_F(IdleTest, AnAllocationThatFailsWaitsForTheMemoryOfAGraph) {
    const auto graph = reinterpret_cast<CUgraph>(0x700);
    session.addresses().promise(0x8000, 1 * MiB, graph);
    EXPECT_EQ(session.deferred().free(0x8000), CUDA_SUCCESS);
    session.addresses().graph_gone(graph);
    EXPECT_TRUE(session.deferred().pending());
    EXPECT_TRUE(session.deferred().reap(true));
    EXPECT_EQ(all.waited_in, std::vector{one});
    EXPECT_FALSE(session.deferred().pending());
}
TEST_F(IdleTest, APoolThatIsPutOffIsNobodysCurrentOne) {
    const SessionScope scope(session);
    busy();
    all.used[0] = all.used[1] = nullptr;
    all.used[2] = own;  // whichever device is current
    EXPECT_EQ(body::cuMemPoolDestroy(own), CUDA_SUCCESS);
    EXPECT_EQ(all.pools_destroyed, 0u);
    EXPECT_EQ(all.used[2], always[2]);
    EXPECT_EQ(all.used[1], nullptr) << "another device's is as it was";
    for (const CUmemoryPool pool : always) EXPECT_EQ(body::cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
}

// ---- a warm worker's context ---------------------------------------------------------------------------------------
struct WarmTest : testing::Test {
    Told all;
    fake::Ground ground{fake::ground_base, driver_of(all)};
    Contexts& contexts = ground.session.contexts();
    const CUcontext warm = reinterpret_cast<CUcontext>(0x100), other = reinterpret_cast<CUcontext>(0x200);
    WarmTest() {
        all.current = warm;
        ground.extents.register_all(ground.table);
        contexts.set_home(warm, 0);
    }
};
TEST_F(WarmTest, IsTheHomeOfAClientThatBeginsWithItsDevice) {
    contexts.ready(other, 0);
    EXPECT_EQ(all.registered, std::vector{warm});
    EXPECT_TRUE(all.released.empty());
    contexts.ready(reinterpret_cast<CUcontext>(0x300), 1);
    EXPECT_TRUE(all.released.empty()) << "for good";
}
TEST_F(WarmTest, IsGivenUpForAClientThatBeginsWithAnotherDevice) {
    contexts.ready(other, 1);
    EXPECT_EQ(all.registered, (std::vector<CUcontext>{warm, nullptr, other}));
    EXPECT_EQ(all.released, std::vector{0});
    EXPECT_EQ(contexts.current(), other);
    contexts.ready(warm, 0);
    EXPECT_EQ(all.released.size(), 1u) << "once";
}

// ---- several contexts -----------------------------------------------------------------------------------------------
TEST_F(IdleTest, WorkInAnyContextIsWork) {
    for (CUcontext context : {one, two}) {
        session.contexts().ready(one);
        session.addresses().note_opened(0x9000);
        busy(context);
        EXPECT_EQ(session.deferred().close(0x9000), CUDA_SUCCESS);
        EXPECT_TRUE(session.deferred().pending());
        all.busy = false;
        session.deferred().reap();
        EXPECT_FALSE(session.deferred().pending());
    }
}
TEST_F(IdleTest, AContextsEndTakesItsOwnMemoryAlone) {
    const CUdeviceptr gone = allocate(4096);
    session.deferred().free(gone);
    session.contexts().ready(two);
    const CUdeviceptr p = allocate(4096);
    EXPECT_EQ(destroy(one), CUDA_SUCCESS);
    session.deferred().free(p);
    EXPECT_EQ(allocate(4096), p);
    EXPECT_TRUE(all.freed.empty());
}
TEST_F(IdleTest, TheExtentsStayWhereTheyAreWhenAnotherContextEnds) {
    busy();
    EXPECT_EQ(all.registered, std::vector{two});
    EXPECT_EQ(destroy(one), CUDA_SUCCESS);
    EXPECT_EQ(all.registered, std::vector{two});
}
TEST_F(IdleTest, TheyGoToAnotherOneWhenItsWorkIsDone) {
    busy(one);
    EXPECT_EQ(destroy(two), CUDA_SUCCESS);
    session.deferred().reap();
    EXPECT_EQ(all.registered, std::vector{two});
    EXPECT_EQ(all.destroyed, 0u);
    all.busy = false;
    session.deferred().reap();
    EXPECT_EQ(all.registered, (std::vector<CUcontext>{two, nullptr, one}));
    EXPECT_EQ(all.destroyed, 1u);
    EXPECT_FALSE(session.deferred().pending());
    EXPECT_EQ(session.contexts().current(), one);
}
TEST_F(IdleTest, WhoWantsThePrimaryContextMeanwhileGetsAnother) {
    CUcontext first = nullptr, second = nullptr, again = nullptr;
    EXPECT_EQ(retain(first, 1), CUDA_SUCCESS);
    EXPECT_EQ(destroy(two), CUDA_SUCCESS);
    EXPECT_EQ(all.registered, (std::vector<CUcontext>{two, nullptr, first}));
    busy(one);
    EXPECT_EQ(reset(1), CUDA_SUCCESS);
    EXPECT_EQ(retain(second, 1), CUDA_SUCCESS);
    EXPECT_EQ(retain(again, 1), CUDA_SUCCESS);
    EXPECT_NE(first, second);
    EXPECT_EQ(second, again);
    EXPECT_EQ(all.reset, 0u);
    all.busy = false;
    session.deferred().reap();
    EXPECT_EQ(all.reset, 1u);
    EXPECT_EQ(all.registered.back(), second);
    EXPECT_EQ(reset(1), CUDA_SUCCESS);  // that one was made
    EXPECT_EQ(all.reset, 1u);
    EXPECT_EQ(all.destroyed, 2u);
    EXPECT_EQ(all.registered.back(), one);
}
TEST_F(IdleTest, AResetIsOfOneDevice) {
    CUcontext primary = nullptr;
    EXPECT_EQ(retain(primary, 1), CUDA_SUCCESS);
    session.contexts().ready(one);
    const CUdeviceptr p = allocate(4096);
    EXPECT_EQ(reset(0), CUDA_SUCCESS);  // of which the client has nothing
    EXPECT_EQ(all.reset, 0u);
    EXPECT_EQ(reset(1), CUDA_SUCCESS);
    EXPECT_EQ(all.reset, 1u);
    EXPECT_EQ(session.contexts().current(), one);
    EXPECT_EQ(all.registered, std::vector{two});
    session.deferred().free(p);
    EXPECT_EQ(allocate(4096), p);
}
TEST_F(IdleTest, WhoWaitsForAContextThatEndsIsLetGo) {
    const auto *its = fence(one, 0x1000), *others = fence(two, 0x1008);
    EXPECT_EQ(destroy(one), CUDA_SUCCESS);
    EXPECT_EQ(*its, 1u);
    EXPECT_EQ(*others, 0u);
}
TEST_F(IdleTest, AFaultIsSeenWhileAnotherContextsWorkIsHeldUp) {
    const auto *held = fence(one, 0x1000), *lost = fence(two, 0x1008);
    busy(one);
    session.fences().watch();
    EXPECT_EQ(*lost, 0u);
    all.faulty = two;
    session.fences().watch();
    EXPECT_EQ(*lost, 1u);
    EXPECT_EQ(*held, 1u);  // a fault is the whole client's
    EXPECT_EQ(ground.status.context_error, CUDA_ERROR_ILLEGAL_ADDRESS);
}

}  // namespace
}  // namespace barcuda
