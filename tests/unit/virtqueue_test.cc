// virtqueue_test: the packed virtqueue, clause by clause. Each test is named after the section of VIRTIO 1.2 that it
// holds the code to; the ring is looked at as raw words, so that driver and device cannot agree on the same mistake.
#include "shm-device/virtqueue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace barcuda::virtqueue {
namespace {

// A queue's memory, zero-initialized (2.8.13), with the raw view that the specification draws.
template <unsigned kSize> struct Ring {
    struct Raw {
        std::uint64_t addr;
        std::uint32_t len;
        std::uint16_t id;
        std::uint16_t flags;
    };
    alignas(64) Descriptor<> ring[kSize]{};
    alignas(64) Event<> driver_event{};
    alignas(64) Event<> device_event{};

    Parts<> parts() { return {ring, &driver_event, &device_event}; }
    Raw raw(unsigned i) const {
        Raw r;
        std::memcpy(&r, static_cast<const void*>(&ring[i]), sizeof r);
        return r;
    }
    void write(unsigned i, Raw r) { std::memcpy(static_cast<void*>(&ring[i]), &r, sizeof r); }
};

const Buffer kRequest{0x1000, 64, false};
const Buffer kReply{0x2000, 32, true};
const Buffer kCall[] = {kRequest, kReply};  // a command that wants an answer
const Buffer kPost[] = {kRequest};          // one that does not

template <unsigned kSize> struct Pair {
    Ring<kSize> ring;
    Driver<kSize> driver{ring.parts()};
    Device<kSize> device{ring.parts()};

    void round(std::span<const Buffer> chain) {  // one chain all the way
        const std::uint64_t n = driver.post(chain);
        auto c = device.next();
        ASSERT_TRUE(c);
        device.complete(*c, c->reply.len);
        device.flush();
        ASSERT_EQ(driver.reap(), n);
    }
};

// ---- 2.8.1 wrap counters --------------------------------------------------------------------------------------------
TEST(Clause_2_8_1, WrapCountersStartAtOneAndMarkAvailableByUnequalBits) {
    Pair<4> q;
    q.driver.post(kPost);
    EXPECT_EQ(q.ring.raw(0).flags & (kAvail | kUsed), kAvail);
}
TEST(Clause_2_8_1, UsedDescriptorsHaveEqualBits) {
    Pair<4> q;
    q.round(kPost);
    EXPECT_EQ(q.ring.raw(0).flags & (kAvail | kUsed), kAvail | kUsed);
}
TEST(Clause_2_8_1, EqualBitsAreNotAvailable) {
    Pair<4> q;
    q.ring.write(0, {0x1000, 64, 0, kAvail | kUsed});
    EXPECT_FALSE(q.device.next());
    EXPECT_FALSE(q.device.enable_kick());
}
TEST(Clause_2_8_1, DriverCounterFlipsBehindTheLastDescriptor) {
    Pair<3> q;
    for (int i = 0; i < 3; ++i) q.round(kPost);
    q.driver.post(kPost);
    EXPECT_EQ(q.ring.raw(0).flags & (kAvail | kUsed), kUsed);
}
TEST(Clause_2_8_1, DeviceCounterFlipsBehindTheLastDescriptor) {
    Pair<3> q;
    for (int i = 0; i < 4; ++i) q.round(kPost);
    EXPECT_EQ(q.ring.raw(0).flags & (kAvail | kUsed), 0);
}
TEST(Clause_2_8_1, AChainMaySpanTheEndOfTheRing) {
    Pair<3> q;
    q.round(kCall);
    q.driver.post(kCall);
    EXPECT_EQ(q.ring.raw(2).flags, kAvail | kNext);
    EXPECT_EQ(q.ring.raw(0).flags, kUsed | kWrite);
    auto c = q.device.next();
    ASSERT_TRUE(c);
    EXPECT_EQ(c->count, 2);
    q.device.complete(*c, 32);
    q.device.flush();
    EXPECT_EQ(q.ring.raw(2).flags, kAvail | kUsed | kWrite);
    EXPECT_EQ(q.driver.reap(), 2u);
}
template <unsigned kSize> void many_laps() {
    Pair<kSize> q;
    for (unsigned i = 0; i < 5 * kSize + 3; ++i) {
        if (kSize >= 2 && i % 3 == 0) q.round(kCall);
        else q.round(kPost);
    }
    EXPECT_EQ(q.device.lie(), Lie::none);
    EXPECT_FALSE(q.driver.broken());
    EXPECT_TRUE(q.driver.can_post(kSize));
}
TEST(Clause_2_8_10_1, QueueSizeNeedNotBeAPowerOfTwo) {
    many_laps<1>();
    many_laps<2>();
    many_laps<3>();
    many_laps<5>();
    many_laps<7>();
    many_laps<1000>();
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
    q.ring.write(1, {0x1000, 64, 0, kAvail});  // available, but not next
    EXPECT_FALSE(q.device.next());
    EXPECT_EQ(q.device.lie(), Lie::none);
}
TEST(Clause_2_8_2, DriverLooksAtTheNextUsedDescriptorOnly) {
    Pair<4> q;
    q.driver.post(kPost);
    q.driver.post(kPost);
    q.ring.write(1, {0, 0, 1, kAvail | kUsed});
    EXPECT_EQ(q.driver.reap(), 0u);
}

// ---- 2.8.3, 2.8.4 what a used descriptor says -----------------------------------------------------------------------
TEST(Clause_2_8_3, WriteFlagMarksWhatTheDeviceMayWrite) {
    Pair<4> q;
    q.driver.post(kCall);
    EXPECT_FALSE(q.ring.raw(0).flags & kWrite);
    EXPECT_TRUE(q.ring.raw(1).flags & kWrite);
}
TEST(Clause_2_8_3, UsedWriteFlagSaysWhetherAnythingWasWritten) {
    Pair<8> q;
    q.driver.post(kCall);
    q.driver.post(kCall);
    q.device.complete(*q.device.next(), 32);
    q.device.flush();
    q.device.complete(*q.device.next(), 0);
    q.device.flush();
    EXPECT_TRUE(q.ring.raw(0).flags & kWrite);
    EXPECT_FALSE(q.ring.raw(2).flags & kWrite);
}
TEST(Clause_2_8_4, UsedLengthIsWhatTheDeviceWrote) {
    Pair<4> q;
    q.driver.post(kCall);
    q.device.complete(*q.device.next(), 17);
    q.device.flush();
    EXPECT_EQ(q.ring.raw(0).len, 17u);
}

// ---- 2.8.5, 2.8.6, 2.8.7 lists --------------------------------------------------------------------------------------
TEST(Clause_2_8_5, ListsLongerThanTheDeviceAllowsAreALie) {
    Pair<8> q;
    q.ring.write(1, {0x2000, 8, 0, kAvail | kWrite | kNext});
    q.ring.write(0, {0x1000, 8, 0, kAvail | kNext});
    EXPECT_FALSE(q.device.next());
    EXPECT_EQ(q.device.lie(), Lie::too_long);
}
TEST(Clause_2_8_6, NextStandsInAllButTheLastDescriptor) {
    Pair<4> q;
    q.driver.post(kCall);
    EXPECT_TRUE(q.ring.raw(0).flags & kNext);
    EXPECT_FALSE(q.ring.raw(1).flags & kNext);
}
TEST(Clause_2_8_6, IdIsReadFromTheLastDescriptor) {
    Pair<4> q;
    q.ring.write(1, {0x2000, 8, 77, kAvail | kWrite});
    q.ring.write(0, {0x1000, 8, 11, kAvail | kNext});
    auto c = q.device.next();
    ASSERT_TRUE(c);
    EXPECT_EQ(c->id, 77);
}
TEST(Clause_2_8_6, OneUsedDescriptorForTheWholeListOverwritesItsFirst) {
    Pair<4> q;
    q.driver.post(kCall);
    const auto second = q.ring.raw(1);
    q.device.complete(*q.device.next(), 32);
    q.device.flush();
    EXPECT_EQ(q.ring.raw(0).flags, kAvail | kUsed | kWrite);
    EXPECT_EQ(q.ring.raw(1).flags, second.flags);
    q.driver.reap();
    q.driver.post(kPost);
    EXPECT_EQ(q.ring.raw(2).flags, kAvail);  // both sides skipped forward by the list's size
    EXPECT_TRUE(q.device.next());
}
TEST(Clause_2_8_6, APartialListIsALie) {
    Pair<4> q;
    q.ring.write(0, {0x1000, 8, 0, kAvail | kNext});
    EXPECT_FALSE(q.device.next());
    EXPECT_EQ(q.device.lie(), Lie::partial);
}
TEST(Clause_2_8_6, NextIsIgnoredInUsedDescriptors) {
    Pair<4> q;
    q.driver.post(kPost);
    q.ring.write(0, {0, 0, 0, kAvail | kUsed | kNext});
    EXPECT_EQ(q.driver.reap(), 1u);
}
TEST(Clause_2_8_7, IndirectDescriptorsWereNotOffered) {
    Pair<4> q;
    q.ring.write(0, {0x1000, 16, 0, kAvail | kIndirect});
    EXPECT_FALSE(q.device.next());
    EXPECT_EQ(q.device.lie(), Lie::indirect);
}

// ---- 2.8.8 in-order use ---------------------------------------------------------------------------------------------
TEST(Clause_2_8_8, OneUsedDescriptorStandsForABatch) {
    Pair<8> q;
    for (int i = 0; i < 3; ++i) q.driver.post(kPost);
    std::uint16_t last = 0;
    for (int i = 0; i < 3; ++i) {
        auto c = q.device.next();
        last = c->id;
        q.device.complete(*c, 0);
    }
    EXPECT_EQ(q.driver.reap(), 0u);  // not shown yet
    EXPECT_TRUE(q.device.flush());
    EXPECT_EQ(q.ring.raw(0).id, last);  // the first descriptor of the batch, the id of its last buffer
    EXPECT_EQ(q.ring.raw(1).flags, kAvail);
    EXPECT_EQ(q.ring.raw(2).flags, kAvail);
    EXPECT_EQ(q.driver.reap(), 3u);
    EXPECT_TRUE(q.driver.can_post(8));
}
TEST(Clause_2_8_8, TheNextBatchIsUsedWhereTheLastOneEnded) {
    Pair<8> q;
    q.driver.post(kPost);
    q.driver.post(kCall);
    q.driver.post(kPost);
    q.device.complete(*q.device.next(), 0);
    q.device.complete(*q.device.next(), 32);
    q.device.flush();
    q.device.complete(*q.device.next(), 0);
    q.device.flush();
    EXPECT_EQ(q.ring.raw(3).flags, kAvail | kUsed);
    EXPECT_EQ(q.driver.reap(), 3u);
}
TEST(Clause_2_8_8, ABatchMayFillTheWholeRing) {
    Pair<5> q;
    q.round(kPost);  // begin off the start
    for (int i = 0; i < 5; ++i) q.driver.post(kPost);
    EXPECT_FALSE(q.driver.can_post(1));
    for (int i = 0; i < 5; ++i) q.device.complete(*q.device.next(), 0);
    q.device.flush();
    EXPECT_EQ(q.driver.reap(), 6u);
    EXPECT_TRUE(q.driver.can_post(5));
    q.round(kPost);
}
TEST(Clause_2_8_8, SkippedBuffersAreUsedCompletelySoAShortReplyEndsItsBatch) {
    Pair<8> q;
    q.driver.post(kCall);
    q.driver.post(kCall);
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
    q.driver.post(kPost);
    q.driver.post(kPost);
    q.device.next();
    auto second = q.device.next();
    EXPECT_DEATH(q.device.complete(*second, 0), "");
}
TEST(Clause_2_8_8, AUsedIdThatIsNotUnderWayBreaksTheDriverOnly) {
    for (std::uint16_t id : {1, 2, 3, 4, 65535}) {  // one chain is under way, its id is 0
        Pair<4> q;
        q.driver.post(kPost);
        q.ring.write(0, {0, 0, id, kAvail | kUsed});
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
    q.driver.post(kPost);
    EXPECT_TRUE(q.device.enable_kick());
    EXPECT_TRUE(q.device.next());
    EXPECT_FALSE(q.device.enable_kick());
}
TEST(Clause_2_8_22, EnablingWakesLooksAgain) {
    Pair<4> q;
    q.driver.disable_wake();
    q.driver.post(kPost);
    q.device.complete(*q.device.next(), 0);
    q.device.flush();
    EXPECT_TRUE(q.driver.enable_wake());
    q.driver.reap();
    EXPECT_FALSE(q.driver.enable_wake());
}
TEST(Clause_2_8_22, AnIdleDriverNeverMistakesOldDescriptorsForUsedOnes) {
    Pair<2> q;
    for (int i = 0; i < 9; ++i) {
        q.round(kPost);
        EXPECT_FALSE(q.driver.enable_wake());
        EXPECT_EQ(q.driver.reap(), q.driver.posted());
    }
}

// ---- 2.8.13, 2.8.15, 2.8.16 descriptors -----------------------------------------------------------------------------
TEST(Clause_2_8_13, FieldsLieWhereTheSpecificationPutsThem) {
    Pair<4> q;
    const Buffer b[] = {{0x1122334455667788, 0x99aabbcc, false}};
    q.round(kPost);
    q.driver.post(b);
    const auto r = q.ring.raw(1);
    EXPECT_EQ(r.addr, 0x1122334455667788u);
    EXPECT_EQ(r.len, 0x99aabbccu);
    EXPECT_EQ(r.id, 1);
    EXPECT_EQ(r.flags, kAvail);
}
TEST(Clause_2_8_15, TheDeviceUsesNothingInAZeroedRing) {
    Pair<4> q;
    EXPECT_FALSE(q.device.next());
    EXPECT_EQ(q.driver.reap(), 0u);
}
TEST(Clause_2_8_15, TheDeviceLeavesAUsedDescriptorAlone) {
    Pair<4> q;
    q.round(kPost);
    const auto before = q.ring.raw(0);
    EXPECT_FALSE(q.device.flush());
    q.device.next();
    const auto after = q.ring.raw(0);
    EXPECT_EQ(std::memcmp(&before, &after, sizeof before), 0);
}
TEST(Clause_2_8_15, TheAddressOfAUsedDescriptorIsNotTouched) {
    Pair<4> q;
    q.round(kPost);
    EXPECT_EQ(q.ring.raw(0).addr, kRequest.offset);
}
TEST(Clause_2_8_16, ADescriptorIsReusedOnlyOnceItsUseWasSeen) {
    Pair<2> q;
    q.driver.post(kPost);
    q.driver.post(kPost);
    q.device.complete(*q.device.next(), 0);
    q.device.flush();
    EXPECT_FALSE(q.driver.can_post(1));  // used, but not yet seen
    q.driver.reap();
    EXPECT_TRUE(q.driver.can_post(1));
    EXPECT_FALSE(q.driver.can_post(2));
}

// ---- 2.8.17, 2.8.18 lists: driver and device ------------------------------------------------------------------------
TEST(Clause_2_8_17, ThereIsRoomForTheWholeListOrNone) {
    Pair<3> q;
    q.driver.post(kCall);
    EXPECT_TRUE(q.driver.can_post(1));
    EXPECT_FALSE(q.driver.can_post(2));
    EXPECT_FALSE(q.driver.can_post(4));
}
TEST(Clause_2_8_17_DeathTest, PostingWithoutRoomIsABugOfTheDriver) {
    Pair<1> q;
    EXPECT_DEATH(q.driver.post(kCall), "");
    Pair<4> r;
    EXPECT_DEATH(r.driver.post({}), "");
    const Buffer three[] = {kRequest, kReply, kReply};
    EXPECT_DEATH(r.driver.post(three), "");
}
TEST(Clause_2_8_17, WritableBeforeReadableIsALie) {
    Pair<4> q;
    q.ring.write(1, {0x1000, 8, 0, kAvail});
    q.ring.write(0, {0x2000, 8, 0, kAvail | kNext | kWrite});
    EXPECT_FALSE(q.device.next());
    EXPECT_EQ(q.device.lie(), Lie::order);
}
TEST(Clause_2_8_17, AListThatLoopsIntoChainsUnderWayIsALie) {
    Pair<3> q;
    q.driver.post(kCall);
    ASSERT_TRUE(q.device.next());
    q.ring.write(2, {0x1000, 8, 0, kAvail | kNext});
    q.ring.write(0, {0x2000, 8, 0, kUsed | kWrite});
    EXPECT_FALSE(q.device.next());
    EXPECT_EQ(q.device.lie(), Lie::overrun);
}
TEST(Clause_2_8_17, NothingIsTakenWhileEveryDescriptorIsUnderWay) {
    Pair<2> q;
    q.driver.post(kCall);
    ASSERT_TRUE(q.device.next());
    q.ring.write(0, {0x1000, 8, 0, kUsed});  // as if made available again, though it was not used
    for (int i = 0; i < 10; ++i) EXPECT_FALSE(q.device.next());
    EXPECT_FALSE(q.device.enable_kick());
}
TEST(Clause_2_8_18, ChainsAreTakenInTheOrderTheyWereMadeAvailable) {
    Pair<8> q;
    for (std::uint32_t i = 0; i < 8; ++i) {
        const Buffer b[] = {{i * 4096ull, i, false}};
        EXPECT_EQ(q.driver.post(b), i + 1);
    }
    for (std::uint32_t i = 0; i < 8; ++i) {
        auto c = q.device.next();
        ASSERT_TRUE(c);
        EXPECT_EQ(c->sequence, i + 1);
        EXPECT_EQ(c->request.offset, i * 4096ull);
        EXPECT_EQ(c->request.len, i);
    }
}

// ---- 2.8.19 indirect descriptors ------------------------------------------------------------------------------------
TEST(Clause_2_8_19, TheDriverNeverSetsTheIndirectFlag) {
    Pair<4> q;
    q.driver.post(kCall);
    q.driver.post(kCall);
    for (unsigned i = 0; i < 4; ++i) EXPECT_FALSE(q.ring.raw(i).flags & kIndirect);
}
TEST(Clause_2_8_19, AnIndirectDescriptorInAListIsALie) {
    Pair<4> q;
    q.ring.write(1, {0x2000, 16, 0, kAvail | kWrite | kIndirect});
    q.ring.write(0, {0x1000, 16, 0, kAvail | kNext});
    EXPECT_FALSE(q.device.next());
    EXPECT_EQ(q.device.lie(), Lie::indirect);
}

// ---- our own limits on what VIRTIO allows ---------------------------------------------------------------------------
TEST(Device, TwoRequestsInOneChainAreNoCommand) {
    Pair<4> q;
    q.ring.write(1, {0x1000, 8, 0, kAvail});
    q.ring.write(0, {0x2000, 8, 0, kAvail | kNext});
    EXPECT_FALSE(q.device.next());
    EXPECT_EQ(q.device.lie(), Lie::shape);
}
TEST(Device, ALoneReplyIsNoCommand) {
    Pair<4> q;
    q.ring.write(0, {0x2000, 8, 0, kAvail | kWrite});
    EXPECT_FALSE(q.device.next());
    EXPECT_EQ(q.device.lie(), Lie::shape);
}
TEST(Device, ReservedFlagsAreALie) {
    for (unsigned bit = 3; bit < 15; ++bit) {
        if (bit == 7) continue;
        Pair<4> q;
        q.ring.write(0, {0x1000, 8, 0, static_cast<std::uint16_t>(kAvail | 1u << bit)});
        EXPECT_FALSE(q.device.next());
        EXPECT_EQ(q.device.lie(), Lie::reserved) << bit;
    }
}
TEST(Device, ALieIsForGood) {
    Pair<4> q;
    q.ring.write(0, {0x1000, 8, 0, kAvail | kIndirect});
    q.device.next();
    q.ring.write(0, {0x1000, 8, 0, kAvail});
    EXPECT_FALSE(q.device.next());
    EXPECT_FALSE(q.device.enable_kick());
    EXPECT_EQ(q.device.lie(), Lie::indirect);
}
TEST(Device, EveryLieHasItsSentence) {
    for (Lie lie : {Lie::too_long, Lie::partial, Lie::order, Lie::shape, Lie::indirect, Lie::reserved, Lie::overrun})
        EXPECT_GT(std::strlen(text(lie)), 10u);
}

// ---- two threads, verified bytes; meant for ThreadSanitizer ---------------------------------------------------------
// Requests and replies are plain memory: if a sync point lost its ordering, the sanitizer names the race.
struct Traffic {
    static constexpr unsigned kSize = 64;
    Ring<kSize> ring;
    std::uint64_t request[kSize]{};
    std::uint64_t reply[kSize]{};
};
void serve(Traffic& t, std::uint64_t chains, bool batch) {
    Device<Traffic::kSize> device(t.ring.parts());
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
    Driver<Traffic::kSize> driver(t.ring.parts());
    std::uint64_t checked = 0;
    const auto drain = [&] {
        const std::uint64_t completed = driver.reap();
        ASSERT_FALSE(driver.broken());
        for (; checked < completed; ++checked)
            if ((checked + 1) % 4 == 0) { ASSERT_EQ(t.reply[(checked + 1) % Traffic::kSize], (checked + 1) * 7); }
    };
    for (std::uint64_t n = 1; n <= chains; ++n) {
        const bool call = n % 4 == 0;
        while (!driver.can_post(call ? 2 : 1)) {
            drain();
            std::this_thread::yield();
        }
        const std::uint64_t slot = n % Traffic::kSize;
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

}  // namespace
}  // namespace barcuda::virtqueue
