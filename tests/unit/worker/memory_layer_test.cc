// SPDX-License-Identifier: Apache-2.0
// memory_layer_test: cuMemAlloc by blocks over the software GPU, beside the software GPU's own: a program sees no
// difference.
#include "host-bridge/worker/memory/layer.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "host-bridge/between/device_choice.h"
#include "host-bridge/worker/memory/blocks.h"
#include "host-bridge/worker/memory/driver_pieces.h"
#include "host-bridge/worker/memory/residence.h"
#include "host-bridge/worker/memory/store.h"
#include "host-bridge/worker/quota/granter.h"

#define OK(call) ASSERT_EQ(CUDA_SUCCESS, call)

namespace barcuda {
namespace {

constexpr std::size_t mib = 1 << 20;

struct MemoryLayer : testing::Test, Granter, GpuWork {
    static Driver& below() {
        static Driver driver;
        return driver;
    }
    static void SetUpTestSuite() {
        setenv("BARCUDA_SOFT_MEMORY", "256M", 1);
        setenv("BARCUDA_SOFT_DEVICES", "2", 1);
        ASSERT_EQ("", below().open(software_library()).text());
        OK(below().cuInit(0));
        for (int device : {0, 1}) OK(below().cuDevicePrimaryCtxRetain(&primaries[device], device));
    }
    void SetUp() override {
        OK(below().cuCtxSetCurrent(primaries[0]));
        room_before = room();
        table = below();
        allocate_in_blocks(table, *this, *this);
    }
    void TearDown() override {  // a reset ends everything, as at a client's end
        for (int device : {0, 1}) {
            OK(table.cuDevicePrimaryCtxReset_v2(device));
            OK(below().cuDevicePrimaryCtxRetain(&primaries[device], device));
        }
        EXPECT_EQ(0u, bytes_of_blocks());
        OK(below().cuCtxSetCurrent(primaries[0]));
        EXPECT_EQ(room_before, room());
    }

    static std::size_t room() {
        std::size_t free = 0, total = 0;
        EXPECT_EQ(CUDA_SUCCESS, below().cuMemGetInfo_v2(&free, &total));
        return free;
    }
    CUdeviceptr allocate(std::size_t bytes) {
        CUdeviceptr address = 0;
        EXPECT_EQ(CUDA_SUCCESS, table.cuMemAlloc_v2(&address, bytes));
        EXPECT_GE(address, Spans::begin) << "the driver's";
        return address;
    }
    // What both tables answer.
    void expect_the_same(const char* what, const std::function<CUresult(Driver&)>& call) {
        const CUresult with_blocks = call(table);
        EXPECT_EQ(call(below()), with_blocks) << what;
    }
    template <class T> T attribute(const Driver& driver, CUpointer_attribute which, CUdeviceptr address) {
        T value{};
        EXPECT_EQ(CUDA_SUCCESS, driver.cuPointerGetAttribute(&value, which, address)) << which;
        return value;
    }

    // ---- a bridge: each thing that is shared has a token
    std::vector<std::pair<Shared::Handle, File>> shared;
    std::size_t withdrawn = 0;
    CUresult grant(std::uint64_t, std::uint64_t&, std::uint64_t&) override { return CUDA_ERROR_OUT_OF_MEMORY; }
    void release(std::uint64_t, std::uint64_t) override {}
    CUresult share(Shared::Kind kind, Shared::Handle& handle, const File& file) override {
        EXPECT_EQ(Shared::Kind::allocation, kind);
        shared.emplace_back(handle, File(dup(file.fd())));
        handle = {};
        handle[20] = static_cast<char>(shared.size());
        return CUDA_SUCCESS;
    }
    CUresult find_shared(Shared::Kind, Shared::Handle& handle, File& file) override {
        const auto which = static_cast<std::size_t>(handle[20]);
        if (which == 0 || which > shared.size()) return CUDA_ERROR_INVALID_HANDLE;
        handle = shared[which - 1].first;
        file = File(dup(shared[which - 1].second.fd()));
        return CUDA_SUCCESS;
    }
    void withdraw(const Shared::Handle&) override { ++withdrawn; }

    // ---- the GPU's work
    bool is_idle = false, captures = false;
    bool idle() override { return is_idle; }
    bool may_capture() override { return captures; }

    static inline CUcontext primaries[2];
    Driver table;
    std::size_t room_before = 0;
};

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

// ---- shared cards, with a bridge that promises what is wished (residence.h)

struct MemoryLayerOfACard : MemoryLayer {
    CardPlace place;
    std::uint64_t store = 256 * mib;  // that the bridge has left
    unsigned files = 0;
    bool promises = true;
    void SetUp() override {
        MemoryLayer::SetUp();
        table = below();
        allocate_in_blocks(table, *this, *this, {&place, 1});
        is_idle = true;
    }
    void TearDown() override {
        residence()->stops();  // and what is held and not used goes back
        residence()->rest();
        place.store_pressed = 1;
        residence()->rest();
        EXPECT_EQ(0u, files);
        MemoryLayer::TearDown();
        EXPECT_EQ(0u, place.on_card + place.out);
    }
    std::function<void()> behind_a_promise = [] {};
    bool look() override {
        if (!promises || place.needs == 0 || place.granted == place.wish) return true;
        place.keep = CardPlace::unlimited;
        place.promised = place.needs;
        place.granted = place.wish;
        behind_a_promise();
        return true;
    }
    CUresult store_room(std::uint64_t& number, std::uint64_t& bytes, File& file) override {
        static std::uint64_t numbers = 0;
        if (bytes > store) return CUDA_ERROR_OUT_OF_MEMORY;
        file = File(memfd_create("store", MFD_CLOEXEC));
        EXPECT_EQ(0, ftruncate(file.fd(), static_cast<off_t>(bytes)));
        store -= bytes;
        ++files;
        number = ++numbers;
        return CUDA_SUCCESS;
    }
    void give_store_back(std::uint64_t) override { --files; }

    void order(std::uint64_t keep) {
        place.keep = keep;
        EXPECT_FALSE(residence()->stops());
    }
    std::vector<std::uint32_t> fill(CUdeviceptr at, std::size_t bytes) {
        std::vector<std::uint32_t> words(bytes / 4);
        for (std::size_t i = 0; i < words.size(); ++i) words[i] = static_cast<std::uint32_t>((at + i) * 2654435761u);
        EXPECT_EQ(CUDA_SUCCESS, below().cuMemcpyHtoDAsync_v2(at, words.data(), bytes, nullptr));
        EXPECT_EQ(CUDA_SUCCESS, below().cuCtxSynchronize());
        return words;
    }
    void expect(CUdeviceptr at, const std::vector<std::uint32_t>& words) {
        std::vector<std::uint32_t> back(words.size());
        OK(below().cuMemcpyDtoHAsync_v2(back.data(), at, back.size() * 4, nullptr));
        OK(below().cuCtxSynchronize());
        EXPECT_TRUE(words == back);
    }
};

TEST_F(MemoryLayerOfACard, BlocksAndSlabsLeaveAndComeBackToTheirAddresses) {
    const CUdeviceptr large = allocate(100 * mib), small = allocate(1000);
    const auto in_large = fill(large, 100 * mib), in_small = fill(small, 1000);
    EXPECT_EQ(102 * mib, place.on_card);
    EXPECT_EQ(128 * mib, place.holds);
    order(0);
    EXPECT_EQ(0u, place.on_card + place.holds + place.fixed);
    EXPECT_EQ(102 * mib, place.out);
    EXPECT_EQ(102 * mib, place.moved_out);
    EXPECT_EQ(room_before, room());
    EXPECT_TRUE(residence()->begin());
    EXPECT_EQ(102 * mib, place.on_card);
    EXPECT_EQ(102 * mib, place.moved_back);
    EXPECT_NE(0u, place.leaving_ns);
    expect(large, in_large);
    expect(small, in_small);
    const std::uint64_t left = store;
    order(64 * mib);
    EXPECT_EQ(64 * mib, place.on_card) << "the slab gives what is left to give";
    EXPECT_EQ(left, store) << "the room is used again";
    EXPECT_TRUE(residence()->begin());
    expect(large, in_large);
    OK(table.cuMemFree_v2(large));
    OK(table.cuMemFree_v2(small));
}
TEST_F(MemoryLayerOfACard, WhatIsOutIsFoundInTheStore) {
    const CUdeviceptr at = allocate(80 * mib);  // two pieces
    const auto words = fill(at, 80 * mib);
    place.keep = 64 * mib;
    residence()->stops();
    ASSERT_EQ(16 * mib, place.out);
    const std::byte* aside = nullptr;
    EXPECT_EQ(60 * mib, find_contents(at + 4 * mib, 76 * mib, aside)) << "up to the end of its piece";
    EXPECT_EQ(nullptr, aside);
    ASSERT_EQ(8 * mib, find_contents(at + 72 * mib, 8 * mib, aside));
    ASSERT_TRUE(aside);
    EXPECT_EQ(0, std::memcmp(aside, words.data() + 72 * mib / 4, 8 * mib));
    place.keep = CardPlace::unlimited;
    EXPECT_EQ(CUDA_SUCCESS, table.cuMemFree_v2(at));
}
TEST_F(MemoryLayerOfACard, WhatIsFreedWhileItIsOutIsForgotten) {
    const CUdeviceptr one = allocate(20 * mib), other = allocate(30 * mib);
    const auto words = fill(other, 30 * mib);
    order(0);
    OK(table.cuMemFree_v2(one));
    EXPECT_EQ(30 * mib, place.out);
    EXPECT_TRUE(residence()->begin());
    EXPECT_EQ(30 * mib, place.on_card);
    expect(other, words);
    order(0);
    OK(table.cuMemFree_v2(other));
    EXPECT_EQ(0u, place.out);
    EXPECT_TRUE(residence()->begin());
}
TEST_F(MemoryLayerOfACard, AGpuThatTakesNothingBackIsNoFullCard) {
    static CUresult answer;
    table = below();  // from here on with a GPU that fails
    table.cuMemcpyHtoDAsync_v2 = [](CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
        return answer != CUDA_SUCCESS ? answer : below().cuMemcpyHtoDAsync_v2(to, from, bytes, stream);
    };
    allocate_in_blocks(table, *this, *this, {&place, 1});
    for (const auto& [error, state] : {std::pair{CUDA_ERROR_OUT_OF_MEMORY, Residence::State::waiting},
                                       {CUDA_ERROR_ILLEGAL_ADDRESS, Residence::State::lost}}) {
        answer = CUDA_SUCCESS;
        const CUdeviceptr p = allocate(10 * mib);
        order(0);
        EXPECT_EQ(10 * mib, place.out);
        answer = error;
        EXPECT_FALSE(residence()->begin());
        EXPECT_EQ(state, residence()->state());
        EXPECT_EQ(10 * mib, place.out) << "it is where it was";
        answer = CUDA_SUCCESS;
        while (residence()->state() == Residence::State::waiting) residence()->stops();
        OK(table.cuMemFree_v2(p));
    }
    EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, residence()->loss());
    place.store_pressed = 1;
    table = below();
    allocate_in_blocks(table, *this, *this, {&place, 1});  // the store's room has ended with that process
    files = 0;
}
TEST_F(MemoryLayerOfACard, WhatHasNoPromiseIsNotAllocated) {
    promises = false;
    CUdeviceptr p = 0;
    EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, table.cuMemAlloc_v2(&p, 10 * mib));
    EXPECT_EQ(64 * mib, place.needs);
    EXPECT_TRUE(residence()->end(CUDA_ERROR_OUT_OF_MEMORY)) << "it waits";
    EXPECT_TRUE(residence()->stops());
    promises = true;
    look();
    EXPECT_FALSE(residence()->stops());
    OK(table.cuMemAlloc_v2(&p, 10 * mib));
    OK(table.cuMemFree_v2(p));
    EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, table.cuMemAlloc_v2(&p, 300 * mib)) << "the card is smaller";
    EXPECT_FALSE(residence()->end(CUDA_ERROR_OUT_OF_MEMORY));
}
TEST_F(MemoryLayerOfACard, AWishEndsWhenWhatTheClientHasItselfIsEnough) {
    const CUdeviceptr small = allocate(100), large = allocate(40 * mib);
    OK(table.cuMemFree_v2(small));  // the slab is kept
    promises = false;
    const CUdeviceptr other = allocate(23 * mib);
    EXPECT_EQ(64 * mib, place.on_card);
    EXPECT_EQ(1u, place.wish - place.granted) << "it has asked";
    EXPECT_EQ(0u, place.needs);
    OK(table.cuMemFree_v2(large));
    OK(table.cuMemFree_v2(other));
}
// The bridge learns of a stranger when the driver says what is in use.
TEST_F(MemoryLayerOfACard, AStrangerThatTakesMemoryBetweenAPromiseAndItsUseIsFoundByTheDriver) {
    CUdeviceptr strangers = 0, p = 0;
    const CUdeviceptr own = allocate(60 * mib);
    const auto words = fill(own, 60 * mib);
    behind_a_promise = [&] { OK(below().cuMemAlloc_v2(&strangers, 190 * mib)); };
    EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, table.cuMemAlloc_v2(&p, 100 * mib)) << "as natively";
    EXPECT_FALSE(residence()->end(CUDA_ERROR_OUT_OF_MEMORY)) << "others that give more would not help";
    EXPECT_EQ(60 * mib, place.on_card) << "not a part of it";
    behind_a_promise = [] {};
    residence()->rest();
    EXPECT_EQ(64 * mib, place.holds) << "what was promised in vain goes back";
    OK(below().cuMemFree_v2(strangers));
    // The same before a return: the program waits, and loses nothing.
    order(0);
    behind_a_promise = [&] { OK(below().cuMemAlloc_v2(&strangers, 240 * mib)); };
    EXPECT_FALSE(residence()->begin());
    EXPECT_EQ(Residence::State::waiting, residence()->state());
    behind_a_promise = [] {};
    EXPECT_TRUE(residence()->stops());
    OK(below().cuMemFree_v2(strangers));
    while (residence()->stops()) EXPECT_EQ(Residence::State::waiting, residence()->state());
    expect(own, words);
    OK(table.cuMemFree_v2(own));
}
// What an allocation lacked at first is no reason to wait when the command fails in another way behind it.
TEST_F(MemoryLayerOfACard, ALackThatWasCuredIsNoLackOfTheCommand) {
    const CUdeviceptr small = allocate(100), large = allocate(40 * mib);
    OK(table.cuMemFree_v2(small));
    promises = false;
    EXPECT_TRUE(residence()->begin());
    const CUdeviceptr other = allocate(23 * mib);
    EXPECT_FALSE(residence()->end(CUDA_ERROR_OUT_OF_MEMORY)) << "it waits for what it has";
    EXPECT_EQ(Residence::State::resident, residence()->state());
    OK(table.cuMemFree_v2(large));
    OK(table.cuMemFree_v2(other));
}
TEST_F(MemoryLayerOfACard, SmallAllocationsAreBelowThePromise) {
    promises = false;
    CUdeviceptr p = 0;
    EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, table.cuMemAlloc_v2(&p, 100));
    EXPECT_TRUE(residence()->end(CUDA_ERROR_OUT_OF_MEMORY));
    promises = true;
    look();
    EXPECT_FALSE(residence()->stops());
    promises = false;
    std::vector<CUdeviceptr> all(60);
    for (CUdeviceptr& each : all) OK(table.cuMemAlloc_v2(&each, 100'000));
    EXPECT_EQ(64 * mib, place.holds);
    for (const CUdeviceptr each : all) OK(table.cuMemFree_v2(each));
}
TEST_F(MemoryLayerOfACard, AFullStoreTakesWhatItCan) {
    store = 64 * mib;
    const CUdeviceptr p = allocate(128 * mib);
    const auto words = fill(p, 128 * mib);
    order(0);
    EXPECT_EQ(64 * mib, place.on_card);
    EXPECT_EQ(64 * mib, place.holds);
    EXPECT_TRUE(residence()->begin());
    expect(p, words);
    OK(table.cuMemFree_v2(p));
}
TEST_F(MemoryLayerOfACard, WhatAnotherProcessMayHaveStaysAndIsTold) {
    const CUdeviceptr p = allocate(10 * mib), other = allocate(20 * mib);
    CUipcMemHandle handle{};
    OK(table.cuIpcGetMemHandle(&handle, p));
    order(0);
    EXPECT_EQ(10 * mib, place.on_card);
    EXPECT_EQ(10 * mib, place.fixed);
    EXPECT_EQ(20 * mib, place.out);
    EXPECT_TRUE(residence()->begin());
    OK(table.cuMemFree_v2(p));
    OK(table.cuMemFree_v2(other));
}
TEST_F(MemoryLayerOfACard, RoomIsWhatTheClientMayHave) {
    std::size_t free = 0, total = 0;
    OK(table.cuMemGetInfo_v2(&free, &total));
    EXPECT_EQ(256 * mib, total);
    EXPECT_EQ(room_before, free) << "the driver's answer, as long as the bridge says nothing";
    place.may_have = 200 * mib;
    const CUdeviceptr p = allocate(50 * mib);
    order(0);
    OK(table.cuMemGetInfo_v2(&free, &total));
    EXPECT_EQ(256 * mib, total);
    EXPECT_EQ(150 * mib, free) << "what is out is the client's, too";
    OK(table.cuMemFree_v2(p));
}
// What was made in a context may move when that context has ended.
TEST_F(MemoryLayerOfACard, MemoryMovesInTheContextsThatAreLeft) {
    const CUdeviceptr p = allocate(10 * mib);
    CUcontext context = nullptr;
    OK(table.cuCtxCreate_v4(&context, nullptr, 0, 0));
    const CUdeviceptr its = allocate(10 * mib);
    const auto words = fill(p, 10 * mib);
    order(0);
    EXPECT_TRUE(residence()->begin());
    OK(table.cuCtxDestroy_v2(context));
    EXPECT_EQ(10 * mib, place.on_card);
    order(0);
    OK(table.cuCtxSetCurrent(nullptr));
    EXPECT_TRUE(residence()->begin());
    OK(table.cuCtxSetCurrent(primaries[0]));
    expect(p, words);
    EXPECT_NE(its, p);
    OK(table.cuMemFree_v2(p));
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
