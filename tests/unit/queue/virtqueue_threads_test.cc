// SPDX-License-Identifier: Apache-2.0
// virtqueue_threads_test: both halves at full speed in two threads, every byte verified. Requests and replies are plain
// memory: if a sync point lost its ordering, ThreadSanitizer would name the race.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "base/os/barrier.h"
#include "base/os/futex.h"
#include "shm-device/queue/virtqueue.h"
#include "tests/unit/support/ring.h"

namespace barcuda::virtqueue {
namespace {

struct Traffic {
    static constexpr unsigned queue_size = 64;
    Ring<queue_size> ring;
    std::uint64_t request[queue_size]{};
    std::uint64_t reply[queue_size]{};
};
void serve(Traffic& t, std::uint64_t chains, bool batch) {
    Device<Traffic::queue_size> device(t.ring.parts());
    std::uint64_t done = 0;
    while (done < chains) {
        auto c = device.next();
        if (!c) {
            device.flush();
            std::this_thread::yield();
            continue;
        }
        ASSERT_EQ(t.request[c->request.offset], c->sequence * 3);
        if (c->reply.writable) t.reply[c->reply.offset] = c->sequence * 7;
        device.complete(*c, c->reply.len);
        if (!batch) device.flush();
        ++done;
    }
    device.flush();
    ASSERT_EQ(device.lie(), Lie::none);
}
void drive(Traffic& t, std::uint64_t chains) {
    Driver<Traffic::queue_size> driver(t.ring.parts());
    std::uint64_t checked = 0;
    const auto drain = [&] {
        const std::uint64_t completed = driver.reap();
        ASSERT_FALSE(driver.broken());
        for (; checked < completed; ++checked)
            if ((checked + 1) % 4 == 0) { ASSERT_EQ(t.reply[(checked + 1) % Traffic::queue_size], (checked + 1) * 7); }
    };
    for (std::uint64_t n = 1; n <= chains; ++n) {
        const bool call = n % 4 == 0;
        while (!driver.can_post(call ? 2 : 1)) {
            drain();
            std::this_thread::yield();
        }
        const std::uint64_t slot = n % Traffic::queue_size;
        t.request[slot] = n * 3;
        const Buffer chain[] = {{slot, 8, false}, {slot, 8, true}};
        ASSERT_EQ(driver.post(std::span(chain, call ? 2 : 1)), n);
    }
    while (checked < chains) {
        drain();
        std::this_thread::yield();
    }
}
TEST(TwoThreads, AMillionChainsArriveInOrderWithTheirBytes) {
    for (bool batch : {false, true}) {
        auto t = std::make_unique<Traffic>();
        std::thread device([&] { serve(*t, 1'000'000, batch); });
        drive(*t, 1'000'000);
        device.join();
    }
}

// The device sleeps whenever it has nothing to do; the driver posts when it likes. A kick that was lost would let the
// device sleep to the end of a time that no machine needs.
void sleep_and_be_kicked(bool fenced) {
    constexpr std::uint64_t chains = 20'000;
    Pair<16> q;
    alignas(64) std::uint32_t kicks = 0;
    std::atomic<std::uint64_t> sleeps = 0;
    std::thread device([&] {
        for (std::uint64_t done = 0;;) {
            q.device.disable_kick();
            while (auto c = q.device.next()) {
                q.device.complete(*c, 0);
                ++done;
            }
            q.device.flush();
            if (done == chains) return;
            const std::uint32_t seen = observe(kicks);
            if (q.device.enable_kick()) continue;
            ++sleeps;
            ASSERT_TRUE(futex_wait(kicks, seen, 60'000'000'000, Among::threads)) << "a kick was lost";
        }
    });
    for (std::uint64_t n = 1; n <= chains; ++n) {
        const std::uint64_t before = sleeps;
        while (!q.driver.can_post(1)) {
            q.driver.reap();
            std::this_thread::yield();
        }
        q.driver.post(post_chain);
        if (q.driver.should_kick(fenced)) {
            std::atomic_ref(kicks).fetch_add(1);
            futex_wake(kicks, Among::threads);
        }
        while (n % 4 == 0 && q.driver.reap() != n) std::this_thread::yield();               // let it sleep again
        while (n % 1000 == 0 && n < chains && sleeps == before) std::this_thread::yield();  // on one processor, too
    }
    device.join();
    EXPECT_GT(sleeps, 10u);  // else nothing was shown
}
TEST(TwoThreads, NoKickIsLost) { sleep_and_be_kicked(false); }
TEST(TwoThreads, NoKickIsLostWhereTheDeviceFencesForBoth) {
    if (!os::join_barrier() || !Smp::fence_all()) GTEST_SKIP() << "the kernel has no expedited membarrier";
    sleep_and_be_kicked(true);
}

}  // namespace
}  // namespace barcuda::virtqueue
