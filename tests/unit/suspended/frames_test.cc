// SPDX-License-Identifier: Apache-2.0
// frames_test: compressed parts of a suspended VM: every byte comes back, holes stay holes, and damage is found.
#include "host-bridge/suspended/frames.h"

#include <gtest/gtest.h>
#include <zstd.h>

#include <algorithm>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/message.h"
#include "host-bridge/suspended/wide_file.h"
#include "tests/unit/support/part_bytes.h"

namespace barcuda {
namespace {

using test::Bytes, test::MiB, test::contents, test::new_file, test::noise, test::put, test::random_bytes;

Failure read_all(const FrameReader& reader, Bytes& all) {
    all.assign(reader.bytes(), std::byte{1});
    for (std::size_t i = 0; i < reader.count(); ++i)
        if (Failure failure = reader.read(i, std::span(all).subspan(reader.offset(i), reader.size(i)))) return failure;
    return {};
}

struct Packed {
    File file = new_file();
    FrameWriter writer{file.fd()};
};

TEST(FramesTest, EveryByteComesBack) {
    const Bytes bytes = random_bytes(5 * MiB + 123);
    Packed packed;
    for (std::size_t at = 0; at < bytes.size();) {  // pieces of all kinds
        const std::size_t n = std::min(bytes.size() - at, 1 + at % 700'001);
        ASSERT_FALSE(packed.writer.add(std::span(bytes).subspan(at, n)));
        at += n;
    }
    ASSERT_FALSE(packed.writer.finish());
    EXPECT_EQ(packed.writer.bytes(), bytes.size());
    EXPECT_EQ(contents(packed.file).size(), packed.writer.written());
    Digest digest;
    digest.add(contents(packed.file));
    EXPECT_EQ(digest.text(), packed.writer.digest().text());
    FrameReader reader;
    ASSERT_EQ(reader.open(packed.file.fd()).text(), "");
    EXPECT_EQ(reader.count(), 3U);
    Bytes back;
    ASSERT_EQ(read_all(reader, back).text(), "");
    EXPECT_EQ(back, bytes);
}

TEST(FramesTest, EachFrameComesInItsOrderFromSeveralThreads) {
    const Bytes bytes = random_bytes(20 * MiB + 5);
    Packed packed;
    ASSERT_FALSE(packed.writer.add(bytes));
    ASSERT_FALSE(packed.writer.finish());
    FrameReader reader;
    ASSERT_EQ(reader.open(packed.file.fd()).text(), "");
    Bytes back;
    const auto take = [&](std::span<const std::byte> frame) {
        back.insert(back.end(), frame.begin(), frame.end());
        return Failure();
    };
    ASSERT_EQ(each_frame(reader, take).text(), "");
    EXPECT_EQ(back, bytes);
    int times = 0;
    const auto full = [&](auto) { return ++times == 3 ? Failure("full") : Failure(); };
    EXPECT_EQ(each_frame(reader, full).text(), "full");
    EXPECT_EQ(times, 3);
}

TEST(FramesTest, AnyDecompressorReadsIt) {
    const Bytes bytes = random_bytes(3 * MiB);
    Packed packed;
    ASSERT_FALSE(packed.writer.add(bytes));
    ASSERT_FALSE(packed.writer.add_zeros(4 * MiB + 5));
    ASSERT_FALSE(packed.writer.finish());
    const Bytes file = contents(packed.file);
    Bytes back(8 * MiB);
    const std::size_t n = ZSTD_decompress(back.data(), back.size(), file.data(), file.size());
    ASSERT_EQ(n, 7 * MiB + 5) << ZSTD_getErrorName(n);
    back.resize(n);
    Bytes expected = bytes;
    expected.resize(n);
    EXPECT_EQ(back, expected);
}

TEST(FramesTest, WhatHardlyCompressesIsThereAsItIsForAnyDecompressor) {
    Bytes bytes = noise(5 * MiB + 77);
    std::fill_n(bytes.begin(), 256 << 10, std::byte{3});  // an eighth of the first frame
    Packed packed;
    ASSERT_FALSE(packed.writer.add(bytes));
    ASSERT_FALSE(packed.writer.finish());
    const Bytes file = contents(packed.file);
    EXPECT_GT(file.size(), bytes.size());
    EXPECT_LT(file.size(), bytes.size() + 500);
    Bytes back(6 * MiB);
    const std::size_t n = ZSTD_decompress(back.data(), back.size(), file.data(), file.size());
    ASSERT_EQ(n, bytes.size()) << ZSTD_getErrorName(n);
    back.resize(n);
    EXPECT_EQ(back, bytes);
    FrameReader reader;
    ASSERT_EQ(reader.open(packed.file.fd()).text(), "");
    ASSERT_EQ(read_all(reader, back).text(), "");
    EXPECT_EQ(back, bytes);
    for (const std::size_t at :
         {std::size_t{4}, std::size_t{8}, std::size_t{10}, std::size_t{12}, 2 * MiB, 2 * MiB + 60}) {
        Bytes damaged = file;
        damaged[at] ^= std::byte{1};
        const File other = new_file();
        put(other, damaged);
        ASSERT_EQ(reader.open(other.fd()).text(), "");
        EXPECT_TRUE(read_all(reader, back) || back == bytes) << "byte " << at;
    }
}

TEST(FramesTest, PartsThatAreWrittenAtOnceShareTheThreads) {
    const auto crew = std::make_shared<Crew>(3);
    constexpr int parts = 3;
    File files[parts];
    std::vector<std::jthread> threads;
    for (int i = 0; i < parts; ++i) {
        files[i] = new_file();
        threads.emplace_back([&, i] {
            WideFile file(files[i].fd());
            FrameWriter writer(
                {}, {},
                [&](std::uint64_t at, std::span<const std::byte> bytes) {
                    const int error = file.write(at, bytes);
                    return error ? Failure("it cannot be written") : Failure();
                },
                crew);
            EXPECT_EQ(writer.add(noise(5 * MiB + 5, i)).text(), "");
            EXPECT_EQ(writer.add_zeros(4 * MiB).text(), "");
            EXPECT_EQ(writer.add(random_bytes(MiB, i)).text(), "");
            EXPECT_EQ(writer.finish().text(), "");
            EXPECT_EQ(contents(files[i]).size(), writer.written());
            Digest digest;
            digest.add(contents(files[i]));
            EXPECT_EQ(digest.text(), writer.digest().text());
        });
    }
    threads.clear();
    for (int i = 0; i < parts; ++i) {
        Bytes expected = noise(5 * MiB + 5, i), back;
        expected.resize(expected.size() + 4 * MiB);
        const Bytes last = random_bytes(MiB, i);
        expected.insert(expected.end(), last.begin(), last.end());
        FrameReader reader;
        ASSERT_EQ(reader.open(files[i].fd()).text(), "");
        ASSERT_EQ(read_all(reader, back).text(), "");
        EXPECT_TRUE(back == expected);
    }
}

TEST(FramesTest, WhatFailsInAnyThreadEndsTheWriter) {
    int written = 0;
    FrameWriter in_order([&](auto) { return ++written == 3 ? Failure("the disk is full") : Failure(); });
    const Bytes bytes = noise(4 * MiB);
    Failure failure;
    for (int i = 0; i < 100 && !failure; ++i) failure = in_order.add(bytes);
    EXPECT_EQ(failure.text(), "the disk is full");
    EXPECT_EQ(in_order.finish().text(), "the disk is full");
    EXPECT_EQ(written, 3);
    FrameWriter other([](auto) { return Failure(); });
    int released = 0;
    const FrameWriter::Source source{.get = [](auto, auto&) { return Failure("it is not read"); },
                                     .release = [&] { ++released; }};
    ASSERT_EQ(other.add_frame(MiB, source).text(), "");
    EXPECT_EQ(other.finish().text(), "it is not read");
    EXPECT_EQ(released, 1);
}

// What is thrown in a thread would end the process.
TEST(FramesTest, WhatIsThrownInAnyThreadEndsTheWriterAlone) {
    const Bytes bytes = noise(4 * MiB);
    const auto nothing = [](auto) { return Failure(); };
    const auto full = [](auto...) -> Failure { throw std::runtime_error("the disk is full"); };
    const auto no_memory = [](std::size_t, auto) -> std::uint32_t { throw std::bad_alloc(); };
    const auto ends = [&](FrameWriter& writer) {
        Failure failure;
        for (int i = 0; i < 100 && !failure; ++i) failure = writer.add(bytes);
        EXPECT_EQ(writer.finish().text(), failure.text());
        return failure.text();
    };
    FrameWriter in_order(full), in_any_order({}, {}, full), with_known(nothing, {.has = no_memory, .again = {}});
    EXPECT_EQ(ends(in_order), "the disk is full");
    EXPECT_EQ(ends(in_any_order), "the disk is full");
    EXPECT_EQ(ends(with_known), "no memory");
    FrameWriter other(nothing);
    int released = 0;
    const FrameWriter::Source source{.get = [](auto, auto&) -> Failure { throw std::bad_alloc(); },
                                     .release = [&] { ++released; }};
    ASSERT_EQ(other.add_frame(MiB, source).text(), "");
    EXPECT_EQ(other.finish().text(), "no memory");
    EXPECT_EQ(released, 1);
    FrameWriter releases(nothing);
    const auto get = [&](auto, auto& its) {
        its = std::span(bytes).first(MiB);
        return Failure();
    };
    ASSERT_EQ(releases.add_frame(MiB, {.get = get, .release = [] { throw 1; }}).text(), "");
    EXPECT_EQ(releases.finish().text(), "unknown");
}

TEST(FramesTest, WhatAReaderOfFramesThrowsIsItsFailure) {
    Packed packed;
    ASSERT_FALSE(packed.writer.add(noise(5 * MiB)));
    ASSERT_FALSE(packed.writer.finish());
    FrameReader reader;
    ASSERT_EQ(reader.open(packed.file.fd()).text(), "");
    EXPECT_EQ(each_frame(reader, [](auto) -> Failure { throw std::bad_alloc(); }).text(), "no memory");
    EXPECT_EQ(in_threads(9, 3,
                         [](std::size_t i) -> Failure {
                             if (i == 5) throw std::runtime_error("5");
                             return {};
                         })
                  .text(),
              "5");
}

TEST(FramesTest, WithoutAThreadOfItsOwnACrewDoesTheWorkAtOnce) {
    const auto crew = std::make_shared<Crew>(0);
    const Bytes bytes = random_bytes(9 * MiB);
    const File file = new_file();
    FrameWriter writer(
        {}, {},
        [&](std::uint64_t at, std::span<const std::byte> piece) {
            put(file, piece, at);
            return Failure();
        },
        crew);
    ASSERT_EQ(writer.add(bytes).text(), "");
    ASSERT_EQ(writer.finish().text(), "");
    FrameReader reader;
    Bytes back;
    ASSERT_EQ(reader.open(file.fd()).text(), "");
    ASSERT_EQ(read_all(reader, back).text(), "");
    EXPECT_TRUE(back == bytes);
}

TEST(FramesTest, ADigestOfChunksIsThatOfTheirBytes) {
    const Bytes bytes = noise(2 * Digest::chunk + 5);
    Digest one, other;
    one.add(bytes);
    for (std::size_t at = 0; at < bytes.size(); at += Digest::chunk)
        other.add_chunk(Digest::of_chunk(std::span(bytes).subspan(at, std::min(Digest::chunk, bytes.size() - at))));
    EXPECT_EQ(one.text(), other.text());
    Digest less;
    less.add(std::span(bytes).first(2 * Digest::chunk));
    EXPECT_NE(one.text(), less.text());
}

TEST(FramesTest, ZerosBetweenBytesAreInTheirPlace) {
    Packed packed;
    Bytes expected;
    for (const std::size_t zeros : {std::size_t{0}, std::size_t{1}, 2 * MiB - 1, 2 * MiB, 7 * MiB + 9}) {
        const Bytes bytes = random_bytes(1000 + zeros % 10);
        ASSERT_FALSE(packed.writer.add(bytes));
        ASSERT_FALSE(packed.writer.add_zeros(zeros));
        expected.insert(expected.end(), bytes.begin(), bytes.end());
        expected.resize(expected.size() + zeros);
    }
    ASSERT_FALSE(packed.writer.finish());
    FrameReader reader;
    ASSERT_EQ(reader.open(packed.file.fd()).text(), "");
    Bytes back;
    ASSERT_EQ(read_all(reader, back).text(), "");
    EXPECT_EQ(back, expected);
}

TEST(FramesTest, NothingIsAPartToo) {
    Packed packed;
    ASSERT_FALSE(packed.writer.finish());
    FrameReader reader;
    ASSERT_EQ(reader.open(packed.file.fd()).text(), "");
    EXPECT_EQ(reader.bytes(), 0U);
}

TEST(FramesTest, NoBytesAreReadThatDifferAfterABitHasChangedOrTheFileWasCut) {
    const Bytes bytes = random_bytes(600);
    Packed packed;
    ASSERT_FALSE(packed.writer.add(bytes));
    ASSERT_FALSE(packed.writer.finish());
    const Bytes whole = contents(packed.file);
    const auto reads_other = [&](const Bytes& damaged) {
        const File file = new_file();
        put(file, damaged);
        FrameReader reader;
        Bytes back;
        return !reader.open(file.fd()) && !read_all(reader, back) && back != bytes;
    };
    for (std::size_t i = 0; i < whole.size(); ++i) {
        Bytes damaged = whole;
        damaged[i] ^= std::byte{1} << (i % 8);
        EXPECT_FALSE(reads_other(damaged)) << "byte " << i;
        damaged.resize(i);
        EXPECT_FALSE(reads_other(damaged)) << "cut to " << i;
    }
}

}  // namespace
}  // namespace barcuda
