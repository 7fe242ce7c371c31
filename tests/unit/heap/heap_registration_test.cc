// SPDX-License-Identifier: Apache-2.0
// cudaHostRegister's rules, with CUDA's own error numbers.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "guest-allocator/heap/registered.h"
#include "tests/heap/support/unit_region.h"

using namespace barcuda::heap;
using namespace barcuda::heap::test;

namespace {

char memory[1 << 16];

TEST(Registration, ARangeIsFoundWithItsFlagsUntilItIsUnregistered) {
    ASSERT_EQ(register_host(memory + 100, 1000, 2), Registration::done);
    const Found found = find(memory + 1099);
    EXPECT_EQ(found.kind, Kind::registered);
    EXPECT_EQ(found.base, reinterpret_cast<std::byte*>(memory + 100));
    EXPECT_EQ(found.bytes, 1000u);
    EXPECT_EQ(found.flags, 2u);
    EXPECT_EQ(find(memory + 1100).kind, Kind::outside);
    EXPECT_EQ(find(memory + 99).kind, Kind::outside);
    EXPECT_EQ(unregister_host(memory + 100), Registration::done);
    EXPECT_EQ(find(memory + 500).kind, Kind::outside);
}

TEST(Registration, OnlyARangeThatHoldsTheWholeCopyMakesItRegistered) {
    ASSERT_EQ(register_host(memory, 1000, 0), Registration::done);
    EXPECT_EQ(kind_of(memory, 1000), Kind::registered);
    EXPECT_EQ(kind_of(memory, 1001), Kind::outside);
    unregister_host(memory);
}

TEST(Registration, OverlapsAreError712) {
    ASSERT_EQ(register_host(memory + 1000, 1000, 0), Registration::done);
    EXPECT_EQ(static_cast<int>(register_host(memory + 1000, 1000, 0)), 712);
    EXPECT_EQ(static_cast<int>(register_host(memory + 1999, 1, 0)), 712);
    EXPECT_EQ(static_cast<int>(register_host(memory, 1001, 0)), 712);
    EXPECT_EQ(static_cast<int>(register_host(memory, 5000, 0)), 712);
    EXPECT_EQ(register_host(memory, 1000, 0), Registration::done);
    EXPECT_EQ(register_host(memory + 2000, 1000, 0), Registration::done);
    for (int at : {0, 1000, 2000}) EXPECT_EQ(unregister_host(memory + at), Registration::done);
}

TEST(Registration, WhatWasNotRegisteredIsError713) {
    EXPECT_EQ(static_cast<int>(unregister_host(memory)), 713);
    ASSERT_EQ(register_host(memory, 1000, 0), Registration::done);
    EXPECT_EQ(unregister_host(memory + 1), Registration::invalid) << "inside: what the driver (580) says there";
    EXPECT_EQ(unregister_host(memory), Registration::done);
    EXPECT_EQ(static_cast<int>(unregister_host(memory)), 713) << "twice";
}

TEST(Registration, NothingAndTheEndOfTheAddressSpaceAreInvalid) {
    EXPECT_EQ(register_host(nullptr, 10, 0), Registration::invalid);
    EXPECT_EQ(register_host(memory, 0, 0), Registration::invalid);
    EXPECT_EQ(register_host(memory, SIZE_MAX, 0), Registration::invalid);
    EXPECT_EQ(unregister_host(nullptr), Registration::invalid);
}

TEST(Registration, PinnedMemoryIsRegisteredAlreadyAndPageableMemoryOfTheRegionIsNot) {
    ASSERT_TRUE(activate());
    void* pinned = pinned_alloc(1 * MiB, 0);
    void* pageable = region_alloc(1 * MiB, 16, false);
    EXPECT_EQ(static_cast<int>(register_host(pinned, 1 * MiB, 0)), 712);
    EXPECT_EQ(register_host(pageable, 1 * MiB, 0), Registration::done);
    EXPECT_EQ(kind_of(pageable, 1 * MiB), Kind::registered);
    EXPECT_EQ(unregister_host(pageable), Registration::done);
    EXPECT_EQ(kind_of(pageable, 1 * MiB), Kind::pageable);
    pinned_free(pinned);
    region_free(pageable);
}

TEST(Registration, ThousandsOfRangesInAnyOrderAgreeWithAModel) {
    std::map<std::size_t, std::size_t> model;
    std::mt19937 random(3);
    for (int i = 0; i < 20000; ++i) {
        const std::size_t at = random() % sizeof memory, bytes = 1 + random() % 40;
        if (at + bytes > sizeof memory) continue;
        auto next = model.lower_bound(at);
        const bool overlaps = (next != model.end() && next->first < at + bytes) ||
                              (next != model.begin() && std::prev(next)->first + std::prev(next)->second > at);
        if (random() % 3) {
            ASSERT_EQ(register_host(memory + at, bytes, 0),
                      overlaps ? Registration::already_registered : Registration::done);
            if (!overlaps) model[at] = bytes;
        } else {
            const bool within = next != model.begin() && std::prev(next)->first + std::prev(next)->second > at;
            ASSERT_EQ(unregister_host(memory + at), model.erase(at) ? Registration::done
                                                    : within        ? Registration::invalid
                                                                    : Registration::not_registered);
        }
    }
    for (auto [at, bytes] : model) ASSERT_EQ(unregister_host(memory + at), Registration::done);
}

}  // namespace
