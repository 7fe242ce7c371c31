// SPDX-License-Identifier: Apache-2.0
// memory_layer_card_test: cuMemAlloc by blocks on a card that several clients share, with a bridge that promises what
// is asked for (residence.h).
#include <sys/mman.h>

#include <cstring>
#include <vector>

#include "host-bridge/worker/replay.h"
#include "tests/unit/support/memory_layer.h"

#define OK(call) ASSERT_EQ(CUDA_SUCCESS, call)

namespace barcuda {
namespace {

using test::MemoryLayer;
using test::mib;

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
    EXPECT_NE(std::string::npos, wait_for_memory(table).text().find("does not take back the memory")) << "nor waits";
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

}  // namespace
}  // namespace barcuda
