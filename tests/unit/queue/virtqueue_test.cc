// SPDX-License-Identifier: Apache-2.0
// virtqueue_test: the packed virtqueue, clause by clause. Each test is named after the section of VIRTIO 1.2 that it
// holds the code to; the ring is looked at as raw words, so that driver and device cannot agree on the same mistake.
// This file: the ring itself, 2.8.1 to 2.8.16. (Lists: virtqueue_lists_test.cc.)
#include "shm-device/queue/virtqueue.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/support/ring.h"

namespace barcuda::virtqueue {
namespace {

// ---- 2.8.1 wrap counters --------------------------------------------------------------------------------------------
TEST(Clause_2_8_1, WrapCountersStartAtOneAndMarkAvailableByUnequalBits) {
    Pair<4> q;
    q.driver.post(post_chain);
    EXPECT_EQ(q.ring.raw(0).flags & (flag_avail | flag_used), flag_avail);
}
TEST(Clause_2_8_1, UsedDescriptorsHaveEqualBits) {
    Pair<4> q;
    q.round(post_chain);
    EXPECT_EQ(q.ring.raw(0).flags & (flag_avail | flag_used), flag_avail | flag_used);
}
TEST(Clause_2_8_1, EqualBitsAreNotAvailable) {
    Pair<4> q;
    q.ring.write(0, {0x1000, 64, 0, flag_avail | flag_used});
    EXPECT_FALSE(q.device.next());
    EXPECT_FALSE(q.device.enable_kick());
}
TEST(Clause_2_8_1, DriverCounterFlipsBehindTheLastDescriptor) {
    Pair<3> q;
    for (int i = 0; i < 3; ++i) q.round(post_chain);
    q.driver.post(post_chain);
    EXPECT_EQ(q.ring.raw(0).flags & (flag_avail | flag_used), flag_used);
}
TEST(Clause_2_8_1, DeviceCounterFlipsBehindTheLastDescriptor) {
    Pair<3> q;
    for (int i = 0; i < 4; ++i) q.round(post_chain);
    EXPECT_EQ(q.ring.raw(0).flags & (flag_avail | flag_used), 0);
}
TEST(Clause_2_8_1, AChainMaySpanTheEndOfTheRing) {
    Pair<3> q;
    q.round(call_chain);
    q.driver.post(call_chain);
    EXPECT_EQ(q.ring.raw(2).flags, flag_avail | flag_next);
    EXPECT_EQ(q.ring.raw(0).flags, flag_used | flag_write);
    auto c = q.device.next();
    ASSERT_TRUE(c);
    EXPECT_EQ(c->count, 2);
    q.device.complete(*c, 32);
    q.device.flush();
    EXPECT_EQ(q.ring.raw(2).flags, flag_avail | flag_used | flag_write);
    EXPECT_EQ(q.driver.reap(), 2u);
}
template <unsigned queue_size> void many_laps() {
    Pair<queue_size> q;
    for (unsigned i = 0; i < 5 * queue_size + 3; ++i) {
        if (queue_size >= 2 && i % 3 == 0) q.round(call_chain);
        else q.round(post_chain);
    }
    EXPECT_EQ(q.device.lie(), Lie::none);
    EXPECT_FALSE(q.driver.broken());
    EXPECT_TRUE(q.driver.can_post(queue_size));
}
TEST(Clause_2_8_10_1, QueueSizeNeedNotBeAPowerOfTwo) {
    many_laps<1>();
    many_laps<2>();
    many_laps<3>();
    many_laps<5>();
    many_laps<7>();
    many_laps<1000>();
}
template <unsigned queue_size> void many_devices() {  // each goes on where the one before it has stopped
    Ring<queue_size> ring;
    Driver<queue_size> driver{ring.parts()};
    typename Device<queue_size>::State state;
    for (unsigned i = 0; i < 5 * queue_size + 3; ++i) {
        Device<queue_size> device{ring.parts(), state};
        const bool call = queue_size >= 2 && i % 3 == 0;
        const std::uint64_t number =
            driver.post(call ? std::span<const Buffer>(call_chain) : std::span<const Buffer>(post_chain));
        const auto chain = device.next();
        ASSERT_TRUE(chain) << "of " << queue_size << ", in turn " << i;
        EXPECT_EQ(chain->sequence, number);
        EXPECT_FALSE(device.quiet());
        device.complete(*chain, chain->reply.len);
        device.flush();
        ASSERT_EQ(driver.reap(), number);
        ASSERT_TRUE(device.quiet());
        state = device.state();
    }
    EXPECT_FALSE(driver.broken());
}
TEST(Clause_2_8_1, ADeviceGoesOnWhereAnotherHasStopped) {
    many_devices<1>();
    many_devices<2>();
    many_devices<3>();
    many_devices<7>();
    many_devices<1000>();
}
TEST(Clause_2_8_1, AChainThatWasPutBackIsGivenAgain) {
    Ring<3> ring;
    Driver<3> driver{ring.parts()};
    Device<3> device{ring.parts()};
    for (unsigned i = 0; i < 8; ++i) {
        const std::uint64_t number = driver.post(i % 2 ? std::span<const Buffer>(call_chain) : post_chain);
        for (int times = 0; times < 2; ++times) {
            const auto chain = device.next();
            ASSERT_TRUE(chain);
            EXPECT_EQ(chain->sequence, number);
            device.put_back(*chain);
            ASSERT_TRUE(device.quiet());
        }
        Device<3> other{ring.parts(), device.state()};
        const auto chain = other.next();
        ASSERT_TRUE(chain);
        EXPECT_EQ(chain->sequence, number);
        EXPECT_EQ(chain->reply.len, i % 2 ? call_chain[1].len : 0);
        const auto same = device.next();
        ASSERT_TRUE(same);
        device.complete(*same, same->reply.len);
        device.flush();
        EXPECT_EQ(driver.reap(), number);
    }
}
TEST(Clause_2_8_1, OnlyTheLastChainIsPutBackAndNoneThatIsNotShownAsUsedIsBeforeIt) {
    Pair<4> q;
    q.driver.post(post_chain);
    q.driver.post(post_chain);
    const auto first = q.device.next(), second = q.device.next();
    EXPECT_DEATH(q.device.put_back(*first), "");
    EXPECT_DEATH(q.device.put_back(*second), "");
    q.device.complete(*first, 0);
    EXPECT_DEATH(q.device.put_back(*second), "");
    q.device.flush();
    q.device.put_back(*second);
    EXPECT_TRUE(q.device.quiet());
}
TEST(Clause_2_8_1, ADeviceHasNoStateWhileAChainIsUnderWay) {
    Pair<4> q;
    q.driver.post(post_chain);
    const auto chain = q.device.next();
    EXPECT_DEATH(q.device.state(), "");
    q.device.complete(*chain, 0);
    q.device.flush();
    EXPECT_EQ(q.device.state().index, 1u);
}
TEST(Clause_2_8_10_1, PartsAreAlignedInAChannel) {
    alignas(64) static char channel[BARCUDA_COMMANDS_OFFSET];
    const Parts<> p = in_channel(channel);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p.ring) % 16, 0u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p.driver_event) % 4, 0u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p.device_event) % 4, 0u);
    EXPECT_GE(reinterpret_cast<char*>(p.device_event) - reinterpret_cast<char*>(p.driver_event), 64);
}

// ---- 2.8.2 polling --------------------------------------------------------------------------------------------------
TEST(Clause_2_8_2, DeviceLooksAtTheNextDescriptorOnly) {
    Pair<4> q;
    q.ring.write(1, {0x1000, 64, 0, flag_avail});  // available, but not next
    EXPECT_FALSE(q.device.next());
    EXPECT_EQ(q.device.lie(), Lie::none);
}
TEST(Clause_2_8_2, DriverLooksAtTheNextUsedDescriptorOnly) {
    Pair<4> q;
    q.driver.post(post_chain);
    q.driver.post(post_chain);
    q.ring.write(1, {0, 0, 1, flag_avail | flag_used});
    EXPECT_EQ(q.driver.reap(), 0u);
}

// ---- 2.8.3, 2.8.4 what a used descriptor says -----------------------------------------------------------------------
TEST(Clause_2_8_3, WriteFlagMarksWhatTheDeviceMayWrite) {
    Pair<4> q;
    q.driver.post(call_chain);
    EXPECT_FALSE(q.ring.raw(0).flags & flag_write);
    EXPECT_TRUE(q.ring.raw(1).flags & flag_write);
}
TEST(Clause_2_8_3, UsedWriteFlagSaysWhetherAnythingWasWritten) {
    Pair<8> q;
    q.driver.post(call_chain);
    q.driver.post(call_chain);
    q.device.complete(*q.device.next(), 32);
    q.device.flush();
    q.device.complete(*q.device.next(), 0);
    q.device.flush();
    EXPECT_TRUE(q.ring.raw(0).flags & flag_write);
    EXPECT_FALSE(q.ring.raw(2).flags & flag_write);
}
TEST(Clause_2_8_4, UsedLengthIsWhatTheDeviceWrote) {
    Pair<4> q;
    q.driver.post(call_chain);
    q.device.complete(*q.device.next(), 17);
    q.device.flush();
    EXPECT_EQ(q.ring.raw(0).len, 17u);
}

// ---- 2.8.8 in-order use ---------------------------------------------------------------------------------------------
TEST(Clause_2_8_8, OneUsedDescriptorStandsForABatch) {
    Pair<8> q;
    for (int i = 0; i < 3; ++i) q.driver.post(post_chain);
    std::uint16_t last = 0;
    for (int i = 0; i < 3; ++i) {
        auto c = q.device.next();
        last = c->id;
        q.device.complete(*c, 0);
    }
    EXPECT_EQ(q.driver.reap(), 0u);  // not shown yet
    EXPECT_TRUE(q.device.flush());
    EXPECT_EQ(q.ring.raw(0).id, last);  // the first descriptor of the batch, the id of its last buffer
    EXPECT_EQ(q.ring.raw(1).flags, flag_avail);
    EXPECT_EQ(q.ring.raw(2).flags, flag_avail);
    EXPECT_EQ(q.driver.reap(), 3u);
    EXPECT_TRUE(q.driver.can_post(8));
}
TEST(Clause_2_8_8, TheNextBatchIsUsedWhereTheLastOneEnded) {
    Pair<8> q;
    q.driver.post(post_chain);
    q.driver.post(call_chain);
    q.driver.post(post_chain);
    q.device.complete(*q.device.next(), 0);
    q.device.complete(*q.device.next(), 32);
    q.device.flush();
    q.device.complete(*q.device.next(), 0);
    q.device.flush();
    EXPECT_EQ(q.ring.raw(3).flags, flag_avail | flag_used);
    EXPECT_EQ(q.driver.reap(), 3u);
}
TEST(Clause_2_8_8, ABatchMayFillTheWholeRing) {
    Pair<5> q;
    q.round(post_chain);  // begin off the start
    for (int i = 0; i < 5; ++i) q.driver.post(post_chain);
    EXPECT_FALSE(q.driver.can_post(1));
    for (int i = 0; i < 5; ++i) q.device.complete(*q.device.next(), 0);
    q.device.flush();
    EXPECT_EQ(q.driver.reap(), 6u);
    EXPECT_TRUE(q.driver.can_post(5));
    q.round(post_chain);
}
TEST(Clause_2_8_8, SkippedBuffersAreUsedCompletelySoAShortReplyEndsItsBatch) {
    Pair<8> q;
    q.driver.post(call_chain);
    q.driver.post(call_chain);
    q.device.complete(*q.device.next(), 31);
    EXPECT_EQ(q.driver.reap(), 1u);
    q.device.complete(*q.device.next(), 32);
    EXPECT_EQ(q.driver.reap(), 1u);
    q.device.flush();
    EXPECT_EQ(q.driver.reap(), 2u);
}
TEST(Clause_2_8_8, NothingIsWrittenForAnEmptyBatch) {
    Pair<4> q;
    EXPECT_FALSE(q.device.flush());
    EXPECT_EQ(q.ring.raw(0).flags, 0);
}
TEST(Clause_2_8_8_DeathTest, CompletingOutOfOrderIsABugOfTheDevice) {
    Pair<4> q;
    q.driver.post(post_chain);
    q.driver.post(post_chain);
    q.device.next();
    auto second = q.device.next();
    EXPECT_DEATH(q.device.complete(*second, 0), "");
}
TEST(Clause_2_8_8, AUsedIdThatIsNotUnderWayBreaksTheDriverOnly) {
    for (std::uint16_t id : {1, 2, 3, 4, 65535}) {  // one chain is under way, its id is 0
        Pair<4> q;
        q.driver.post(post_chain);
        q.ring.write(0, {0, 0, id, flag_avail | flag_used});
        EXPECT_EQ(q.driver.reap(), 0u);
        EXPECT_TRUE(q.driver.broken());
    }
}

// ---- 2.8.10, 2.8.14 event suppression -------------------------------------------------------------------------------
TEST(Clause_2_8_10, EventsAreEnabledInANewQueue) {
    Pair<4> q;
    EXPECT_TRUE(q.driver.should_kick());
    EXPECT_TRUE(q.device.should_wake());
}
TEST(Clause_2_8_10, TheDeviceSuppressesKicks) {
    Pair<4> q;
    q.device.disable_kick();
    EXPECT_FALSE(q.driver.should_kick());
    EXPECT_FALSE(q.device.enable_kick());
    EXPECT_TRUE(q.driver.should_kick());
}
TEST(Clause_2_8_10, TheDriverSuppressesWakes) {
    Pair<4> q;
    q.driver.disable_wake();
    EXPECT_FALSE(q.device.should_wake());
    EXPECT_FALSE(q.driver.enable_wake());
    EXPECT_TRUE(q.device.should_wake());
}
TEST(Clause_2_8_10, TheValuesThatWereNotOfferedCountAsEnabled) {
    Pair<4> q;
    for (std::uint32_t flags : {2u, 3u}) {
        q.ring.device_event = event_word(flags);
        q.ring.driver_event = event_word(flags);
        EXPECT_TRUE(q.driver.should_kick());
        EXPECT_TRUE(q.device.should_wake());
    }
}
TEST(Clause_2_8_14, FlagsStandInTheSecondHalfAndReservedBitsAreZero) {
    Pair<4> q;
    q.device.disable_kick();
    std::uint16_t half[2];
    std::memcpy(half, static_cast<const void*>(&q.ring.device_event), 4);
    EXPECT_EQ(half[0], 0);
    EXPECT_EQ(half[1], 1);
}
TEST(Clause_2_8_22, EnablingKicksLooksAgain) {
    Pair<4> q;
    q.device.disable_kick();
    q.driver.post(post_chain);
    EXPECT_TRUE(q.device.enable_kick());
    EXPECT_TRUE(q.device.next());
    EXPECT_FALSE(q.device.enable_kick());
}
TEST(Clause_2_8_22, EnablingWakesLooksAgain) {
    Pair<4> q;
    q.driver.disable_wake();
    q.driver.post(post_chain);
    q.device.complete(*q.device.next(), 0);
    q.device.flush();
    EXPECT_TRUE(q.driver.enable_wake());
    q.driver.reap();
    EXPECT_FALSE(q.driver.enable_wake());
}
TEST(Clause_2_8_22, AnIdleDriverNeverMistakesOldDescriptorsForUsedOnes) {
    Pair<2> q;
    for (int i = 0; i < 9; ++i) {
        q.round(post_chain);
        EXPECT_FALSE(q.driver.enable_wake());
        EXPECT_EQ(q.driver.reap(), q.driver.posted());
    }
}

// ---- 2.8.13, 2.8.15, 2.8.16 descriptors -----------------------------------------------------------------------------
TEST(Clause_2_8_13, FieldsLieWhereTheSpecificationPutsThem) {
    Pair<4> q;
    const Buffer b[] = {{0x1122334455667788, 0x99aabbcc, false}};
    q.round(post_chain);
    q.driver.post(b);
    const auto r = q.ring.raw(1);
    EXPECT_EQ(r.addr, 0x1122334455667788u);
    EXPECT_EQ(r.len, 0x99aabbccu);
    EXPECT_EQ(r.id, 1);
    EXPECT_EQ(r.flags, flag_avail);
}
TEST(Clause_2_8_15, TheDeviceUsesNothingInAZeroedRing) {
    Pair<4> q;
    EXPECT_FALSE(q.device.next());
    EXPECT_EQ(q.driver.reap(), 0u);
}
TEST(Clause_2_8_15, TheDeviceLeavesAUsedDescriptorAlone) {
    Pair<4> q;
    q.round(post_chain);
    const auto before = q.ring.raw(0);
    EXPECT_FALSE(q.device.flush());
    q.device.next();
    const auto after = q.ring.raw(0);
    EXPECT_EQ(std::memcmp(&before, &after, sizeof before), 0);
}
TEST(Clause_2_8_15, TheAddressOfAUsedDescriptorIsNotTouched) {
    Pair<4> q;
    q.round(post_chain);
    EXPECT_EQ(q.ring.raw(0).addr, request_buffer.offset);
}
TEST(Clause_2_8_16, ADescriptorIsReusedOnlyOnceItsUseWasSeen) {
    Pair<2> q;
    q.driver.post(post_chain);
    q.driver.post(post_chain);
    q.device.complete(*q.device.next(), 0);
    q.device.flush();
    EXPECT_FALSE(q.driver.can_post(1));  // used, but not yet seen
    q.driver.reap();
    EXPECT_TRUE(q.driver.can_post(1));
    EXPECT_FALSE(q.driver.can_post(2));
}

}  // namespace
}  // namespace barcuda::virtqueue
