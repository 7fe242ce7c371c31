// SPDX-License-Identifier: Apache-2.0
// region_slots_test: channels and who holds them, on the flat transport and where the host sees no process.
// docs/region.md names these tests beside its sentences.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "shm-device/queue/sync.h"
#include "shm-device/region/region.h"
#include "tests/unit/support/region_fixture.h"

namespace barcuda {
namespace {

using test::exit_status;
using test::fork_child;
using test::in_child;

// ---- channels -------------------------------------------------------------------------------------------------------
TEST_F(RegionTest, AFreshChannelIsZeroButForItsNumber) {
    ASSERT_FALSE(open_guest());
    Channel c;
    ASSERT_FALSE(guest.open_channel(c));
    EXPECT_EQ(c.status().channel, c.index);
    c.status().channel = 0;
    for (std::uint64_t i = 0; i < BARCUDA_CHANNEL_SIZE; ++i) ASSERT_EQ(c.memory[i], 0) << i;
}
TEST_F(RegionTest, AnOpenSlotNamesItsProcess) {
    ASSERT_FALSE(open_guest());
    Channel c;
    ASSERT_FALSE(guest.open_channel(c));
    const barcuda_slot& s = host.slots()[c.index];
    EXPECT_EQ(s.opened, 1u);
    EXPECT_EQ(c.opening, 1u);
    EXPECT_EQ(s.closed, 0u);
    EXPECT_EQ(s.pid, static_cast<barcuda_u32>(::getpid()));
    EXPECT_EQ(s.start_time, start_time_of(::getpid()));
    EXPECT_NE(s.start_time, 0u);
    EXPECT_FALSE(host.owner_gone(c.index));
}
TEST_F(RegionTest, BothSidesMapTheSameChannel) {
    ASSERT_FALSE(open_guest());
    Channel c, h;
    ASSERT_FALSE(guest.open_channel(c));
    ASSERT_FALSE(host.map_channel(c.index, h));
    c.commands()[1] = 17;
    EXPECT_EQ(h.commands()[1], 17);
    EXPECT_EQ(h.offset, c.offset);
    host.unmap_channel(h);
}
TEST_F(RegionTest, EachClientGetsItsOwnUntilNoneIsLeft) {
    ASSERT_FALSE(open_guest());
    const std::uint32_t count = guest.shape().channel_count;
    Channel c;
    for (std::uint32_t i = 0; i < count; ++i) {
        ASSERT_FALSE(guest.open_channel(c));
        EXPECT_EQ(c.index, i);
    }
    const Error e = guest.open_channel(c);
    EXPECT_EQ(e.kind, Error::no_channel);
    EXPECT_TRUE(contains(says(e), "all 8 channels")) << e.text;
}
TEST_F(RegionTest, AClientWaitsForASlotThatTheHostIsAboutToFree) {
    ASSERT_FALSE(open_guest());
    std::vector<Channel> channels(guest.shape().channel_count);
    for (Channel& c : channels) ASSERT_FALSE(guest.open_channel(c));
    guest.close_channel(channels[5]);
    std::thread bridge([&] {
        ::usleep(
            20'000);  // long enough for the client to find nothing at first; shorter, and it finds the slot at once
        publish(host.host_slots()[5].reclaimed, 1);
    });
    Channel c;
    const Error e = guest.open_channel(c);
    EXPECT_FALSE(e) << e.text;
    EXPECT_EQ(c.index, 5u);
    bridge.join();
}
TEST_F(RegionTest, NobodyWaitsForASlotWhenNoBridgeIsThere) {
    ASSERT_FALSE(open_guest());
    std::vector<Channel> channels(guest.shape().channel_count);
    for (Channel& c : channels) ASSERT_FALSE(guest.open_channel(c));
    guest.close_channel(channels[5]);
    host.close();
    Channel c;
    EXPECT_EQ(guest.open_channel(c).kind, Error::no_channel);
}
TEST_F(RegionTest, AClosedSlotIsFreeOnlyOnceTheHostHasReclaimedIt) {
    ASSERT_FALSE(open_guest());
    Channel c;
    ASSERT_FALSE(guest.open_channel(c));
    guest.close_channel(c);
    barcuda_slot& s = host.host_slots()[0];
    EXPECT_EQ(s.closed, 1u);
    ASSERT_FALSE(guest.open_channel(c));
    EXPECT_EQ(c.index, 1u);
    ASSERT_FALSE(host.clean_channel(0));
    publish(s.reclaimed, 1);
    ASSERT_FALSE(guest.open_channel(c));
    EXPECT_EQ(c.index, 0u);
    EXPECT_EQ(c.opening, 2u);
}
TEST_F(RegionTest, ACleanedChannelHoldsNothingOfItsLastClient) {
    ASSERT_FALSE(open_guest());
    Channel c;
    ASSERT_FALSE(guest.open_channel(c));
    std::memset(c.memory, 0xff, BARCUDA_CHANNEL_SIZE);
    ASSERT_FALSE(host.clean_channel(c.index));
    EXPECT_EQ(c.status().channel, c.index);
    c.status().channel = 0;
    for (std::uint64_t i = 0; i < BARCUDA_CHANNEL_SIZE; ++i) ASSERT_EQ(c.memory[i], 0) << i;
}
TEST_F(RegionTest, AChannelIsCleanedWhereNoHolesCanBePunched) {
    Channel c;
    ASSERT_FALSE(host.map_channel(2, c));
    std::memset(c.memory, 0xff, BARCUDA_CHANNEL_SIZE);
    RegionProbe::become_dax(host);
    ASSERT_FALSE(host.clean_channel(2));
    EXPECT_EQ(c.status().channel, 2u);
    c.status().channel = 0;
    for (std::uint64_t i = 0; i < BARCUDA_CHANNEL_SIZE; ++i) ASSERT_EQ(c.memory[i], 0) << i;
}
TEST_F(RegionTest, AKilledClientIsNoticed) {
    const pid_t client = fork_child([&] {
        Channel c;
        if (open_guest() || guest.open_channel(c)) return 1;
        ::pause();
        return 0;
    });
    while (observe(host.slots()[0].opened) == 0) ::usleep(1000);
    EXPECT_FALSE(host.owner_gone(0));
    ::kill(client, SIGKILL);
    siginfo_t info;
    ::waitid(P_PID, client, &info, WEXITED | WNOWAIT);  // a zombie now: dead, but still in /proc
    EXPECT_TRUE(host.owner_gone(0));
    exit_status(client);
    EXPECT_TRUE(host.owner_gone(0));
}
TEST_F(RegionTest, AClientThatDiedBetweenItsStepsHoldsNothing) {
    ASSERT_EQ(in_child([&] { return open_guest() ? 1 : 0; }), 0);
    barcuda_slot& s = host.host_slots()[0];
    s.pid = 1;  // the name was written, then the client died: `opened` is as it was
    s.start_time = 1;
    ASSERT_FALSE(open_guest());
    Channel c;
    ASSERT_FALSE(guest.open_channel(c));
    EXPECT_EQ(c.index, 0u);
    EXPECT_EQ(s.pid, static_cast<barcuda_u32>(::getpid()));
}
TEST_F(RegionTest, AReusedPidIsNotTheOwner) {
    ASSERT_FALSE(open_guest());
    Channel c;
    ASSERT_FALSE(guest.open_channel(c));
    guest.close();  // drops the lock, as a program does that closes all descriptors
    EXPECT_FALSE(host.owner_gone(c.index));
    host.host_slots()[c.index].start_time -= 1;
    EXPECT_TRUE(host.owner_gone(c.index));
}
TEST_F(RegionTest, AClientOfAnotherPidNamespaceIsKnownByItsLock) {
    int ready[2], go[2];
    ASSERT_EQ(::pipe(ready) + ::pipe(go), 0);
    const pid_t client = fork_child([&] {
        Channel c;
        if (open_guest() || guest.open_channel(c)) return 1;
        char byte = 0;
        return ::write(ready[1], &byte, 1) == 1 && ::read(go[0], &byte, 1) == 1 ? 0 : 1;
    });
    char byte = 0;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    host.host_slots()[0].pid = 0x3fffffff;  // no such process here
    EXPECT_FALSE(host.owner_gone(0));
    ASSERT_EQ(::write(go[1], &byte, 1), 1);
    EXPECT_EQ(exit_status(client), 0);
    EXPECT_TRUE(host.owner_gone(0));
    for (int fd : {ready[0], ready[1], go[0], go[1]}) ::close(fd);
}
// A client in a process of its own, which does `then` once it has its channel, and ends when `go` is written to.
struct OtherClient {
    int ready[2], go[2];
    pid_t pid;
    template <class Then> OtherClient(const std::string& path, Then then) {
        EXPECT_EQ(::pipe(ready) + ::pipe(go), 0);
        pid = fork_child([&] {
            ::close(go[1]);
            Region own;
            Channel c;
            if (own.open(path.c_str()) || own.open_channel(c)) return 1;
            return then(*this);
        });
        char byte;
        EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    }
    ~OtherClient() {
        for (int fd : {ready[0], ready[1], go[0], go[1]}) ::close(fd);
        exit_status(pid);
    }
};
TEST_F(RegionTest, AProcessThatExecutesAnotherProgramIsNoClientAnyMore) {
    const OtherClient client(path, [](OtherClient& c) {
        ::dup2(c.ready[1], 1);
        ::dup2(c.go[0], 0);
        ::execl("/bin/sh", "sh", "-c", "echo; read line", nullptr);
        return 1;
    });
    const barcuda_slot& s = host.slots()[0];
    EXPECT_TRUE(lives(s.pid, s.start_time));
    EXPECT_TRUE(host.owner_gone(0));
}
TEST_F(RegionTest, AProcessThatClosesAllItsDescriptorsIsAClientStill) {
    const OtherClient client(path, [](OtherClient& c) {
        for (int fd = 3; fd < 1024; ++fd)
            if (fd != c.ready[1] && fd != c.go[0]) ::close(fd);
        char byte = 0;
        return ::write(c.ready[1], &byte, 1) == 1 && ::read(c.go[0], &byte, 1) == 0 ? 0 : 1;
    });
    EXPECT_FALSE(host.owner_gone(0));
}
TEST_F(RegionTest, AClientOfAnEarlierVersionIsKnownByItsPid) {
    ASSERT_FALSE(open_guest());
    Channel c;
    ASSERT_FALSE(guest.open_channel(c));
    host.host_slots()[c.index].map_lock = 0;
    guest.leave_channel(c);
    guest.close();
    EXPECT_FALSE(host.owner_gone(0));
}
TEST_F(RegionTest, AChannelIsOpenedAlsoOnceTheProgramHasClosedOurDescriptor) {
    ASSERT_FALSE(open_guest());
    ::close(guest.fd());
    Channel c;
    const Error e = guest.open_channel(c);
    EXPECT_FALSE(e) << e.text;
    ::close(guest.fd());
    EXPECT_FALSE(guest.map_extent(guest.shape().extents_offset, BARCUDA_GRANULE));
    guest.unmap_extent(guest.shape().extents_offset, BARCUDA_GRANULE);
    ASSERT_EQ(::rename(path.c_str(), (path + "2").c_str()), 0);
    ::close(guest.fd());
    const Error lost = guest.map_extent(guest.shape().extents_offset + BARCUDA_GRANULE, BARCUDA_GRANULE);
    EXPECT_EQ(lost.kind, Error::lost) << lost.text;
}

TEST_F(RegionTest, ProcessesThatClaimAtOnceGetDifferentSlots) {
    const std::uint32_t count = host.shape().channel_count;
    int hold[2];
    ASSERT_EQ(::pipe(hold), 0);
    std::vector<pid_t> clients;
    for (std::uint32_t i = 0; i < count + 4; ++i)
        clients.push_back(fork_child([&] {
            ::close(hold[1]);
            Channel c;
            if (open_guest()) return 1;
            const Error e = guest.open_channel(c);
            char byte;
            if (!e && ::read(hold[0], &byte, 1) != 0) return 1;  // stays until all have tried
            return e.kind == Error::none ? 0 : e.kind == Error::no_channel ? 2 : 1;
        }));
    for (std::uint32_t open = 0; open < count;) {
        open = 0;
        for (std::uint32_t i = 0; i < count; ++i) open += observe(host.slots()[i].opened);
        ::usleep(1000);
    }
    int refused = 0, served = 0;
    for (std::size_t i = 0; i < clients.size() && refused < 4; ++i) {
        int status = 0;
        ::waitpid(-1, &status, 0);
        refused += WIFEXITED(status) && WEXITSTATUS(status) == 2;
    }
    ::close(hold[1]);
    for (std::uint32_t i = 0; i < count; ++i) {
        int status = 0;
        ::waitpid(-1, &status, 0);
        served += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    EXPECT_EQ(refused, 4);
    EXPECT_EQ(served, static_cast<int>(count));
    ::close(hold[0]);
}

TEST_F(RegionTest, ThreadsThatClaimAtOnceGetDifferentSlots) {  // record locks do not tell them apart
    const std::uint32_t count = host.shape().channel_count;
    for (int round = 0; round < 20; ++round) {
        std::vector<Region> regions(count);
        std::vector<Channel> channels(count);
        for (Region& r : regions) ASSERT_FALSE(r.open(path.c_str()));
        std::vector<std::thread> threads;
        for (std::uint32_t i = 0; i < count; ++i)
            threads.emplace_back([&, i] { EXPECT_FALSE(regions[i].open_channel(channels[i])); });
        for (auto& t : threads) t.join();
        std::set<std::uint32_t> indices;
        for (std::uint32_t i = 0; i < count; ++i) {
            indices.insert(channels[i].index);
            regions[i].close_channel(channels[i]);
        }
        EXPECT_EQ(indices.size(), count);
        for (std::uint32_t i = 0; i < count; ++i) publish(host.host_slots()[i].reclaimed, host.slots()[i].closed);
    }
}

// ---- a BAR mapped whole: its host sees no pid and no lock -----------------------------------------------------------
class SlotsTest : public RegionTest {
  protected:
    void SetUp() override {
        RegionTest::SetUp();
        ASSERT_FALSE(open_guest());
        RegionProbe::become_bar(guest);
    }
};
TEST_F(SlotsTest, WhereTheHostSeesNobodyPidIsZeroAndItDoesNotGuess) {
    Channel c;
    ASSERT_FALSE(guest.open_channel(c));
    EXPECT_EQ(host.slots()[c.index].pid, 0u);
    EXPECT_FALSE(host.owner_gone(c.index));
}
TEST_F(SlotsTest, WhereTheHostSeesNobodyTheNextClientClosesForTheDead) {
    ASSERT_EQ(in_child([&] {
                  Region client;
                  if (client.open(path.c_str())) return 1;
                  RegionProbe::become_bar(client);
                  Channel c;
                  return client.open_channel(c) ? 1 : 0;
              }),
              0);
    const barcuda_slot& s = host.slots()[0];
    EXPECT_EQ(s.opened, 1u);
    EXPECT_EQ(s.closed, 0u);
    Channel c;
    ASSERT_FALSE(guest.open_channel(c));
    EXPECT_EQ(s.closed, 1u);
    EXPECT_EQ(c.index, 1u);  // the host has yet to reclaim the first
    publish(host.host_slots()[0].reclaimed, 1);
    Region other;
    ASSERT_FALSE(other.open(path.c_str()));
    RegionProbe::become_bar(other);
    ASSERT_FALSE(other.open_channel(c));
    EXPECT_EQ(c.index, 0u);
}
TEST_F(SlotsTest, TheLivingAreLeftAlone) {
    Region other;
    ASSERT_FALSE(other.open(path.c_str()));
    RegionProbe::become_bar(other);
    Channel mine, theirs;
    ASSERT_FALSE(other.open_channel(theirs));
    ASSERT_FALSE(guest.open_channel(mine));
    EXPECT_EQ(host.slots()[theirs.index].closed, 0u);
    EXPECT_NE(mine.index, theirs.index);
}

}  // namespace
}  // namespace barcuda
