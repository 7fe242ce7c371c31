// SPDX-License-Identifier: Apache-2.0
// limits_test: the table of limits, and the bridge's account of device memory.
#include "host-bridge/between/limits.h"

#include <gtest/gtest.h>

#include <set>

#include "host-bridge/bridge/quotas.h"

namespace barcuda {
namespace {

constexpr std::uint64_t mib = 1 << 20;

TEST(Limits, EachHasANameOfItsOwnAsAnOptionAndAKey) {
    std::set<std::string> names;
    each_limit([&](Limit limit, const AboutLimit& its) {
        EXPECT_EQ(its.name().find('_'), std::string::npos) << its.name();
        EXPECT_TRUE(its.is(Of::client) || its.is(Of::guest)) << its.name();
        EXPECT_TRUE(names.insert(its.name()).second) << its.name();
        EXPECT_EQ(&its, &about(limit));
    });
    EXPECT_EQ(names.size(), limit_count);
    EXPECT_EQ(about(Limit::device_memory).option(Of::guest), "guest-device-memory");
    EXPECT_EQ(about(Limit::objects).option(Of::client), "client-objects");
}

TEST(Limits, AreShownInTheUnitsOfPeople) {
    EXPECT_EQ(about(Limit::device_memory).text(0), "0");
    EXPECT_EQ(about(Limit::device_memory).text(1023), "1023");
    EXPECT_EQ(about(Limit::device_memory).text(2048 * mib), "2G");
    EXPECT_EQ(about(Limit::device_memory).text(1536 * mib), "1.5G");
    EXPECT_EQ(about(Limit::objects).text(2048), "2048");
    EXPECT_EQ(about(Limit::log_text).text(4096), "4K/s");
}

TEST(Limits, OfTwoTheSmallerCountsAndZeroIsNone) {
    EXPECT_EQ(least(0, 0), 0u);
    EXPECT_EQ(least(5, 0), 5u);
    EXPECT_EQ(least(0, 5), 5u);
    EXPECT_EQ(least(5, 3), 3u);
}

TEST(QuotasTest, AClientIsLentWhatItMayHave) {
    Quotas quotas;
    const MemoryLimits limits{10 * mib, 0};
    EXPECT_EQ(quotas.left(0, 0, limits), 10 * mib);
    EXPECT_TRUE(quotas.lend(0, 0, 6 * mib, limits));
    EXPECT_FALSE(quotas.lend(0, 0, 5 * mib, limits));
    EXPECT_TRUE(quotas.lend(0, 0, 4 * mib, limits));
    EXPECT_EQ(quotas.left(0, 0, limits), 0u);
    EXPECT_EQ(quotas.left(0, 1, limits), 10 * mib) << "each GPU's memory is counted by itself";
    quotas.repay(0, 0, 3 * mib);
    EXPECT_EQ(quotas.left(0, 0, limits), 3 * mib);
    quotas.repay_all(0);
    EXPECT_EQ(quotas.held(0), 0u);
}

TEST(QuotasTest, AGuestsClientsHaveItsMemoryTogether) {
    Quotas quotas;
    const MemoryLimits limits{0, 10 * mib};
    EXPECT_TRUE(quotas.lend(0, 0, 6 * mib, limits));
    EXPECT_FALSE(quotas.lend(1, 0, 6 * mib, limits));
    EXPECT_TRUE(quotas.lend(1, 0, 4 * mib, limits));
    quotas.repay_all(0);
    EXPECT_EQ(quotas.left(1, 0, limits), 6 * mib);
}

TEST(QuotasTest, WhatAWorkerSaysThatThereIsCountsAsLentAndNotTwice) {
    Quotas quotas;
    const MemoryLimits limits{10 * mib, 10 * mib};
    quotas.note(0, 0, 6 * mib);
    EXPECT_EQ(quotas.left(0, 0, limits), 4 * mib);
    EXPECT_TRUE(quotas.lend(0, 0, 6 * mib, limits)) << "the same memory";
    EXPECT_EQ(quotas.left(0, 0, limits), 4 * mib);
    quotas.note(0, 0, 8 * mib);
    EXPECT_EQ(quotas.left(1, 0, limits), 2 * mib) << "of the guest";
}

TEST(QuotasTest, NothingIsTakenAwayWhenALimitIsLowered) {
    Quotas quotas;
    EXPECT_TRUE(quotas.lend(0, 0, 6 * mib, {10 * mib, 0}));
    const MemoryLimits lower{4 * mib, 0};
    EXPECT_EQ(quotas.held(0, 0), 6 * mib);
    EXPECT_EQ(quotas.left(0, 0, lower), 0u);
    EXPECT_FALSE(quotas.lend(0, 0, 1, lower));
    quotas.note(1, 0, 6 * mib);
    EXPECT_TRUE(quotas.lend(1, 0, 6 * mib, lower)) << "what it has already";
}

TEST(QuotasTest, AWorkersWildNumbersDoNotWrapAround) {
    Quotas quotas;
    const MemoryLimits limits{10 * mib, 20 * mib};
    EXPECT_TRUE(quotas.lend(0, 0, 2 * mib, limits));
    EXPECT_FALSE(quotas.lend(0, 0, ~std::uint64_t{0}, limits));
    quotas.note(0, 0, ~std::uint64_t{0});
    quotas.note(1, 0, ~std::uint64_t{0});
    EXPECT_EQ(quotas.held(0), ~std::uint64_t{0});
    EXPECT_EQ(quotas.left(2, 0, limits), 0u);
}

}  // namespace
}  // namespace barcuda
