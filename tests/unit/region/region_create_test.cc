// SPDX-License-Identifier: Apache-2.0
// region_create_test: the host makes a region, takes one over, and leaves it. docs/region.md names these tests beside
// its sentences.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "shm-device/doors/file_door.h"
#include "shm-device/region/host_region.h"
#include "tests/unit/support/region_fixture.h"

namespace barcuda {
namespace {

using test::exit_status;
using test::fork_child;
using test::in_child;

// ---- creating -------------------------------------------------------------------------------------------------------
TEST_F(RegionTest, ANewRegionOpens) {
    const Error e = open_guest();
    EXPECT_FALSE(e) << e.text;
    EXPECT_NE(dynamic_cast<FileDoor*>(&guest.door()), nullptr);
    EXPECT_EQ(guest.shape().size, region_size);
    EXPECT_EQ(guest.shape().base, region_base);
    EXPECT_EQ(RegionProbe::header(guest).epoch, 1u);
    EXPECT_STREQ(RegionProbe::header(guest).build, "test build");
    EXPECT_EQ(RegionProbe::header(guest).bridge_pid, static_cast<barcuda_u32>(::getpid()));
    EXPECT_NE(RegionProbe::header(guest).bridge_start, 0u);
}
TEST_F(RegionTest, NobodyOpensItBeforeItIsAnnounced) {
    HostRegion other;
    const std::string fresh = scratch / "fresh";
    ASSERT_FALSE(other.create(fresh.c_str(), {.size = region_size, .base = region_base, .rows = region_rows}));
    EXPECT_EQ(guest.open(fresh.c_str()).kind, Error::not_ready);
    other.announce();
    EXPECT_FALSE(guest.open(fresh.c_str()));
}
TEST_F(RegionTest, ASizeThatNoBarCanHaveIsRefusedAndLeavesNoFile) {
    for (std::uint64_t size : std::vector<std::uint64_t>{0, region_size / 2, region_size + 4096, region_size * 3 / 2,
                                                         2 * BARCUDA_MAX_SIZE}) {
        HostRegion r;
        const std::string odd = scratch / "odd";
        EXPECT_EQ(r.create(odd.c_str(), {.size = size, .rows = region_rows}).kind, Error::bad_size) << size;
        EXPECT_NE(::access(odd.c_str(), F_OK), 0);
    }
}
TEST_F(RegionTest, ABaseThatNoProcessCanMapIsRefused) {
    for (std::uint64_t base :
         std::vector<std::uint64_t>{4096, (1ull << 47) - BARCUDA_GRANULE, 1ull << 47, ~0ull - 4095}) {
        HostRegion r;
        EXPECT_EQ(r.create((scratch / "odd").c_str(), {.size = region_size, .base = base, .rows = region_rows}).kind,
                  Error::bad_base)
            << base;
    }
}
TEST_F(RegionTest, EverySizeIsDividedIntoPartsThatAValidatorAccepts) {
    for (std::uint64_t size = BARCUDA_MIN_SIZE; size <= BARCUDA_MAX_SIZE; size *= 2) {
        barcuda_header h{};
        h.magic = BARCUDA_MAGIC;
        h.layout = BARCUDA_LAYOUT;
        h.header_bytes = BARCUDA_CHANNELS_OFFSET;
        h.base = BARCUDA_DEFAULT_BASE;
        h.row_count = BARCUDA_MAX_ROWS;
        h.rows_offset = BARCUDA_ROWS_OFFSET;
        divide(h, size);
        const Error e = validate(h, size, "it");
        EXPECT_FALSE(e) << size << ": " << e.text;
        EXPECT_GE(h.channel_count, 8u);
        EXPECT_EQ(h.extents_offset + h.granule_count * h.granule, size);
    }
}
TEST_F(RegionTest, ThereIsAChannelForEach64MiB) {
    const std::pair<std::uint64_t, unsigned> cases[] = {{128 << 20, 8},   {512 << 20, 8},     {1ull << 30, 16},
                                                        {4ull << 30, 64}, {16ull << 30, 256}, {256ull << 30, 256}};
    for (const auto& [size, channels] : cases) {
        barcuda_header h{};
        divide(h, size);
        EXPECT_EQ(h.channel_count, channels) << size;
    }
}
TEST_F(RegionTest, ANewRegionIsZeroWhereNothingIsSaid) {
    const int fd = ::open(path.c_str(), O_RDONLY);
    std::vector<char> text(host.shape().extents_offset);
    ASSERT_EQ(::read(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    ::close(fd);
    std::memset(text.data(), 0, sizeof(barcuda_header));
    std::memset(&text[BARCUDA_ROWS_OFFSET], 0, sizeof region_rows);
    for (std::uint32_t i = 0; i < host.shape().channel_count; ++i)
        std::memset(&text[BARCUDA_CHANNELS_OFFSET + i * BARCUDA_CHANNEL_SIZE + offsetof(barcuda_status, channel)], 0,
                    4);
    for (std::size_t i = 0; i < text.size(); ++i) ASSERT_EQ(text[i], 0) << i;
}
TEST_F(RegionTest, AFileThatIsNoRegionIsNotOverwrittenUnlessTold) {
    const std::string diary = scratch / "diary";
    const int fd = ::open(diary.c_str(), O_RDWR | O_CREAT, 0600);
    ASSERT_EQ(::write(fd, "dear diary", 10), 10);
    HostRegion r;
    const Error e = r.create(diary.c_str(), {.size = region_size, .base = region_base, .rows = region_rows});
    EXPECT_EQ(e.kind, Error::exists);
    char text[10];
    EXPECT_EQ(::pread(fd, text, 10, 0), 10);
    EXPECT_EQ(std::memcmp(text, "dear diary", 10), 0);
    EXPECT_FALSE(
        r.create(diary.c_str(), {.size = region_size, .base = region_base, .overwrite = true, .rows = region_rows}));
    ::close(fd);
}
TEST_F(RegionTest, AnUntouchedFileOfTheRightSizeIsFormatted) {  // as QEMU's memory-backend-file leaves it
    const std::string fresh = scratch / "fresh";
    const int fd = ::open(fresh.c_str(), O_RDWR | O_CREAT, 0600);
    ASSERT_EQ(::ftruncate(fd, region_size), 0);
    ::close(fd);
    HostRegion r;
    const Error e = r.create(fresh.c_str(), {.base = region_base, .rows = region_rows});
    EXPECT_FALSE(e) << e.text;
    EXPECT_EQ(r.shape().size, region_size);
}
TEST_F(RegionTest, ASecondBridgeIsRefusedWhileTheFirstLives) {
    HostRegion second;
    EXPECT_EQ(second.create(path.c_str(), {.rows = region_rows}).kind, Error::in_use);
    host.close();
    EXPECT_FALSE(second.create(path.c_str(), {.rows = region_rows}));
}
TEST_F(RegionTest, ABridgeThatWasKilledIsFollowedWhenItsWorkersHaveEnded) {
    host.close();
    const pid_t bridge = fork();
    if (bridge == 0) {
        HostRegion killed;
        if (killed.create(path.c_str(), {.rows = region_rows})) _exit(1);
        if (fork() == 0) {  // a worker, which outlives it a little
            usleep(300'000);
            _exit(0);
        }
        kill(getpid(), SIGKILL);
    }
    int status = 0;
    waitpid(bridge, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_FALSE(host.create(path.c_str(), {.rows = region_rows}));
}
TEST_F(RegionTest, AnExistingRegionKeepsItsSize) {
    host.close();
    EXPECT_EQ(host.create(path.c_str(), {.size = 2 * region_size, .rows = region_rows}).kind, Error::bad_size);
    EXPECT_FALSE(host.create(path.c_str(), {.size = 2 * region_size, .overwrite = true, .rows = region_rows}));
    EXPECT_EQ(host.shape().size, 2 * region_size);
}

// ---- whose it is ----------------------------------------------------------------------------------------------------
struct OwnRegion : RegionTest {
    std::string fresh = scratch / "fresh";
    OwnRegion() {  // as another process may have left it
        const int fd = ::open(fresh.c_str(), O_RDWR | O_CREAT, 0600);
        EXPECT_EQ(::ftruncate(fd, region_size), 0);
        ::close(fd);
    }
    Error create(const std::string& name) {
        HostRegion r;
        return r.create(name.c_str(),
                        {.size = region_size, .base = region_base, .overwrite = true, .rows = region_rows});
    }
    bool touched() {  // to format a file is to write to it
        struct stat st {};
        return ::stat(fresh.c_str(), &st) != 0 || st.st_blocks != 0;
    }
};
TEST_F(OwnRegion, IsNotMadeOfAnotherUsersFile) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root, to give a file away";
    ASSERT_EQ(::chown(fresh.c_str(), 65534, 65534), 0);
    const Error e = create(fresh);
    EXPECT_EQ(e.kind, Error::foreign);
    EXPECT_TRUE(contains(says(e), "belongs to user 65534")) << e.text;
    EXPECT_FALSE(touched());
}
TEST_F(OwnRegion, IsNotTakenOverFromAnotherUser) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root, to give a file away";
    host.close();
    ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
    EXPECT_EQ(create(path).kind, Error::foreign);
    ASSERT_EQ(::chown(path.c_str(), 0, 65534), 0);
    EXPECT_FALSE(create(path));
}
TEST_F(OwnRegion, IsNotMadeOfAFileThatEverybodyMayWrite) {
    ASSERT_EQ(::chmod(fresh.c_str(), 0602), 0);
    const Error e = create(fresh);
    EXPECT_EQ(e.kind, Error::foreign);
    EXPECT_TRUE(contains(says(e), "chmod o-w")) << e.text;
    EXPECT_FALSE(touched());
    ASSERT_EQ(::chmod(fresh.c_str(), 0664), 0);  // a group may: that is how a region is shared
    EXPECT_FALSE(create(fresh));
}
TEST_F(OwnRegion, IsNotMadeOfAFileThatHasAnotherName) {
    ASSERT_EQ(::link(fresh.c_str(), (scratch / "other").c_str()), 0);
    const Error e = create(scratch / "other");
    EXPECT_EQ(e.kind, Error::foreign);
    EXPECT_TRUE(contains(says(e), "2 names")) << e.text;
    EXPECT_FALSE(touched());
}
TEST_F(OwnRegion, IsNotMadeWhereALinkLeads) {
    ASSERT_EQ(::symlink(fresh.c_str(), (scratch / "link").c_str()), 0);
    const Error e = create(scratch / "link");
    EXPECT_EQ(e.kind, Error::foreign);
    EXPECT_TRUE(contains(says(e), "a symbolic link")) << e.text;
    EXPECT_FALSE(touched());
    ASSERT_EQ(::symlink((scratch / "nothing").c_str(), (scratch / "nowhere").c_str()), 0);
    EXPECT_EQ(create(scratch / "nowhere").kind, Error::foreign);
    EXPECT_NE(::access((scratch / "nothing").c_str(), F_OK), 0);
}

// ---- taking over ----------------------------------------------------------------------------------------------------
TEST_F(RegionTest, ATakeoverRaisesTheEpochAndKeepsSlotsAndGrants) {
    ASSERT_FALSE(open_guest());
    Channel channel;
    ASSERT_FALSE(guest.open_channel(channel));
    host.host_grants()[1].owner = channel.index + 1;
    host.close();
    ASSERT_FALSE(host.create(path.c_str(), {.rows = region_rows}));
    EXPECT_EQ(RegionProbe::header(host).epoch, 2u);
    EXPECT_EQ(host.shape().base, region_base);
    EXPECT_EQ(host.slots()[channel.index].opened, 1u);
    EXPECT_EQ(host.slots()[channel.index].closed, 0u);
    EXPECT_EQ(host.grants()[1].owner, channel.index + 1);
}
// A guest's root has the whole region, and knows when a bridge has begun to take it over.
TEST_F(RegionTest, WhatAGuestWritesIntoTheHeaderIsNothingToItsHost) {
    host.close();
    ASSERT_FALSE(host.create(path.c_str(), {.rows = region_rows}));
    barcuda_header& header = RegionProbe::header(host);
    const std::uint32_t channels = host.shape().channel_count, granules = host.shape().granule_count;
    header.channel_count = 470;
    header.granule_count = 1 << 20;
    header.device_count = 1000;
    header.size = 1ull << 40;
    header.base = 4096;
    header.granule = 1;
    header.extents_offset = 0;
    host.announce();
    EXPECT_EQ(host.shape().channel_count, channels);
    EXPECT_EQ(host.shape().granule_count, granules);
    EXPECT_EQ(host.shape().size, region_size);
    EXPECT_EQ(host.shape().base, region_base);
    EXPECT_EQ(host.shape().granule, BARCUDA_GRANULE);
    EXPECT_LE(host.device_count(), BARCUDA_MAX_DEVICES);
    Channel channel;
    EXPECT_EQ(host.map_channel(channels, channel).kind, Error::bad_range);
    EXPECT_EQ(host.clean_channel(channels).kind, Error::bad_range);
    EXPECT_EQ(host.map_extent(0, BARCUDA_GRANULE).kind, Error::bad_range);
}
TEST_F(RegionTest, TheHeartBeatsOnWhateverAGuestWrites) {
    ASSERT_FALSE(open_guest());
    host.beat();
    const std::uint64_t first = guest.heartbeat();
    RegionProbe::header(host).heartbeat = ~0ull;
    host.beat();
    EXPECT_EQ(guest.heartbeat(), first + 1);
}
TEST_F(RegionTest, ATakeoverShowsTheNewBridgesRowsAlone) {
    const std::uint64_t fewer[] = {7, 8};
    host.close();
    ASSERT_FALSE(host.create(path.c_str(), {.rows = fewer}));
    host.announce();
    ASSERT_FALSE(open_guest());
    EXPECT_TRUE(std::ranges::equal(guest.rows(), fewer));
    EXPECT_EQ(guest.rows().data()[guest.rows().size()], 0u) << "a row of the last bridge's";
}
TEST_F(RegionTest, NoRegionIsMadeWithoutRowsOrWithTooMany) {
    const std::vector<std::uint64_t> many(BARCUDA_MAX_ROWS + 1, 1);
    const std::string fresh = scratch / "fresh";
    HostRegion r;
    EXPECT_EQ(r.create(fresh.c_str(), {.size = region_size, .base = region_base}).kind, Error::malformed);
    EXPECT_EQ(r.create(fresh.c_str(), {.size = region_size, .base = region_base, .rows = many}).kind, Error::malformed);
    EXPECT_NE(::access(fresh.c_str(), F_OK), 0);
    const auto most = std::span(many).first(BARCUDA_MAX_ROWS);
    EXPECT_FALSE(r.create(fresh.c_str(), {.size = region_size, .base = region_base, .rows = most}));
}
TEST_F(RegionTest, ARegionOfAnotherLayoutIsOverwrittenOnlyWhenTold) {
    RegionProbe::header(host).layout = BARCUDA_LAYOUT - 1;
    host.close();
    const Error e = host.create(path.c_str(), {.base = region_base, .rows = region_rows});
    EXPECT_EQ(e.kind, Error::other_layout);
    EXPECT_TRUE(contains(says(e), "layout is number " + std::to_string(BARCUDA_LAYOUT - 1))) << e.text;
    EXPECT_TRUE(contains(says(e), "--overwrite")) << e.text;
    EXPECT_FALSE(host.create(path.c_str(), {.base = region_base, .overwrite = true, .rows = region_rows}));
}
TEST_F(RegionTest, ATakeoverLeavesTheMemoryOfOpenChannelsAlone) {
    ASSERT_FALSE(open_guest());
    Channel channel;
    ASSERT_FALSE(guest.open_channel(channel));
    channel.commands()[7] = 42;
    host.close();
    ASSERT_FALSE(host.create(path.c_str(), {.rows = region_rows}));
    EXPECT_EQ(channel.commands()[7], 42);
}
TEST_F(RegionTest, ATakeoverCleansWhatIsFree) {
    Channel c;
    ASSERT_FALSE(host.map_channel(3, c));
    std::memset(c.memory, 0xff, BARCUDA_CHANNEL_SIZE);
    host.close();
    ASSERT_FALSE(host.create(path.c_str(), {.rows = region_rows}));
    EXPECT_EQ(c.status().channel, 3u);
    EXPECT_EQ(c.status().state, 0u);
    EXPECT_EQ(c.fences()[0], 0u);
    EXPECT_EQ(c.commands()[0], 0);
}
TEST_F(RegionTest, ATakeoverTellsTheClientsOfTheLastBridge) {
    ASSERT_FALSE(open_guest());
    Channel served, waiting;
    ASSERT_FALSE(guest.open_channel(served));
    ASSERT_FALSE(guest.open_channel(waiting));  // no worker has looked at its queue: the next bridge may serve it
    host.host_slots()[served.index].served = served.opening;
    served.status().state = BARCUDA_STATE_READY;
    host.close();
    ASSERT_FALSE(host.create(path.c_str(), {.rows = region_rows}));
    EXPECT_EQ(served.status().state, BARCUDA_STATE_GONE);
    EXPECT_TRUE(contains(served.status().message, "restarted"));
    EXPECT_EQ(waiting.status().state, BARCUDA_STATE_NEW);
}
TEST_F(RegionTest, ATakeoverAfterADeathInTheMidstOfFormattingSucceeds) {
    RegionProbe::header(host).magic = 0;
    host.close();
    ASSERT_FALSE(host.create(path.c_str(), {.rows = region_rows}));
    EXPECT_EQ(RegionProbe::header(host).epoch, 2u);
}

// ---- leaving --------------------------------------------------------------------------------------------------------
TEST_F(RegionTest, ABridgeThatEndsSaysSo) {
    ASSERT_FALSE(open_guest());
    EXPECT_TRUE(guest.served());
    host.close();
    EXPECT_FALSE(guest.served());
    EXPECT_EQ(RegionProbe::header(guest).bridge_pid, 0u);
}
TEST_F(RegionTest, ABridgeThatIsKilledIsNoticed) {
    host.close();
    const pid_t bridge = fork_child([&] {
        if (host.create(path.c_str(), {.rows = region_rows})) return 1;
        host.announce();
        ::pause();
        return 0;
    });
    while (open_guest() || !guest.served()) ::usleep(1000);
    EXPECT_TRUE(guest.served());
    ::kill(bridge, SIGKILL);
    exit_status(bridge);
    EXPECT_NE(RegionProbe::header(guest).bridge_pid, 0u);
    EXPECT_FALSE(guest.served());
}
TEST_F(RegionTest, AForkedWorkerDoesNotSayGoodbyeForItsBridge) {
    EXPECT_EQ(in_child([&] {
                  host.close();
                  return 0;
              }),
              0);
    ASSERT_FALSE(open_guest());
    EXPECT_TRUE(guest.served());
}

}  // namespace
}  // namespace barcuda
