// SPDX-License-Identifier: Apache-2.0
// region_adopt_test: a host goes on with the region of an earlier bridge's clients, or fills one with what a disk has.
// `host` is the earlier bridge, which does not say goodbye.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>

#include "base/message.h"
#include "shm-device/region/host_region.h"
#include "tests/unit/support/region_fixture.h"

namespace barcuda {
namespace {

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

}  // namespace
}  // namespace barcuda
