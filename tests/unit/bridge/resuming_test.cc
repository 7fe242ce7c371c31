// SPDX-License-Identifier: Apache-2.0
// resuming_test: a bridge goes on with clients that are in its books: of one that was killed, or from a disk. Workers
// are processes of the shell's, and say what the test makes them say.
#include "host-bridge/bridge/resuming.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shm-device/queue/sync.h"
#include "tests/unit/support/region_fixture.h"
#include "tests/unit/support/shell_worker.h"
#include "tests/unit/support/suspended_set.h"

namespace barcuda {
namespace {

using testing::HasSubstr;

struct ResumingTest : testing::Test {
    test::Scratch scratch;
    Loop loop;
    Monitoring monitoring;
    Ground ground;
    std::optional<Desks> desks;
    Region guest;
    std::vector<Channel> channels;
    File stop{eventfd(0, EFD_CLOEXEC)};
    unsigned turns = 0;
    std::function<void()> beat = [] {};
    std::function<std::unique_ptr<WorkerProcess>(std::uint32_t slot)> start_worker = [](std::uint32_t) {
        return test::start_worker(test::idle, {0});
    };

    void SetUp() override {
        ground.options.region = scratch / "region";
        const char* const path = ground.options.region.c_str();
        const Error e = ground.region.create(
            path, {.size = region_size, .base = region_base, .build = "test build", .rows = region_rows});
        ASSERT_FALSE(e) << e.text;
        ground.region.announce();
        ASSERT_FALSE(guest.open(path));
        ground.host.devices.all.resize(1);
        ground.host.every = {0};
        ASSERT_EQ(ground.ledger.make(ground.region.shape()).text(), "");
    }
    // A program has a channel, and a bridge has given it a worker. `held`: it was paused then.
    std::uint32_t serve(bool held) {
        Channel& channel = channels.emplace_back();
        EXPECT_FALSE(guest.open_channel(channel));
        publish(ground.region.host_slots()[channel.index].served, channel.opening);
        KeptClient client{};
        client.state = KeptClient::assigned;
        client.opening = channel.opening;
        client.number = channels.size();
        client.worker = getpid();
        client.told = 1;
        client.device_count = 1;
        ground.ledger.clients().records[channel.index].set(client);
        KeptPause pause{};
        pause.known = 1;
        pause.order = 1;
        pause.wanted = pause.state = held ? Paused::held : Paused::running;
        ground.ledger.pauses().records[channel.index].set(pause);
        return channel.index;
    }
    // A folder with what a suspended bridge has written of all clients.
    void suspend() {
        Description description;
        description.base = region_base;
        description.size = region_size;
        for (const Channel& channel : channels) description.clients.push_back(channel.index);
        test::write_set(scratch / "set", description, [](const std::string& name) {
            return name.ends_with(".zst") ? test::framed("") : "of " + name;
        });
        ground.set = std::make_unique<SetReader>();
        ASSERT_EQ(ground.set->open(scratch / "set").text(), "");
        ASSERT_EQ(ground.set->verify().text(), "");
    }
    // The next bridge, from the books of the first. Returns why its clients cannot go on.
    std::string go_on() {
        const int books = fcntl(ground.ledger.fd(), F_DUPFD_CLOEXEC, 0);
        Ledger next;
        const Failure why = ground.set ? next.wake(books) : next.open(File(books));
        if (ground.set) close(books);
        EXPECT_EQ(why.text(), "");
        ground.ledger = std::move(next);
        desks.emplace(ground, loop, monitoring, std::chrono::system_clock::now());
        const auto worker_of = [this](std::uint32_t slot, const KeptClient&) { return start_worker(slot); };
        Resuming resuming(ground, *desks, loop, stop.fd(), worker_of, [this] {
            if (++turns > 2000) FAIL() << "it waits for ever";
            beat();
        });
        resuming.restore();
        return resuming.wake().text();
    }
    Client& client(std::uint32_t slot) { return *desks->clients[slot]; }
    Sheet& sheet(std::uint32_t slot) { return client(slot).worker->sheet(); }
    // As its worker says. It has made the client again, or could not; it is held.
    void has_made(std::uint32_t slot, const char* failure = nullptr) {
        CarryPlace& place = sheet(slot).carry;
        place.able = !failure;
        if (failure) std::strcpy(place.what, failure);
        publish(place.done, observe(place.order));
    }
    void is_held(std::uint32_t slot) {
        Orders& orders = sheet(slot).orders;
        publish(orders.is, static_cast<std::uint32_t>(Paused::held));
        publish(orders.done, observe(orders.order));
    }
    void comes_back(std::uint32_t slot) {
        has_made(slot);
        is_held(slot);
    }
    // And the loop hears of it, if it listens.
    void kill_worker(std::uint32_t slot) {
        kill(client(slot).worker->pid(), SIGKILL);
        test::await_end(*client(slot).worker);
        for (int turn = 0; turn < 10 && loop.wait(std::chrono::milliseconds(0)); ++turn) loop.dispatch();
    }
    Paused wanted(std::uint32_t slot) { return static_cast<Paused>(observe(sheet(slot).orders.wanted)); }
};

// ---- from a disk
TEST_F(ResumingTest, NoClientOfADiskRunsBeforeAllAreBack) {
    const std::uint32_t first = serve(true), second = serve(true);
    suspend();
    beat = [&] {
        comes_back(first);
        EXPECT_EQ(wanted(first), Paused::held);
        if (turns == 5) has_made(second);
        if (turns == 10) is_held(second);
    };
    EXPECT_EQ(go_on(), "");
    EXPECT_GE(turns, 10u) << "the second one had not come back";
    EXPECT_EQ(wanted(first), Paused::running);
    EXPECT_EQ(wanted(second), Paused::running);
    EXPECT_FALSE(ground.set) << "it cannot be woken a second time";
    EXPECT_EQ(client(first).record.worker, client(first).worker->pid());
    // From now on the end of a worker is the end of its client.
    kill_worker(first);
    EXPECT_TRUE(client(first).has_ended());
    EXPECT_FALSE(client(second).has_ended());
}

TEST_F(ResumingTest, OneClientThatFailsKeepsAllOnTheDisk) {
    const std::uint32_t first = serve(true), second = serve(true);
    suspend();
    beat = [&] {
        comes_back(first);
        has_made(second, "its module has changed");
    };
    EXPECT_THAT(go_on(), HasSubstr("channel " + std::to_string(second) + " cannot go on: its module has changed"));
    EXPECT_EQ(wanted(first), Paused::held);
    EXPECT_TRUE(ground.set);
}

TEST_F(ResumingTest, AWorkerThatEndsMeanwhileIsNamed) {
    const std::uint32_t slot = serve(true);
    suspend();
    beat = [&] { kill(client(slot).worker->pid(), SIGKILL); };
    EXPECT_THAT(go_on(), HasSubstr("its new worker has ended"));
    EXPECT_FALSE(client(slot).has_ended()) << "it is on the disk";
}

TEST_F(ResumingTest, AWorkerThatDoesNotStartIsNamed) {
    serve(true);
    suspend();
    start_worker = [](std::uint32_t) { return nullptr; };
    EXPECT_THAT(go_on(), HasSubstr("its worker does not start"));
    EXPECT_EQ(turns, 0u);
}

TEST_F(ResumingTest, AProgramThatHasEndedMeanwhileIsNotWaitedFor) {
    const std::uint32_t first = serve(true), second = serve(true);
    suspend();
    guest.close_channel(channels[0]);
    beat = [&] { comes_back(second); };
    EXPECT_EQ(go_on(), "");
    EXPECT_EQ(wanted(second), Paused::running);
    EXPECT_FALSE(client(first).is_served());
}

TEST_F(ResumingTest, ABridgeThatIsStoppedDoesNotWake) {
    serve(true);
    suspend();
    ASSERT_EQ(eventfd_write(stop.fd(), 1), 0);
    EXPECT_EQ(go_on(), "the bridge was told to stop");
    EXPECT_TRUE(ground.set);
}

// ---- from another bridge, which still serves the clients
struct Moving : ResumingTest {
    File other;  // held by the process that says when the other bridge has ended
    std::uint32_t slot = 0;
    void SetUp() override {
        ResumingTest::SetUp();
        int pair[2];
        ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        ground.options.go_fd = pair[0];
        other = File(pair[1]);
        slot = serve(true);
        suspend();
    }
};

TEST_F(Moving, ClientsRunWhenTheOtherBridgeHasEnded) {
    beat = [&] {
        comes_back(slot);
        char back[5];
        if (recv(other.fd(), back, sizeof back, MSG_DONTWAIT) != sizeof back) return;
        EXPECT_EQ(std::string_view(back, sizeof back), "back\n");
        EXPECT_EQ(wanted(slot), Paused::held);
        EXPECT_EQ(write(other.fd(), "x", 1), 1);
    };
    EXPECT_EQ(go_on(), "");
    EXPECT_EQ(wanted(slot), Paused::running);
}

TEST_F(Moving, OtherwiseTheOtherBridgeGoesOnWithThem) {
    beat = [&] {
        comes_back(slot);
        char back[5];
        if (recv(other.fd(), back, sizeof back, MSG_DONTWAIT) > 0) other = File();
    };
    EXPECT_EQ(go_on(), "the bridge that has its clients goes on with them");
    EXPECT_EQ(wanted(slot), Paused::held);
    EXPECT_TRUE(ground.set);
}

// ---- of a bridge that was killed
TEST_F(ResumingTest, ClientsOfABridgeThatWasKilledGoOnAtOnce) {
    const std::uint32_t first = serve(false), second = serve(false), paused = serve(true);
    start_worker = [&](std::uint32_t slot) { return slot == second ? nullptr : test::start_worker(test::idle, {0}); };
    EXPECT_EQ(go_on(), "");
    EXPECT_EQ(turns, 0u);
    EXPECT_TRUE(client(first).is_served());
    EXPECT_EQ(desks->pauses.state(first), Paused::running);
    EXPECT_EQ(desks->pauses.state(paused), Paused::held) << "and no operator has resumed it";
    EXPECT_THAT(channels[1].status().message, HasSubstr("ended while the bridge was restarted"));
    EXPECT_EQ(sheet(first).carry.wanted, carrying::Wanted::nothing) << "its worker has it already";
    EXPECT_EQ(sheet(first).carry.order, 1u) << "what the bridge before has handed over for that order stops nothing";
    kill_worker(first);
    EXPECT_TRUE(client(first).has_ended());
    EXPECT_FALSE(client(paused).has_ended());
}

// A bridge was killed while it admitted one client, and another one had asked for memory.
TEST_F(ResumingTest, WhatAWorkerHasPreparedIsGrantedToNoOtherClient) {
    const std::uint32_t asks = serve(false), comes = serve(false);
    const std::uint64_t granule = ground.region.shape().granule;
    Grants before(
        ground.region.shape(), ground.region.host_grants(), [](auto, auto) {}, ground.ledger.granules());
    const Grants::Run run = before.reserve(granule);
    KeptClient half = ground.ledger.clients().records[comes].get();
    half.told = 0;
    half.reserved[0] = {run.offset, run.bytes};
    ground.ledger.clients().records[comes].set(half);
    const Message<request::Grant> message{.number = 1, .request = {granule}};
    KeptRequest request{KeptRequest::asked, sizeof message, 1, 0, {}};
    std::memcpy(request.message, &message, sizeof message);
    ground.ledger.requests().records[asks].set(request);
    EXPECT_EQ(go_on(), "");
    EXPECT_TRUE(client(comes).told);
    EXPECT_EQ(desks->grants.held(comes), granule);
    EXPECT_EQ(desks->grants.held(asks), granule);
    EXPECT_EQ(desks->grants.held() + desks->grants.free(),
              ground.region.shape().granule_count * ground.region.shape().granule);
}

}  // namespace
}  // namespace barcuda
