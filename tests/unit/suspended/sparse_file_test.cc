// SPDX-License-Identifier: Apache-2.0
// sparse_file_test: a file with holes that becomes frames, and back: every byte is there again, and so are the holes.
#include "host-bridge/suspended/sparse_file.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

#include "base/message.h"
#include "tests/unit/support/part_bytes.h"

namespace barcuda {
namespace {

using test::Bytes, test::MiB, test::contents, test::new_file, test::put, test::random_bytes;

struct Packed {
    File file = new_file();
    FrameWriter writer{file.fd()};
};

TEST(SparseFileTest, OfAFileWithHolesOnlyWhatWasWrittenIsThereAgain) {
    const File from = new_file(), to = new_file();
    constexpr std::size_t size = 64 * MiB;
    ASSERT_EQ(ftruncate(from.fd(), size), 0);
    ASSERT_EQ(ftruncate(to.fd(), size), 0);
    put(from, random_bytes(5000), 9 * MiB + 4096);
    put(from, random_bytes(10, 2), size - 10);
    Packed packed;
    ASSERT_EQ(pack_file(from.fd(), size, packed.writer).text(), "");
    ASSERT_FALSE(packed.writer.finish());
    EXPECT_EQ(packed.writer.bytes(), size);
    EXPECT_LT(packed.writer.written(), 20'000U);
    FrameReader reader;
    ASSERT_EQ(reader.open(packed.file.fd()).text(), "");
    ASSERT_EQ(unpack_file(reader, to.fd()).text(), "");
    EXPECT_TRUE(contents(to) == contents(from));
    struct stat st {};
    ASSERT_EQ(fstat(to.fd(), &st), 0);
    EXPECT_LE(st.st_blocks, 3 * 8);  // of 512 bytes: three pages
}

TEST(SparseFileTest, AMappedFileIsFilledInPlace) {
    const File file = new_file();
    const Bytes bytes = random_bytes(4 * MiB);
    put(file, bytes);
    Packed packed;
    ASSERT_EQ(pack_file(file.fd(), bytes.size(), packed.writer).text(), "");
    ASSERT_FALSE(packed.writer.finish());
    auto* const at =
        static_cast<std::byte*>(mmap(nullptr, bytes.size(), PROT_READ | PROT_WRITE, MAP_SHARED, file.fd(), 0));
    ASSERT_NE(at, MAP_FAILED);
    std::fill_n(at, bytes.size(), std::byte{0xee});
    FrameReader reader;
    ASSERT_EQ(reader.open(packed.file.fd()).text(), "");
    ASSERT_EQ(unpack_file(reader, file.fd()).text(), "");
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), at));
    munmap(at, bytes.size());
}

TEST(SparseFileTest, WhoeverGivesUpIsAskedBeforeEachFrame) {
    const File from = new_file();
    put(from, random_bytes(8 * MiB));  // four frames
    Packed packed;
    int asked = 0;
    const auto goes_on = [&] { return ++asked == 3 ? Failure("given up") : Failure(); };
    EXPECT_EQ(pack_file(from.fd(), 8 * MiB, packed.writer, goes_on).text(), "given up");
    EXPECT_EQ(asked, 3);
    EXPECT_EQ(packed.writer.bytes(), 4 * MiB);
}

// Frames of zeros replace bytes that the file had: they become holes.
TEST(SparseFileTest, WhereTheFileHadBytesZerosBecomeHolesAgain) {
    const File from = new_file(), to = new_file();
    constexpr std::size_t size = 6 * MiB;
    ASSERT_EQ(ftruncate(from.fd(), size), 0);
    const Bytes bytes = random_bytes(5000);
    put(from, bytes, 3 * MiB);
    put(to, random_bytes(size));
    Packed packed;
    ASSERT_EQ(pack_file(from.fd(), size, packed.writer).text(), "");
    ASSERT_FALSE(packed.writer.finish());
    FrameReader reader;
    ASSERT_EQ(reader.open(packed.file.fd()).text(), "");
    ASSERT_EQ(unpack_file(reader, to.fd()).text(), "");
    EXPECT_TRUE(contents(to) == contents(from));
    struct stat st {};
    ASSERT_EQ(fstat(to.fd(), &st), 0);
    EXPECT_LE(st.st_blocks, 2 * 8);
}

}  // namespace
}  // namespace barcuda
