// SPDX-License-Identifier: Apache-2.0
// births_carried_ahead_test: a client that runs passes its code and its memory on, between its commands, and never
// waits for the process that takes them.
#include <csignal>
#include <cstddef>
#include <string>
#include <vector>

#include "shm-device/queue/sync.h"
#include "tests/unit/support/births_carried.h"

namespace barcuda {
namespace {

using enum Op;
using carrying::Wanted;
using carrying::Which;
using test::births::BirthsCarried;
using test::births::Client;

constexpr std::size_t MiB = 1 << 20;

// The worker of a client, and the taker of what it passes on.
struct Ahead {
    explicit Ahead(Client& client) : station(client.session()) {
        Conveyor::Ends ends;
        EXPECT_EQ(Conveyor::make(slots, ends).text(), "");
        EXPECT_EQ(taker.open(std::move(ends.taker), ends.room).text(), "");
        station.hand(Which::memory, ends.filler.fd(), true);
        station.hand(Which::room, ends.room.fd(), true);
        station.place.wanted = Wanted::ahead;
        publish(station.place.order, 1u);
    }
    bool look() { return station.leave.look_ahead(); }
    // All that is there.
    void take() {
        for (Conveyor::Word word; !ended && taker.has_word() && taker.hear(word);) {
            ended = word.slot == Conveyor::Word::end;
            if (ended) return;
            frames.emplace_back(reinterpret_cast<const char*>(taker.slot(word.slot).data()), word.bytes);
            taker.say({word.slot, 0});
        }
    }
    void take_all() {
        while (look()) take();
        take();
    }
    bool done() const { return station.place.done == 1; }
    std::string what() const { return station.place.what; }
    std::string all() const {
        std::string bytes;
        for (const std::string& frame : frames) bytes += frame;
        return bytes;
    }

    static constexpr std::size_t slots = 4;
    Station station;
    Conveyor taker;
    std::vector<std::string> frames;
    bool ended = false;
};

TEST_F(BirthsCarried, ARunningClientPassesItsCodeAndThenItsMemoryOn) {
    in_a_process([] {
        Client c;
        c.begin();
        c.module();
        const CUdeviceptr at = c.memory(11 * MiB);
        c.fill(at, 'm', 11 * MiB);
        c.wait();
        Ahead ahead(c);
        ahead.take_all();
        EXPECT_TRUE(ahead.ended);
        EXPECT_TRUE(ahead.done());
        EXPECT_EQ(ahead.what(), "");
        ASSERT_EQ(ahead.frames.size(), 7u) << "code, and six of memory";
        EXPECT_NE(ahead.frames[0].find("visible .entry"), std::string::npos);
        EXPECT_EQ(ahead.all().substr(ahead.frames[0].size()), std::string(11 * MiB, 'm'));
        EXPECT_FALSE(ahead.look()) << "until there is another order";
    });
}
TEST_F(BirthsCarried, ATakerThatTakesNothingKeepsNoClientWaiting) {
    in_a_process([] {
        Client c;
        c.begin();
        const CUdeviceptr at = c.memory(16 * MiB);
        c.fill(at, 'm', 16 * MiB);
        c.wait();
        Ahead ahead(c);
        for (int i = 0; i < 100; ++i) ASSERT_TRUE(ahead.look());
        EXPECT_FALSE(ahead.done());
        c.fill(at, 'n', 16 * MiB);  // the client goes on
        c.wait();
        ahead.take_all();
        EXPECT_TRUE(ahead.done());
        EXPECT_EQ(ahead.all().size(), 16 * MiB);
        EXPECT_EQ(ahead.frames.back(), std::string(2 * MiB, 'n')) << "as it is when it is passed on";
    });
}
TEST_F(BirthsCarried, WhatIsFreedMeanwhileIsLeftOut) {
    in_a_process([] {
        Client c;
        c.begin();
        const CUdeviceptr first = c.memory(16 * MiB), second = c.memory(2 * MiB);
        ASSERT_LT(first, second);
        c.fill(second, 's', 2 * MiB);
        c.wait();
        Ahead ahead(c);
        ASSERT_TRUE(ahead.look());
        c.free(first);
        c.wait();
        EXPECT_TRUE(c.session().deferred().reap(true));
        ahead.take_all();
        EXPECT_TRUE(ahead.done());
        EXPECT_EQ(ahead.what(), "");
        EXPECT_LT(ahead.all().size(), 16 * MiB);
        EXPECT_EQ(ahead.frames.back(), std::string(2 * MiB, 's'));
    });
}
TEST_F(BirthsCarried, ACaptureIsWaitedForAndNothingIsLost) {
    in_a_process([] {
        Client c;
        c.begin();
        c.memory(3 * MiB);
        const CUstream s = c.stream();
        Ahead ahead(c);
        CUgraph graph = nullptr;
        ASSERT_TRUE((c.call<cuStreamBeginCapture_v2>(s, CU_STREAM_CAPTURE_MODE_RELAXED).ok()));
        EXPECT_FALSE(ahead.look());
        EXPECT_FALSE(ahead.done());
        ASSERT_TRUE((c.call<cuStreamEndCapture>(s, &graph).ok()));
        ahead.take_all();
        EXPECT_TRUE(ahead.ended);
        EXPECT_EQ(ahead.all().size(), 3 * MiB);
    });
}
TEST_F(BirthsCarried, ATakerThatHasGoneEndsIt) {
    in_a_process([] {
        signal(SIGPIPE, SIG_IGN);
        Client c;
        c.begin();
        c.memory(16 * MiB);
        Ahead ahead(c);
        ASSERT_TRUE(ahead.look());
        ahead.taker.close();
        while (ahead.look()) continue;
        EXPECT_TRUE(ahead.done());
        EXPECT_NE(ahead.what().find("has gone"), std::string::npos) << ahead.what();
    });
}
TEST_F(BirthsCarried, APauseEndsItAndTheTakerHearsThat) {
    in_a_process([] {
        Client c;
        c.begin();
        c.memory(16 * MiB);
        Ahead ahead(c);
        ASSERT_TRUE(ahead.look());
        ahead.station.leave.look();  // it is held
        ahead.take();
        EXPECT_FALSE(ahead.ended) << "it would be taken for all of it";
        EXPECT_TRUE(ahead.taker.has_word());
        EXPECT_FALSE(ahead.look());
    });
}
TEST_F(BirthsCarried, WithoutADescriptorNothingGoesAhead) {
    in_a_process([] {
        Client c;
        c.begin();
        Station station(c.session());
        station.place.wanted = Wanted::ahead;
        publish(station.place.order, 1u);
        EXPECT_FALSE(station.leave.look_ahead());
        EXPECT_EQ(station.place.done, 1u);
        EXPECT_STREQ(station.place.what, "the bridge has handed over too few descriptors");
    });
}

}  // namespace
}  // namespace barcuda
