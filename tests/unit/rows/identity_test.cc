// SPDX-License-Identifier: Apache-2.0
// identity_test: what makes two rows of the command table the same to builds of different days, and how a client finds
// its rows in the bridge's table.
#include "shm-device/rows/identity.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

namespace barcuda {
namespace {

// `text` as rows have it: name, call or post, kinds.
template <class... P> constexpr std::uint64_t id(std::string_view text) {
    const std::size_t name = text.find(' '), how = text.find(' ', name + 1);
    const std::string_view way = text.substr(name + 1, how - name - 1);
    return Identity<std::tuple<P...>>::of(text.substr(0, name), way == "post" ? How::post : How::call,
                                          text.substr(how + 1));
}
constexpr auto row = "cuFoo call in, desc";
struct Small {
    int a;
};
struct Large {
    int a, b;
};
struct Unknown;

// ---- a row's identity
TEST(Identity, IsThatOfARowWithTheSameTextAndTypes) {
    static_assert(id<int, const Small*>(row) == id<int, const Small*>(row));
    EXPECT_EQ((id<int, const Small*>(row)), (id<unsigned, Small*>(row))) << "sizes count, not names of types";
}
TEST(Identity, IsFnv1aOfTheTextAndOfTwoNumbersForEachParameter) {  // forever: other builds compute it too
    EXPECT_EQ(id<>("cuProfilerStart call "), 0x9bad72bd29f65c18);
    EXPECT_EQ((id<CUstream, std::uint32_t, const Large*, const void*>("cuFoo post use, in, desc, in")),
              0x347281b6d677b7c9);
}
TEST(Identity, IsAnotherWithAnotherNameOrHowOrKind) {
    EXPECT_NE((id<int, int>("cuFoo call in, in")), (id<int, int>("cuBar call in, in")));
    EXPECT_NE((id<int, int>("cuFoo call in, in")), (id<int, int>("cuFoo post in, in")));
    EXPECT_NE((id<int, int>("cuFoo call in, in")), (id<int, int>("cuFoo call in, use")));
}
TEST(Identity, IsAnotherWithAParameterOfAnotherSize) {
    EXPECT_NE((id<int, int>("cuFoo call in, in")), (id<int, long long>("cuFoo call in, in")));
    EXPECT_NE((id<int, long long>("cuFoo call in, in")), (id<long long, int>("cuFoo call in, in")));
    EXPECT_NE((id<int>("cuFoo call in")), (id<int, int>("cuFoo call in")));
}
TEST(Identity, IsAnotherWhereAPointerLeadsToAnotherSize) {
    EXPECT_NE((id<int, const Small*>(row)), (id<int, const Large*>(row)));
    EXPECT_EQ((id<int, Unknown*>(row)), (id<int, void*>(row))) << "what nobody knows has no size";
}
TEST(Identity, OfEveryRowIsItsOwn) {
    std::map<std::uint64_t, std::string_view> names;
    for (std::size_t op = 0; op < identities.size(); ++op) {
        const auto [at, fresh] = names.emplace(identities[op], op_names[op]);
        EXPECT_TRUE(fresh) << op_names[op] << " and " << at->second;
        EXPECT_NE(identities[op], 0u) << op_names[op];  // as the rest of the region's table is
    }
    EXPECT_EQ(identities[static_cast<std::size_t>(Op::write_fence)],
              Identity<RowOf<Op::write_fence>::Arguments>::of("write_fence", How::post, "use, fence"));
}

// ---- finding one's rows in another table
using Table = std::vector<std::uint64_t>;
using Numbers = std::vector<RowNumber>;
Numbers find(const Table& own, const Table& theirs) {
    Numbers numbers(own.size(), 77);
    EXPECT_EQ(match(own, theirs, numbers), rows_hash(theirs));
    return numbers;
}

TEST(Match, OfTheSameTableIsTheSameNumbers) { EXPECT_EQ(find({5, 6, 7}, {5, 6, 7}), (Numbers{0, 1, 2})); }
TEST(Match, OfRowsThatWereAddedAnywhereShiftsTheNumbers) {
    EXPECT_EQ(find({5, 6, 7}, {1, 5, 2, 3, 6, 7, 4}), (Numbers{1, 4, 5}));
}
TEST(Match, OfARowThatTheBridgeLacksIsNone) {
    EXPECT_EQ(find({5, 6, 7}, {5, 7}), (Numbers{0, no_row, 1}));
    EXPECT_EQ(find({5, 6, 7}, {8, 9}), (Numbers{no_row, no_row, no_row}));
    EXPECT_EQ(find({5, 6, 7}, {}), (Numbers{no_row, no_row, no_row}));
    EXPECT_EQ(find({}, {5, 6, 7}), Numbers{});
}
TEST(Match, OfAnyOrderFindsEachRow) {
    const Table own(identities.begin(), identities.end());
    Table theirs = own;
    std::mt19937 random(1);
    for (int round = 0; round < 20; ++round) {
        std::shuffle(theirs.begin(), theirs.end(), random);
        const Numbers numbers = find(own, theirs);
        for (std::size_t op = 0; op < own.size(); ++op) ASSERT_EQ(theirs.at(numbers[op]), own[op]) << op_names[op];
    }
}
TEST(Match, OfATableOfAnySizeStaysWithinTheNumbersThereAre) {
    const Table theirs(std::size_t{no_row} + 1, 5);  // one more than can be named, and all alike
    Numbers numbers(1);
    match(Table{5}, theirs, numbers);
    EXPECT_LT(numbers[0], no_row);
}
TEST(Match, TellsTablesOfOtherRowsOrOrderApart) {
    EXPECT_NE(rows_hash(Table{5, 6}), rows_hash(Table{6, 5}));
    EXPECT_NE(rows_hash(Table{5, 6}), rows_hash(Table{5, 6, 7}));
}

}  // namespace
}  // namespace barcuda
