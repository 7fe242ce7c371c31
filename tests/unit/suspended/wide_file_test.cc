// SPDX-License-Identifier: Apache-2.0
// wide_file_test: a file into which several threads write at once has every byte in its place, mapped or not.
#include "host-bridge/suspended/wide_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <csignal>
#include <span>
#include <thread>
#include <vector>

#include "base/message.h"
#include "tests/unit/support/part_bytes.h"

namespace barcuda {
namespace {

using test::Bytes, test::MiB, test::contents, test::new_file, test::noise, test::random_bytes;

TEST(WideFileTest, AShortFrameStaysThoughALongOneInFrontOfItIsWrittenLater) {
    const File file = new_file();
    const Bytes front = random_bytes(70'000, 1), behind = random_bytes(1'000, 2);
    WideFile wide(file.fd());
    ASSERT_EQ(wide.write(front.size(), behind), 0);
    ASSERT_EQ(wide.write(0, front), 0);
    Bytes expected = front;
    expected.insert(expected.end(), behind.begin(), behind.end());
    EXPECT_TRUE(contents(file) == expected);
}

// On a disk nothing is mapped, and in memory long pieces are.
TEST(WideFileTest, SeveralThreadsWriteAtOnceWhereverTheFileIs) {
    const Bytes bytes = noise(4 * MiB + 123);
    for (const bool on_a_disk : {false, true}) {
        const File file = on_a_disk ? File(open("/var/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)) : new_file();
        if (!file) continue;  // a file system without unnamed files
        WideFile wide(file.fd());
        std::vector<std::jthread> threads;
        for (std::size_t thread = 0; thread < 4; ++thread)
            threads.emplace_back([&, thread] {
                constexpr std::size_t piece = 100'000;  // which ends inside a page
                for (std::size_t at = thread * piece; at < bytes.size(); at += 4 * piece)
                    EXPECT_EQ(wide.write(at, std::span(bytes).subspan(at, std::min(piece, bytes.size() - at))), 0);
            });
        threads.clear();
        EXPECT_TRUE(contents(file) == bytes) << on_a_disk;
    }
}

TEST(WideFileTest, AFileThatMayNotGrowIsAnErrorAndNoSignal) {
    signal(SIGXFSZ, SIG_IGN);
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    const rlimit small{MiB, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    const File file = new_file();
    WideFile wide(file.fd());
    EXPECT_EQ(wide.write(0, random_bytes(MiB)), 0);
    EXPECT_EQ(wide.write(MiB, random_bytes(MiB)), EFBIG);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
}

}  // namespace
}  // namespace barcuda
