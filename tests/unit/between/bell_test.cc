// SPDX-License-Identifier: Apache-2.0
// bell_test: a worker's sleep with clients that lie about their bell: it ends in time, and it is a real sleep.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/os/futex.h"
#include "host-bridge/worker/channel.h"
#include "shm-device/queue/sync.h"
#include "tests/unit/support/channel_memory.h"

namespace barcuda {
namespace {

struct Bells : testing::Test {
    ChannelMemory memory = channel_memory();
    Channel channel;
    Bells() { channel.memory = memory.get(); }
    std::uint32_t& kicks() { return *reinterpret_cast<std::uint32_t*>(memory.get() + BARCUDA_KICKS_OFFSET); }
    // The time of this many sleeps of at most a second each, in milliseconds.
    double sleeps(int times) {
        ChannelReader reader(channel, Bell(channel, -1));
        reader.sleep(1);  // the first call only asks for kicks
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < times; ++i) {
            EXPECT_FALSE(reader.next());
            reader.sleep(1'000'000'000);
        }
        return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    }
};

// The lower bounds are the point: without them such a client could keep a processor of the host busy.
TEST_F(Bells, AClientThatKicksWithoutEndAndBringsNothingIsLookedAfterNowAndThen) {
    channel.client().bell = BARCUDA_BELL_FUTEX;
    std::atomic<bool> over{false};
    std::thread liar([&] {
        while (!over) {
            std::atomic_ref(kicks()).fetch_add(1, std::memory_order_release);
            futex_wake(kicks(), Among::processes);
        }
    });
    const double took = sleeps(40);
    over = true;
    liar.join();
    EXPECT_GE(took, 30 * 2.0);
}
TEST(Bell, WithoutAChannelHearsAndWakesNobody) {
    const Bell none;
    EXPECT_FALSE(none.kicked());
    EXPECT_FALSE(none.is_awaited());
    none.wake();
    EXPECT_TRUE(none.sleep(none.kicks(), 1));
}
TEST_F(Bells, AClientWithABellThatDoesNotExistIsPolled) {
    channel.client().bell = 0xdeadbeef;
    EXPECT_GE(sleeps(4), 4 * 5.0);
}
TEST_F(Bells, AClientWithADoorbellThatNobodyServesIsPolled) {
    channel.client().bell = BARCUDA_BELL_DOORBELL;
    EXPECT_GE(sleeps(4), 4 * 5.0);
}
TEST_F(Bells, AClientThatChangesItsBellWhileTheWorkerSleepsIsWokenByTheClock) {
    channel.client().bell = BARCUDA_BELL_FUTEX;
    std::thread liar([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        channel.client().bell = BARCUDA_BELL_NONE;
    });
    EXPECT_GE(sleeps(1), 900.0);
    liar.join();
}

}  // namespace
}  // namespace barcuda
