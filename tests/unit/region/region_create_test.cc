// SPDX-License-Identifier: Apache-2.0
// region_create_test: the host makes a region, takes one over, and leaves it. docs/region.md names these tests beside
// its sentences.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/message.h"
#include "shm-device/doors/file_door.h"
#include "shm-device/queue/sync.h"
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
    OwnRegion() {  // as somebody may have left it
        const int fd = ::open(fresh.c_str(), O_RDWR | O_CREAT, 0600);
        EXPECT_EQ(::ftruncate(fd, region_size), 0);
        ::close(fd);
    }
    Error create(const std::string& name) {
        HostRegion r;
        return r.create(name.c_str(),
                        {.size = region_size, .base = region_base, .overwrite = true, .rows = region_rows});
    }
    bool touched() {  // whoever formats a file writes to it
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

// ---- going on with an earlier bridge's clients: `host` is that bridge, which does not say goodbye -------------------
struct AdoptTest : RegionTest {
    HostRegion next;
    std::set<std::uint32_t> known;
    Predecessor before() {
        return {host.fd(), BARCUDA_LAYOUT, BARCUDA_PACKETS, host.shape(),
                [this](std::uint32_t slot) { return known.contains(slot); }};
    }
    Error adopt(const Format& format = {.build = "next build", .rows = region_rows}) {
        return next.adopt(path.c_str(), format, before());
    }
    Channel served_channel() {
        Channel channel;
        EXPECT_FALSE(guest.open_channel(channel));
        host.host_slots()[channel.index].served = channel.opening;
        channel.status().state = BARCUDA_STATE_READY;
        channel.commands()[7] = 42;
        return channel;
    }
};
TEST_F(AdoptTest, KnownClientsGoOnAndOthersAreToldThatTheBridgeIsGone) {
    ASSERT_FALSE(open_guest());
    const Channel living = served_channel(), lost = served_channel();
    Channel waiting;
    ASSERT_FALSE(guest.open_channel(waiting));
    known = {living.index};
    const Error e = adopt();
    ASSERT_FALSE(e) << e.text;
    EXPECT_EQ(living.status().state, BARCUDA_STATE_READY);
    EXPECT_EQ(living.commands()[7], 42);
    EXPECT_EQ(lost.status().state, BARCUDA_STATE_GONE);
    EXPECT_EQ(waiting.status().state, BARCUDA_STATE_NEW);
    EXPECT_EQ(next.slots()[living.index].served, living.opening);
    EXPECT_EQ(RegionProbe::header(next).epoch, 2u) << "for the one that is lost";
}
TEST_F(AdoptTest, WhereAllGoOnTheEpochStaysAndGuestsSeeAWholeHeaderThroughout) {
    ASSERT_FALSE(open_guest());
    known = {served_channel().index};
    host.beat();
    ASSERT_FALSE(adopt());
    EXPECT_EQ(RegionProbe::header(next).epoch, 1u);
    EXPECT_EQ(RegionProbe::header(next).magic, BARCUDA_MAGIC) << "before it is announced";
    EXPECT_STREQ(RegionProbe::header(next).build, "next build");
    EXPECT_EQ(guest.heartbeat(), 1u);
    next.beat();
    EXPECT_EQ(guest.heartbeat(), 2u) << "it beats on";
    Region late;
    ASSERT_FALSE(late.open(path.c_str()));
    EXPECT_TRUE(late.served());
}
TEST_F(AdoptTest, NewClientsSeeTheNewBridgesRowsAlone) {
    const std::uint64_t fewer[] = {7, 8};
    ASSERT_FALSE(adopt({.rows = fewer}));
    ASSERT_FALSE(open_guest());
    EXPECT_TRUE(std::ranges::equal(guest.rows(), fewer));
    EXPECT_EQ(guest.rows().data()[guest.rows().size()], 0u);
}
TEST_F(AdoptTest, WhatAGuestHasWrittenIntoTheHeaderIsNotBelieved) {
    ASSERT_FALSE(open_guest());
    const Shape its = host.shape();
    barcuda_header& header = RegionProbe::header(host);
    header.size = 1ull << 40;
    header.base = 4096;
    header.channel_count = 470;
    header.rows_offset = 0;
    header.magic = 1;
    ASSERT_FALSE(adopt());
    EXPECT_EQ(next.shape().size, its.size);
    EXPECT_EQ(next.shape().base, its.base);
    EXPECT_EQ(next.shape().channel_count, its.channel_count);
    Region late;
    EXPECT_FALSE(late.open(path.c_str()));
}
TEST_F(AdoptTest, WhatThisBridgeWouldReadDifferentlyIsRefusedAndNothingHasChanged) {
    ASSERT_FALSE(open_guest());
    const Channel lost = served_channel();
    const barcuda_header as_it_was = RegionProbe::header(host);
    const auto is_refused = [&](const Format& format, const Predecessor& before, Error::Kind kind, const char* text) {
        const Error e = next.adopt(path.c_str(), format, before);
        EXPECT_EQ(e.kind, kind);
        EXPECT_TRUE(contains(says(e), text)) << e.text;
        EXPECT_FALSE(next);
        EXPECT_EQ(std::memcmp(&RegionProbe::header(host), &as_it_was, sizeof as_it_was), 0) << text;
        EXPECT_EQ(lost.status().state, BARCUDA_STATE_READY) << text;
        EXPECT_TRUE(guest.served()) << text;
    };
    Predecessor other = before();
    other.layout = BARCUDA_LAYOUT + 1;
    is_refused({.rows = region_rows}, other, Error::other_layout, "has number 8, this bridge's 7");
    other = before();
    other.packets = BARCUDA_PACKETS + 1;
    is_refused({.rows = region_rows}, other, Error::other_packets, "have number 2, this bridge's 1");
    is_refused({.size = 2 * region_size, .rows = region_rows}, before(), Error::bad_size,
               "has 128 MiB, this bridge is told 256 MiB");
    is_refused({.base = 2 * region_base / 3, .rows = region_rows}, before(), Error::bad_base,
               "0x7e8000000000, this bridge is told");
    other = before();
    ++other.shape.channel_count;
    is_refused({.rows = region_rows}, other, Error::malformed,
               "has 9 channels and 3 granules, this bridge divides it into 8");
    other = before();
    other.shape.size = 2 * region_size;
    is_refused({.rows = region_rows}, other, Error::malformed, "channels");
    is_refused({}, before(), Error::malformed, "0 rows");
    other = before();
    other.fd = -1;
    is_refused({.rows = region_rows}, other, Error::bad_size, "its file 0 MiB");
}
// A region whose bytes were copied, and whose bridge has ended.
struct WakeTest : AdoptTest {
    std::string bytes;
    Shape its;
    Asleep asleep;
    unsigned filled = 0;
    // `channel`: of a program that lives.
    void suspend() {
        its = host.shape();
        os::FileFacts facts;
        ASSERT_EQ(os::facts_of(host.fd(), facts), 0);
        bytes.resize(region_size);
        ASSERT_EQ(pread(host.fd(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(region_size));
        asleep = {true, facts.device, facts.inode, host.epoch(), [this](int file) {
                      ++filled;
                      const bool all = pwrite(file, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(region_size);
                      return all ? Error() : error(Error::system, errno, "it cannot be filled");
                  }};
        host.close();
    }
    Error wake(const Format& format = {.rows = region_rows}) {
        Predecessor of = before();
        of.fd = -1;
        of.shape = its;
        return next.wake(path.c_str(), format, of, asleep);
    }
    void write_over(std::uint64_t at, char what, std::uint64_t count) const {
        const File file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
        const std::string all(count, what);
        ASSERT_EQ(pwrite(file.fd(), all.data(), count, static_cast<off_t>(at)), static_cast<ssize_t>(count));
    }
};
TEST_F(WakeTest, InANewFileAllIsAsItWas) {
    ASSERT_FALSE(open_guest());
    known = {served_channel().index};
    suspend();
    guest.close();
    ASSERT_EQ(unlink(path.c_str()), 0);
    asleep.this_boot = false;
    Error e = wake();
    ASSERT_FALSE(e) << e.text;
    EXPECT_EQ(filled, 1u);
    Channel channel;
    ASSERT_FALSE(next.map_channel(*known.begin(), channel));
    EXPECT_EQ(channel.commands()[7], 42);
    EXPECT_EQ(channel.status().state, BARCUDA_STATE_READY);
    next.awake();
    EXPECT_EQ(next.epoch(), 2u);
    next.close();
    EXPECT_EQ(access(path.c_str(), F_OK), 0) << "what is awake stays";
}
TEST_F(WakeTest, ANewFileThatDoesNotComeToBeAwakeGoesAgain) {
    suspend();
    ASSERT_EQ(unlink(path.c_str()), 0);
    ASSERT_FALSE(wake());
    next.close();
    EXPECT_NE(access(path.c_str(), F_OK), 0);
}
TEST_F(WakeTest, BytesOfALivingProgramAreNewerThanThoseOnTheDisk) {
    ASSERT_FALSE(open_guest());
    const Channel channel = served_channel();
    known = {channel.index};
    suspend();
    channel.commands()[7] = 43;
    const Error e = wake();
    ASSERT_FALSE(e) << e.text;
    EXPECT_EQ(filled, 0u);
    EXPECT_EQ(channel.commands()[7], 43);
    EXPECT_TRUE(guest.served());
    next.awake();
    next.close();
    EXPECT_EQ(wake().kind, Error::exists) << "it has gone on since";
}
TEST_F(WakeTest, AFileThatLostItsBytesIsFilledInPlace) {
    ASSERT_FALSE(open_guest());
    const Channel channel = served_channel();
    known = {channel.index};
    suspend();
    write_over(0, 0, region_size);
    EXPECT_EQ(channel.commands()[7], 0);
    const Error e = wake();
    ASSERT_FALSE(e) << e.text;
    EXPECT_EQ(filled, 1u);
    EXPECT_EQ(channel.commands()[7], 42) << "the program has another file";
}
TEST_F(WakeTest, WhereNoProgramLivesTheFileIsFilled) {
    suspend();
    write_over(BARCUDA_CHANNELS_OFFSET, 1, 1000);
    const Error e = wake();
    ASSERT_FALSE(e) << e.text;
    EXPECT_EQ(filled, 1u);
    Channel channel;
    ASSERT_FALSE(next.map_channel(0, channel));
    EXPECT_EQ(channel.commands()[0], 0);
}
TEST_F(WakeTest, AnotherRegionOrOneThatWasServedSinceIsNotWrittenOver) {
    suspend();
    const auto is_refused = [&](const char* why) {
        EXPECT_EQ(wake().kind, Error::exists) << why;
        EXPECT_EQ(filled, 0u) << why;
    };
    ++asleep.inode;
    is_refused("another file");
    --asleep.inode;
    asleep.this_boot = false;
    is_refused("a number of another boot");
    asleep.this_boot = true;
    HostRegion other;
    ASSERT_FALSE(other.create(path.c_str(), {.rows = region_rows}));
    EXPECT_EQ(wake().kind, Error::in_use);
    other.announce();
    other.close();
    is_refused("another bridge has served it");
    EXPECT_FALSE(wake({.overwrite = true, .rows = region_rows}));
    EXPECT_EQ(filled, 1u);
}
TEST_F(WakeTest, WhatThisBridgeWouldReadDifferentlyIsRefused) {
    suspend();
    Predecessor of = before();
    of.fd = -1;
    of.shape = its;
    of.layout = BARCUDA_LAYOUT + 1;
    EXPECT_EQ(next.wake(path.c_str(), {.rows = region_rows}, of, asleep).kind, Error::other_layout);
    asleep.fill = [](int) { return error(Error::system, EIO, "it cannot be read"); };
    EXPECT_TRUE(contains(says(wake()), "it cannot be read"));
    EXPECT_FALSE(next);
}
TEST_F(AdoptTest, AnotherBridgesLockIsRespected) {
    host.close();
    HostRegion other;
    ASSERT_FALSE(other.create(path.c_str(), {.rows = region_rows}));
    Predecessor of = before();
    of.shape = other.shape();
    of.fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    EXPECT_EQ(next.adopt(path.c_str(), {.rows = region_rows}, of).kind, Error::in_use);
    ::close(of.fd);
}

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
