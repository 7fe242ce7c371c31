// SPDX-License-Identifier: Apache-2.0
// The records of managed memory: ranges by address and their lists, allocations, chunks, epochs.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "guest-allocator/driver/managed/state/allocations.h"
#include "guest-allocator/driver/managed/state/chunk.h"
#include "guest-allocator/driver/managed/state/epochs.h"
#include "guest-allocator/driver/managed/state/gates.h"
#include "guest-allocator/driver/managed/state/ranges.h"

namespace barcuda::guest::managed {
namespace {

using Space = Range;  // which in a test's body may be gtest's own
using Spaces = std::vector<Space*>;

CUstream stream_of(std::uintptr_t id) { return reinterpret_cast<CUstream>(id); }
CUcontext context_of(std::uintptr_t id) { return reinterpret_cast<CUcontext>(id); }

Space* add(Ranges& ranges, std::uintptr_t begin, std::size_t units, bool untouched = false) {
    auto range = std::make_unique<Space>(begin, units * unit, nullptr);
    range->untouched = untouched;
    Space* const added = range.get();
    ranges.add(std::move(range));
    return added;
}

TEST(ManagedRanges, AreFoundByEveryAddressInThem) {
    Ranges ranges;
    Space* const low = add(ranges, window_begin, 1);
    Space* const high = add(ranges, window_begin + 4 * unit, 2);
    EXPECT_EQ(low, ranges.find(window_begin));
    EXPECT_EQ(low, ranges.find(window_begin + unit - 1));
    EXPECT_EQ(nullptr, ranges.find(window_begin + unit));
    EXPECT_EQ(nullptr, ranges.find(window_begin - 1));
    EXPECT_EQ(high, ranges.find(window_begin + 6 * unit - 1));
    EXPECT_EQ(nullptr, ranges.find(window_begin + 6 * unit));
}
TEST(ManagedRanges, ComeOneAfterAnother) {
    Ranges ranges;
    Space* const low = add(ranges, window_begin, 1);
    Space* const next = add(ranges, window_begin + unit, 1);
    EXPECT_EQ(low, ranges.next(0));
    EXPECT_EQ(next, ranges.next(low->end));
    EXPECT_EQ(nullptr, ranges.next(next->end));
    Spaces all;
    ranges.each([&](Space& range) { all.push_back(&range); });
    EXPECT_EQ((Spaces{low, next}), all);
}
TEST(ManagedRanges, AreOnNoListAfterTheyAreRemoved) {
    Ranges ranges;
    Space* const range = add(ranges, window_begin, 1, true);
    ranges.set_accessible(*range, true);
    ranges.set_used_by_function(*range);
    range->habit.touched({0, 1}, false);
    ranges.set_watched(*range);
    EXPECT_EQ(Spaces{range}, ranges.watched());
    const auto removed = ranges.remove(*range);
    EXPECT_EQ(range, removed.get());
    EXPECT_EQ(nullptr, ranges.find(window_begin));
    EXPECT_TRUE(ranges.accessible().empty());
    EXPECT_TRUE(ranges.untouched().empty());
    EXPECT_TRUE(ranges.watched().empty());
    EXPECT_FALSE(ranges.any_used_by_functions());
}
TEST(ManagedRanges, AreOnEachListOnce) {
    Ranges ranges;
    Space* const range = add(ranges, window_begin, 1, true);
    for (int i = 0; i < 2; ++i) {
        ranges.set_accessible(*range, true);
        ranges.set_used_by_function(*range);
    }
    EXPECT_EQ(Spaces{range}, ranges.accessible());
    EXPECT_EQ(Spaces{range}, ranges.take_used_by_functions());
    EXPECT_FALSE(ranges.any_used_by_functions());
    ranges.set_accessible(*range, false);
    EXPECT_TRUE(ranges.accessible().empty());
    EXPECT_EQ(Spaces{range}, ranges.untouched());
    ranges.set_touched(*range);
    EXPECT_TRUE(ranges.untouched().empty());
}
TEST(ManagedRanges, ConcernStreamsThatTheyAreAttachedTo) {
    Ranges ranges;
    Space* const range = add(ranges, window_begin, 1);
    EXPECT_TRUE(ranges.nothing_to_do_for(stream_of(4)));
    ranges.set_accessible(*range, true);
    EXPECT_FALSE(ranges.nothing_to_do_for(stream_of(4)));
    range->attachment = {Attachment::single, stream_of(8)};
    EXPECT_TRUE(ranges.nothing_to_do_for(stream_of(4)));
    EXPECT_FALSE(ranges.nothing_to_do_for(stream_of(8)));
    range->attachment = {Attachment::host, nullptr};
    EXPECT_TRUE(ranges.nothing_to_do_for(stream_of(8)));
}
TEST(ManagedRanges, ThatAreUntouchedConcernAStream) {
    Ranges ranges;
    Space* const range = add(ranges, window_begin, 1, true);
    EXPECT_FALSE(ranges.nothing_to_do_for(nullptr));
    ranges.set_touched(*range);
    EXPECT_TRUE(ranges.nothing_to_do_for(nullptr));
}
TEST(ManagedRanges, HavePrefetchesUntilKernelsMayHaveChangedThem) {
    Ranges ranges;
    Space* const one = add(ranges, window_begin, 1);
    Space* const two = add(ranges, window_begin + unit, 1);
    ranges.add_prefetch(*one, {{0, 4}, nullptr, 1, false});
    ranges.add_prefetch(*two, {{0, 4}, nullptr, 1, false});
    EXPECT_FALSE(ranges.nothing_to_do_for(nullptr));
    ranges.outdate_prefetches([&](const Space& range) { return &range == one; });
    EXPECT_TRUE(one->prefetches[0].stale);
    EXPECT_FALSE(two->prefetches[0].stale);
    EXPECT_FALSE(ranges.nothing_to_do_for(nullptr));
    ranges.outdate_prefetches([](const Space&) { return true; });
    EXPECT_TRUE(two->prefetches[0].stale);
    EXPECT_TRUE(ranges.nothing_to_do_for(nullptr));
}
TEST(ManagedRanges, OutdateOnlyPrefetchesOfTheBlocksThatChange) {
    Space range(window_begin, unit, nullptr);
    range.prefetches = {{{0, 2}, nullptr, 1, false}, {{2, 4}, nullptr, 1, false}};
    range.outdate_prefetches({1, 2});
    EXPECT_TRUE(range.prefetches[0].stale);
    EXPECT_FALSE(range.prefetches[1].stale);
}
TEST(ManagedRanges, OfVariablesMayLieOutsideTheWindow) {
    Ranges ranges;
    constexpr std::uintptr_t page = 4096, at = 0x7000'0000'0000;
    EXPECT_FALSE(may_be_managed(at, page));
    auto range = std::make_unique<Space>(at, page, nullptr);
    range->of_variables = true;
    ranges.add(std::move(range));
    EXPECT_TRUE(may_be_managed(at, 1));
    EXPECT_TRUE(may_be_managed(at - 1, 2));
    EXPECT_FALSE(may_be_managed(at - 1, 1));
    EXPECT_FALSE(may_be_managed(at + page, 1));
    EXPECT_TRUE(may_be_managed(window_begin, 1));
    EXPECT_FALSE(may_be_managed(window_end, 1));
}
TEST(ManagedRanges, KeepThePartsThatAreVariablesInOrder) {
    constexpr std::uintptr_t at = 0x7000'0000'1000;
    Space range(at, 4096, nullptr);
    range.add_part(at + 64, at + 128);
    range.add_part(at - 8, at + 8);
    ASSERT_EQ(2u, range.parts.size());
    EXPECT_EQ(at, range.parts[0].begin);
    EXPECT_EQ(at + 8, range.parts[0].end);
    EXPECT_EQ(at + 64, range.parts[1].begin);
}
TEST(ManagedRanges, OfAllocationsAreCopiedAsFarAsThereHasBeenOne) {
    Space range(window_begin, unit, nullptr);
    range.add_part(window_begin, window_begin + 1000);
    const Space::Part more = range.grow(window_begin + 5000);
    EXPECT_EQ(window_begin + 1000, more.begin);
    EXPECT_EQ(window_begin + 5000, more.end);
    const Space::Part none = range.grow(window_begin + 2000);
    EXPECT_EQ(none.begin, none.end);
    ASSERT_EQ(1u, range.parts.size());
    EXPECT_EQ(window_begin + 5000, range.parts[0].end);
}

TEST(ManagedAllocations, AreFoundByAddressOrByBeginning) {
    Allocations allocations;
    allocations.add({1000, 24, 0, nullptr, nullptr, {}, 0});
    EXPECT_EQ(nullptr, allocations.find(999));
    ASSERT_NE(nullptr, allocations.find(1023));
    EXPECT_EQ(1000u, allocations.find(1023)->begin);
    EXPECT_EQ(nullptr, allocations.find(1024));
    EXPECT_EQ(nullptr, allocations.at(1001));
    EXPECT_NE(nullptr, allocations.at(1000));
    allocations.remove_if([](const Allocation& a) { return a.bytes == 23; });
    EXPECT_NE(nullptr, allocations.at(1000));
    allocations.remove_if([](const Allocation& a) { return a.bytes == 24; });
    EXPECT_EQ(nullptr, allocations.at(1000));
}

TEST(ManagedChunks, GiveEachPieceOnce) {
    Space range(window_begin, unit, nullptr);
    Chunk chunk(&range);
    const std::uintptr_t one = chunk.take(1), two = chunk.take(257), three = chunk.take(256);
    EXPECT_EQ(window_begin, one);
    EXPECT_EQ(one + 256, two);
    EXPECT_EQ(two + 512, three);
    chunk.give(two, 257);
    EXPECT_EQ(two, chunk.take(512));
    EXPECT_FALSE(chunk.empty());
}
TEST(ManagedChunks, HaveRoomAgainAfterARefusal) {
    Space range(window_begin, unit, nullptr);
    Chunk chunk(&range);
    const std::uintptr_t all = chunk.take(unit);
    EXPECT_EQ(window_begin, all);
    EXPECT_EQ(0u, chunk.take(1));
    chunk.give(all, unit);
    EXPECT_TRUE(chunk.empty());
    EXPECT_EQ(window_begin, chunk.take(1));
    EXPECT_EQ(0u, chunk.take(unit));
    EXPECT_NE(0u, chunk.take(unit - 256));
}

TEST(ManagedEpochs, KeysOfStreamsAreNeverTheFastPathsOwnValues) {
    EXPECT_GT(key_of(nullptr, nullptr), slow_path);
    EXPECT_GT(key_of(stream_of(1), nullptr), slow_path);
    EXPECT_EQ(key_of(stream_of(1), context_of(1)), key_of(stream_of(1), context_of(2)));
    EXPECT_NE(key_of(nullptr, context_of(1)), key_of(nullptr, context_of(2)));
    EXPECT_NE(key_of(stream_of(1), nullptr), key_of(nullptr, context_of(1)));
}
TEST(ManagedEpochs, ANewStreamIsBehindAllEpochs) {
    Epochs epochs;
    EXPECT_EQ(epochs.now(), epochs.use(stream_of(1), nullptr).epoch);
    EXPECT_EQ(1u, epochs.begin());
    EXPECT_NE(epochs.now(), epochs.use(stream_of(1), nullptr).epoch);
    EXPECT_EQ(CU_STREAM_LEGACY, epochs.use(nullptr, context_of(1)).stream);
    epochs.use(stream_of(1), nullptr).epoch = epochs.now();
    epochs.forget(stream_of(1), nullptr);
    EXPECT_EQ(nullptr, epochs.find(stream_of(1), nullptr));
    EXPECT_EQ(0u, epochs.use(stream_of(1), nullptr).epoch);
}
TEST(ManagedEpochs, AContextsStreamsAreForgottenWithIt) {
    Epochs epochs;
    epochs.use(stream_of(1), context_of(1));
    epochs.use(nullptr, context_of(1));
    epochs.use(nullptr, context_of(2));
    epochs.forget(context_of(1));
    int left = 0;
    epochs.each([&](const ActiveStream&) { ++left; });
    EXPECT_EQ(1, left);
    EXPECT_TRUE(epochs.all([](const ActiveStream& stream) { return stream.context == context_of(2); }));
}
TEST(ManagedEpochs, WorkThatIsGivenDuringAWaitIsNotDone) {
    Outstanding work;
    EXPECT_FALSE(work.any());
    work.add();
    const std::uint64_t before = work.given();
    work.add();
    work.done(before);
    EXPECT_TRUE(work.any());
    work.done(work.given());
    work.done(before);  // a thread that has waited for less comes late
    EXPECT_FALSE(work.any());
}

}  // namespace
}  // namespace barcuda::guest::managed
