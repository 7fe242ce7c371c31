// The cache of freed blocks in front of glibc's malloc: it serves what glibc's would, checks what glibc's would, and is
// not there where glibc's is not.
#include "guest-allocator/heap/thread_cache.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <thread>
#include <vector>

#include "guest-allocator/heap/settings.h"
#include "tests/heap/support/unit_region.h"

using namespace barcuda::heap;

namespace {

// Through pointers, so that the compiler knows nothing of what is wrong here.
void* (*volatile get)(std::size_t) = malloc;
void (*volatile give)(void*) = free;

struct ThreadCache : testing::Test {
    void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
        GTEST_SKIP() << "malloc is the sanitizer's";
#endif
        testing::GTEST_FLAG(death_test_style) = "threadsafe";
        thread_cache::open();
        ASSERT_EQ(thread_cache::below, thread_cache::largest + 1);
        give(get(1));
        ASSERT_TRUE(thread_cache::mine);
    }
    // In a thread of its own, and so with an empty cache.
    template <class F> void alone(F body) {
        std::thread([&] {
            give(get(2000));
            free(get(24));
            body(*thread_cache::mine);
        }).join();
    }
};

TEST_F(ThreadCache, GivesBackTheBlocksOfASizeLastInFirstOut) {
    alone([](auto&) {
        for (std::size_t bytes : {0u, 1u, 24u, 25u, 40u, 41u, 100u, 1000u, 1032u}) {
            void* const a = get(bytes);
            void* const b = get(bytes);
            EXPECT_NE(a, b);
            EXPECT_GE(malloc_usable_size(a), bytes);
            give(a), give(b);
            EXPECT_EQ(get(bytes), b) << bytes;
            EXPECT_EQ(get(bytes), a) << bytes;
            give(a), give(b);
        }
    });
}

TEST_F(ThreadCache, KeepsSevenOfASizeAndNoneAbove1032Bytes) {
    alone([](thread_cache::Cache& cache) {
        std::vector<void*> blocks(10);
        for (void*& p : blocks) p = get(500);
        for (void* p : blocks) give(p);
        EXPECT_EQ(cache.room[(500 + 23) / 16], 0);
        for (std::size_t i = 7; i-- > 0;) EXPECT_EQ(get(500), blocks[i]);  // the rest is glibc's
        EXPECT_EQ(cache.room[(500 + 23) / 16], 7);
        for (std::size_t i = 0; i < 7; ++i) give(blocks[i]);
        const thread_cache::Cache before = cache;
        give(get(1033)), give(get(5000)), give(get(60000)), give(nullptr);
        EXPECT_EQ(memcmp(&before, &cache, sizeof cache), 0);
    });
}

TEST_F(ThreadCache, NeverGivesABlockTwice) {
    struct Kept {
        unsigned char* p;
        std::size_t bytes;
        unsigned char mark;
    };
    std::vector<std::thread> threads;
    std::atomic<unsigned> wrong{0};
    std::atomic<void*> passed[64]{};  // some are freed by another thread
    for (unsigned t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            std::mt19937 random(t);
            std::vector<Kept> kept(300, Kept{});
            for (unsigned i = 0; i < 300000; ++i) {
                Kept& k = kept[random() % kept.size()];
                for (std::size_t at = 0; at < k.bytes; ++at) wrong += k.p[at] != k.mark;
                switch (k.p ? random() % 8 : 7) {
                    case 0:
                        k.p = static_cast<unsigned char*>(realloc(k.p, k.bytes + 1)), k.p[k.bytes++] = k.mark;
                        continue;
                    case 1: give(passed[random() % 64].exchange(k.p)); break;
                    default: give(k.p);
                }
                k = {nullptr, random() % (random() % 16 ? 200 : 1200), static_cast<unsigned char>(random())};
                k.p = static_cast<unsigned char*>(random() % 8 ? get(k.bytes) : calloc(k.bytes, 1));
                if (k.p) memset(k.p, k.mark, k.bytes);
            }
            for (Kept& k : kept) give(k.p);
        });
    for (auto& thread : threads) thread.join();
    for (auto& p : passed) give(p);
    EXPECT_EQ(wrong, 0u);
}

TEST_F(ThreadCache, GivesItsBlocksBackWhenItsThreadEnds) {
    const auto rounds = [this](int n) {
        for (int i = 0; i < n; ++i)
            alone([](auto&) {
                void* blocks[200];
                for (std::size_t b = 0; b < 200; ++b) blocks[b] = get(b * 5);
                for (void* p : blocks) give(p);
            });
    };
    rounds(20);
    const std::size_t before = mallinfo2().uordblks;
    rounds(200);
    EXPECT_LT(mallinfo2().uordblks, before + 20000);  // a cache that stays would be 500 bytes, its blocks 100 KB
}

TEST_F(ThreadCache, ServesDestructorsThatRunAfterItsOwnEnd) {
    static pthread_key_t later;
    static int ran = 0;
    ASSERT_EQ(pthread_key_create(&later,
                                 [](void* p) {
                                     give(p);
                                     void* const q = get(100);
                                     memset(q, 1, 100);
                                     give(q);
                                     EXPECT_EQ(thread_cache::mine->room[(100 + 23) / 16], 0);
                                     if (++ran < 3) pthread_setspecific(later, get(200));
                                 }),
              0);
    alone([](auto&) { pthread_setspecific(later, get(300)); });
    EXPECT_EQ(ran, 3);
    pthread_key_delete(later);
}

TEST_F(ThreadCache, IsTheChildsOwnAfterAFork) {
    void* const p = get(64);
    give(p);
    const pid_t child = fork();
    if (!child) {
        void* const q = get(64);
        memset(q, 7, 64);
        give(q);
        _exit(q == p ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(get(64), p);
    give(p);
}

using ThreadCacheDeath = ThreadCache;

TEST_F(ThreadCacheDeath, ABlockThatIsFreedTwiceEndsTheProgram) {
    const auto twice = [] {
        void *const p = get(50), *const q = get(50);
        give(p), give(q), give(p);
    };
    EXPECT_DEATH(twice(), "free\\(\\): this block is free already: 0x");
}

TEST_F(ThreadCacheDeath, AlsoIfOneOfTheTwoWasGlibcs) {
    static void* blocks[8];
    const auto first_glibcs = [] {
        for (void*& p : blocks) p = get(50);
        for (void* p : blocks) give(p);  // the last one is glibc's
        (void)get(50);
        give(blocks[7]);
    };
    EXPECT_DEATH(first_glibcs(), "double free detected");
    const auto then_glibcs = [] {
        for (void*& p : blocks) p = get(50);
        for (void* p : blocks) give(p);
        give(blocks[0]);  // the cache is full: this would be glibc's
    };
    EXPECT_DEATH(then_glibcs(), "this block is free already");
}

TEST_F(ThreadCacheDeath, AWriteToAFreedBlockDoesNotSteerAMalloc) {
    const auto steer = [] {
        void *const p = get(50), *const q = get(50);
        give(p), give(q);
        *static_cast<std::uintptr_t*>(q) = reinterpret_cast<std::uintptr_t>(q) >> 12 ^ 0x1234567;
        (void)get(50), (void)get(50);
    };
    EXPECT_DEATH(steer(), "malloc\\(\\): the program has written to a block after freeing it");
}

TEST_F(ThreadCacheDeath, WhatIsNoBlockIsLeftToGlibcToRefuse) {
    alignas(16) static std::uint64_t words[20] = {0, 0x41, 0x41, 0x49};
    EXPECT_DEATH(give(words + 3), "free\\(\\): invalid pointer");  // where no block can begin
    EXPECT_DEATH(give(words + 4), "free\\(\\): invalid size");     // no chunk has this size
}

// In a process of its own: what is asked here is decided once.
bool passes_alone(const char* test, const std::string& environment) {
    const std::string self = std::filesystem::read_symlink("/proc/self/exe");
    const std::string command =
        environment + " '" + self + "' --gtest_also_run_disabled_tests --gtest_filter=Alone.DISABLED_" + test;
    return std::system((command + " > /dev/null").c_str()) == 0;
}
TEST(Alone, DISABLED_IsOff) {
    thread_cache::open();
    give(get(1));
    EXPECT_EQ(thread_cache::below, 0u);
    EXPECT_EQ(thread_cache::mine, nullptr);
}

TEST(Alone, DISABLED_FromTheThresholdUp) {
    settings.threshold = 100;
    thread_cache::open();
    EXPECT_EQ(thread_cache::below, 100u);
}

TEST_F(ThreadCache, EndsBelowTheThreshold) { EXPECT_TRUE(passes_alone("FromTheThresholdUp", "")); }

TEST_F(ThreadCache, IsNotThereWhereGlibcIsToldToKeepNone) {
    EXPECT_TRUE(passes_alone("IsOff", "GLIBC_TUNABLES=glibc.malloc.tcache_count=0"));
    EXPECT_FALSE(passes_alone("IsOff", "GLIBC_TUNABLES=glibc.malloc.tcache_count=7"));  // the program above can tell
}

TEST_F(ThreadCache, IsNotThereInFrontOfAnotherAllocator) {
    EXPECT_TRUE(passes_alone("IsOff", "LD_PRELOAD=libmimalloc.so.2"));
}

}  // namespace
