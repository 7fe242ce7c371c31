// SPDX-License-Identifier: Apache-2.0
// Registered memory outside the region becomes region memory in place: what the program sees of it (its contents, at
// its address), what the device would (the same bytes, in the region), and when it becomes its own again.
#include <gtest/gtest.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "base/os/maps.h"
#include "guest-allocator/heap/registered.h"
#include "guest-allocator/heap/registered/exchange.h"
#include "tests/heap/support/unit_region.h"

using namespace barcuda::heap;
using namespace barcuda::heap::test;

namespace {

alignas(page) std::byte globals[8 * page];  // .bss, whose first page may be one of .data: a file's

std::byte* map(std::size_t bytes, int flags = MAP_PRIVATE | MAP_ANONYMOUS, int fd = -1) {
    void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
    return p == MAP_FAILED ? nullptr : static_cast<std::byte*>(p);
}
void fill(std::byte* p, std::size_t bytes, unsigned seed) {
    for (std::size_t i = 0; i < bytes; ++i) p[i] = static_cast<std::byte>(i * 7 + i / 251 + seed);
}
bool filled(const std::byte* p, std::size_t bytes, unsigned seed) {
    for (std::size_t i = 0; i < bytes; ++i)
        if (p[i] != static_cast<std::byte>(i * 7 + i / 251 + seed)) return false;
    return true;
}
barcuda::os::Mapping mapping(const void* p) {
    barcuda::os::Mapping m;
    barcuda::os::Maps().find(p, m);
    return m;
}
bool is_private(const void* p) { return !mapping(p).shared && !mapping(p).inode; }
std::uint64_t refusals(Refusal why) { return statistics.not_lent[static_cast<std::size_t>(why)].get(); }

class Loan : public testing::Test {
  protected:
    void SetUp() override {
        ASSERT_TRUE(activate());
        std::byte* probe = map(page);
        ASSERT_EQ(register_host(probe, page, 0), Registration::done);
        const bool possible = reach(probe, page);
        unregister_host(probe);
        munmap(probe, page);
        if (!possible) GTEST_SKIP() << "no userfaultfd here";
    }
};

TEST_F(Loan, ContentsAndAddressStayAndTheDeviceReachesTheSameBytesInTheRegion) {
    constexpr std::size_t bytes = 300 * page;
    std::byte* p = map(bytes);
    fill(p, bytes, 1);
    ASSERT_EQ(register_host(p, bytes, 0), Registration::done);
    EXPECT_TRUE(filled(p, bytes, 1));
    std::byte* device = reach(p, bytes);
    ASSERT_TRUE(device);
    EXPECT_TRUE(in_region(device, bytes));
    EXPECT_TRUE(filled(device, bytes, 1));
    EXPECT_EQ(reach(p + 1000, 10), device + 1000);
    p[5000] = std::byte{77};  // the CPU's writes and the device's
    EXPECT_EQ(device[5000], std::byte{77});
    device[bytes - 1] = std::byte{78};
    EXPECT_EQ(p[bytes - 1], std::byte{78});
    EXPECT_EQ(unregister_host(p), Registration::done);
    EXPECT_EQ(p[5000], std::byte{77});
    EXPECT_EQ(p[bytes - 1], std::byte{78});
    EXPECT_TRUE(is_private(p));
    EXPECT_EQ(reach(p, bytes), nullptr);
    munmap(p, bytes);
}

TEST_F(Loan, GlobalsAndSmallBlocksOfMallocTooWithWhatLiesBesideThemInTheirPages) {
    fill(globals, sizeof globals, 2);
    std::vector<char*> blocks;
    for (int i = 0; i < 100; ++i) blocks.push_back(static_cast<char*>(memset(malloc(300), i, 300)));
    ASSERT_EQ(register_host(globals + 100, 5000, 0), Registration::done);
    ASSERT_EQ(register_host(blocks[50], 300, 0), Registration::done);
    EXPECT_TRUE(reach(globals + 100, 5000));
    EXPECT_TRUE(reach(blocks[50], 300));
    EXPECT_EQ(reach(globals + 99, 10), nullptr) << "its neighbours are not registered";
    EXPECT_TRUE(filled(globals, sizeof globals, 2));
    for (int i = 0; i < 100; ++i) {
        EXPECT_EQ(blocks[i][0] + blocks[i][299], 2 * i);
        if (i != 50) free(blocks[i]);  // the allocator's books lie there as well
    }
    EXPECT_EQ(unregister_host(blocks[50]), Registration::done);
    EXPECT_EQ(unregister_host(globals + 100), Registration::done);
    EXPECT_EQ(blocks[50][299], 50);
    EXPECT_TRUE(filled(globals, sizeof globals, 2));
    free(blocks[50]);
}

// glibc's arenas begin at multiples of 64 MiB, and what they may grow by lies behind them out of reach.
TEST_F(Loan, WhatBeginsWhereAnArenaMayIsLentIfItIsNone) {
    constexpr std::size_t arena = 64 * MiB, bytes = 4 * page;
    void* const all = mmap(nullptr, 2 * arena, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    auto* const p = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(all) + arena - 1) / arena * arena);
    ASSERT_EQ(mprotect(p, bytes, PROT_READ | PROT_WRITE), 0);
    ASSERT_EQ(register_host(p, bytes, 0), Registration::done);
    EXPECT_FALSE(reach(p, bytes)) << "so an arena looks";
    unregister_host(p);
    munmap(p + bytes, page);
    ASSERT_EQ(register_host(p, bytes, 0), Registration::done);
    EXPECT_TRUE(reach(p, bytes));
    unregister_host(p);
    munmap(all, 2 * arena);
}

TEST_F(Loan, MemoryThatNobodyTouchedIsZeros) {
    std::byte* p = map(64 * page);
    ASSERT_EQ(register_host(p, 64 * page, 0), Registration::done);
    EXPECT_TRUE(reach(p, 64 * page));
    for (std::size_t i = 0; i < 64 * page; ++i) ASSERT_EQ(p[i], std::byte{0});
    unregister_host(p);
    munmap(p, 64 * page);
}

// BARCUDA_TEST_ROUNDS is a percentage, for a machine on which a round takes long.
int rounds_of(int usual) {
    const char* const percent = getenv("BARCUDA_TEST_ROUNDS");
    return percent ? usual * atoi(percent) / 100 : usual;
}

TEST_F(Loan, NoWriteIsLostWhileThreadsWriteAndOthersRegister) {
    constexpr std::size_t pages = 16, threads = 3;
    auto* p = reinterpret_cast<std::atomic<std::uint64_t>*>(map(pages * page));
    constexpr std::size_t words = pages * page / 8;
    std::atomic<bool> stop{false};
    std::vector<std::uint64_t> rounds(threads);
    std::vector<std::thread> writers;
    for (std::size_t t = 0; t < threads; ++t)
        writers.emplace_back([&, t] {  // a counter in every page, plainly stored: no other thread writes it
            std::uint64_t n = 0;
            while (!stop.load(std::memory_order_relaxed)) {
                ++n;
                for (std::size_t i = 0; i < pages; ++i) {
                    auto& mine = p[i * (page / 8) + t * 61];
                    if (mine.load(std::memory_order_relaxed) != n - 1) {
                        ADD_FAILURE() << "a write was lost";
                        return;
                    }
                    mine.store(n, std::memory_order_relaxed);
                }
                std::this_thread::yield();
            }
            rounds[t] = n;
        });
    for (int i = rounds_of(2000); i > 0; --i) {
        ASSERT_EQ(register_host(p, pages * page, 0), Registration::done);
        ASSERT_TRUE(reach(p, pages * page));
        ASSERT_EQ(unregister_host(p), Registration::done);
    }
    stop = true;
    for (auto& writer : writers) writer.join();
    for (std::size_t t = 0; t < threads; ++t)
        for (std::size_t i = 0; i < pages; ++i) EXPECT_EQ(p[i * (page / 8) + t * 61].load(), rounds[t]);
    EXPECT_TRUE(is_private(p));
    munmap(p, words * 8);
}

TEST_F(Loan, ASignalHandlerThatWritesThereWaitsForTheExchangeAndNotInIt) {
    static std::atomic<std::uint64_t>* counter;
    counter = reinterpret_cast<std::atomic<std::uint64_t>*>(map(page));
    static std::atomic<std::uint64_t> taken{0};
    struct sigaction act = {}, before;
    act.sa_handler = [](int) {
        ++*counter;
        ++taken;
    };
    sigaction(SIGUSR1, &act, &before);
    std::atomic<bool> stop{false};
    const pthread_t self = pthread_self();
    std::thread sender([&] {
        while (!stop) {
            pthread_kill(self, SIGUSR1);
            usleep(20);
        }
    });
    for (int i = 0; i < 300; ++i) {
        ASSERT_EQ(register_host(counter, page, 0), Registration::done);
        ASSERT_EQ(unregister_host(counter), Registration::done);
    }
    stop = true;
    sender.join();
    EXPECT_EQ(counter->load(), taken.load());
    sigaction(SIGUSR1, &before, nullptr);
    munmap(counter, page);
}

TEST_F(Loan, TwoRangesThatShareAPageBothKeepTheirBytes) {
    std::byte* p = map(4 * page);
    fill(p, 4 * page, 3);
    const auto shared = refusals(Refusal::shared_page);
    ASSERT_EQ(register_host(p, page + 100, 0), Registration::done);              // pages 0 and 1
    ASSERT_EQ(register_host(p + page + 200, 300, 0), Registration::done);        // in page 1: lent already
    ASSERT_EQ(register_host(p + page + 1000, 2 * page, 0), Registration::done);  // reaches beyond: staged
    EXPECT_EQ(reach(p + page + 200, 300), reach(p, 1) + page + 200);
    EXPECT_EQ(reach(p + page + 1000, 2 * page), nullptr);
    EXPECT_EQ(refusals(Refusal::shared_page), shared + 1);
    EXPECT_EQ(unregister_host(p), Registration::done);
    EXPECT_TRUE(reach(p + page + 200, 300)) << "its page is still in use";
    EXPECT_EQ(unregister_host(p + page + 200), Registration::done);
    EXPECT_TRUE(is_private(p + page));
    EXPECT_EQ(unregister_host(p + page + 1000), Registration::done);
    EXPECT_TRUE(filled(p, 4 * page, 3));
    munmap(p, 4 * page);
}

TEST_F(Loan, WhatIsNotPrivateMemoryToReadAndWriteStaysAsItIs) {
    const int fd = memfd_create("file", 0);
    ASSERT_EQ(ftruncate(fd, 8 * page), 0);
    std::byte* shared = map(8 * page, MAP_SHARED, fd);
    std::byte* of_file = map(8 * page, MAP_PRIVATE, fd);
    std::byte* constant = map(page);
    mprotect(constant, page, PROT_READ);
    std::byte* half = map(2 * page);
    munmap(half + page, page);
    std::byte stack[100] = {};
    const auto foreign = refusals(Refusal::foreign), stacks = refusals(Refusal::stack);
    for (std::byte* p : {shared, of_file, constant, half + 1, stack}) {
        const barcuda::os::Mapping before = mapping(p);
        ASSERT_EQ(register_host(p, p == half + 1 ? page : 100, 0), Registration::done);
        EXPECT_EQ(find(p).kind, Kind::registered);
        EXPECT_EQ(reach(p, 100), nullptr);
        EXPECT_EQ(mapping(p).inode, before.inode);
        EXPECT_EQ(unregister_host(p), Registration::done);
    }
    EXPECT_EQ(refusals(Refusal::foreign), foreign + 4);
    EXPECT_EQ(refusals(Refusal::stack), stacks + 1);
    close(fd);
    munmap(shared, 8 * page);
    munmap(of_file, 8 * page);
    munmap(constant, page);
    munmap(half, page);
}

TEST_F(Loan, AFullRegionAndASourceWithoutAliasesLeaveMemoryStaged) {
    std::byte* p = map(extents_bytes + page);
    EXPECT_EQ(register_host(p, extents_bytes + page, 0), Registration::done);
    EXPECT_EQ(reach(p, 1), nullptr);
    EXPECT_EQ(unregister_host(p), Registration::done);
    the_source->refuse_aliases = true;
    EXPECT_EQ(register_host(p, 100, 0), Registration::done);
    EXPECT_EQ(reach(p, 1), nullptr);
    the_source->refuse_aliases = false;
    EXPECT_EQ(unregister_host(p), Registration::done);
    munmap(p, extents_bytes + page);
}

TEST_F(Loan, TheDevicesAddressLeadsBackToTheProgramsAndIsNoBlockOfIts) {
    std::byte* p = map(4 * page);
    ASSERT_EQ(register_host(p + 10, 3 * page, 7), Registration::done);
    std::byte* device = reach(p + 10, 1);
    const Found found = find(device + 500);
    EXPECT_EQ(found.kind, Kind::registered);
    EXPECT_EQ(found.base, p + 10);
    EXPECT_EQ(found.device, device);
    EXPECT_EQ(found.flags, 7u);
    EXPECT_EQ(find(device - 1).kind, Kind::outside);
    EXPECT_EQ(unregister_host(device), Registration::not_registered);
    EXPECT_EQ(unregister_host(p + 10), Registration::done);
    EXPECT_EQ(find(device + 500).kind, Kind::outside);
    munmap(p, 4 * page);
}

TEST_F(Loan, MemoryThatTheProgramUnmapsWhileItIsRegisteredIsFreeAgainOnceItIsUnregistered) {
    trim(true);
    const std::size_t before = granted();
    constexpr std::size_t bytes = 40 * MiB;
    for (int i = 0; i < 30; ++i) {  // 1.2 GiB in all
        std::byte* p = map(bytes);
        ASSERT_EQ(register_host(p, bytes, 0), Registration::done);
        ASSERT_TRUE(reach(p, bytes)) << "after " << i;
        p[1] = std::byte{1};
        munmap(p, bytes);
        std::byte* q = static_cast<std::byte*>(
            mmap(p, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
        ASSERT_EQ(q, p);
        q[1] = std::byte{2};
        EXPECT_EQ(unregister_host(p), Registration::done);
        EXPECT_EQ(q[1], std::byte{2}) << "what lies there now is somebody else's";
        munmap(q, page);
    }
    trim(true);
    EXPECT_LE(granted(), before);
}

TEST_F(Loan, WhatWasLentToMemoryThatIsGoneIsNotTakenForWhatLiesThereNow) {
    std::byte* p = map(page);
    ASSERT_EQ(register_host(p, 100, 0), Registration::done);
    munmap(p, page);
    std::byte* q = static_cast<std::byte*>(
        mmap(p, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
    ASSERT_EQ(q, p);
    EXPECT_EQ(register_host(q + 200, 100, 0), Registration::done);
    EXPECT_EQ(reach(q + 200, 100), nullptr);
    EXPECT_EQ(unregister_host(q + 200), Registration::done);
    EXPECT_EQ(unregister_host(p), Registration::done);
    munmap(q, page);
}

TEST_F(Loan, WithoutDescriptorsLeftItIsGivenBackLater) {
    std::byte* p = map(page);
    p[7] = std::byte{7};
    ASSERT_EQ(register_host(p, page, 0), Registration::done);
    std::byte* device = reach(p, page);
    std::vector<int> all;
    for (int fd; (fd = dup(0)) >= 0;) all.push_back(fd);
    EXPECT_EQ(unregister_host(p), Registration::done);
    EXPECT_EQ(reach(p, page), nullptr) << "CUDA knows nothing of it any more";
    device[7] = std::byte{8};
    EXPECT_EQ(p[7], std::byte{8}) << "it is where it was";
    for (int fd : all) close(fd);
    ASSERT_EQ(register_host(globals, 1, 0), Registration::done);  // the next call tidies up
    EXPECT_TRUE(is_private(p));
    EXPECT_EQ(p[7], std::byte{8});
    unregister_host(globals);
    munmap(p, page);
}

TEST_F(Loan, MemoryThatTheProgramMovesWhileItIsRegisteredBecomesItsOwnWhereItIs) {
    std::byte* p = map(4 * page);
    fill(p, 4 * page, 4);
    ASSERT_EQ(register_host(p, 4 * page, 0), Registration::done);
    std::byte* q = map(2 * page);
    ASSERT_EQ(mremap(p + page, 2 * page, 2 * page, MREMAP_MAYMOVE | MREMAP_FIXED, q), q);
    EXPECT_EQ(unregister_host(p), Registration::done);
    EXPECT_TRUE(is_private(p) && is_private(q) && is_private(p + 3 * page));
    mremap(q, 2 * page, 2 * page, MREMAP_MAYMOVE | MREMAP_FIXED, p + page);
    EXPECT_TRUE(filled(p, 4 * page, 4));
    munmap(p, 4 * page);
}

TEST_F(Loan, WhatTheProgramHasProtectedMeanwhileStaysSo) {
    std::byte* const p = map(8 * page);
    ASSERT_EQ(register_host(p, 8 * page, 0), Registration::done);
    ASSERT_TRUE(reach(p, 8 * page));
    fill(p, 8 * page, 1);
    mprotect(p + 2 * page, page, PROT_READ);
    mprotect(p + 4 * page, page, PROT_NONE);
    const auto as_it_was = [&] {
        const barcuda::os::Mapping read_only = mapping(p + 2 * page), closed = mapping(p + 4 * page);
        return mapping(p).writable && mapping(p + 3 * page).writable && mapping(p + 5 * page).writable &&
               read_only.readable && !read_only.writable && !closed.readable && !closed.writable;
    };
    const pid_t child = fork();
    if (!child) _exit(is_private(p) && as_it_was() && filled(p, 4 * page, 1) ? 0 : 1);
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(unregister_host(p), Registration::done);
    EXPECT_TRUE(is_private(p) && as_it_was());
    mprotect(p + 4 * page, page, PROT_READ);
    EXPECT_TRUE(filled(p, 8 * page, 1));
    munmap(p, 8 * page);
}

TEST_F(Loan, ABlockThatGrowsWhileItIsRegisteredDoesNotGrowIntoItsNeighboursInTheRegion) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "malloc is the sanitizer's";
#endif
    mallopt(M_MMAP_THRESHOLD, 4 * page);
    constexpr std::size_t before = 6 * page - 40, after = 12 * page;  // below the threshold: libc's
    const auto alone = [](void* block) { return reinterpret_cast<std::uintptr_t>(block) % page == 16; };
    std::vector<void*> others;  // until libc has no room among its blocks, and maps pages for one alone
    while (others.size() < 1000 && (others.empty() || !alone(others.back()))) others.push_back(malloc(before));
    auto* p = static_cast<std::byte*>(others.back());
    others.pop_back();
    ASSERT_TRUE(alone(p));
    fill(p, before, 3);
    ASSERT_EQ(register_host(p, before, 0), Registration::done);
    ASSERT_TRUE(reach(p, before));
    std::vector<std::byte*> neighbours;
    for (int i = 0; i < 20; ++i) {
        neighbours.push_back(static_cast<std::byte*>(pinned_alloc(page, 0)));
        fill(neighbours.back(), page, 5);
    }
    const volatile auto was = reinterpret_cast<std::uintptr_t>(p);  // the compiler would warn
    p = static_cast<std::byte*>(realloc(p, after));
    EXPECT_TRUE(filled(p, before, 3));
    fill(p, after, 7);
    for (std::byte* neighbour : neighbours) {
        EXPECT_TRUE(filled(neighbour, page, 5));
        pinned_free(neighbour);
    }
    EXPECT_EQ(unregister_host(reinterpret_cast<void*>(was)), Registration::done);
    EXPECT_TRUE(filled(p, after, 7));
    free(p);
    for (void* other : others) free(other);
}

TEST_F(Loan, AForkedChildHasItsOwnAndItsParentKeepsItsOwn) {
    std::byte* p = map(64 * page);
    fill(p, 64 * page, 5);
    fill(globals, sizeof globals, 6);
    ASSERT_EQ(register_host(p, 64 * page, 0), Registration::done);
    ASSERT_EQ(register_host(globals + 3000, 10000, 0), Registration::done);
    int go[2];
    ASSERT_EQ(pipe(go), 0);
    const pid_t child = fork();
    if (!child) {
        char c;
        if (read(go[0], &c, 1) != 1) _exit(9);  // the parent has written by now
        if (!filled(p, 64 * page, 5) || !filled(globals, sizeof globals, 6)) _exit(1);
        if (!is_private(p) || !is_private(globals + 4000)) _exit(2);
        if (find(p).kind != Kind::outside) _exit(3);
        memset(p, 1, 64 * page);
        memset(globals, 1, sizeof globals);
        const pid_t grandchild = fork();
        if (!grandchild) _exit(p[0] == std::byte{1} && globals[5000] == std::byte{1} ? 0 : 4);
        int status;
        waitpid(grandchild, &status, 0);
        _exit(WEXITSTATUS(status));
    }
    fill(p, 64 * page, 7);
    fill(globals, sizeof globals, 8);
    ASSERT_EQ(write(go[1], "", 1), 1);
    int status;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(filled(p, 64 * page, 7));
    EXPECT_TRUE(filled(globals, sizeof globals, 8));
    EXPECT_TRUE(filled(reach(p, 1), 64 * page, 7)) << "still one memory with the device's";
    EXPECT_EQ(unregister_host(p), Registration::done);
    EXPECT_EQ(unregister_host(globals + 3000), Registration::done);
    EXPECT_TRUE(filled(p, 64 * page, 7));
    munmap(p, 64 * page);
    close(go[0]);
    close(go[1]);
}

TEST_F(Loan, ForksWhileOthersRegisterSeeAllOrNothingOfIt) {
    std::byte* p = map(16 * page);
    fill(p, 16 * page, 9);
    std::atomic<bool> stop{false};
    std::thread other([&] {
        while (!stop) {
            register_host(p, 16 * page, 0);
            unregister_host(p);
        }
    });
    for (int i = rounds_of(30); i > 0; --i) {
        const pid_t child = fork();
        if (!child) _exit(filled(p, 16 * page, 9) && is_private(p) ? 0 : 1);
        int status;
        waitpid(child, &status, 0);
        ASSERT_EQ(status, 0);
    }
    stop = true;
    other.join();
    EXPECT_TRUE(filled(p, 16 * page, 9));
    munmap(p, 16 * page);
}

}  // namespace
