// SPDX-License-Identifier: Apache-2.0
// What a fork promises: a child sees the heap as it was, and from then on neither sees the other.
#include <gtest/gtest.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "guest-allocator/heap/registered.h"
#include "guest-allocator/heap/sanitized.h"
#include "tests/heap/support/unit_region.h"

using namespace barcuda::heap;
using namespace barcuda::heap::test;

namespace {

bool holds(const void* p, unsigned char byte, std::size_t bytes) {
    const auto* at = static_cast<const unsigned char*>(p);
    return at[0] == byte && !memcmp(at, at + 1, bytes - 1);
}

struct Fork : testing::Test {
    void SetUp() override { ASSERT_TRUE(activate()); }

    // Runs `body` in a child; true if it returned true there.
    template <class F> static bool in_child(F body) {
        const pid_t pid = fork();
        if (!pid) _exit(body() ? 0 : 1);
        int status = -1;
        return waitpid(pid, &status, 0) == pid && status == 0;
    }
};

TEST_F(Fork, TheChildSeesWhatStoodInTheHeap) {
    auto* a = static_cast<unsigned char*>(region_alloc(5 * MiB, 16, false));
    auto* b = static_cast<unsigned char*>(pinned_alloc(100 * KiB, 0));
    memset(a, 1, 5 * MiB);
    memset(b, 2, 100 * KiB);
    EXPECT_TRUE(in_child([&] { return holds(a, 1, 5 * MiB) && holds(b, 2, 100 * KiB); }));
    region_free(a);
    pinned_free(b);
}

TEST_F(Fork, NeitherSeesWhatTheOtherWritesLater) {
    auto* p = static_cast<volatile unsigned char*>(region_alloc(1 * MiB, 16, true));
    auto* word =
        static_cast<std::atomic<int>*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    const pid_t pid = fork();
    if (!pid) {
        p[1] = 7;
        *word = 1;
        while (*word != 2) usleep(100);
        _exit(p[0] == 0 && p[1] == 7 ? 0 : 1);
    }
    while (*word != 1) usleep(100);
    EXPECT_EQ(p[1], 0);
    p[0] = 9;
    *word = 2;
    int status = -1;
    waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
    region_free(const_cast<unsigned char*>(p));
    munmap(word, 4096);
}

TEST_F(Fork, TheChildFreesAndResizesItsParentsBlocksAndTheParentKeepsThem) {
    auto* p = static_cast<unsigned char*>(malloc(2 * MiB));
    auto* q = static_cast<unsigned char*>(malloc(3 * MiB));
    memset(p, 3, 2 * MiB);
    memset(q, 4, 3 * MiB);
    EXPECT_TRUE(in_child([&] {
        free(p);
        q = static_cast<unsigned char*>(realloc(q, 8 * MiB));
        if (in_region(q, 1) || !holds(q, 4, 3 * MiB)) return false;
        void* fresh = malloc(1 * MiB);
        const bool ordinary = !in_region(fresh, 1);
        free(fresh);
        free(q);
        return ordinary;
    }));
    EXPECT_TRUE(holds(p, 3, 2 * MiB));
    EXPECT_TRUE(holds(q, 4, 3 * MiB));
    free(p);
    free(q);
}

TEST_F(Fork, PinnedMemoryOfTheParentIsOrdinaryMemoryToTheChild) {
    void* p = pinned_alloc(1 * MiB, 0);
    EXPECT_TRUE(in_child([&] {
        return find(p).kind == Kind::outside && kind_of(p, 1) == Kind::outside && inherited(p, 1 * MiB) &&
               !reach(p, 1 * MiB) && !pinned_free(p);
    }));
    EXPECT_TRUE(in_child([&] {
        return register_host(p, 1 * MiB, 0) == Registration::done && find(p).kind == Kind::registered &&
               !find(p).device && !reach(p, 1 * MiB) && unregister_host(p) == Registration::done;
    }));
    EXPECT_EQ(reach(p, 1 * MiB), p);
    EXPECT_EQ(kind_of(p, 1), Kind::pinned);
    pinned_free(p);
}

TEST_F(Fork, RegistrationsAreTheParentsAlone) {
    static char memory[100];
    ASSERT_EQ(register_host(memory, 100, 0), Registration::done);
    EXPECT_TRUE(in_child([] { return unregister_host(memory) == Registration::not_registered; }));
    EXPECT_EQ(unregister_host(memory), Registration::done);
}

TEST_F(Fork, ForksOfForksAreSnapshotsOfTheirOwnParents) {
    auto* p = static_cast<unsigned char*>(malloc(1 * MiB));
    memset(p, 1, 1 * MiB);
    EXPECT_TRUE(in_child([&] {
        memset(p, 2, 1 * MiB);
        const bool below = in_child([&] {
            const bool same = holds(p, 2, 1 * MiB);
            memset(p, 3, 1 * MiB);
            return same && in_child([&] { return holds(p, 3, 1 * MiB); });
        });
        return below && holds(p, 2, 1 * MiB);
    }));
    EXPECT_TRUE(holds(p, 1, 1 * MiB));
    free(p);
}

TEST_F(Fork, AChildOutlivesItsParent) {
    int pipe_[2];
    ASSERT_EQ(pipe(pipe_), 0);
    auto* p = static_cast<unsigned char*>(malloc(4 * MiB));
    memset(p, 5, 4 * MiB);
    const pid_t parent = fork();
    if (!parent) {
        if (fork()) _exit(0);
        usleep(20000);  // by then the parent has ended
        const char answer = holds(p, 5, 4 * MiB) ? 'y' : 'n';
        _exit(write(pipe_[1], &answer, 1) != 1);
    }
    waitpid(parent, nullptr, 0);
    char answer = 0;
    EXPECT_EQ(read(pipe_[0], &answer, 1), 1);
    EXPECT_EQ(answer, 'y');
    close(pipe_[0]);
    close(pipe_[1]);
    free(p);
}

// By the heap's own functions: where there is a sanitizer, malloc is the sanitizer's.
TEST_F(Fork, OtherThreadsAllocateWriteAndFreeWhileThisOneForks) {
    std::atomic<bool> stop{false}, wrong{false};
    std::vector<std::thread> threads;
    auto* still = static_cast<unsigned char*>(region_alloc(1 * MiB, 16, false));
    memset(still, 6, 1 * MiB);
    for (int t = 0; t < 3; ++t)
        threads.emplace_back([&, t] {
            for (unsigned i = 0; !stop; ++i) {
                const std::size_t bytes = 64 * KiB + i % 7 * 100 * KiB;
                auto* p = static_cast<unsigned char*>(region_alloc(bytes, 16, false));
                memset(p, t + 1, bytes);
                if (!holds(p, static_cast<unsigned char>(t + 1), bytes)) wrong = true;
                region_free(p);
            }
        });
    for (int i = 0; i < 30; ++i)
        EXPECT_TRUE(in_child([&] {
#ifndef __SANITIZE_ADDRESS__  // its locks stay in a child as other threads held them, before LLVM 17
            free(malloc(1 * MiB));
#endif
            return holds(still, 6, 1 * MiB);
        }));
    stop = true;
    for (auto& thread : threads) thread.join();
    EXPECT_FALSE(wrong) << "a child wrote into its parent's heap";
    region_free(still);
}

TEST_F(Fork, WhatAnotherThreadFreesMeanwhileIsNotUsedAgainBeforeTheChildHasIt) {
#if BARCUDA_SANITIZED
    GTEST_SKIP() << "malloc is the sanitizer's";
#endif
    constexpr std::size_t bytes = 2 * MiB, before = 48 * MiB;
    void* long_to_copy = malloc(before);
    memset(long_to_copy, 1, before);
    enum { right, late, wrong };
    int children[3] = {};
    std::atomic<unsigned char*> shown{nullptr};
    std::atomic<bool> stop{false};
    std::thread other([&] {
        while (!stop) {
            auto* p = static_cast<unsigned char*>(malloc(bytes));
            memset(p, 7, bytes);
            shown = p;
            usleep(2000);
            shown = nullptr;
            free(p);
            auto* again = static_cast<unsigned char*>(malloc(bytes));
            memset(again, 9, bytes);
            usleep(30000);  // longer than the copy takes
            free(again);
        }
    });
    for (int i = 0; i < 20; ++i) {
        while (!shown) {}
        const pid_t pid = fork();
        if (!pid) {
            const unsigned char* p = shown;
            _exit(!p ? late : holds(p, 7, bytes) ? right : wrong);
        }
        int status = 0;
        ASSERT_EQ(waitpid(pid, &status, 0), pid);
        ASSERT_LE(WEXITSTATUS(status), wrong);
        ++children[WEXITSTATUS(status)];
    }
    stop = true;
    other.join();
    EXPECT_EQ(children[wrong], 0);
    EXPECT_GT(children[right], 0) << "no child was forked while the block was shown: this test has lost its point";
    free(long_to_copy);
}

TEST_F(Fork, SeveralThreadsForkAtOnce) {
    std::vector<std::thread> threads;
    std::atomic<int> good{0};
    auto* p = static_cast<unsigned char*>(malloc(1 * MiB));
    memset(p, 8, 1 * MiB);
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] {
            for (int i = 0; i < 5; ++i) good += in_child([&] { return holds(p, 8, 1 * MiB); });
        });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(good, 20);
    free(p);
}

TEST_F(Fork, UnderscoreForkIsAForkToo) {
    auto* p = static_cast<unsigned char*>(malloc(1 * MiB));
    memset(p, 1, 1 * MiB);
    const pid_t pid = _Fork();
    if (!pid) {
        memset(p, 2, 1 * MiB);
        _exit(0);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(holds(p, 1, 1 * MiB));
    free(p);
}

// ---- the layers above are told, once in each child, before anything of theirs can run there

unsigned told() { return the_source->told_of_forks.load(); }

TEST_F(Fork, AChildIsToldOnceBeforeForkReturns) {
    EXPECT_TRUE(in_child([] { return told() == 1; }));
    std::atomic<bool> stop{false};
    std::thread other([&] {  // with locks, too
        while (!stop) usleep(1000);
    });
    EXPECT_TRUE(in_child([] { return told() == 1; }));
    stop = true;
    other.join();
    EXPECT_EQ(told(), 0u) << "the parent has its connection";
}

TEST_F(Fork, AChildOfUnderscoreForkIsToldToo) {
    const pid_t pid = _Fork();
    if (!pid) _exit(told() == 1 ? 0 : 1);
    int status = -1;
    waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(told(), 0u);
}

TEST_F(Fork, AChildOfAChildThatIsNotConnectedIsNotToldAgain) {
    EXPECT_TRUE(in_child([] { return in_child([] { return told() == 1; }); }));
}

unsigned told_in_handler = 0;

TEST_F(Fork, AChildIsToldBeforeForkHandlersThatWereRegisteredLater) {
    ASSERT_EQ(pthread_atfork(nullptr, nullptr, [] { told_in_handler = told(); }), 0);
    EXPECT_TRUE(in_child([] { return told_in_handler == 1; }));
}

TEST_F(Fork, AChildOfAProcessWhoseSourceIsStillConnectingIsToldAsWell) {
    EXPECT_TRUE(in_child([] {  // has no connection
        tell_of_forks(*the_source);
        const bool by_fork = in_child([] { return told() == 2; });
        const pid_t pid = _Fork();
        if (!pid) _exit(told() == 2 ? 0 : 1);
        int status = -1;
        return by_fork && waitpid(pid, &status, 0) == pid && status == 0;
    }));
}

TEST_F(Fork, NobodyIsToldWhereMemoryIsShared) {
    EXPECT_EQ(system("true"), 0);
#ifndef __SANITIZE_THREAD__  // turns vfork into fork
    const pid_t pid = vfork();
    if (!pid) _exit(0);
    int status = -1;
    waitpid(pid, &status, 0);
#endif
    EXPECT_EQ(told(), 0u);
}

TEST_F(Fork, SpawnedProgramsAndVforkNeedNoCopy) {
    const auto before = statistics.forks.get();
    void* p = malloc(1 * MiB);
    EXPECT_EQ(system("true"), 0);
    pid_t pid;
    char name[] = "true", *arguments[] = {name, nullptr};
    ASSERT_EQ(posix_spawnp(&pid, "true", nullptr, nullptr, arguments, environ), 0);
    int status = -1;
    waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
#ifndef __SANITIZE_THREAD__  // turns vfork into fork
    if (pid = vfork(); !pid) _exit(0);
    waitpid(pid, &status, 0);
#endif
    EXPECT_EQ(statistics.forks.get(), before);
    free(p);
}

TEST_F(Fork, ADaemonKeepsWhatItHad) {
    int pipe_[2];
    ASSERT_EQ(pipe(pipe_), 0);
    auto* p = static_cast<unsigned char*>(malloc(1 * MiB));
    memset(p, 4, 1 * MiB);
    const pid_t pid = fork();
    if (!pid) {
        if (daemon(0, 1)) _exit(1);
        usleep(20000);
        const char answer = holds(p, 4, 1 * MiB) ? 'y' : 'n';
        _exit(write(pipe_[1], &answer, 1) != 1);
    }
    waitpid(pid, nullptr, 0);
    char answer = 0;
    EXPECT_EQ(read(pipe_[0], &answer, 1), 1);
    EXPECT_EQ(answer, 'y');
    close(pipe_[0]);
    close(pipe_[1]);
    free(p);
}

TEST_F(Fork, HolesAreNotFilledByTheCopy) {
    auto* p = static_cast<unsigned char*>(pinned_alloc(100 * MiB, 0));
    p[50 * MiB] = 1;
    EXPECT_TRUE(in_child([&] {
        if (statistics.fork_bytes.get() > 20 * MiB) return false;  // blocks of earlier tests may have been there
        return p[50 * MiB] == 1 && p[99 * MiB] == 0;
    }));
    unsigned char resident = 0;
    mincore(p + 90 * MiB, 4096, &resident);
    EXPECT_EQ(resident & 1, 0);
    pinned_free(p);
}

}  // namespace
