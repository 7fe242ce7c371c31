// SPDX-License-Identifier: Apache-2.0
// blocks_test: blocks and slabs over a model of the driver's memory.
#include "host-bridge/worker/memory/blocks.h"

#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "host-bridge/worker/memory/allocations.h"
#include "tests/unit/support/model_pieces.h"

namespace barcuda {
namespace {

struct BlocksTest : testing::Test {
    static constexpr Allocations::Owner one = 1, two = 2;
    ModelPieces pieces;
    Allocations all{pieces};

    std::uint64_t allocate(std::uint64_t bytes, Allocations::Owner owner = one, int device = 0) {
        std::uint64_t address = 0;
        EXPECT_EQ(CUDA_SUCCESS, all.allocate(owner, device, bytes, address));
        return address;
    }
    // Bytes of the pieces at this address, in order.
    std::vector<std::uint64_t> pieces_at(std::uint64_t address) {
        std::vector<std::uint64_t> bytes;
        for (const Block::Piece& piece : all.block_of(all.at(address)).pieces) bytes.push_back(piece.bytes);
        return bytes;
    }
};

// ---- blocks

TEST_F(BlocksTest, ABlockHasLargePiecesAndOneForTheRest) {
    EXPECT_EQ(pieces_at(allocate(mib)), std::vector({2 * mib}));
    EXPECT_EQ(pieces_at(allocate(64 * mib)), std::vector({64 * mib}));
    EXPECT_EQ(pieces_at(allocate(64 * mib + 1)), std::vector({64 * mib, 2 * mib}));
    EXPECT_EQ(pieces_at(allocate(200 * mib)), std::vector({64 * mib, 64 * mib, 64 * mib, 8 * mib}));
}
TEST_F(BlocksTest, TakesTheLowestAddressesThatAreFree) {
    const auto a = allocate(4 * mib), b = allocate(4 * mib), c = allocate(4 * mib);
    EXPECT_EQ(a, Spans::begin);
    EXPECT_EQ(b, a + 4 * mib);
    all.free(a);
    all.free(b);
    EXPECT_EQ(allocate(6 * mib), a) << "neighbours that are free are one hole";
    EXPECT_EQ(allocate(4 * mib), c + 4 * mib);
    EXPECT_EQ(allocate(2 * mib), a + 6 * mib);
}
TEST_F(BlocksTest, ASpanIsReservedOnceAndALargeBlockHasALargeSpan) {
    all.free(allocate(4 * mib));
    all.free(allocate(4 * mib));
    EXPECT_EQ(pieces.reserved.size(), 1u);
    const auto large = allocate(Spans::unit + 1);
    EXPECT_EQ(pieces.reserved.at(large), 2 * Spans::unit);
    all.free(large);
    EXPECT_EQ(allocate(mib), Spans::begin);
}
TEST_F(BlocksTest, NoBlockIsInTwoSpans) {
    const auto first = allocate(Spans::unit - 2 * mib), second = allocate(4 * mib);
    EXPECT_EQ(second, Spans::begin + Spans::unit);
    all.free(first);
    all.free(second);
    const auto both = allocate(Spans::unit + 2 * mib);  // the model complains of a mapping beyond its span
    EXPECT_EQ(both, Spans::begin + 2 * Spans::unit);
}
TEST_F(BlocksTest, UsesOtherAddressesIfThoseAreInUse) {
    pieces.elsewhere = true;
    const auto a = allocate(4 * mib);
    EXPECT_EQ(a, Spans::begin + (std::uint64_t{1} << 40));
    EXPECT_TRUE(all.may_have(a + Spans::unit - 1, 1));
    EXPECT_FALSE(all.may_have(Spans::begin, 1));
    EXPECT_TRUE(all.may_have(a - 1, 2)) << "a range that meets a span";
    EXPECT_FALSE(all.may_have(a - 1, 1));
    EXPECT_TRUE(all.may_have(0, ~std::uint64_t{0}));
}
TEST_F(BlocksTest, AnAllocationComesAgainWhereItWasAndNowhereElse) {
    const auto large = Spans::begin + Spans::unit - 2 * mib, small = Spans::begin + 6 * mib + 512;
    std::uint64_t address = 0;
    EXPECT_EQ(CUDA_SUCCESS, all.allocate(one, 0, Spans::unit, address, large)) << "in two of the usual spans";
    EXPECT_EQ(address, large);
    EXPECT_EQ(CUDA_SUCCESS, all.allocate(one, 0, 700, address, small));
    EXPECT_EQ(address, small);
    for (const std::uint64_t taken : {large, large + 2 * mib, Spans::begin + 6 * mib})
        EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, all.allocate(two, 0, 4 * mib, address, taken));
    for (const std::uint64_t taken : {small, small + 512})
        EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, all.allocate(one, 0, 700, address, taken));
    for (const std::uint64_t nowhere : {Spans::begin - 2 * mib, Spans::end - 2 * mib, ~std::uint64_t{0} - 2 * mib + 1})
        EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, all.allocate(one, 0, 4 * mib, address, nowhere));
    EXPECT_EQ(allocate(512), Spans::begin + 6 * mib);
    all.free(small);
    EXPECT_EQ(CUDA_SUCCESS, all.allocate(one, 0, 700, address, small));
}
TEST_F(BlocksTest, ThereAreNoMoreAddressesThanTheWindowHas) {
    std::uint64_t address = 0;
    EXPECT_EQ(all.allocate(one, 0, ~std::uint64_t{0}, address), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_TRUE(all.empty());
}
TEST_F(BlocksTest, AFailureLeavesNothingBehind) {
    for (std::uint64_t call = 1;; ++call) {
        pieces = {};
        pieces.fails_at = call;
        Allocations fresh(pieces);
        std::uint64_t address = 0;
        const CUresult r = fresh.allocate(one, 0, 200 * mib, address);
        if (r == CUDA_SUCCESS) break;
        EXPECT_EQ(pieces.bytes(), 0u) << "call " << call;
        EXPECT_TRUE(pieces.mappings.empty());
        EXPECT_TRUE(fresh.empty());
        EXPECT_EQ(fresh.allocate(one, 0, 200 * mib, address), CUDA_SUCCESS);
        EXPECT_EQ(address, Spans::begin);
    }
    EXPECT_EQ(pieces.calls, 10u) << "four pieces, addresses, four mappings, access";
}

// ---- slabs

TEST_F(BlocksTest, SmallAllocationsShareASlab) {
    const auto a = allocate(1), b = allocate(513), c = allocate(mib - 1);
    EXPECT_EQ(b, a + 512);
    EXPECT_EQ(c, b + 1024);
    EXPECT_EQ(pieces.bytes(), 2 * mib);
    EXPECT_EQ(all.find(b + 512).address, b);
    EXPECT_FALSE(all.find(b + 513)) << "the rest of its unit is not the client's";
}
TEST_F(BlocksTest, AFullSlabIsUsedAgainAfterAFree) {
    std::vector<std::uint64_t> addresses;
    for (int i = 0; i < 4096; ++i) addresses.push_back(allocate(512));
    const auto next = allocate(512);
    EXPECT_EQ(pieces.bytes(), 4 * mib);
    all.free(addresses[7]);
    all.free(addresses[8]);
    EXPECT_EQ(allocate(1024), addresses[7]) << "neighbours that are free are one hole";
    EXPECT_EQ(allocate(512), next + 512);
}
TEST_F(BlocksTest, ContextsHaveSlabsOfTheirOwn) {
    const auto a = allocate(1, one, 0), b = allocate(1, two, 1);
    EXPECT_NE(pieces.mapped(a), pieces.mapped(b));
    EXPECT_EQ(pieces.devices(a), std::set({0}));
    EXPECT_EQ(pieces.devices(b), std::set({1}));
}
TEST_F(BlocksTest, OneEmptySlabIsKept) {
    const auto a = allocate(900 << 10), b = allocate(900 << 10), c = allocate(900 << 10), d = allocate(1000 << 10);
    EXPECT_EQ(pieces.bytes(), 4 * mib);
    all.free(c);
    all.free(d);
    EXPECT_EQ(pieces.bytes(), 4 * mib) << "the second slab is empty, and kept";
    all.free(a);
    all.free(b);
    EXPECT_EQ(pieces.bytes(), 2 * mib);
    EXPECT_EQ(allocate(1), a) << "the lower one is kept";
    all.free(a);
    EXPECT_TRUE(all.shrink());
    EXPECT_EQ(pieces.bytes(), 0u);
    EXPECT_FALSE(all.shrink());
}

// ---- access

TEST_F(BlocksTest, AnotherDeviceMayUseWhatThereIsAndWhatComes) {
    const auto block = allocate(mib), small = allocate(1), others = allocate(mib, two, 1);
    EXPECT_EQ(all.allow(one, 0, 1), CUDA_SUCCESS);
    EXPECT_EQ(all.allow(one, 0, 1), CUDA_SUCCESS);  // of a second context
    const auto later = allocate(mib);
    for (const auto address : {block, small, later}) EXPECT_EQ(pieces.devices(address), std::set({0, 1}));
    EXPECT_EQ(pieces.devices(others), std::set({1}));
    all.forbid(one, 1);
    EXPECT_EQ(pieces.devices(block), std::set({0, 1})) << "the second one still may";
    all.forbid(one, 1);
    for (const auto address : {block, small, later}) EXPECT_EQ(pieces.devices(address), std::set({0}));
}
TEST_F(BlocksTest, AContextTakesItsMemoryWithIt) {
    allocate(mib);
    allocate(1);
    allocate(70 * mib);
    const auto kept = allocate(mib, two), small = allocate(1, two);
    std::uint64_t opened = 0;
    Pieces::Handle piece = 0;
    pieces.create(0, 4 * mib, piece);
    EXPECT_EQ(all.adopt(one, 0, {{piece, 4 * mib, false}}, {0}, mib, 10, opened), CUDA_SUCCESS);
    EXPECT_EQ(opened % (2 * mib), mib);
    all.owner_gone(one);
    EXPECT_EQ(pieces.bytes(), 4 * mib);
    EXPECT_TRUE(all.find(kept) && all.find(small));
    all.owner_gone(two);
    EXPECT_TRUE(all.empty());
    EXPECT_EQ(pieces.bytes(), 0u);
}

// ---- all of it

// A random program: what it allocates overlaps nothing, is aligned, is mapped as a whole, and is found by each of its
// bytes. Returns the addresses in order.
std::vector<std::uint64_t> random_program(unsigned seed, ModelPieces& pieces) {
    Allocations all(pieces);
    std::mt19937 random(seed);
    const auto below = [&](std::uint64_t n) { return random() % n; };
    std::map<std::uint64_t, std::pair<std::uint64_t, Allocations::Owner>> mine;  // address -> bytes, owner
    std::vector<std::uint64_t> addresses;
    const auto check = [&](std::uint64_t address, std::uint64_t bytes) {
        EXPECT_EQ(address % Slabs::unit, 0u);
        const auto next = mine.lower_bound(address);
        if (next != mine.end()) { EXPECT_LE(address + bytes, next->first) << "seed " << seed; }
        if (next != mine.begin()) {
            EXPECT_LE(std::prev(next)->first + std::prev(next)->second.first, address) << "seed " << seed;
        }
        for (std::uint64_t at = address; at < address + bytes;) {
            const auto m = std::prev(pieces.mappings.upper_bound(at));
            EXPECT_TRUE(pieces.mapped(at) && pieces.pieces.contains(m->second.piece));
            at = m->first + m->second.bytes;
        }
        for (const std::uint64_t offset : {std::uint64_t{0}, bytes / 2, bytes - 1})
            EXPECT_EQ(all.find(address + offset).address, address);
        EXPECT_TRUE(all.starting_at(address));
        EXPECT_FALSE(bytes > 1 && all.starting_at(address + 1));
        EXPECT_NE(all.find(address + bytes).address, address);
    };
    for (int step = 0; step < 3000 && !testing::Test::HasFailure(); ++step) {
        const auto what = below(100);
        if (what < 52 || mine.empty()) {
            const std::uint64_t bytes = what % 3 ? 1 + below(what % 2 ? 3000 : mib) : mib + below(150 * mib);
            const Allocations::Owner owner = 1 + below(3);
            std::uint64_t address = 0;
            EXPECT_EQ(all.allocate(owner, static_cast<int>(owner % 2), bytes, address), CUDA_SUCCESS);
            addresses.push_back(address);
            check(address, bytes);
            mine[address] = {bytes, owner};
        } else if (what < 98) {
            const auto which = std::next(mine.begin(), static_cast<long>(below(mine.size())));
            all.free(which->first);
            EXPECT_FALSE(all.find(which->first));
            mine.erase(which);
        } else if (what == 98) {
            const Allocations::Owner owner = 1 + below(3);
            all.owner_gone(owner);
            std::erase_if(mine, [&](const auto& m) { return m.second.second == owner; });
        } else {
            all.shrink();
        }
        EXPECT_EQ(all.bytes(), pieces.bytes());
    }
    for (Allocations::Owner owner = 1; owner <= 3; ++owner) all.owner_gone(owner);
    EXPECT_TRUE(all.empty());
    EXPECT_TRUE(pieces.mappings.empty() && pieces.pieces.empty());
    return addresses;
}

TEST(BlocksModel, WhatARandomProgramHasComesAgainInAnotherProcess) {
    for (unsigned seed = 1; seed <= 20; ++seed) {
        std::minstd_rand random(seed);
        ModelPieces pieces, fresh;
        Allocations all(pieces), again(fresh);
        std::map<std::uint64_t, std::uint64_t> there;  // address -> bytes
        for (int i = 0; i < 400; ++i) {
            if (!there.empty() && random() % 5 < 2) {
                const auto its = std::next(there.begin(), static_cast<long>(random() % there.size()));
                all.free(its->first);
                there.erase(its);
            } else {
                const std::uint64_t bytes = random() % 2 ? 1 + random() % 100'000 : 1 + random() % (200 * mib);
                std::uint64_t address = 0;
                ASSERT_EQ(CUDA_SUCCESS, all.allocate(1, 0, bytes, address));
                there[address] = bytes;
            }
        }
        for (const auto& [wish, bytes] : there) {
            std::uint64_t address = 0;
            ASSERT_EQ(CUDA_SUCCESS, again.allocate(1, 0, bytes, address, wish));
            ASSERT_EQ(wish, address);
        }
    }
}
TEST(BlocksModel, ARandomProgramGetsMemoryThatIsItsOwnAndTheSameAddressesAgain) {
    for (unsigned seed = 1; seed <= 20 && !testing::Test::HasFailure(); ++seed) {
        ModelPieces first, second;
        const auto addresses = random_program(seed, first);
        EXPECT_EQ(addresses, random_program(seed, second));
        EXPECT_GT(addresses.size(), 1000u);
        EXPECT_GE(first.reserved.size(), 1u);
    }
}

}  // namespace
}  // namespace barcuda
