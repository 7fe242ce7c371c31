// SPDX-License-Identifier: Apache-2.0
// sent_set_test: a suspended VM that goes through a stream: it arrives as it was written, or nothing of it is believed.
#include "host-bridge/suspended/sent_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cctype>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "host-bridge/suspended/sparse_file.h"
#include "tests/unit/support/scratch.h"

namespace barcuda {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr std::size_t head_bytes = 12;

Description example() {
    Description d;
    d.build = "1.2.3";
    d.name = "vm1";
    d.when = "today";
    d.size = 1 << 28;
    d.clients = {3};
    return d;
}

// Two streams that speak with each other.
struct Line {
    Line() {
        signal(SIGPIPE, SIG_IGN);
        int there[2], back[2];
        EXPECT_EQ(pipe(there), 0);
        EXPECT_EQ(pipe(back), 0);
        source = std::make_unique<Stream>(File(back[0]), File(there[1]));
        destination = std::make_unique<Stream>(File(there[0]), File(back[1]));
    }
    std::unique_ptr<Stream> source, destination;
};

// A stream that only says these bytes.
struct Says {
    explicit Says(const std::string& bytes) {
        int there[2], nothing[2];
        EXPECT_EQ(pipe(there), 0);
        EXPECT_EQ(pipe(nothing), 0);
        stream = std::make_unique<Stream>(File(there[0]), File(nothing[1]));
        reads_nothing = File(nothing[0]);
        writer = std::jthread([bytes, to = there[1]] {
            for (std::size_t done = 0; done < bytes.size();) {
                const ssize_t n = write(to, bytes.data() + done, bytes.size() - done);
                if (n <= 0) break;
                done += static_cast<std::size_t>(n);
            }
            close(to);
        });
    }
    std::unique_ptr<Stream> stream;
    File reads_nothing;
    std::jthread writer;
};

std::string message(MoveWord word, const std::string& text, std::uint32_t part = 0) {
    const std::array<std::uint32_t, 3> head{static_cast<std::uint32_t>(word), part,
                                            static_cast<std::uint32_t>(text.size())};
    std::string bytes(head_bytes, 0);
    std::memcpy(bytes.data(), head.data(), head_bytes);
    return bytes + text;
}

std::string bytes_of(const std::string& name) { return "the bytes of " + name; }

std::string hash_of(const std::string& bytes) {
    Digest digest;
    digest.add(std::as_bytes(std::span(bytes)));
    return digest.text();
}

// All that a source says of the example.
std::string whole() {
    std::string all;
    Description d = example();
    std::uint32_t number = 0;
    for (const std::string& name : d.names()) {
        const std::string bytes = bytes_of(name);
        all += message(MoveWord::part, name, number) + message(MoveWord::bytes, bytes, number) +
               message(MoveWord::part_end, hash_of(bytes), number);
        d.parts.push_back({name, bytes.size(), hash_of(bytes)});
        ++number;
    }
    return all + message(MoveWord::description, text_of(d));
}

struct SentSetTest : testing::Test {
    SentSetTest() {
        char name[] = "/tmp/barcuda-sent-XXXXXX";
        folder = mkdtemp(name);
    }
    ~SentSetTest() override {
        std::error_code ec;
        fs::remove_all(folder, ec);
    }
    // Why what was said is not believed. Then nothing is left of it.
    template <class Writer = SetWriter> std::string refusal(const std::string& bytes) const {
        const Says says(bytes);
        Failure failure;
        {
            Writer writer;
            if (const Failure e = writer.begin(folder / "set")) return e.text();
            Description description;
            failure = receive_set(*says.stream, writer, description);
        }
        EXPECT_EQ(fs::exists(folder / "set"), !failure);
        EXPECT_FALSE(fs::exists(folder / "set.part"));
        fs::remove_all(folder / "set");
        return failure.text();
    }

    fs::path folder;
};

TEST_F(SentSetTest, ArrivesAsItWasWritten) {
    Line line;
    Description received;
    Failure there;
    std::jthread destination([&] {
        SetWriter writer;
        there = writer.begin(folder / "set");
        if (!there) there = receive_set(*line.destination, writer, received);
        if (!there) there = line.destination->send(MoveWord::have);
    });
    line.source->beat();
    line.destination->beat();
    std::atomic<bool> may_be_there{false};
    SetSender sender(*line.source, may_be_there);
    std::map<std::string, SetPlace::Sink> sinks;
    for (const std::string& name : example().names()) ASSERT_EQ(sender.make(name, sinks[name]).text(), "");
    for (const auto& [name, sink] : sinks) {  // many parts at once, in pieces
        const std::string bytes(3 * Stream::most_bytes / 2, name.back());
        ASSERT_EQ(sink(std::as_bytes(std::span(bytes)).first(7)).text(), "");
    }
    for (const auto& [name, sink] : sinks) {
        const std::string bytes(3 * Stream::most_bytes / 2, name.back());
        ASSERT_EQ(sink(std::as_bytes(std::span(bytes)).subspan(7)).text(), "");
        Digest digest;
        digest.add(std::as_bytes(std::span(bytes)));
        ASSERT_EQ(sender.finish(name, bytes.size(), digest).text(), "");
    }
    EXPECT_FALSE(may_be_there);
    ASSERT_EQ(sender.commit(example()).text(), "");
    EXPECT_TRUE(may_be_there);
    destination.join();
    ASSERT_EQ(there.text(), "");
    SetReader reader;
    ASSERT_EQ(reader.open(folder / "set").text(), "");
    ASSERT_EQ(reader.verify().text(), "");
    Description expected = example();
    expected.parts = reader.description().parts;
    EXPECT_EQ(reader.description(), expected);
    EXPECT_EQ(received, expected);
    EXPECT_EQ(fs::file_size(folder / "set/client-3/memory.zst"), 3 * Stream::most_bytes / 2);
}

// A region of four frames, of which one changes while it is sent, one becomes zeros, and one is zeros all the time.
TEST_F(SentSetTest, WhatHasComeEarlyAndIsTheSameIsNotSentAgain) {
    Line line;
    Description received;
    Failure there;
    std::jthread destination([&] {
        SetWriter writer;
        there = writer.begin(folder / "set");
        if (!there) there = receive_set(*line.destination, writer, received);
        if (!there) there = line.destination->send(MoveWord::have);
    });
    std::string bytes;
    std::mt19937 random(7);
    for (int i = 0; i < 5; ++i) {
        std::string frame(frame_bytes, i == 3 ? 0 : 'a');
        for (std::size_t k = 0; i != 3 && k < frame.size(); ++k) frame[k] = static_cast<char>(random());
        bytes += i == 1 ? bytes : frame;  // two that are equal, and on their way at once
    }
    const File region(memfd_create("region", MFD_CLOEXEC));
    const auto put = [&] { ASSERT_EQ(pwrite(region.fd(), bytes.data(), bytes.size(), 0), ssize_t(bytes.size())); };
    put();
    std::atomic<bool> may_be_there{false};
    SetSender sender(*line.source, may_be_there);
    ASSERT_EQ(sender.send_early([&](FrameWriter& to) { return pack_file(region.fd(), bytes.size(), to); }).text(), "");
    bytes[4 * frame_bytes + 5] ^= 1;
    bytes.replace(frame_bytes, frame_bytes, frame_bytes, 0);
    put();
    Description d = example();
    d.clients.clear();
    std::uint64_t sent = 0;
    for (const std::string& name : d.names()) {
        SetPlace::Sink sink;
        ASSERT_EQ(sender.make(name, sink).text(), "");
        FrameWriter to(
            [&](std::span<const std::byte> piece) {
                sent += name == "region.zst" ? piece.size() : 0;
                return sink(piece);
            },
            sender.known(name));
        ASSERT_EQ(pack_file(region.fd(), bytes.size(), to).text(), "");
        ASSERT_EQ(to.finish().text(), "");
        ASSERT_EQ(sender.finish(name, to.written(), to.digest()).text(), "");
    }
    ASSERT_EQ(sender.commit(d).text(), "");
    destination.join();
    ASSERT_EQ(there.text(), "");
    SetReader reader;
    ASSERT_EQ(reader.open(folder / "set").text(), "");
    ASSERT_EQ(reader.verify().text(), "");
    EXPECT_GT(sent, frame_bytes / 2);
    EXPECT_LT(sent, 3 * frame_bytes / 2) << "of three frames with bytes one had changed";
    for (const char* const name : {"region.zst", "books.zst"}) {
        FrameReader frames;
        ASSERT_EQ(frames.open(reader.part(name).fd()).text(), "");
        std::string all(frames.bytes(), 1);
        for (std::size_t i = 0; i < frames.count(); ++i) {
            const auto into = std::as_writable_bytes(std::span(all)).subspan(frames.offset(i), frames.size(i));
            ASSERT_EQ(frames.read(i, into).text(), "");
        }
        EXPECT_TRUE(all == bytes) << name;
    }
}

TEST_F(SentSetTest, EarlyFramesThatAreDamagedOrComeInNoOrderAreRefused) {
    const std::uint32_t which = 1;
    const std::string second(reinterpret_cast<const char*>(&which), sizeof which);
    EXPECT_THAT(refusal(message(MoveWord::early, "frame", 1)), HasSubstr("in no order"));
    EXPECT_THAT(refusal(message(MoveWord::early, "frame", 0) + message(MoveWord::early, "frame", 2)),
                HasSubstr("in no order"));
    EXPECT_THAT(refusal(message(MoveWord::early, "frame", 0) + message(MoveWord::early_end, hash_of("other"))),
                HasSubstr("damaged"));
    EXPECT_THAT(refusal(message(MoveWord::again, second)), HasSubstr("no meaning"));
    EXPECT_THAT(refusal(message(MoveWord::early, "frame", 0) + message(MoveWord::part, "region.zst") +
                        message(MoveWord::again, second)),
                HasSubstr("has not come"));
}

TEST_F(SentSetTest, EarlyFramesTakeNoMoreRoomThanTheyMay) {
    struct Narrow : SetWriter {
        Failure aside(File& file, std::uint64_t& most) override {
            Failure failure = SetWriter::aside(file, most);
            most = 10;
            return failure;
        }
    };
    EXPECT_THAT(refusal<Narrow>(message(MoveWord::early, "ten bytes!") + message(MoveWord::early, ".", 1)),
                HasSubstr("`barcuda move --stop-and-copy` sends nothing before it"));
    EXPECT_THAT(refusal<Narrow>(message(MoveWord::early, "ten bytes!") + message(MoveWord::early_end, "")),
                HasSubstr("damaged"));
    std::string long_one;
    for (int i = 0; i < 3; ++i) long_one += message(MoveWord::early, std::string(Stream::most_bytes, 'x'));
    EXPECT_THAT(refusal(long_one), HasSubstr("longer than frames are"));
}

TEST_F(SentSetTest, OfEarlyFramesNothingStaysIfTheDestinationIsKilled) {
    struct Killed : SetWriter {
        Failure make(const std::string&, Sink&) override {
            raise(SIGKILL);
            return {};
        }
    };
    const pid_t killed = test::fork_child([this] {
        return refusal<Killed>(message(MoveWord::early, std::string(5000, 'x')) + message(MoveWord::part, "books.zst"))
            .empty();
    });
    int status = 0;
    ASSERT_EQ(waitpid(killed, &status, 0), killed);
    ASSERT_TRUE(WIFSIGNALED(status));
    for (const auto& left : fs::recursive_directory_iterator(folder)) EXPECT_TRUE(left.is_directory()) << left;
}

TEST_F(SentSetTest, IsWholeOrNotThereWhereverTheConnectionIsCut) {
    const std::string all = whole();
    ASSERT_EQ(refusal(all), "");
    for (std::size_t end = 0; end < all.size(); end += 29)
        ASSERT_THAT(refusal(all.substr(0, end)), HasSubstr("the connection has ended")) << end;
}

TEST_F(SentSetTest, InWhichABitHasChangedIsRefused) {
    const std::string all = whole();
    // A length that became larger waits for bytes that do not come, and hears that the connection has ended.
    for (std::size_t i = 0; i + 1 < all.size(); i += 23) {  // the last one is a newline
        std::string damaged = all;
        damaged[i] = static_cast<char>(damaged[i] ^ (1 << i % 8));
        // Space in the description has no meaning.
        if (i > all.size() - 1200 && isspace(all[i]) && isspace(damaged[i])) continue;
        ASSERT_NE(refusal(damaged), "") << i;
    }
}

TEST_F(SentSetTest, MessagesOutOfTheirOrderAreRefused) {
    const auto part = [](const std::string& name) { return message(MoveWord::part, name); };
    EXPECT_THAT(refusal(message(MoveWord::bytes, "bytes of no part")), HasSubstr("no meaning"));
    EXPECT_THAT(refusal(message(MoveWord::part_end, "")), HasSubstr("no meaning"));
    EXPECT_THAT(refusal(message(MoveWord::go, "")), HasSubstr("no meaning"));
    EXPECT_THAT(refusal(part("books.zst") + part("region.zst")), HasSubstr("no meaning"));
    EXPECT_THAT(refusal(part("books.zst") + message(MoveWord::part_end, hash_of("another's"))), HasSubstr("damaged"));
    EXPECT_THAT(refusal(part("books.zst") + message(MoveWord::description, "{}")), HasSubstr("has no end"));
    EXPECT_THAT(refusal(message(MoveWord::failed, "the source has no disk")), HasSubstr("the source has no disk"));
}

TEST_F(SentSetTest, NamesOfOtherFilesAreRefused) {
    for (const char* const name :
         {"", "set.json", "../books.zst", "/tmp/x", "client-3", "client-3/../../x", "client-999/births",
          "client-3/other", "client-03/births", "books.zst/births", "domain.xml"})
        EXPECT_THAT(refusal(message(MoveWord::part, name)), HasSubstr("is no part of a set")) << name;
    const std::string twice = message(MoveWord::part, "books.zst", 0) + message(MoveWord::part, "books.zst", 1);
    EXPECT_NE(refusal(twice), "");
}

TEST_F(SentSetTest, LengthsThatNoMessageHasAreRefused) {
    std::string head = message(MoveWord::bytes, "");
    const std::uint32_t bytes = Stream::most_bytes + 1;
    std::memcpy(head.data() + 8, &bytes, sizeof bytes);
    EXPECT_THAT(refusal(head), HasSubstr("does not speak"));
    EXPECT_THAT(refusal(message(static_cast<MoveWord>(16), "")), HasSubstr("does not speak"));
}

TEST(MoveOrderTest, ComesBackAndNothingElseIsTakenForOne) {
    MoveOrder same;
    for (const bool guest : {false, true}) {
        const MoveOrder order{std::string(32, 'a'), "vm1", "/dev/shm/barcuda-vm1", "boot 1 2 3", guest};
        ASSERT_EQ(MoveOrder::parse(order.text(), same).text(), "");
        EXPECT_EQ(same.text(), order.text());
        EXPECT_EQ(same.guest, guest);
    }
    EXPECT_THAT(MoveOrder::parse("", same).text(), HasSubstr("not the stream"));
    EXPECT_THAT(MoveOrder::parse("GET / HTTP/1.1\n", same).text(), HasSubstr("not the stream"));
    EXPECT_THAT(MoveOrder::parse("barcuda move 9\n", same).text(), HasSubstr("'barcuda move 9'"));
    for (const std::string id : {"no-id", "0123456789abcdef0123456789abcdef"})
        EXPECT_THAT(MoveOrder::parse("barcuda move 3\n" + id + "\nvm\nregion\nsource\nguests\n", same).text(),
                    HasSubstr("damaged"));
}

}  // namespace
}  // namespace barcuda
