// SPDX-License-Identifier: Apache-2.0
// The malloc family, from a program's side: in this executable malloc is the heap's. Blocks at and above 64 KiB come
// from the region once it is active; every promise of malloc(3) holds on both sides of that line and across it.
#include <dlfcn.h>
#include <errno.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/heap/support/unit_region.h"

using namespace barcuda::heap;
using namespace barcuda::heap::test;

namespace {

void* const before_us = malloc(200 * KiB);  // while the heap is not active yet

struct Malloc : testing::Test {
    void SetUp() override {
        ASSERT_TRUE(activate());
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
        GTEST_SKIP() << "malloc is the sanitizer's";
#endif
    }
    static bool ours(void* p) { return in_region(p, 1); }
    static bool holds(const void* p, unsigned char byte, std::size_t bytes) {
        const auto* at = static_cast<const unsigned char*>(p);
        for (std::size_t i = 0; i < bytes; ++i)
            if (at[i] != byte) return false;
        return true;
    }
};

// The compiler knows malloc and would leave out what it finds useless.
[[gnu::noinline]] std::size_t runtime(std::size_t n) {
    asm("" : "+r"(n));
    return n;
}

TEST_F(Malloc, BlocksBelowTheThresholdStayWhereTheyWere) {
    void* p = malloc(64 * KiB - 1);
    EXPECT_FALSE(ours(p));
    free(p);
}

TEST_F(Malloc, BlocksAtTheThresholdLieInTheRegion) {
    void* p = malloc(64 * KiB);
    EXPECT_TRUE(ours(p));
    free(p);
}

TEST_F(Malloc, WhatBeganBeforeTheHeapEndsWell) {
    EXPECT_FALSE(ours(before_us));
    memset(before_us, 1, 200 * KiB);
    void* p = realloc(before_us, 300 * KiB);
    EXPECT_TRUE(ours(p));
    EXPECT_TRUE(holds(p, 1, 200 * KiB));
    free(p);
}

TEST_F(Malloc, FreeingNullIsNothing) { free(nullptr); }

TEST_F(Malloc, FreeLeavesErrnoAlone) {
    void* p = malloc(1 * MiB);
    errno = 4711;
    free(p);
    EXPECT_EQ(errno, 4711);
}

TEST_F(Malloc, CallocGivesZerosAgainAndAgain) {
    for (int i = 0; i < 5; ++i) {
        void* p = calloc(1024, 1024);
        ASSERT_TRUE(ours(p));
        ASSERT_TRUE(holds(p, 0, 1 * MiB));
        memset(p, 0xff, 1 * MiB);
        free(p);
    }
}

TEST_F(Malloc, OverflowIsRefusedWithENOMEM) {
    errno = 0;
    EXPECT_EQ(calloc(runtime(SIZE_MAX / 2), 3), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    errno = 0;
    EXPECT_EQ(malloc(runtime(SIZE_MAX)), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    void* p = malloc(1 * MiB);
    // The compiler believes that a realloc which returns null has freed; it has not.
    volatile auto address = reinterpret_cast<std::uintptr_t>(p);
    const auto same = [&] { return reinterpret_cast<void*>(address); };
    EXPECT_EQ(reallocarray(same(), runtime(SIZE_MAX / 2), 3), nullptr);
    EXPECT_EQ(realloc(same(), runtime(SIZE_MAX - 100)), nullptr);
    memset(same(), 1, 1 * MiB);  // still there
    free(same());
    EXPECT_EQ(pvalloc(runtime(SIZE_MAX)), nullptr);
}

TEST_F(Malloc, ReallocKeepsTheContentsAcrossTheThresholdBothWays) {
    auto* p = static_cast<unsigned char*>(malloc(1000));
    memset(p, 7, 1000);
    std::size_t had = 1000;
    for (std::size_t bytes :
         {64 * KiB, 100 * KiB, 10 * MiB, 5 * MiB, 64 * KiB, 64 * KiB - 1, 10 * KiB, 40 * MiB, 1 * KiB}) {
        p = static_cast<unsigned char*>(realloc(p, bytes));
        ASSERT_EQ(ours(p), bytes >= 64 * KiB) << bytes;
        ASSERT_TRUE(holds(p, 7, std::min(had, bytes))) << bytes;
        memset(p, 7, had = bytes);
    }
    free(p);
}

TEST_F(Malloc, ReallocToZeroFreesAndOfNullAllocates) {
    EXPECT_EQ(realloc(malloc(1 * MiB), runtime(0)), nullptr);
    void* p = realloc(nullptr, 1 * MiB);
    EXPECT_TRUE(ours(p));
    free(p);
}

TEST_F(Malloc, ReallocOutOfAFullRegionKeepsTheContents) {
    auto* p = static_cast<unsigned char*>(malloc(1 * MiB));
    memset(p, 9, 1 * MiB);
    p = static_cast<unsigned char*>(realloc(p, extents_bytes + 1 * MiB));
    ASSERT_NE(p, nullptr);
    EXPECT_FALSE(ours(p));
    EXPECT_TRUE(holds(p, 9, 1 * MiB));
    p = static_cast<unsigned char*>(realloc(p, 1 * MiB));
    EXPECT_TRUE(ours(p));
    EXPECT_TRUE(holds(p, 9, 1 * MiB));
    free(p);
}

TEST_F(Malloc, EveryAlignmentToOneGibibyteIsKeptInTheRegionOrOutside) {
    for (std::size_t alignment = 16; alignment <= 1024 * MiB; alignment *= 2) {
        void* p = nullptr;
        ASSERT_EQ(posix_memalign(&p, alignment, 70 * KiB), 0);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % alignment, 0u) << alignment;
        memset(p, 1, 70 * KiB);
        free(p);
        p = aligned_alloc(alignment, 128 * KiB);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % alignment, 0u) << alignment;
        free(p);
        p = memalign(alignment, 100);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % alignment, 0u) << alignment;
        free(p);
    }
    void* p = valloc(100 * KiB);
    void* q = pvalloc(64 * KiB - 4095);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % 4096, 0u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(q) % 4096, 0u);
    EXPECT_TRUE(ours(q)) << "pvalloc rounds up, and so reaches the threshold";
    free(p);
    free(q);
}

TEST_F(Malloc, WrongAlignmentsAreRefusedAsLibcRefusesThem) {
    void* p = &p;
    EXPECT_EQ(posix_memalign(&p, 24, 1 * MiB), EINVAL);
    EXPECT_EQ(posix_memalign(&p, 4, 1 * MiB), EINVAL);
    EXPECT_EQ(posix_memalign(&p, 0, 1 * MiB), EINVAL);
    EXPECT_EQ(p, &p) << "untouched";
}

TEST_F(Malloc, TheUsableSizeIsUsable) {
    for (std::size_t bytes : {1 * KiB, 64 * KiB, 100001 * std::size_t{1}, 3 * MiB}) {
        void* p = malloc(bytes);
        const std::size_t usable = malloc_usable_size(p);
        EXPECT_GE(usable, bytes);
        memset(p, 1, usable);
        free(p);
    }
    EXPECT_EQ(malloc_usable_size(nullptr), 0u);
}

TEST_F(Malloc, NewAndDeleteComeAlong) {
    auto many = std::make_unique<std::vector<char>>(1 * MiB);
    EXPECT_TRUE(ours(many->data()));
    struct alignas(256) Wide {
        char bytes[128 * KiB];
    };
    auto* wide = new Wide[3];
    EXPECT_TRUE(ours(wide));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(wide) % 256, 0u);
    delete[] wide;
    std::string text(200 * KiB, 'x');
    EXPECT_TRUE(ours(text.data()));
}

TEST_F(Malloc, WhatLibcAllocatesIsFreedByFree) {
    const std::string text(300 * KiB, 'y');
    char* copy = strdup(text.c_str());
    EXPECT_EQ(text, copy);
    free(copy);
    char* line = nullptr;
    std::size_t room = 0;
    FILE* file = fmemopen(const_cast<char*>(text.data()), text.size(), "r");
    EXPECT_EQ(getline(&line, &room, file), static_cast<ssize_t>(text.size()));
    EXPECT_EQ(text, line);
    free(line);
    fclose(file);
}

TEST_F(Malloc, AnyThreadFreesWhatAnotherAllocatedAlsoAfterItsEnd) {
    std::vector<void*> blocks(64);
    for (int round = 0; round < 20; ++round) {
        std::vector<std::thread> threads;
        for (int t = 0; t < 4; ++t)
            threads.emplace_back([&, t] {
                for (int i = t * 16; i < t * 16 + 16; ++i) {
                    free(blocks[static_cast<std::size_t>(63 - i)]);
                    blocks[static_cast<std::size_t>(63 - i)] = nullptr;
                }
            });
        for (auto& thread : threads) thread.join();
        threads.clear();
        for (int t = 0; t < 4; ++t)
            threads.emplace_back([&, t] {
                for (int i = t * 16; i < t * 16 + 16; ++i)
                    blocks[static_cast<std::size_t>(i)] = malloc(static_cast<std::size_t>(i + 1) * 20 * KiB);
            });
        for (auto& thread : threads) thread.join();
    }
    for (void* p : blocks) free(p);
}

TEST_F(Malloc, ALibraryThatIsClosedLeavesItsBlocksInOrder) {
    void* library = dlopen("libz.so.1", RTLD_NOW);
    if (!library) GTEST_SKIP() << "no libz.so.1";
    const auto bound = reinterpret_cast<unsigned long (*)(unsigned long)>(dlsym(library, "compressBound"));
    void* p = malloc(bound(1 * MiB));
    dlclose(library);
    EXPECT_TRUE(ours(p));
    free(p);
}

TEST_F(Malloc, FreeOfAnAddressInsideABlockEndsTheProgramWithAMessage) {
    testing::FLAGS_gtest_death_test_style = "threadsafe";    // a forked child only forgets its parent's blocks
    char* volatile p = static_cast<char*>(malloc(1 * MiB));  // volatile: or a compiler sees that it is of no use
    EXPECT_DEATH(free(p + runtime(4096)), "free\\(\\) of an address that malloc did not return");
    free(p);
}

TEST_F(Malloc, FreeingTwiceEndsTheProgramWithAMessage) {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    EXPECT_DEATH(
        {
            void* p = malloc(1 * MiB);
            void* volatile q = p;
            free(p);
            free(q);
        },
        "or twice");
}

// Freed by a static destructor, after everything above, and after the heap's own end.
struct Late {
    void* p = nullptr;
    ~Late() {
        p = realloc(p, 3 * MiB);
        memset(p, 1, 3 * MiB);
        free(p);
    }
} late;

TEST_F(Malloc, StaticDestructorsAllocateAndFree) { late.p = malloc(1 * MiB); }

}  // namespace
