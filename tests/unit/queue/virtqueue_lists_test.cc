// SPDX-License-Identifier: Apache-2.0
// virtqueue_lists_test: lists of descriptors, and what a driver can get wrong about them; 2.8.5 to 2.8.7 and 2.8.17 to
// 2.8.19 of VIRTIO 1.2, and what Barcuda asks beyond them.
#include <gtest/gtest.h>

#include <cstring>

#include "shm-device/queue/virtqueue.h"
#include "tests/unit/support/ring.h"

namespace barcuda::virtqueue {
namespace {

// ---- 2.8.5, 2.8.6, 2.8.7 lists --------------------------------------------------------------------------------------
TEST(Clause_2_8_5, ListsLongerThanTheDeviceAllowsAreALie) {
    Pair<8> q;
    q.ring.write(1, {0x2000, 8, 0, flag_avail | flag_write | flag_next});
    q.ring.write(0, {0x1000, 8, 0, flag_avail | flag_next});
    EXPECT_FALSE(q.device.next());
    EXPECT_EQ(q.device.lie(), Lie::too_long);
}
TEST(Clause_2_8_6, NextStandsInAllButTheLastDescriptor) {
    Pair<4> q;
    q.driver.post(call_chain);
    EXPECT_TRUE(q.ring.raw(0).flags & flag_next);
    EXPECT_FALSE(q.ring.raw(1).flags & flag_next);
}
TEST(Clause_2_8_6, IdIsReadFromTheLastDescriptor) {
    Pair<4> q;
    q.ring.write(1, {0x2000, 8, 77, flag_avail | flag_write});
    q.ring.write(0, {0x1000, 8, 11, flag_avail | flag_next});
    auto c = q.device.next();
    ASSERT_TRUE(c);
    EXPECT_EQ(c->id, 77);
}
TEST(Clause_2_8_6, OneUsedDescriptorForTheWholeListOverwritesItsFirst) {
    Pair<4> q;
    q.driver.post(call_chain);
    const auto second = q.ring.raw(1);
    q.device.complete(*q.device.next(), 32);
    q.device.flush();
    EXPECT_EQ(q.ring.raw(0).flags, flag_avail | flag_used | flag_write);
    EXPECT_EQ(q.ring.raw(1).flags, second.flags);
    q.driver.reap();
    q.driver.post(post_chain);
    EXPECT_EQ(q.ring.raw(2).flags, flag_avail);  // both sides skipped forward by the list's size
    EXPECT_TRUE(q.device.next());
}
TEST(Clause_2_8_6, APartialListIsALie) {
    Pair<4> q;
    q.ring.write(0, {0x1000, 8, 0, flag_avail | flag_next});
    EXPECT_FALSE(q.device.next());
    EXPECT_EQ(q.device.lie(), Lie::partial);
}
TEST(Clause_2_8_6, NextIsIgnoredInUsedDescriptors) {
    Pair<4> q;
    q.driver.post(post_chain);
    q.ring.write(0, {0, 0, 0, flag_avail | flag_used | flag_next});
    EXPECT_EQ(q.driver.reap(), 1u);
}
TEST(Clause_2_8_7, IndirectDescriptorsWereNotOffered) {
    Pair<4> q;
    q.ring.write(0, {0x1000, 16, 0, flag_avail | flag_indirect});
    EXPECT_FALSE(q.device.next());
    EXPECT_EQ(q.device.lie(), Lie::indirect);
}

// ---- 2.8.17, 2.8.18 lists: driver and device ------------------------------------------------------------------------
TEST(Clause_2_8_17, ThereIsRoomForTheWholeListOrNone) {
    Pair<3> q;
    q.driver.post(call_chain);
    EXPECT_TRUE(q.driver.can_post(1));
    EXPECT_FALSE(q.driver.can_post(2));
    EXPECT_FALSE(q.driver.can_post(4));
}
TEST(Clause_2_8_17_DeathTest, PostingWithoutRoomIsABugOfTheDriver) {
    Pair<1> q;
    EXPECT_DEATH(q.driver.post(call_chain), "");
    Pair<4> r;
    EXPECT_DEATH(r.driver.post({}), "");
    const Buffer three[] = {request_buffer, reply_buffer, reply_buffer};
    EXPECT_DEATH(r.driver.post(three), "");
}
TEST(Clause_2_8_17, WritableBeforeReadableIsALie) {
    Pair<4> q;
    q.ring.write(1, {0x1000, 8, 0, flag_avail});
    q.ring.write(0, {0x2000, 8, 0, flag_avail | flag_next | flag_write});
    EXPECT_FALSE(q.device.next());
    EXPECT_EQ(q.device.lie(), Lie::order);
}
TEST(Clause_2_8_17, AListThatLoopsIntoChainsUnderWayIsALie) {
    Pair<3> q;
    q.driver.post(call_chain);
    ASSERT_TRUE(q.device.next());
    q.ring.write(2, {0x1000, 8, 0, flag_avail | flag_next});
    q.ring.write(0, {0x2000, 8, 0, flag_used | flag_write});
    EXPECT_FALSE(q.device.next());
    EXPECT_EQ(q.device.lie(), Lie::overrun);
}
TEST(Clause_2_8_17, NothingIsTakenWhileEveryDescriptorIsUnderWay) {
    Pair<2> q;
    q.driver.post(call_chain);
    ASSERT_TRUE(q.device.next());
    q.ring.write(0, {0x1000, 8, 0, flag_used});  // as if made available again, though it was not used
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
    q.driver.post(call_chain);
    q.driver.post(call_chain);
    for (unsigned i = 0; i < 4; ++i) EXPECT_FALSE(q.ring.raw(i).flags & flag_indirect);
}
TEST(Clause_2_8_19, AnIndirectDescriptorInAListIsALie) {
    Pair<4> q;
    q.ring.write(1, {0x2000, 16, 0, flag_avail | flag_write | flag_indirect});
    q.ring.write(0, {0x1000, 16, 0, flag_avail | flag_next});
    EXPECT_FALSE(q.device.next());
    EXPECT_EQ(q.device.lie(), Lie::indirect);
}

// ---- our own limits on what VIRTIO allows ---------------------------------------------------------------------------
TEST(Device, TwoRequestsInOneChainAreNoCommand) {
    Pair<4> q;
    q.ring.write(1, {0x1000, 8, 0, flag_avail});
    q.ring.write(0, {0x2000, 8, 0, flag_avail | flag_next});
    EXPECT_FALSE(q.device.next());
    EXPECT_EQ(q.device.lie(), Lie::shape);
}
TEST(Device, ALoneReplyIsNoCommand) {
    Pair<4> q;
    q.ring.write(0, {0x2000, 8, 0, flag_avail | flag_write});
    EXPECT_FALSE(q.device.next());
    EXPECT_EQ(q.device.lie(), Lie::shape);
}
TEST(Device, ReservedFlagsAreALie) {
    for (unsigned bit = 3; bit < 15; ++bit) {
        if (bit == 7) continue;
        Pair<4> q;
        q.ring.write(0, {0x1000, 8, 0, static_cast<std::uint16_t>(flag_avail | 1u << bit)});
        EXPECT_FALSE(q.device.next());
        EXPECT_EQ(q.device.lie(), Lie::reserved) << bit;
    }
}
TEST(Device, ALieIsForGood) {
    Pair<4> q;
    q.ring.write(0, {0x1000, 8, 0, flag_avail | flag_indirect});
    q.device.next();
    q.ring.write(0, {0x1000, 8, 0, flag_avail});
    EXPECT_FALSE(q.device.next());
    EXPECT_FALSE(q.device.enable_kick());
    EXPECT_EQ(q.device.lie(), Lie::indirect);
}
TEST(Device, EveryLieHasItsSentence) {
    for (Lie lie : {Lie::too_long, Lie::partial, Lie::order, Lie::shape, Lie::indirect, Lie::reserved, Lie::overrun})
        EXPECT_GT(std::strlen(text(lie)), 10u);
}

}  // namespace
}  // namespace barcuda::virtqueue
