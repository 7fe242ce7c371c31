// SPDX-License-Identifier: Apache-2.0
// door_conformance.h: what every door must do, whatever it leads to. A test program gives the doors that it can have: a
// file, a BAR's door on a file and a service of the test's own (tests/unit/region/region_doors_test.cc); in a VM the
// module's device, the guest service's socket and the BAR (tests/vm/region_test.cc).
#pragma once
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <thread>

#include "shm-device/queue/sync.h"
#include "shm-device/region/region.h"

namespace barcuda::test {

// A region behind a door, as long as it lives.
class DoorSetting {
  public:
    virtual ~DoorSetting() = default;
    // Why there is no such door here; empty: there is.
    virtual std::string missing() { return ""; }
    virtual Error open(Region& region) = 0;
    // The n-th granule that this client may map.
    virtual std::uint64_t granted(const Region& region, const Channel& channel, unsigned n) = 0;
};
struct DoorCase {
    const char* name;
    std::function<std::unique_ptr<DoorSetting>()> set;
    friend void PrintTo(const DoorCase& c, std::ostream* out) { *out << c.name; }
};

class DoorTest : public ::testing::TestWithParam<DoorCase> {
  protected:
    std::unique_ptr<DoorSetting> setting = GetParam().set();
    Region region;
    Channel channel;

    void SetUp() override {
        if (const std::string why = setting->missing(); !why.empty()) GTEST_SKIP() << why;
        Error e = setting->open(region);
        ASSERT_FALSE(e) << e.text;
        ASSERT_FALSE(e = region.open_channel(channel)) << e.text;
    }
    void TearDown() override {
        if (channel) region.close_channel(channel);
        region.close();
    }
    std::uint64_t granted(unsigned n = 0) { return setting->granted(region, channel, n); }
    static int in_child(const std::function<int()>& body) {
        const pid_t pid = ::fork();
        if (pid == 0) ::_exit(body());
        int status = 0;
        ::waitpid(pid, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
};

TEST_P(DoorTest, ShowsTheHeader) {
    EXPECT_NE(region.shape().size, 0u);
    EXPECT_NE(region.shape().channel_count, 0u);
    EXPECT_FALSE(region.rows().empty());
    EXPECT_GE(region.properties().unit, BARCUDA_PAGE);
    EXPECT_EQ(BARCUDA_GRANULE % region.properties().unit, 0u);
}
TEST_P(DoorTest, GivesAChannelThatIsCleanAndKnowsItsPlace) {
    EXPECT_EQ(channel.status().channel, channel.index);
    EXPECT_EQ(channel.offset, BARCUDA_CHANNELS_OFFSET + channel.index * BARCUDA_CHANNEL_SIZE);
    EXPECT_EQ(channel.opening, observe(region.slots()[channel.index].opened));
    EXPECT_EQ(channel.commands()[0], 0);
    channel.commands()[0] = 1;  // and can be written
}
TEST_P(DoorTest, GivesTwoClientsTwoChannels) {
    Region second;
    Channel other;
    Error e = setting->open(second);
    ASSERT_FALSE(e) << e.text;
    ASSERT_FALSE(e = second.open_channel(other)) << e.text;
    EXPECT_NE(other.index, channel.index);
    channel.commands()[0] = 1;
    EXPECT_EQ(other.commands()[0], 0);
    second.close_channel(other);
    EXPECT_FALSE(other);
}
TEST_P(DoorTest, AForkedChildLeavesItsParentsChannelOpen) {
    const std::uint32_t index = channel.index, opening = channel.opening;
    EXPECT_EQ(in_child([&] {
                  char* const memory = channel.memory;
                  region.leave_channel(channel);
                  region.close();
                  unsigned char there;
                  return channel ? 1 : ::mincore(memory, BARCUDA_PAGE, &there) == 0 ? 2 : 0;
              }),
              0)
        << "2: the child has it mapped still";
    EXPECT_EQ(observe(region.slots()[index].opened), opening);
    EXPECT_NE(observe(region.slots()[index].closed), opening);
    channel.commands()[0] = 1;
}
TEST_P(DoorTest, MapsAnExtentAtItsAddressAndNowhereElse) {
    const std::uint64_t offset = granted();
    void* p = nullptr;
    Error e = region.map_extent(offset, 2 * BARCUDA_GRANULE, &p);
    ASSERT_FALSE(e) << e.text;
    EXPECT_EQ(p, region.at(offset));
    std::memset(p, 7, 2 * BARCUDA_GRANULE);
    region.unmap_extent(offset, 2 * BARCUDA_GRANULE);
    unsigned char there;
    EXPECT_EQ(::mincore(p, BARCUDA_PAGE, &there), -1) << "still mapped";
}
TEST_P(DoorTest, LeavesAloneWhatLiesAtAnExtentsAddress) {
    const std::uint64_t offset = granted();
    auto* const there = static_cast<char*>(region.at(offset + BARCUDA_GRANULE));
    ASSERT_EQ(
        ::mmap(there, BARCUDA_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
        there);
    *there = 42;
    const Error e = region.map_extent(offset, 2 * BARCUDA_GRANULE);
    EXPECT_EQ(e.kind, Error::address_taken) << e.text;
    EXPECT_EQ(*there, 42);
    unsigned char page;
    EXPECT_EQ(::mincore(region.at(offset), BARCUDA_PAGE, &page), -1) << "half of the extent was mapped";
    ::munmap(there, BARCUDA_PAGE);
}
TEST_P(DoorTest, RefusesWhatIsNoExtent) {
    const std::uint64_t offset = granted();
    EXPECT_EQ(region.map_extent(0, BARCUDA_GRANULE).kind, Error::bad_range);
    EXPECT_EQ(region.map_extent(offset + BARCUDA_PAGE, BARCUDA_GRANULE).kind, Error::bad_range);
    EXPECT_EQ(region.map_extent(offset, region.shape().size).kind, Error::bad_range);
}
TEST_P(DoorTest, MapsPagesOfAnExtentASecondTime) {
    const std::uint64_t offset = granted(), unit = region.properties().unit;
    ASSERT_FALSE(region.map_extent(offset, 2 * BARCUDA_GRANULE));
    auto* const own = static_cast<char*>(region.at(offset));
    const std::uint64_t at = BARCUDA_GRANULE - unit;  // across the end of a granule
    own[at] = 1;
    own[BARCUDA_GRANULE] = 2;
    void* second = nullptr;
    const Error e = region.map_again(offset + at, 2 * unit, &second);
    ASSERT_FALSE(e) << e.text;
    auto* const alias = static_cast<char*>(second);
    EXPECT_NE(alias, own + at);
    EXPECT_EQ(alias[0], 1);
    EXPECT_EQ(alias[unit], 2);
    alias[0] = 3;
    EXPECT_EQ(own[at], 3);
    own[0] = 4;  // the rest of the extent is where it was
    os::unmap(alias, 2 * unit);
    EXPECT_EQ(own[at], 3);
    region.unmap_extent(offset, 2 * BARCUDA_GRANULE);
}
TEST_P(DoorTest, MapsPagesInThePlaceOfOthersIfItSaysSo) {
    const std::uint64_t offset = granted(), unit = region.properties().unit;
    ASSERT_FALSE(region.map_extent(offset, BARCUDA_GRANULE));
    auto* const own = static_cast<char*>(region.at(offset));
    own[0] = 5;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    ASSERT_EQ(::mmap(own, unit, PROT_READ | PROT_WRITE, flags, -1, 0), own);
    EXPECT_EQ(own[0], 0);
    const Error e = region.map_pages(offset, unit);
    EXPECT_EQ(!e, region.properties().remaps) << e.text;
    EXPECT_EQ(own[0], e ? 0 : 5);
    region.unmap_extent(offset, BARCUDA_GRANULE);
}
TEST_P(DoorTest, NeverMapsAFileToWhichTheProgramHasGivenItsDescriptor) {
    const std::uint64_t offset = granted();
    const int ours = region.fd(), kept = ::dup(ours), other = ::memfd_create("other", MFD_CLOEXEC);
    ASSERT_EQ(::ftruncate(other, static_cast<off_t>(region.shape().size)), 0);
    ASSERT_EQ(::dup2(other, ours), ours);
    const Error e = region.map_extent(offset, BARCUDA_GRANULE);
    EXPECT_EQ(e.kind, region.properties().opens_again ? Error::none : Error::lost) << e.text;
    if (!e) *static_cast<char*>(region.at(offset)) = 1;
    char byte = 0;
    EXPECT_EQ(::pread(other, &byte, 1, static_cast<off_t>(offset)), 1);
    EXPECT_EQ(byte, 0);
    if (!e) region.unmap_extent(offset, BARCUDA_GRANULE);
    ::dup2(kept, ours);
    ::close(kept);
    ::close(other);
}
TEST_P(DoorTest, ChoosesABellAndTellsTheHost) {
    channel.client().bell = 99;
    region.door().choose_bell(channel.client().bell);
    const std::uint32_t bell = channel.client().bell;
    EXPECT_TRUE(bell == BARCUDA_BELL_NONE || bell == BARCUDA_BELL_FUTEX || bell == BARCUDA_BELL_DOORBELL) << bell;
    EXPECT_EQ(region.door().is_fenced(), bell == BARCUDA_BELL_FUTEX);
    region.knock();
}
TEST_P(DoorTest, ASleepEndsWithItsTimeOrWhenTheWordHasChanged) {
    Door& door = region.door();
    door.choose_bell(channel.client().bell);
    auto& word = *reinterpret_cast<std::uint32_t*>(channel.memory + BARCUDA_WAKES_OFFSET);
    door.await(word, door.seen(word), 1'000'000);  // no wake-up comes
    const std::uint32_t seen = door.seen(word);
    std::thread worker([&] {
        std::atomic_ref(word).fetch_add(1);
        door.ring(&word);
    });
    worker.join();
    if (door.seen(word) != seen) door.await(word, seen, std::uint64_t{600} * 1'000'000'000);  // comes back at once
}
TEST_P(DoorTest, NeverCallsALivingHolderGone) {
    EXPECT_FALSE(region.door().gone(region.slots(), channel.index));
    EXPECT_FALSE(region.door().gone(region.slots(), Door::the_bridge));
}
TEST_P(DoorTest, ClosesASlotWithTheChannel) {
    const std::uint32_t index = channel.index, opening = channel.opening;
    region.close_channel(channel);
    EXPECT_FALSE(channel);
    for (int i = 0; i < 20'000 && observe(region.slots()[index].closed) != opening; ++i) ::usleep(500);
    EXPECT_EQ(observe(region.slots()[index].closed), opening);
}

}  // namespace barcuda::test
