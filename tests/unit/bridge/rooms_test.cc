// SPDX-License-Identifier: Apache-2.0
// rooms_test: host memory for what leaves shared cards: who gets how much of it, what a later bridge knows, and that
// nothing of a file is left when it comes back. The test is the thread.
#include "host-bridge/bridge/rooms.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

namespace barcuda {
namespace {

using Asked = Rooms::Asked;
constexpr std::uint64_t granule = Rooms::granule, big = Rooms::most_bytes;

// Pages that a file has, in bytes.
std::uint64_t pages(int file) {
    struct stat there {};
    EXPECT_EQ(fstat(file, &there), 0);
    return static_cast<std::uint64_t>(there.st_blocks) * 512;
}

struct RoomsTest : testing::Test {
    std::vector<Rooms::Account> books{4};
    std::optional<Rooms> rooms;

    void begin(std::uint64_t store, std::uint64_t ready = 0, bool kept = false) {
        rooms.reset();
        rooms.emplace(store, ready, 4, Part<Rooms::Account>{books, kept});
    }
    void work() {
        while (rooms->work()) {}
    }
    std::optional<Rooms::Room> get(std::uint32_t slot, std::uint64_t bytes, const Rooms::Limits& limits = {}) {
        if (rooms->ask(slot, bytes, limits) != Asked::begun) return {};
        work();
        return rooms->take(slot);
    }
};

TEST_F(RoomsTest, GiveAFileWithPagesAndAFixedLength) {
    begin(4 * granule);
    const auto room = get(1, granule);
    ASSERT_TRUE(room);
    EXPECT_EQ(room->bytes, granule);
    EXPECT_EQ(pages(room->file), granule);
    EXPECT_NE(ftruncate(room->file, 0), 0);
    EXPECT_NE(ftruncate(room->file, 2 * granule), 0);
    EXPECT_NE(fcntl(room->file, F_ADD_SEALS, F_SEAL_WRITE), 0) << "it has all the seals that it ever gets";
    EXPECT_EQ(rooms->held(1), granule);
    EXPECT_EQ(rooms->held(), granule);
}

TEST_F(RoomsTest, GiveNothingBeforeItIsMade) {
    begin(4 * granule);
    ASSERT_EQ(rooms->ask(1, granule, {}), Asked::begun);
    EXPECT_FALSE(rooms->take(1));
    EXPECT_TRUE(rooms->makes(1));
    EXPECT_EQ(rooms->ask(1, granule, {}), Asked::busy) << "a worker has one request at a time";
    work();
    EXPECT_TRUE(rooms->take(1));
    EXPECT_FALSE(rooms->makes(1));
}

TEST_F(RoomsTest, TheFilesOfAClientCanBeTheWholeStore) {
    constexpr std::uint64_t store = 1024ull << 30;
    constexpr std::uint32_t half = Rooms::most_of_a_client / 2;
    begin(store);
    std::uint64_t all = 0;
    for (std::uint32_t number = 1; number <= Rooms::most_of_a_client; ++number) all += rooms->most_of(number);
    EXPECT_GE(all, store);
    for (std::uint32_t i = 0; i < half; ++i) books[1].granules[i] = 1;
    begin(store, 0, true);
    EXPECT_EQ(rooms->ask(1, store, {}), Asked::begun);
    EXPECT_EQ(rooms->held(1), half * granule + store / half);
    EXPECT_EQ(rooms->ask(1, granule, {}), Asked::busy);
    for (auto& its : books[2].granules) its = 1;
    begin(store, 0, true);
    EXPECT_EQ(rooms->ask(2, granule, {}), Asked::has_most_files);
    EXPECT_EQ(rooms->ask(2, granule, {.client = granule}), Asked::full);
}

TEST_F(RoomsTest, ANewClientOfASlotWaitsForTheFileOfTheOneBefore) {
    begin(4 * granule);
    EXPECT_EQ(rooms->ask(1, granule, {}), Asked::begun);
    rooms->forget(1);
    EXPECT_EQ(rooms->ask(1, granule, {}), Asked::busy) << "the store is not full";
    work();
    EXPECT_EQ(get(1, granule)->bytes, granule);
}

TEST_F(RoomsTest, GiveNoMoreThanThereIsAndIsAllowed) {
    begin(5 * granule);
    EXPECT_EQ(get(0, 2 * granule, {.client = granule})->bytes, granule) << "a part";
    EXPECT_FALSE(get(0, granule, {.client = granule}));
    EXPECT_EQ(get(1, 3 * granule, {.guest = 3 * granule})->bytes, 2 * granule);
    EXPECT_FALSE(get(2, granule, {.guest = 3 * granule}));
    EXPECT_EQ(get(2, 3 * granule)->bytes, 2 * granule);
    EXPECT_FALSE(get(3, granule));
    EXPECT_FALSE(get(3, granule - 1));
    EXPECT_EQ(rooms->held(), 5 * granule);
}

TEST_F(RoomsTest, GiveManyFilesForMuchMemory) {
    begin(4 * big);
    EXPECT_EQ(rooms->ask(0, 3 * big, {}), Asked::begun);
    EXPECT_EQ(rooms->held(0), big);
}

TEST_F(RoomsTest, EmptyAFileThatComesBackWhoeverHasIt) {
    begin(2 * granule);
    const auto room = get(1, granule);
    const int workers = dup(room->file);
    EXPECT_FALSE(rooms->give_back(1, room->number + 1));
    EXPECT_FALSE(rooms->give_back(0, room->number));
    EXPECT_TRUE(rooms->give_back(1, room->number));
    EXPECT_FALSE(rooms->give_back(1, room->number));
    EXPECT_EQ(rooms->held(), 0u);
    work();
    EXPECT_EQ(pages(workers), 0u);
    close(workers);
    EXPECT_TRUE(get(1, 2 * granule));
}

TEST_F(RoomsTest, EmptyOneFileForEachThatTheyMakeAndServeClientsByTurns) {
    begin(3 * granule);
    const auto first = get(0, granule);
    const int workers = dup(first->file);
    ASSERT_TRUE(rooms->give_back(0, first->number));
    ASSERT_EQ(rooms->ask(0, granule, {}), Asked::begun);
    ASSERT_EQ(rooms->ask(1, granule, {}), Asked::begun);
    rooms->work();  // slot 0 was served last
    EXPECT_EQ(pages(workers), 0u);
    EXPECT_FALSE(rooms->take(0));
    EXPECT_TRUE(rooms->take(1));
    close(workers);
}

TEST_F(RoomsTest, TakeBackAllOfAClientThatLeft) {
    begin(4 * granule);
    const auto one = get(1, granule);
    const int workers = dup(one->file);
    ASSERT_TRUE(get(1, granule));
    ASSERT_EQ(rooms->ask(1, granule, {}), Asked::begun);  // and one that is not made yet
    rooms->forget(1);
    work();
    EXPECT_EQ(rooms->held(), 0u);
    EXPECT_EQ(pages(workers), 0u);
    close(workers);
    EXPECT_FALSE(rooms->take(1));
    ASSERT_EQ(rooms->ask(1, granule, {}), Asked::begun);
    work();
    rooms->forget(1);  // and one that was made and not taken
    EXPECT_FALSE(rooms->take(1));
    EXPECT_EQ(get(1, 4 * granule)->bytes, 4 * granule);
}

TEST_F(RoomsTest, KeepSomeReadyWithinTheStore) {
    begin(2 * big, 2 * big);
    work();
    EXPECT_EQ(rooms->ready(), 2 * big);
    ASSERT_EQ(rooms->ask(0, big, {}), Asked::begun);
    const auto room = rooms->take(0);
    ASSERT_TRUE(room) << "at once";
    EXPECT_EQ(pages(room->file), big);
    work();
    EXPECT_EQ(rooms->ready(), big) << "the rest of the store";
    ASSERT_EQ(rooms->ask(1, granule, {}), Asked::begun);
    EXPECT_EQ(rooms->ready(), 0u) << "what clients have comes first";
    work();
    ASSERT_TRUE(rooms->take(1));
    rooms->forget(0);
    rooms->forget(1);
    work();
    EXPECT_EQ(rooms->ready(), 2 * big);
}

TEST_F(RoomsTest, CountBehindAnotherBridgeWhatItGave) {
    begin(4 * granule);
    const auto room = get(1, 2 * granule);
    ASSERT_TRUE(get(2, granule));
    begin(4 * granule, 0, true);
    EXPECT_EQ(rooms->held(1), 2 * granule);
    EXPECT_EQ(rooms->held(), 3 * granule);
    rooms->restore([](std::uint32_t slot) { return slot == 1; });
    EXPECT_EQ(rooms->held(), 2 * granule) << "what a client without a worker had is free";
    EXPECT_TRUE(rooms->give_back(1, room->number));
    EXPECT_EQ(rooms->held(), 0u);
}

TEST_F(RoomsTest, GiveAgainWhatAnEarlierBridgeMayNotHaveGiven) {
    begin(4 * granule);
    const std::uint32_t next = rooms->next(1);
    ASSERT_EQ(rooms->ask(1, 2 * granule, {}), Asked::begun);
    begin(4 * granule, 0, true);  // killed before it answered
    rooms->drop(1, next);
    EXPECT_EQ(rooms->held(), 0u);
    const auto room = get(1, 2 * granule);
    EXPECT_EQ(room->number, next);
    begin(4 * granule, 0, true);  // killed behind the answer
    ASSERT_TRUE(rooms->ask_again(1, next));
    work();
    const auto again = rooms->take(1);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->number, next);
    EXPECT_EQ(again->bytes, 2 * granule);
    EXPECT_EQ(rooms->held(), 2 * granule) << "counted once";
    EXPECT_FALSE(rooms->ask_again(1, next + 1));
}

TEST_F(RoomsTest, AreMadeByTheThread) {
    begin(2 * granule);
    ASSERT_EQ(rooms->start().text(), "");
    ASSERT_EQ(rooms->ask(1, granule, {}), Asked::begun);
    pollfd made{rooms->fd(), POLLIN, 0};
    ASSERT_EQ(poll(&made, 1, 60'000), 1);
    const auto room = rooms->take(1);
    ASSERT_TRUE(room);
    EXPECT_EQ(pages(room->file), granule);
}

TEST_F(RoomsTest, AreNoneWithoutAStore) {
    begin(0);
    EXPECT_EQ(rooms->start().text(), "");
    EXPECT_EQ(rooms->fd(), -1);
    EXPECT_EQ(rooms->ask(0, granule, {}), Asked::full);
    rooms->forget(0);
}

}  // namespace
}  // namespace barcuda
