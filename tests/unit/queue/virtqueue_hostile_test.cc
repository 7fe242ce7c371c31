// SPDX-License-Identifier: Apache-2.0
// virtqueue_hostile_test: a ring of random bytes, fresh at every read. Neither half loops, reads a word twice, reads
// more than it needs, or loses count. (tests/fuzz/virtqueue_fuzz.cc looks for the bytes that break this.)
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/unit/support/hostile.h"

namespace barcuda::hostile {
namespace {

// Random words with the flags that matter likely to be right, so that most rounds get past the first check.
std::vector<std::uint8_t> bytes(std::mt19937_64& random) {
    std::vector<std::uint8_t> b(4096);
    for (auto& x : b) {
        const auto r = static_cast<std::uint8_t>(random());
        x = random() % 4 ? r & 0x80 : random() % 8 ? r & 0x83 : r;
    }
    return b;
}
template <unsigned queue_size> void torment(std::uint64_t rounds) {
    std::mt19937_64 random(queue_size);
    for (std::uint64_t i = 0; i < rounds; ++i) {
        torment_device<queue_size>(bytes(random));
        torment_driver<queue_size>(bytes(random));
    }
}

TEST(HostileRing, RandomBytesNeverLeadEitherHalfAstray) {
    torment<1>(500);
    torment<2>(500);
    torment<3>(500);
    torment<8>(500);
    torment<1024>(500);
}
TEST(HostileRing, TheDeviceGetsPastTheFirstCheckOften) {  // else the test above would show nothing
    std::mt19937_64 random(1);
    std::set<virtqueue::Lie> lies;
    std::uint64_t chains = 0;
    for (int i = 0; i < 2000; ++i) {
        const auto b = bytes(random);
        Source source{b, {}, 0};
        Source::current() = &source;
        Ring<4> ring;
        virtqueue::Device<4, Sync> device(ring.parts());
        std::vector<virtqueue::Chain> under_way;
        for (int n = 0; n < 50; ++n) {
            source.forget();
            if (auto c = device.next()) {
                under_way.push_back(*c);
                ++chains;
            }
            if (n % 12 != 11) continue;
            for (const auto& c : under_way) device.complete(c, c.reply.len);
            device.flush();
            under_way.clear();
        }
        lies.insert(device.lie());
    }
    Source::current() = nullptr;
    EXPECT_GT(chains, 1000u);
    EXPECT_EQ(lies.size(), 8u);  // every lie that there is, and none
}
TEST(HostileRing_DeathTest, AWordThatIsReadTwiceIsNoticed) {
    const std::uint8_t b[64] = {};
    Source source{b, {}, 0};
    Source::current() = &source;
    Ring<1> ring;
    ring.driver_event.load(std::memory_order_relaxed);
    EXPECT_DEATH(ring.driver_event.load(std::memory_order_relaxed), "read twice");
    Source::current() = nullptr;
}

}  // namespace
}  // namespace barcuda::hostile
