// SPDX-License-Identifier: Apache-2.0
// handles_test: what a client's ids mean, and how long they are valid.
#include "host-bridge/worker/session/handles.h"

#include <gtest/gtest.h>
#include <malloc.h>

namespace barcuda {
namespace {

template <class T> T raw(std::uint64_t value) { return reinterpret_cast<T>(value); }

struct HandlesTest : testing::Test {
    Handles handles;
    template <class T> bool finds(std::uint64_t id) {
        T value{};
        return handles.find(id, value);
    }
};

TEST_F(HandlesTest, AnIdThatTheGuestChoseLeadsToItsObject) {
    handles.keep(0x20, raw<CUstream>(0x7000));
    CUstream stream{};
    ASSERT_TRUE(handles.find(0x20, stream));
    EXPECT_EQ(stream, raw<CUstream>(0x7000));
}
TEST_F(HandlesTest, AStreamsIdNeverPassesForAnEvent) {
    handles.keep(0x20, raw<CUstream>(0x7000));
    EXPECT_FALSE(finds<CUevent>(0x20));
}
TEST_F(HandlesTest, ADroppedIdIsVacantAgain) {
    handles.keep(0x20, raw<CUstream>(0x7000));
    EXPECT_FALSE(handles.vacant(0x20));
    handles.drop(0x20);
    EXPECT_TRUE(handles.vacant(0x20));
    EXPECT_FALSE(finds<CUstream>(0x20));
}
TEST_F(HandlesTest, TheGuestMayNotChooseNullOrADefaultStreamOrAnIdOfTheHosts) {
    for (std::uint64_t id : {std::uint64_t{0}, std::uint64_t{2}, wire::first_id - 1, wire::most_ids, wire::given})
        EXPECT_FALSE(handles.vacant(id)) << id;
}
TEST_F(HandlesTest, TheHostGivesAnObjectOneIdHoweverOftenItIsAsked) {
    const auto id = handles.name(raw<CUfunction>(0x7000));
    EXPECT_GE(id, wire::given);
    EXPECT_EQ(handles.name(raw<CUfunction>(0x7000)), id);
    EXPECT_NE(handles.name(raw<CUfunction>(0x7100)), id);
}
TEST_F(HandlesTest, AnObjectThatTheGuestNamedKeepsThatName) {
    handles.keep(0x20, raw<CUevent>(0x7000));
    EXPECT_EQ(handles.name(raw<CUevent>(0x7000)), 0x20u);
}
TEST_F(HandlesTest, NoObjectHasNoId) { EXPECT_EQ(handles.name(CUgraph{}), 0u); }
TEST_F(HandlesTest, TwoObjectsOfOneAddressAndDifferentTypesDiffer) {
    EXPECT_NE(handles.name(raw<CUmodule>(0x7000)), handles.name(raw<CUlibrary>(0x7000)));
}

TEST_F(HandlesTest, AConditionIsAPartOfItsGraphAloneAndGoesWithIt) {
    handles.keep(0x20, raw<CUgraph>(0x7000));
    handles.keep(0x21, raw<CUgraph>(0x7100));
    const CUgraphConditionalHandle condition = 0x8000;
    EXPECT_FALSE(handles.is_part(condition, 0x20));
    handles.name(condition, 0x20);
    EXPECT_TRUE(handles.is_part(condition, 0x20));
    EXPECT_FALSE(handles.is_part(condition, 0x21));
    EXPECT_FALSE(handles.is_part(CUmemGenericAllocationHandle{0x8000}, 0x20));
    handles.drop(0x20);
    handles.keep(0x20, raw<CUgraph>(0x7000));
    EXPECT_FALSE(handles.is_part(condition, 0x20));
}
// NVIDIA's driver numbers the conditions of each outermost graph from 1 on.
TEST_F(HandlesTest, ConditionsOfTwoGraphsMayHaveOneNumber) {
    handles.keep(0x20, raw<CUgraph>(0x7000));
    handles.keep(0x21, raw<CUgraph>(0x7100));
    const CUgraphConditionalHandle first = 1;
    handles.name(first, 0x20);
    handles.name(first, 0x21);
    EXPECT_TRUE(handles.is_part(first, 0x20));
    EXPECT_TRUE(handles.is_part(first, 0x21));
    handles.drop(0x20);
    EXPECT_TRUE(handles.is_part(first, 0x21));
    handles.keep(0x20, raw<CUgraph>(0x7000));
    EXPECT_FALSE(handles.is_part(first, 0x20));
    handles.name(first, 0x20);
    EXPECT_TRUE(handles.is_part(first, 0x20));
}
TEST_F(HandlesTest, AConditionIsOneForAGraphAndTheBranchesOfItsNodes) {
    handles.keep(0x20, raw<CUgraph>(0x7000));
    handles.keep(0x21, raw<CUgraph>(0x7100));
    const auto node = handles.name(raw<CUgraphNode>(0x7200), 0x20);
    const auto branch = handles.name(raw<CUgraph>(0x7300), node);
    handles.name(CUgraphConditionalHandle{1}, 0x20);
    handles.name(CUgraphConditionalHandle{2}, branch);
    for (const std::uint64_t graph : {std::uint64_t{0x20}, branch})
        for (const CUgraphConditionalHandle condition : {1, 2}) EXPECT_TRUE(handles.is_part(condition, graph));
    EXPECT_FALSE(handles.is_part(CUgraphConditionalHandle{1}, 0x21));
}
TEST_F(HandlesTest, PartsGoWithTheWhole) {
    handles.keep(0x20, raw<CUmodule>(0x7000));
    const auto function = handles.name(raw<CUfunction>(0x8000), 0x20);
    handles.drop(0x20);
    EXPECT_FALSE(finds<CUfunction>(function));
}
TEST_F(HandlesTest, PartsOfPartsGoToo) {
    const auto graph = handles.name(raw<CUgraph>(0x7000));
    const auto node = handles.name(raw<CUgraphNode>(0x8000), graph);
    const auto child = handles.name(raw<CUgraph>(0x9000), node);
    handles.drop(graph);
    EXPECT_FALSE(finds<CUgraphNode>(node));
    EXPECT_FALSE(finds<CUgraph>(child));
}
TEST_F(HandlesTest, WhatJoinsAWholeGoesWithIt) {
    handles.keep(0x20, raw<CUgraph>(0x7000));
    handles.keep(0x21, raw<CUgraph>(0x7100));
    const auto node = handles.name(raw<CUgraphNode>(0x8000), 0x20);
    const auto inner = handles.name(raw<CUgraphNode>(0x8100), 0x21);
    handles.join(0x21, node);
    EXPECT_TRUE(finds<CUgraphNode>(inner));
    handles.drop(0x20);
    EXPECT_FALSE(finds<CUgraph>(0x21));
    EXPECT_FALSE(finds<CUgraphNode>(inner));
}
TEST_F(HandlesTest, ANodeFoundFromANodeBelongsToTheGraph) {
    const auto graph = handles.name(raw<CUgraph>(0x7000));
    const auto first = handles.name(raw<CUgraphNode>(0x8000), graph);
    const auto second = handles.name(raw<CUgraphNode>(0x8100), first);
    handles.drop(first);
    EXPECT_TRUE(finds<CUgraphNode>(second));
    handles.drop(graph);
    EXPECT_FALSE(finds<CUgraphNode>(second));
}
TEST_F(HandlesTest, APlaceThatIsUsedAgainHasANewId) {
    const auto graph = handles.name(raw<CUgraph>(0x7000));
    const auto old = handles.name(raw<CUgraphNode>(0x8000), graph);
    handles.drop(old);
    const auto fresh = handles.name(raw<CUgraphNode>(0x8100), handles.name(raw<CUgraph>(0x7100)));
    EXPECT_NE(fresh, old);
    EXPECT_FALSE(finds<CUgraphNode>(old));
    handles.drop(graph);  // remembers the old node; must not drop the new one
    EXPECT_TRUE(finds<CUgraphNode>(fresh));
}
TEST_F(HandlesTest, AnAddressThatTheDriverUsesAgainIsANewObject) {
    const auto old = handles.name(raw<CUgraph>(0x7000));
    handles.drop(old);
    const auto fresh = handles.name(raw<CUgraph>(0x7000));
    EXPECT_NE(fresh, old);
    EXPECT_TRUE(finds<CUgraph>(fresh));
}
TEST_F(HandlesTest, GraphsWithoutEndTakePlacesOfGraphsThatAreGone) {
    std::uint64_t highest = 0;
    for (int i = 0; i < 1000; ++i) {
        const auto graph = handles.name(raw<CUgraph>(0x7000));
        for (std::uint64_t n = 0; n < 10; ++n)
            highest = std::max(highest, handles.name(raw<CUgraphNode>(0x8000 + n * 16), graph) & 0x7fffffff);
        handles.drop(graph);
    }
    EXPECT_LT(highest, 16u);
}
TEST_F(HandlesTest, WhatWasMadeInAContextIsWithinIt) {
    constexpr std::uint64_t first = 0x10, second = 0x11;  // contexts
    const auto kernel = handles.name(raw<CUkernel>(0x7000), 0, first);
    const auto function = handles.name(raw<CUfunction>(0x8000), kernel, first);
    const auto other = handles.name(raw<CUfunction>(0x8100), kernel, second);
    handles.keep(0x20, raw<CUmodule>(0x9000), first);
    const auto part = handles.name(raw<CUfunction>(0x9100), 0x20, first);
    handles.keep(0x21, raw<CUstream>(0xa000), first);
    for (const std::uint64_t id : handles.within(first)) handles.drop(id);
    EXPECT_FALSE(finds<CUfunction>(function));
    EXPECT_FALSE(finds<CUmodule>(0x20));
    EXPECT_FALSE(finds<CUfunction>(part));
    EXPECT_TRUE(finds<CUfunction>(other));
    EXPECT_TRUE(finds<CUkernel>(kernel));
    EXPECT_FALSE(finds<CUstream>(0x21));
    EXPECT_NE(handles.name(raw<CUfunction>(0x8000), kernel, first), function);  // other code at the same address
}
TEST_F(HandlesTest, AHighIdTakesNoMoreMemoryThanALowOne) {
    const auto held = [] { return mallinfo2().uordblks + mallinfo2().hblkhd; };
    const std::size_t before = held();
    handles.keep(wire::most_ids - 1, raw<CUstream>(0x7000));
    EXPECT_LT(held() - before, std::size_t{1} << 20);
    EXPECT_TRUE(finds<CUstream>(wire::most_ids - 1));
}
TEST_F(HandlesTest, TheStreamsAreThoseThatTheClientHasMadeAndNotDestroyed) {
    const auto streams = [](const Handles& of) {
        std::vector<CUstream> all;
        of.each_stream([&](CUstream s) { all.push_back(s); });
        return all;
    };
    handles.keep(0x21, raw<CUstream>(0x7100));
    handles.keep(0x22, raw<CUevent>(0x7200));
    handles.keep(0x20, raw<CUstream>(0x7000));
    const std::vector both{raw<CUstream>(0x7000), raw<CUstream>(0x7100)};
    EXPECT_EQ(streams(handles), both);
    Handles again;
    ASSERT_TRUE(again.restore(handles.state()));
    EXPECT_EQ(streams(again), both);
    handles.drop(0x20);
    handles.drop(0x22);
    EXPECT_EQ(streams(handles), std::vector{raw<CUstream>(0x7100)});
    handles.keep(0x20, raw<CUevent>(0x7300));
    EXPECT_EQ(streams(handles), std::vector{raw<CUstream>(0x7100)});
}
TEST_F(HandlesTest, DroppingWhatIsNotThereIsHarmless) {
    handles.drop(0x20);
    handles.drop(wire::given + 5);
    handles.drop(~std::uint64_t{0});
    EXPECT_TRUE(handles.vacant(0x20));
}

}  // namespace
}  // namespace barcuda
