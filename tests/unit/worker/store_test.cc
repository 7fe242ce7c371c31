// SPDX-License-Identifier: Apache-2.0
// store_test: memory of blocks leaves the GPU and comes back to its addresses with its contents, whatever fails
// between.
#include "host-bridge/worker/memory/store.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "tests/unit/support/model_pieces.h"

namespace barcuda {
namespace {

// Copies the word of each piece, when its batch must be done and no earlier.
struct ModelCopies : Copies {
    explicit ModelCopies(ModelPieces& pieces) : pieces(pieces) {}
    ModelPieces& pieces;
    std::vector<std::function<void()>> begun, before;
    unsigned batches = 0;

    CUresult to_host(std::byte* host, std::uint64_t device, std::uint64_t bytes) override {
        EXPECT_EQ(bytes, pieces.mappings.at(device).bytes);
        if (pieces.fails()) return CUDA_ERROR_UNKNOWN;
        begun.emplace_back([=, this] { std::memcpy(host, &pieces.word(device), sizeof(std::uint64_t)); });
        return CUDA_SUCCESS;
    }
    CUresult to_device(std::uint64_t device, const std::byte* host, std::uint64_t bytes) override {
        EXPECT_EQ(bytes, pieces.mappings.at(device).bytes);
        if (pieces.fails()) return CUDA_ERROR_UNKNOWN;
        begun.emplace_back([=, this] { std::memcpy(&pieces.word(device), host, sizeof(std::uint64_t)); });
        return CUDA_SUCCESS;
    }
    CUresult end_batch() override {
        ++batches;
        const auto copies = std::exchange(before, std::exchange(begun, {}));
        if (pieces.fails()) return CUDA_ERROR_UNKNOWN;
        for (const auto& copy : copies) copy();
        return CUDA_SUCCESS;
    }
    CUresult finish() override {
        const auto earlier = std::exchange(before, {}), copies = std::exchange(begun, {});
        if (pieces.fails()) return CUDA_ERROR_UNKNOWN;
        for (const auto& copy : earlier) copy();
        for (const auto& copy : copies) copy();
        return CUDA_SUCCESS;
    }
};

struct StoreTest : testing::Test {
    static constexpr std::uint64_t size = 512 * mib;
    ModelPieces pieces;
    Blocks blocks{pieces};
    ModelCopies copies{pieces};
    Store store{blocks, copies};
    std::vector<std::pair<void*, std::size_t>> rooms;
    StoreTest() { add_room(size); }
    ~StoreTest() override {
        for (const auto& [at, bytes] : rooms) munmap(at, bytes);
    }
    void add_room(std::uint64_t bytes) {
        void* const at =
            mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        ASSERT_NE(MAP_FAILED, at);
        rooms.emplace_back(at, bytes);
        store.add_room(rooms.size(), static_cast<std::byte*>(at), bytes);
    }

    std::uint64_t make(std::uint64_t bytes) {
        std::uint64_t address = 0;
        EXPECT_EQ(CUDA_SUCCESS, blocks.make(0, bytes, {0, 1}, address));
        return address;
    }
    // Where its pieces begin.
    std::vector<std::uint64_t> places(std::uint64_t block) const {
        std::vector<std::uint64_t> all;
        std::uint64_t at = block;
        for (const Block::Piece& piece : blocks.at(block).pieces) {
            all.push_back(at);
            at += piece.bytes;
        }
        return all;
    }
    void write(std::uint64_t block, std::uint64_t value) {
        for (const std::uint64_t at : places(block)) pieces.word(at) = value ^ at;
    }
    void expect(std::uint64_t block, std::uint64_t value) {
        for (const std::uint64_t at : places(block)) {
            EXPECT_EQ(value ^ at, pieces.word(at));
            EXPECT_EQ(std::set({0, 1}), pieces.devices(at));
        }
    }
    std::uint64_t put_out(std::uint64_t block, std::uint64_t wanted) {
        std::uint64_t moved = 0;
        EXPECT_EQ(CUDA_SUCCESS, store.put_out({{block}}, wanted, moved));
        return moved;
    }
};

TEST_F(StoreTest, MemoryLeavesAndComesBackToItsAddress) {
    const auto block = make(200 * mib);
    write(block, 42);
    EXPECT_EQ(200 * mib, put_out(block, 200 * mib));
    EXPECT_EQ(0u, pieces.bytes());
    EXPECT_TRUE(pieces.mappings.empty());
    EXPECT_EQ(200 * mib, store.held());
    EXPECT_EQ(block + 200 * mib, make(mib)) << "its addresses stay";
    EXPECT_EQ(CUDA_SUCCESS, store.bring_back({{block}}));
    expect(block, 42);
    EXPECT_EQ(0u, store.held());
    EXPECT_EQ(CUDA_SUCCESS, store.bring_back({{block}})) << "there is nothing to do";
}
TEST_F(StoreTest, OnlyAsMuchLeavesAsIsWanted) {
    const auto block = make(200 * mib);
    EXPECT_EQ(8 * mib, put_out(block, 1)) << "the last piece";
    EXPECT_EQ(128 * mib, put_out(block, 65 * mib));
    EXPECT_EQ(64 * mib, pieces.bytes());
    EXPECT_EQ(64 * mib, put_out(block, 1));
    EXPECT_EQ(0u, put_out(block, 1)) << "all is out";
}
TEST_F(StoreTest, WhatAnotherProcessMayHaveStays) {
    const auto block = make(200 * mib);
    pieces.shared.insert(blocks.at(block).pieces[3].handle);
    EXPECT_EQ(64 * mib, put_out(block, 1));
    EXPECT_EQ(128 * mib, put_out(block, 1000 * mib));
    Pieces::Handle piece = 0;
    pieces.create(0, 4 * mib, piece);
    std::uint64_t opened = 0;
    EXPECT_EQ(CUDA_SUCCESS, blocks.adopt(0, {{piece, 4 * mib, false}}, {0}, opened));
    EXPECT_EQ(0u, put_out(opened, mib));
}
TEST_F(StoreTest, WhatHasNoRoomStays) {
    const auto large = make(500 * mib), other = make(70 * mib);
    write(other, 7);
    put_out(large, 500 * mib);
    EXPECT_EQ(6 * mib, put_out(other, 70 * mib)) << "the smaller piece has room";
    EXPECT_EQ(CUDA_SUCCESS, store.bring_back({{large}}));
    EXPECT_EQ(64 * mib, put_out(other, 70 * mib));
    EXPECT_EQ(CUDA_SUCCESS, store.bring_back({{other}}));
    expect(other, 7);
}
TEST_F(StoreTest, ABlockMayEndWhileItIsOut) {
    const auto block = make(200 * mib);
    put_out(block, 100 * mib);
    store.forget(block);
    blocks.end(block);
    EXPECT_EQ(0u, store.held());
    EXPECT_TRUE(blocks.empty());
    EXPECT_EQ(0u, pieces.bytes());
    put_out(make(size), size);
    EXPECT_EQ(size, store.held()) << "its room is free again";
}
TEST_F(StoreTest, AnotherDeviceMayUseWhatComesBackLater) {
    const auto block = make(200 * mib);
    put_out(block, 70 * mib);
    EXPECT_EQ(CUDA_SUCCESS, blocks.open(block, {0}));
    EXPECT_EQ(CUDA_SUCCESS, store.bring_back({{block}}));
    for (const std::uint64_t at : places(block)) EXPECT_EQ(std::set({0}), pieces.devices(at));
}
// Every call below fails once, in both directions.
TEST_F(StoreTest, AFailureLosesNothing) {
    for (std::uint64_t call = 1, failed = 1; failed != 0; ++call) {
        const auto block = make(200 * mib);
        write(block, call);
        pieces.fails_at = pieces.calls + call;
        failed = 0;
        std::uint64_t moved = 0;
        if (store.put_out({{block}}, 200 * mib, moved) != CUDA_SUCCESS) {
            ++failed;
            EXPECT_EQ(0u, moved);
            EXPECT_EQ(0u, store.held());
            expect(block, call);
            put_out(block, 200 * mib);
        }
        if (store.bring_back({{block}}) != CUDA_SUCCESS) {
            ++failed;
            EXPECT_EQ(200 * mib, store.held(block) + pieces.bytes());
            EXPECT_EQ(CUDA_SUCCESS, store.bring_back({{block}}));
        }
        expect(block, call);
        EXPECT_EQ(0u, store.held());
        blocks.end(block);
        EXPECT_EQ(0u, pieces.bytes());
        EXPECT_LT(call, 100u);
    }
}
// The same with moves of several batches: those that have left stay in the store.
TEST_F(StoreTest, AFailureInALaterBatchLosesNothing) {
    add_room(1000 * mib);
    for (std::uint64_t call = 1, failed = 1; failed != 0; ++call) {
        const std::uint64_t both[] = {make(600 * mib), make(300 * mib)};
        for (const auto block : both) write(block, call);
        pieces.fails_at = pieces.calls + call;
        failed = 0;
        std::uint64_t moved = 0;
        if (store.put_out(both, 900 * mib, moved) != CUDA_SUCCESS) ++failed;
        EXPECT_EQ(moved, store.held());
        EXPECT_EQ(900 * mib, moved + pieces.bytes());
        EXPECT_TRUE(failed || moved == 900 * mib);
        if (store.bring_back(both) != CUDA_SUCCESS) {
            ++failed;
            EXPECT_EQ(900 * mib, store.held() + pieces.bytes());
            EXPECT_EQ(CUDA_SUCCESS, store.bring_back(both));
        }
        for (const auto block : both) {
            expect(block, call);
            blocks.end(block);
        }
        EXPECT_EQ(0u, store.held());
        EXPECT_LT(call, 300u);
    }
    EXPECT_GE(copies.batches, 3u);
}
TEST_F(StoreTest, APieceLiesInOneRoomAndAnEmptyRoomMayBeTakenBack) {
    add_room(96 * mib);
    const auto block = make(size + 96 * mib);
    write(block, 3);
    EXPECT_EQ(size + 96 * mib, store.free());
    EXPECT_EQ(544 * mib, put_out(block, 1000 * mib)) << "no piece is in two rooms";
    EXPECT_EQ(64 * mib, store.free());
    EXPECT_FALSE(store.take_empty_room());
    EXPECT_EQ(CUDA_SUCCESS, store.bring_back({{block}}));
    expect(block, 3);
    EXPECT_EQ(32 * mib, put_out(block, 1));
    EXPECT_EQ(2u, store.take_empty_room()->number);
    EXPECT_FALSE(store.take_empty_room());
    EXPECT_EQ(480 * mib, store.free());
    EXPECT_EQ(CUDA_SUCCESS, store.bring_back({{block}}));
    expect(block, 3);
}
TEST_F(StoreTest, ARandomProgramFindsWhatItHasWritten) {
    std::mt19937 random(7);
    std::map<std::uint64_t, std::uint64_t> mine;  // block -> value
    for (int step = 0; step < 5000 && !HasFailure(); ++step) {
        const auto what = random() % 10;
        pieces.fails_at = random() % 4 ? 0 : pieces.calls + 1 + random() % 12;
        std::uint64_t address = 0, moved = 0;
        if (mine.empty() || (what < 2 && mine.size() < 20)) {
            if (blocks.make(0, 1 + random() % (200 * mib), {0, 1}, address) == CUDA_SUCCESS)
                write(address, mine[address] = random());
            continue;
        }
        const auto its = std::next(mine.begin(), static_cast<long>(random() % mine.size()));
        address = its->first;
        if (what < 3) {
            store.forget(address);
            blocks.end(address);
            mine.erase(its);
        } else if (what < 7) {
            store.put_out({{address}}, random() % (200 * mib), moved);
        } else if (store.bring_back({{address}}) == CUDA_SUCCESS) {
            expect(address, its->second);
            write(address, its->second = random());
        }
        EXPECT_EQ(blocks.bytes(), pieces.bytes());
    }
    pieces.fails_at = 0;
    for (const auto& [address, value] : mine) {
        EXPECT_EQ(CUDA_SUCCESS, store.bring_back({{address}}));
        expect(address, value);
        blocks.end(address);
    }
    EXPECT_EQ(0u, store.held());
    EXPECT_TRUE(blocks.empty());
    EXPECT_TRUE(pieces.pieces.empty() && pieces.mappings.empty());
}

// The bridge gives no client more files than that, nor more than so much in one of the first half (bridge/rooms.h).
TEST(StoresParts, SmallOrdersUseUpNoClientsFiles) {
    constexpr std::uint64_t most_bytes = 256 * mib;
    std::uint64_t has = 0, files = 0;
    for (; has < 65536 * mib; ++files) has += std::min(Store::next_part(64 * mib, has), most_bytes);
    EXPECT_LT(files, 300u);
    EXPECT_EQ(Store::next_part(1, 0), 64 * mib) << "a small client takes little of the store";
    EXPECT_EQ(Store::next_part(500 * mib, 0), 512 * mib);
    EXPECT_EQ(Store::next_part(5000 * mib, 0), 1024 * mib);
}

}  // namespace
}  // namespace barcuda
