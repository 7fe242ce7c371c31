// SPDX-License-Identifier: Apache-2.0
// memory_layer_test: cuMemAlloc by blocks over the software GPU, beside the software GPU's own: a program sees no
// difference.
#include "tests/unit/support/memory_layer.h"

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#define OK(call) ASSERT_EQ(CUDA_SUCCESS, call)

namespace barcuda {
namespace {

using test::MemoryLayer;
using test::mib;

// ---- allocating

TEST_F(MemoryLayer, RefusesWhatTheDriverRefuses) {
    CUdeviceptr p = 0;
    std::size_t pitch = 0;
    const auto much = ~std::size_t{0};
    expect_the_same("no bytes", [&](Driver& d) { return d.cuMemAlloc_v2(&p, 0); });
    expect_the_same("nowhere to put it", [&](Driver& d) { return d.cuMemAlloc_v2(nullptr, 1); });
    expect_the_same("more than there is", [&](Driver& d) { return d.cuMemAlloc_v2(&p, 300 * mib); });
    expect_the_same("more than any number", [&](Driver& d) { return d.cuMemAlloc_v2(&p, much); });
    expect_the_same("an element of 3", [&](Driver& d) { return d.cuMemAllocPitch_v2(&p, &pitch, 10, 10, 3); });
    expect_the_same("no rows", [&](Driver& d) { return d.cuMemAllocPitch_v2(&p, &pitch, 10, 0, 4); });
    expect_the_same("many rows", [&](Driver& d) { return d.cuMemAllocPitch_v2(&p, &pitch, 10, much, 4); });
    expect_the_same("long rows", [&](Driver& d) { return d.cuMemAllocPitch_v2(&p, &pitch, much, 2, 4); });
    OK(below().cuCtxSetCurrent(nullptr));
    expect_the_same("no context", [&](Driver& d) { return d.cuMemAlloc_v2(&p, 1); });
    expect_the_same("no context to free in", [&](Driver& d) { return d.cuMemFree_v2(0x1234); });
    OK(below().cuCtxSetCurrent(primaries[0]));
    EXPECT_EQ(0u, bytes_of_blocks());
}
TEST_F(MemoryLayer, RefusesToFreeWhatTheDriverWouldRefuseToFree) {
    for (const std::size_t bytes : {std::size_t{1000}, 3 * mib}) {
        CUdeviceptr own = allocate(bytes), drivers = 0;
        OK(below().cuMemAlloc_v2(&drivers, bytes));
        const auto at = [&](Driver& d) { return &d == &table ? own : drivers; };
        expect_the_same("an inner address", [&](Driver& d) { return d.cuMemFree_v2(at(d) + 512); });
        expect_the_same("one before it", [&](Driver& d) { return d.cuMemFree_v2(at(d) - 1); });
        expect_the_same("an inner one in order", [&](Driver& d) { return d.cuMemFreeAsync(at(d) + 512, nullptr); });
        expect_the_same("an opened one", [&](Driver& d) { return d.cuIpcCloseMemHandle(at(d)); });
        expect_the_same("itself", [&](Driver& d) { return d.cuMemFree_v2(at(d)); });
        expect_the_same("itself again", [&](Driver& d) { return d.cuMemFree_v2(at(d)); });
        expect_the_same("itself in order", [&](Driver& d) { return d.cuMemFreeAsync(at(d), nullptr); });
        CUdeviceptr start = 0;
        expect_the_same("its range", [&](Driver& d) { return d.cuMemGetAddressRange_v2(&start, nullptr, at(d)); });
    }
}
TEST_F(MemoryLayer, FillsTheWholeCardAndGivesItBack) {
    CUdeviceptr p = 0;
    const auto small = allocate(1);  // its slab is empty soon, and is given up for a block
    OK(table.cuMemFree_v2(small));
    std::vector<CUdeviceptr> all;
    while (table.cuMemAlloc_v2(&p, 10 * mib) == CUDA_SUCCESS) all.push_back(p);
    EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, table.cuMemAlloc_v2(&p, 10 * mib));
    EXPECT_EQ(room_before / (10 * mib), all.size());
    EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, table.cuMemAlloc_v2(&p, 100 * mib));
    for (const CUdeviceptr each : all) OK(table.cuMemFree_v2(each));
    EXPECT_EQ(room_before, room());
    EXPECT_EQ(small, allocate(10 * mib)) << "the lowest address";
}
TEST_F(MemoryLayer, RowsArePaddedAsTheDriverPadsThem) {
    for (const std::size_t width : {std::size_t{1}, std::size_t{512}, std::size_t{513}, 2 * mib}) {
        CUdeviceptr p = 0, drivers = 0;
        std::size_t own = 0, its = 0;
        OK(table.cuMemAllocPitch_v2(&p, &own, width, 3, 4));
        OK(below().cuMemAllocPitch_v2(&drivers, &its, width, 3, 4));
        EXPECT_EQ(its, own);
        EXPECT_EQ(own * 3, attribute<std::size_t>(table, CU_POINTER_ATTRIBUTE_RANGE_SIZE, p));
        OK(below().cuMemFree_v2(drivers));
    }
}

// ---- using

TEST_F(MemoryLayer, ACopyDoesNotSeeWherePiecesMeet) {
    const std::size_t bytes = 70 * mib;
    const CUdeviceptr a = allocate(bytes), b = allocate(bytes);
    std::vector<std::uint32_t> words(bytes / 4), back(bytes / 4);
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = static_cast<std::uint32_t>(i * 2654435761u);
    OK(table.cuMemcpyHtoDAsync_v2(a, words.data(), bytes, nullptr));
    OK(table.cuMemcpyDtoDAsync_v2(b, a, bytes, nullptr));
    OK(table.cuMemcpyDtoHAsync_v2(back.data(), b, bytes, nullptr));
    OK(table.cuCtxSynchronize());
    EXPECT_TRUE(words == back);
    const CUdeviceptr border = b + 64 * mib - 8;
    OK(table.cuMemsetD8Async(border, 7, 16, nullptr));
    OK(table.cuMemsetD2D8Async(border - mib, 2 * mib, 9, 4, 2, nullptr));
    OK(table.cuMemcpyDtoHAsync_v2(back.data(), border - mib, 2 * mib + 4, nullptr));
    OK(table.cuCtxSynchronize());
    EXPECT_EQ(0x09090909u, back[0]);
    EXPECT_EQ(0x07070707u, back[mib / 4]);
    EXPECT_EQ(0x07070707u, back[mib / 4 + 3]);
    EXPECT_EQ(0x09090909u, back[2 * mib / 4]);
}
TEST_F(MemoryLayer, NothingReachesBeyondABlock) {
    const CUdeviceptr p = allocate(3 * mib);
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, table.cuMemsetD8Async(p, 1, 4 * mib + 1, nullptr)) << "of 4 MiB";
}
TEST_F(MemoryLayer, AttributesAreTheDrivers) {
    for (const std::size_t bytes : {std::size_t{1000}, 70 * mib}) {
        CUdeviceptr drivers = 0;
        OK(below().cuMemAlloc_v2(&drivers, bytes));
        const CUdeviceptr own = allocate(bytes), inner = bytes - 10;
        for (const auto which :
             {CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
              CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_MAPPED,
              CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
              CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS,
              CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE})
            EXPECT_EQ(attribute<std::uint64_t>(below(), which, drivers + inner),
                      attribute<std::uint64_t>(table, which, own + inner))
                << which;
        EXPECT_EQ(own, attribute<CUdeviceptr>(table, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, own + inner));
        const auto mapped = attribute<CUdeviceptr>(table, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, own + inner);
        const auto all = attribute<std::uint64_t>(table, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, own + inner);
        EXPECT_EQ(mapped % (2 * mib), 0u);
        EXPECT_EQ(all % (2 * mib), 0u);
        EXPECT_TRUE(mapped <= own && own + bytes <= mapped + all && all < bytes + 4 * mib) << mapped << " " << all;
        EXPECT_EQ(own + inner, attribute<CUdeviceptr>(table, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, own + inner));
        void* host = nullptr;
        expect_the_same("its host pointer", [&](Driver& d) {
            return d.cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, &d == &table ? own : drivers);
        });
        const unsigned off = 0;
        OK(table.cuPointerSetAttribute(&off, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, own + inner));
        EXPECT_FALSE(attribute<bool>(table, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, own));
        EXPECT_TRUE(attribute<bool>(table, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, allocate(bytes)));
        CUdeviceptr start = 0;
        std::size_t size = 0;
        OK(table.cuMemGetAddressRange_v2(&start, &size, own + inner));
        EXPECT_EQ(own, start);
        EXPECT_EQ(bytes, size);
        OK(below().cuMemFree_v2(drivers));
    }
}
TEST_F(MemoryLayer, EachAllocationHasANumberOfItsOwn) {
    const auto number = [&](CUdeviceptr p) {
        return attribute<std::uint64_t>(table, CU_POINTER_ATTRIBUTE_BUFFER_ID, p);
    };
    const CUdeviceptr a = allocate(10), b = allocate(10);
    const std::uint64_t first = number(a);
    EXPECT_NE(first, number(b));
    OK(table.cuMemFree_v2(a));
    EXPECT_EQ(a, allocate(10));
    EXPECT_NE(first, number(a)) << "programs see by it that the memory is another";
}
TEST_F(MemoryLayer, AProgramCannotTouchWhatIsBehindABlock) {
    const CUdeviceptr p = allocate(4 * mib);
    const CUmemAccessDesc none{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_NONE};
    const CUmemLocation here{CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemGenericAllocationHandle handle = 0;
    unsigned long long flags = 0;
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, table.cuMemUnmap(p, 4 * mib));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, table.cuMemUnmap(p - 2 * mib, 6 * mib));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, table.cuMemSetAccess(p, 4 * mib, &none, 1));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, table.cuMemGetAccess(&flags, &here, p));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, table.cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(p)));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, table.cuMemAddressFree(p, Spans::unit));
    OK(table.cuMemsetD8Async(p, 1, 4 * mib, nullptr));
    OK(table.cuCtxSynchronize());
}
TEST_F(MemoryLayer, AProgramMapsMemoryOfItsOwnAsBefore) {
    allocate(4 * mib);
    CUmemAllocationProp what{};
    what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    what.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemGenericAllocationHandle memory = 0;
    CUdeviceptr p = 0;
    const CUmemAccessDesc all{what.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    OK(table.cuMemAddressReserve(&p, 2 * mib, 0, 0, 0));
    OK(table.cuMemCreate(&memory, 2 * mib, &what, 0));
    OK(table.cuMemMap(p, 2 * mib, 0, memory, 0));
    OK(table.cuMemSetAccess(p, 2 * mib, &all, 1));
    OK(table.cuMemUnmap(p, 2 * mib));
    OK(table.cuMemRelease(memory));
    OK(table.cuMemAddressFree(p, 2 * mib));
}

// ---- freeing, and the GPU's work

struct Gate {  // a function in a stream that waits
    std::atomic<bool> open = false, passed = false;
    static void pass(void* self) {
        auto& gate = *static_cast<Gate*>(self);
        while (!gate.open) std::this_thread::yield();
        gate.passed = true;
    }
};

TEST_F(MemoryLayer, AFreeWaitsForTheGpu) {
    for (const bool may_capture : {false, true}) {
        captures = may_capture;
        Gate gate;
        const CUdeviceptr p = allocate(10);
        OK(table.cuLaunchHostFunc(nullptr, Gate::pass, &gate));
        std::atomic<bool> frees = false;
        std::thread opens([&] {
            while (!frees) std::this_thread::yield();
            for (int i = 0; i < 1000; ++i) std::this_thread::yield();
            gate.open = true;
        });
        frees = true;
        EXPECT_EQ(CUDA_SUCCESS, table.cuMemFree_v2(p));
        EXPECT_TRUE(gate.passed);
        opens.join();
    }
}
TEST_F(MemoryLayer, AFreeSpoilsNoCapture) {
    CUstream stream = nullptr;
    CUgraph graph = nullptr;
    captures = true;
    const CUdeviceptr p = allocate(4 * mib);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    OK(table.cuThreadExchangeStreamCaptureMode(&mode));
    OK(table.cuStreamCreateWithPriority(&stream, CU_STREAM_DEFAULT, 0));
    OK(table.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(table.cuMemFree_v2(p));
    const CUdeviceptr other = allocate(10);
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, table.cuMemFreeAsync(other, stream)) << "it is no memory of a graph";
    OK(table.cuStreamEndCapture(stream, &graph));
    OK(table.cuGraphDestroy(graph));
    OK(table.cuStreamDestroy_v2(stream));
}
TEST_F(MemoryLayer, AFreeInTheOrderOfAStreamEndsWhenTheGpuIsIdle) {
    const CUdeviceptr p = allocate(4 * mib), q = allocate(100 * mib);
    OK(table.cuMemFreeAsync(p, nullptr));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, table.cuMemFreeAsync(p, nullptr));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, table.cuMemFree_v2(p));
    std::size_t free = 0, total = 0;
    OK(table.cuMemGetInfo_v2(&free, &total));
    EXPECT_EQ(room_before - 104 * mib, free) << "the GPU may still use it";
    is_idle = true;
    OK(table.cuMemGetInfo_v2(&free, &total));
    EXPECT_EQ(room_before - 100 * mib, free);
    is_idle = false;
    OK(table.cuMemFreeAsync(q, nullptr));
    EXPECT_NE(0u, allocate(200 * mib)) << "memory has run out: the free is waited for";
}

// ---- contexts and devices

TEST_F(MemoryLayer, AContextsMemoryEndsWithIt) {
    CUcontext context = nullptr;
    OK(table.cuCtxCreate_v4(&context, nullptr, 0, 0));
    OK(table.cuCtxSetCurrent(context));
    allocate(70 * mib);
    allocate(10);
    const CUdeviceptr p = allocate(10);
    OK(table.cuMemFreeAsync(p, nullptr));
    OK(table.cuCtxSetCurrent(primaries[0]));
    const CUdeviceptr kept = allocate(10);
    OK(table.cuCtxDestroy_v2(context));
    EXPECT_EQ(2 * mib, bytes_of_blocks());
    EXPECT_EQ(10u, attribute<std::size_t>(table, CU_POINTER_ATTRIBUTE_RANGE_SIZE, kept));
}
TEST_F(MemoryLayer, AMemoryOfAnotherContextIsFreedInThisOne) {
    const CUdeviceptr p = allocate(10);
    OK(table.cuCtxSetCurrent(primaries[1]));
    OK(table.cuMemFree_v2(p));
    CUcontext current = nullptr;
    OK(table.cuCtxGetCurrent(&current));
    EXPECT_EQ(primaries[1], current);
}
TEST_F(MemoryLayer, APeersAccessIsThatToItsMemory) {
    const auto may = [&](int device, CUdeviceptr p) {
        unsigned long long flags = 0;
        const CUmemLocation its{CU_MEM_LOCATION_TYPE_DEVICE, device};
        EXPECT_EQ(CUDA_SUCCESS, below().cuMemGetAccess(&flags, &its, p));
        return flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    };
    const CUdeviceptr block = allocate(4 * mib), small = allocate(10);
    EXPECT_FALSE(may(1, block));
    OK(table.cuCtxSetCurrent(primaries[1]));
    OK(table.cuCtxEnablePeerAccess(primaries[0], 0));
    EXPECT_EQ(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, table.cuCtxEnablePeerAccess(primaries[0], 0));
    const CUdeviceptr others = allocate(4 * mib);
    OK(table.cuCtxSetCurrent(primaries[0]));
    const CUdeviceptr later = allocate(4 * mib);
    EXPECT_TRUE(may(1, block) && may(1, small) && may(1, later));
    EXPECT_FALSE(may(0, others)) << "it is for one direction";
    EXPECT_TRUE(may(0, block));
    OK(table.cuCtxSetCurrent(primaries[1]));
    OK(table.cuCtxDisablePeerAccess(primaries[0]));
    EXPECT_EQ(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, table.cuCtxDisablePeerAccess(primaries[0]));
    EXPECT_FALSE(may(1, block) || may(1, small) || may(1, later));
    EXPECT_TRUE(may(0, block));
}

// ---- out of the GPU and back (store.h)

TEST_F(MemoryLayer, ABlocksMemoryLeavesTheGpuAndComesBackToItsAddress) {
    DriverPieces pieces(below(), *this);
    Blocks blocks(pieces);
    DriverCopies copies(below());
    std::vector<std::byte> host(128 * mib);
    OK(below().cuMemHostRegister_v2(host.data(), host.size(), 0));
    Store store(blocks, copies);
    store.add_room(1, host.data(), host.size());
    std::uint64_t block = 0, moved = 0;
    OK(blocks.make(0, 100 * mib, {0}, block));
    std::vector<std::uint32_t> words(100 * mib / 4), back(words.size());
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = static_cast<std::uint32_t>(i * 2654435761u);
    OK(below().cuMemcpyHtoDAsync_v2(block, words.data(), 100 * mib, nullptr));
    OK(below().cuCtxSynchronize());
    OK(store.put_out({{block}}, 100 * mib, moved));
    EXPECT_EQ(100 * mib, moved);
    EXPECT_EQ(room_before, room());
    OK(store.bring_back({{block}}));
    EXPECT_EQ(room_before - 100 * mib, room());
    OK(below().cuMemcpyDtoHAsync_v2(back.data(), block, 100 * mib, nullptr));
    OK(below().cuCtxSynchronize());
    EXPECT_TRUE(words == back);
    OK(store.put_out({{block}}, 1, moved));
    store.forget(block);
    blocks.end(block);
    OK(below().cuMemHostUnregister(host.data()));
}

// ---- other processes

struct MemoryLayerOfTwo : MemoryLayer {
    CUipcMemHandle handle{};
    // From here on this is another process, which has nothing of the first one's but what the bridge has.
    void become_another() {
        table = below();
        allocate_in_blocks(table, *this, *this);
    }
    CUresult open(CUdeviceptr& p, unsigned flags = 0) { return table.cuIpcOpenMemHandle_v2(&p, handle, flags); }
    void TearDown() override { MemoryLayer::TearDown(); }
};

TEST_F(MemoryLayerOfTwo, WhatOneWritesTheOtherReads) {
    for (const std::size_t bytes : {std::size_t{1000}, 70 * mib}) {
        allocate(1000);  // which a small one comes behind
        const CUdeviceptr first = allocate(bytes);
        OK(table.cuMemsetD8Async(first, 42, bytes, nullptr));
        OK(table.cuIpcGetMemHandle(&handle, first + bytes - 1));
        CUipcMemHandle again{};
        OK(table.cuIpcGetMemHandle(&again, first));
        EXPECT_EQ(0, std::memcmp(&handle, &again, sizeof handle));
        CUdeviceptr p = 0, q = 0;
        EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, open(p)) << "the owner";
        become_another();
        EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, open(p, 4));
        OK(open(p, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
        EXPECT_NE(first, p);
        EXPECT_EQ(bytes, attribute<std::size_t>(table, CU_POINTER_ATTRIBUTE_RANGE_SIZE, p));
        OK(open(q));
        EXPECT_EQ(p, q);
        unsigned char last = 0;
        OK(table.cuMemcpyDtoHAsync_v2(&last, p + bytes - 1, 1, nullptr));
        OK(table.cuCtxSynchronize());
        EXPECT_EQ(42, last);
        EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, table.cuMemFree_v2(p));
        EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, table.cuIpcGetMemHandle(&handle, p)) << "it is not this one's to show";
        OK(table.cuIpcCloseMemHandle(p));
        OK(table.cuMemsetD8Async(p, 1, bytes, nullptr));
        OK(table.cuIpcCloseMemHandle(p));
        EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, table.cuIpcCloseMemHandle(p));
        EXPECT_EQ(0u, bytes_of_blocks());
        room_before = room();  // the first process still has its own
    }
}
TEST_F(MemoryLayerOfTwo, AFreeWithdrawsWhatWasShown) {
    const CUdeviceptr p = allocate(70 * mib);
    OK(table.cuIpcGetMemHandle(&handle, p));
    EXPECT_EQ(2u, shared.size());
    OK(table.cuMemFree_v2(p));
    EXPECT_EQ(2u, withdrawn);
}
TEST_F(MemoryLayerOfTwo, WhatAnotherWorkerMadeUpIsRefused) {
    OK(table.cuIpcGetMemHandle(&handle, allocate(70 * mib)));
    become_another();
    const std::size_t before = room();
    CUdeviceptr p = 0;
    const auto refused = [&](std::size_t which, std::size_t word, std::uint64_t value) {
        const Shared::Handle honest = shared[which].first;
        std::memcpy(shared[which].first.data() + word * 8, &value, sizeof value);
        EXPECT_NE(CUDA_SUCCESS, open(p)) << which << ": " << word << ": " << value;
        shared[which].first = honest;
    };
    for (const std::size_t which : {0, 1}) {
        refused(which, 0, 1);
        for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{66 * mib},
                                          std::uint64_t{1} << 63, std::uint64_t{8 * mib}})
            refused(which, 2, bytes);
    }
    shared[0].first[4 * 8 + 20] = 2;  // behind the last piece comes the first again, and so on
    EXPECT_NE(CUDA_SUCCESS, open(p));
    shared[0].first[4 * 8 + 20] = 0;
    const CUipcMemHandle honest = handle;
    for (const auto& [word, value] :
         {std::pair{2, 71 * mib + mib}, {2, std::size_t{0}}, {3, 72 * mib}, {3, ~std::size_t{0}}}) {
        std::memcpy(handle.reserved + word * 8, &value, sizeof value);
        EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, open(p)) << word << ": " << value;
        handle = honest;
    }
    EXPECT_EQ(0u, bytes_of_blocks());
    EXPECT_EQ(before, room());
    OK(open(p));
    room_before = room();
}

}  // namespace
}  // namespace barcuda
