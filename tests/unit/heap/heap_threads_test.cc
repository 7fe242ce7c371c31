// SPDX-License-Identifier: Apache-2.0
// Many threads and a small region: 256 MiB, of which 224 are extents.
#include <gtest/gtest.h>
#include <string.h>

#include <atomic>
#include <barrier>
#include <random>
#include <thread>
#include <vector>

#include "guest-allocator/heap/core.h"
#include "guest-allocator/heap/pages.h"
#include "shm-device/queue/wire.h"
#include "tests/heap/support/memfd_source.h"

namespace barcuda::heap {
namespace {
test::MemfdSource* source = nullptr;
}
ExtentSource* connect() noexcept { return source = test::MemfdSource::open(std::size_t{256} << 20); }
}  // namespace barcuda::heap

using namespace barcuda::heap;

namespace {

constexpr std::size_t KiB = 1 << 10, MiB = 1 << 20;

template <class F> void threads(unsigned count, F body) {
    std::vector<std::thread> all;
    std::barrier start(count);
    for (unsigned t = 0; t < count; ++t)
        all.emplace_back([&, t] {
            start.arrive_and_wait();
            body(t);
        });
    for (auto& thread : all) thread.join();
}

struct Threads : testing::Test {
    void SetUp() override { ASSERT_TRUE(activate()); }
    void TearDown() override {
        trim(true);
        EXPECT_EQ(source->granted(), 0u);
    }
};

TEST_F(Threads, SixtyFourThatHoldOneMebibyteEachFitIntoARegionOf256) {
    std::vector<void*> blocks(64);
    threads(64, [&](unsigned t) {
        blocks[t] = region_alloc(1 * MiB, 16, false);
        if (blocks[t]) memset(blocks[t], static_cast<int>(t), 1 * MiB);
    });
    for (unsigned t = 0; t < 64; ++t) {
        ASSERT_NE(blocks[t], nullptr);
        EXPECT_EQ(static_cast<unsigned char*>(blocks[t])[1 * MiB - 1], t);
        region_free(blocks[t]);
    }
}

TEST_F(Threads, ThatNeedTheFirstExtentAtOnceGetItOnce) {
    for (int round = 0; round < 50; ++round) {
        std::vector<void*> blocks(8);
        threads(8, [&](unsigned t) { blocks[t] = region_alloc(100 * KiB, 16, false); });
        EXPECT_EQ(source->granted(), barcuda::wire::first_extent);
        for (void* p : blocks) region_free(p);
        trim(true);
    }
}

TEST_F(Threads, NeverGetTheSamePageTwiceWhileTheRegionFillsEmptiesAndIsTrimmed) {
    std::atomic<unsigned> refused{0}, wrong{0};
    threads(6, [&](unsigned t) {
        std::mt19937 random(t);
        struct Block {
            std::uint32_t* p;
            std::size_t bytes;
            std::uint32_t mark;
            bool pinned;
        };
        std::vector<Block> blocks;
        for (std::uint32_t i = 0; i < 3000; ++i) {
            if (random() % 3 && blocks.size() < 40) {
                const bool pinned = random() % 2;
                const std::size_t bytes = pinned ? 4 * KiB + random() % (4 * MiB) : 64 * KiB + random() % (6 * MiB);
                auto* p = static_cast<std::uint32_t*>(pinned ? pinned_alloc(bytes, i) : region_alloc(bytes, 16, false));
                if (!p) {
                    ++refused;
                    continue;
                }
                const std::uint32_t mark = t << 24 | i;
                for (std::size_t at = 0; at + 4 <= bytes; at += 4096) p[at / 4] = mark;
                blocks.push_back({p, bytes, mark, pinned});
            } else if (!blocks.empty()) {
                std::swap(blocks[random() % blocks.size()], blocks.back());
                const Block b = blocks.back();
                blocks.pop_back();
                for (std::size_t at = 0; at + 4 <= b.bytes; at += 4096) wrong += b.p[at / 4] != b.mark;
                if (b.pinned) wrong += !pinned_free(b.p);
                else region_free(b.p);
            }
            if (i % 500 == 499) trim(true);
        }
        for (const Block& b : blocks) b.pinned ? static_cast<void>(pinned_free(b.p)) : region_free(b.p);
    });
    EXPECT_EQ(wrong, 0u);
    EXPECT_GT(refused, 0u) << "the region was never full: this test has lost its point";
}

TEST_F(Threads, LeaveRoomThatAllOfThemCanUseWithWhatTheyHaveGivenBack) {
    // Two extents with 28 and 6 MiB to spare, and blocks that keep both in use.
    void *most = region_alloc(100 * MiB, 16, false), *rest = region_alloc(90 * MiB, 16, false);
    std::barrier taken(8), given(9), looked(9);
    std::vector<std::thread> all;
    for (unsigned t = 0; t < 8; ++t)
        all.emplace_back([&] {
            void* p = region_alloc(3 * MiB, 16, false);
            taken.arrive_and_wait();
            region_free(p);
            given.arrive_and_wait();
            looked.arrive_and_wait();  // they live: nothing is given up because a thread ends
        });
    given.arrive_and_wait();
    void* p = region_alloc(27 * MiB, 16, false);
    EXPECT_NE(p, nullptr);
    looked.arrive_and_wait();
    for (auto& thread : all) thread.join();
    region_free(p);
    region_free(rest);
    region_free(most);
}

TEST_F(Threads, ThatFreeTheSameBlockAtOnceAreNotBothBelieved) {
    for (int round = 0; round < 300; ++round) {
        void* p = pinned_alloc(64 * KiB, 0);
        std::atomic<int> believed{0}, here{0};
        threads(2, [&](unsigned) {
            for (++here; here < 2;) {}
            believed += pinned_free(p);
        });
        ASSERT_EQ(believed, 1);
    }
}

TEST_F(Threads, AskAboutBlocksThatOthersTakeAndGive) {
    void* mine = pinned_alloc(300 * KiB, 5);
    std::atomic<bool> stop{false};
    std::thread other([&] {
        while (!stop) pinned_free(pinned_alloc(100 * KiB, 1));
    });
    for (int i = 0; i < 20000; ++i) {
        const Found found = find(static_cast<char*>(mine) + 200 * KiB);
        ASSERT_EQ(found.base, mine);
        ASSERT_EQ(found.flags, 5u);
    }
    stop = true;
    other.join();
    pinned_free(mine);
}

}  // namespace
