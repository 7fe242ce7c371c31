// SPDX-License-Identifier: Apache-2.0
// client_rows_test: the numbers of a client that connected to another build, and what is known of the rows behind them.
#include "host-bridge/worker/session/client_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "shm-device/rows/needed.h"

namespace barcuda {
namespace {

constexpr auto rows_there_are = static_cast<std::uint32_t>(Op::count);
constexpr std::uint64_t another = 0x4711;  // no row of this build

// As another build might have them: each of ours somewhere, and one more in the middle.
ClientRows::State in_another_order() {
    ClientRows::State rows = ClientRows().state();
    std::ranges::shuffle(rows, std::mt19937(1));
    rows.insert(rows.begin() + rows_there_are / 2, {another, "cuOther", false});
    return rows;
}
std::uint64_t hash_of(const ClientRows::State& rows) {
    std::vector<std::uint64_t> identities;
    for (const ClientRows::Row& row : rows) identities.push_back(row.identity);
    return rows_hash(identities);
}

TEST(ClientRows, OfThisBuildAreItsOwnNumbers) {
    ClientRows rows;
    EXPECT_EQ(rows.hash(), rows_hash(published_rows()));
    for (std::uint32_t op = 0; op < rows_there_are; ++op) {
        EXPECT_EQ(rows.ours(op), op);
        EXPECT_EQ(rows.theirs(op), op);
    }
    EXPECT_EQ(rows.state().size(), rows_there_are);
}
TEST(ClientRows, InAnyOrderAreTranslatedBothWays) {
    const ClientRows::State theirs = in_another_order();
    ClientRows rows;
    rows.restore(theirs);
    EXPECT_EQ(rows.hash(), hash_of(theirs));
    for (std::uint32_t op = 0; op < rows_there_are; ++op) {
        const std::uint32_t number = rows.theirs(op);
        ASSERT_EQ(theirs.at(number).identity, row_identities()[op]) << op_names[op];
        EXPECT_EQ(rows.ours(number), op);
    }
}
TEST(ClientRows, ThatThisBuildLacksAreKnownByName) {
    ClientRows rows;
    rows.restore(in_another_order());
    constexpr std::uint32_t its = rows_there_are / 2;
    const std::uint32_t found = rows.ours(its);
    EXPECT_TRUE(ClientRows::lacks(found));
    EXPECT_EQ(rows.theirs(found), its);
    EXPECT_EQ(rows.name(found), "cuOther");
}
TEST(ClientRows, NumbersThatTheClientDoesNotHaveAreNone) {
    ClientRows own, rows;
    rows.restore(in_another_order());
    for (const std::uint32_t number : {rows_there_are + 1, 0xffffu, 0x7fffffffu, ~0u}) {
        EXPECT_EQ(rows.ours(number), ClientRows::unknown) << number;
        EXPECT_EQ(own.ours(number), ClientRows::unknown) << number;
    }
}
TEST(ClientRows, ThatTheClientHasUsedAreNoted) {
    ClientRows rows;
    const auto priority = static_cast<std::uint32_t>(Op::cuStreamGetPriority);
    EXPECT_FALSE(rows.state()[priority].needed);
    rows.ours(priority);
    EXPECT_TRUE(rows.state()[priority].needed);
    EXPECT_EQ(rows.state()[priority].name, "cuStreamGetPriority");
    for (const Op op : needed_rows) EXPECT_TRUE(rows.state()[static_cast<std::size_t>(op)].needed);
}
TEST(ClientRows, ComeOutAsTheyWentIn) {
    ClientRows first, second;
    first.restore(in_another_order());
    first.ours(first.theirs(static_cast<std::uint32_t>(Op::cuStreamGetPriority)));
    second.restore(first.state());
    EXPECT_EQ(second.state(), first.state());
}
TEST(ClientRows, ThatTheClientLacksHaveNoNumber) {
    ClientRows::State theirs = ClientRows().state();
    theirs.erase(theirs.begin() + static_cast<std::ptrdiff_t>(Op::cuMemFree_v2));
    ClientRows rows;
    rows.restore(theirs);
    EXPECT_EQ(rows.theirs(static_cast<std::uint32_t>(Op::cuMemFree_v2)), no_row);
}

}  // namespace
}  // namespace barcuda
