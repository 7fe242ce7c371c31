// SPDX-License-Identifier: Apache-2.0
// conveyed_test: memory that goes over a conveyor into a part of a set, and back: every byte comes back, and a side
// that goes, or lies, ends the other.
#include "host-bridge/suspended/conveyed.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace barcuda {
namespace {

using Bytes = std::vector<std::byte>;

struct ConveyedTest : testing::Test {
    ConveyedTest() {
        signal(SIGPIPE, SIG_IGN);
        Conveyor::Ends ends;
        EXPECT_EQ(Conveyor::make(3, ends).text(), "");
        EXPECT_EQ(filler.open(std::move(ends.filler), ends.room).text(), "");
        EXPECT_EQ(taker.open(std::move(ends.taker), ends.room).text(), "");
    }
    // A frame of each length, more of them than there are slots.
    std::vector<Bytes> frames = [] {
        std::mt19937_64 random(5);
        std::vector<Bytes> all;
        for (const std::size_t bytes :
             {frame_bytes, std::size_t{1}, frame_bytes - 3, frame_bytes, std::size_t{70'000}, frame_bytes}) {
            Bytes& frame = all.emplace_back(bytes);
            for (std::byte& b : frame) b = static_cast<std::byte>(all.size() == 4 ? 0 : random());
        }
        return all;
    }();
    void fill() {
        std::vector<bool> free(filler.slots(), true);
        for (std::uint32_t i = 0; i < frames.size(); ++i) {
            const auto slot = static_cast<std::uint32_t>(i % filler.slots());
            for (Conveyor::Word word; !free[slot]; free[word.slot] = true)
                if (!filler.hear(word)) return;
            free[slot] = false;
            std::memcpy(filler.slot(slot).data(), frames[i].data(), frames[i].size());
            filler.say({slot, static_cast<std::uint32_t>(frames[i].size())});
        }
        filler.say({});
    }
    Failure pack(std::uint64_t most = 1 << 30) {
        FrameWriter writer(file.fd());
        Failure failure = pack_conveyor(taker, most, writer);
        return failure ? std::move(failure) : writer.finish();
    }

    const File file{memfd_create("part", MFD_CLOEXEC)};
    Conveyor filler, taker;
};

TEST_F(ConveyedTest, EveryFrameComesBackInItsOrder) {
    {
        const std::jthread fills([this] { fill(); });
        ASSERT_EQ(pack().text(), "");
    }
    FrameReader reader;
    ASSERT_EQ(reader.open(file.fd()).text(), "");
    ASSERT_EQ(reader.count(), frames.size());
    Conveyor::Ends ends;
    Conveyor to, from;
    ASSERT_EQ(Conveyor::make(2, ends).text(), "");
    ASSERT_EQ(to.open(std::move(ends.filler), ends.room).text(), "");
    ASSERT_EQ(from.open(std::move(ends.taker), ends.room).text(), "");
    Failure fed;
    std::jthread feeds([&] { fed = feed_conveyor(reader, to); });
    std::vector<std::uint32_t> full(from.slots());
    for (std::size_t i = 0; i < frames.size(); ++i) {
        const auto slot = static_cast<std::uint32_t>(i % from.slots());
        for (Conveyor::Word word; full[slot] == 0; full[word.slot] = word.bytes) ASSERT_TRUE(from.hear(word));
        ASSERT_EQ(full[slot], frames[i].size());
        EXPECT_EQ(std::memcmp(from.slot(slot).data(), frames[i].data(), frames[i].size()), 0) << i;
        full[slot] = 0;
        from.say({slot, 0});
    }
    Conveyor::Word word{0, 1};
    EXPECT_TRUE(from.hear(word));
    EXPECT_EQ(word.slot, Conveyor::Word::end);
    from.close();
    feeds.join();
    EXPECT_EQ(fed.text(), "");
}

TEST_F(ConveyedTest, AFillerThatGoesHasNotFilledAll) {
    filler.say({0, 100});
    filler.close();
    EXPECT_NE(pack().text().find("less memory than it should"), std::string::npos);
}

TEST_F(ConveyedTest, AFillerThatLiesIsNotFollowed) {
    filler.say({7, 100});  // of three slots
    EXPECT_NE(pack().text().find("less memory than it should"), std::string::npos);
}

TEST_F(ConveyedTest, NotMoreIsTakenThanAClientCanHave) {
    const std::jthread fills([this] { fill(); });
    EXPECT_NE(pack(frame_bytes).text().find("more than a client can have"), std::string::npos);
    taker.close();
}

TEST_F(ConveyedTest, AFillerThatSaysNothingForTooLongHasGone) {
    Conveyor::Ends ends;
    Conveyor silent, hears;
    ASSERT_EQ(Conveyor::make(2, ends).text(), "");
    ASSERT_EQ(silent.open(std::move(ends.filler), ends.room).text(), "");
    ASSERT_EQ(hears.open(std::move(ends.taker), ends.room, std::chrono::milliseconds(1)).text(), "");
    FrameWriter writer(file.fd());
    EXPECT_NE(pack_conveyor(hears, 1 << 30, writer).text().find("does not answer"), std::string::npos);
}

struct DrainTest : testing::Test {
    DrainTest() {
        int both[2];
        EXPECT_EQ(pipe(both), 0);
        from = File(both[0]);
        to = File(both[1]);
    }
    Failure drained(std::uint64_t most = 1000) {
        return drain(from, most, {}, [this](std::span<const std::byte> piece) {
            bytes += piece.size();
            return bytes > 500 ? Failure("the disk is full") : Failure();
        });
    }
    File from, to;
    std::size_t bytes = 0;
};

TEST_F(DrainTest, APipeIsReadToItsEnd) {
    ASSERT_EQ(write(to.fd(), "births", 6), 6);
    to = File();
    EXPECT_EQ(drained().text(), "");
    EXPECT_EQ(bytes, 6u);
}
TEST_F(DrainTest, AWorkerThatWritesNothingForTooLongDoesNotAnswer) {
    ASSERT_EQ(write(to.fd(), "births", 6), 6);
    EXPECT_EQ(drained().text(), "its worker does not answer");
    EXPECT_EQ(bytes, 6u) << "what was there";
}
TEST_F(DrainTest, NotMoreIsTakenThanAClientCanHaveAndAFailureEndsIt) {
    ASSERT_EQ(write(to.fd(), "births", 6), 6);
    EXPECT_NE(drained(5).text().find("more than a client can have"), std::string::npos);
    EXPECT_EQ(bytes, 0u);
    const std::string much(501, 'm');
    ASSERT_EQ(write(to.fd(), much.data(), much.size()), 501);
    EXPECT_EQ(drained().text(), "the disk is full");
}

TEST_F(ConveyedTest, WhatTheDiskHasSpoiltIsNotPassedOn) {
    {
        const std::jthread fills([this] { fill(); });
        ASSERT_EQ(pack().text(), "");
    }
    const char other = 1;
    ASSERT_EQ(pwrite(file.fd(), &other, 1, 1000), 1);
    ASSERT_EQ(pwrite(file.fd(), &other, 1, 1001), 1);
    FrameReader reader;
    ASSERT_EQ(reader.open(file.fd()).text(), "");
    const std::jthread takes([this] {
        for (Conveyor::Word word; taker.hear(word);) taker.say({word.slot, 0});
    });
    EXPECT_NE(feed_conveyor(reader, filler).text().find("damaged"), std::string::npos);
    filler.close();
}

TEST_F(ConveyedTest, ARoomThatCanBecomeShorterIsNotMapped) {
    const File room(memfd_create("room", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(ftruncate(room.fd(), 4 * Conveyor::slot_bytes), 0);
    Conveyor other;
    EXPECT_NE(other.open(File(dup(file.fd())), room).text(), "");
}

}  // namespace
}  // namespace barcuda
