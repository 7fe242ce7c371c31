// SPDX-License-Identifier: Apache-2.0
// What Linux promises about private memory holds for a block of the region too: advice, protection, other memory in its
// place, parts that move. And what the device is sent to is never memory that the program does not see there.
#include <errno.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "guest-allocator/heap/registered.h"
#include "guest-allocator/heap/sanitized.h"
#include "tests/heap/support/unit_region.h"

using namespace barcuda::heap;
using namespace barcuda::heap::test;

namespace {

constexpr std::size_t pages = 64, bytes = pages * page;
constexpr int read_write = PROT_READ | PROT_WRITE;

bool holds(const void* p, unsigned char byte, std::size_t n) {
    const auto* at = static_cast<const unsigned char*>(p);
    return at[0] == byte && !memcmp(at, at + 1, n - 1);
}

// The CPU's access, in a child: false if it ends by SIGSEGV.
bool may(bool write, unsigned char* p) {
    const pid_t pid = fork();
    if (!pid) {
        signal(SIGSEGV, SIG_DFL);
        if (write) *static_cast<volatile unsigned char*>(p) = 1;
        else (void)*static_cast<volatile unsigned char*>(p);
        _exit(0);
    }
    int status = -1;
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status);
}
bool may_read(unsigned char* p) { return may(false, p); }
bool may_write(unsigned char* p) { return may(true, p); }

// Of the region's page there: past the functions that treat a block as private memory.
void* second_mapping(unsigned char* p) {
    return reinterpret_cast<void*>(syscall(SYS_mremap, p, 0, page, MREMAP_MAYMOVE));
}

template <class F> bool in_child(F body) {
    const pid_t pid = fork();
    if (!pid) _exit(body() ? 0 : 1);
    int status = -1;
    return waitpid(pid, &status, 0) == pid && status == 0;
}

struct Mappings : testing::Test {
    void SetUp() override {
        ASSERT_TRUE(activate());
        if (BARCUDA_SANITIZED) GTEST_SKIP() << "these system calls are the sanitizer's";
        block = static_cast<unsigned char*>(region_alloc(bytes, page, false));
        ASSERT_TRUE(in_region(block, bytes));
        memset(block, 7, bytes);
    }
    void TearDown() override {
        if (!block) return;
        region_free(block);
        // Whatever was done to it: the next block there is the region's.
        auto* again = static_cast<unsigned char*>(region_alloc(bytes, page, false));
        EXPECT_EQ(again, block);
        memset(again, 1, bytes);
        EXPECT_EQ(reach(again, bytes), reinterpret_cast<std::byte*>(again));
        void* const other = second_mapping(again);
        ASSERT_NE(other, MAP_FAILED);
        EXPECT_TRUE(holds(other, 1, page));
        munmap(other, page);
        region_free(again);
    }
    unsigned char* at(std::size_t number) const { return block + number * page; }
    bool reached(std::size_t number, std::size_t count = 1) const {
        return reach(at(number), count * page) == reinterpret_cast<std::byte*>(at(number));
    }

    unsigned char* block = nullptr;
};

TEST_F(Mappings, WhatIsNotNeededIsZerosAndOnlyThat) {
    EXPECT_EQ(madvise(at(2), 3 * page - 100, MADV_DONTNEED), 0);
    EXPECT_TRUE(holds(block, 7, 2 * page));
    EXPECT_TRUE(holds(at(2), 0, 3 * page));
    EXPECT_TRUE(holds(at(5), 7, bytes - 5 * page));
    EXPECT_TRUE(reached(0, pages));
    errno = 0;
    EXPECT_EQ(madvise(block + 1, page, MADV_DONTNEED), -1);
    EXPECT_EQ(errno, EINVAL);
}

TEST_F(Mappings, WhatIsNotNeededIsZerosThoughItIsProtected) {
    ASSERT_EQ(mprotect(at(1), page, PROT_NONE), 0);
    ASSERT_EQ(mprotect(at(2), page, PROT_READ), 0);
    EXPECT_EQ(madvise(at(1), 3 * page, MADV_DONTNEED), 0);
    EXPECT_FALSE(may_read(at(1)));
    EXPECT_FALSE(may_write(at(2)));
    ASSERT_EQ(mprotect(at(1), 2 * page, read_write), 0);
    EXPECT_TRUE(holds(at(1), 0, 3 * page));
}

TEST_F(Mappings, WhatIsFreedByAdviceIsWhatItWasOrZeros) {
    EXPECT_EQ(madvise(block, bytes, MADV_FREE), 0);
    for (std::size_t i = 0; i < pages; ++i) EXPECT_TRUE(holds(at(i), 7, page) || holds(at(i), 0, page));
    memset(block, 8, bytes);
    EXPECT_TRUE(holds(block, 8, bytes));
}

TEST_F(Mappings, NoHoleIsMadeInTheRegion) {
    errno = 0;
    EXPECT_EQ(madvise(block, bytes, MADV_REMOVE), -1);
    EXPECT_EQ(errno, EINVAL);  // as of private memory
    EXPECT_TRUE(holds(block, 7, bytes));
    void* const pinned = pinned_alloc(page, 0);
    memset(pinned, 7, page);
    EXPECT_EQ(madvise(pinned, page, MADV_REMOVE), -1);
    EXPECT_TRUE(holds(pinned, 7, page));
    pinned_free(pinned);
}

TEST_F(Mappings, WhatIsWipedOnForkIsZerosInChildrenAndTheirs) {
    ASSERT_EQ(madvise(at(1), 2 * page, MADV_WIPEONFORK), 0);
    EXPECT_TRUE(in_child([&] {
        if (!holds(at(1), 0, 2 * page) || !holds(at(0), 7, page) || !holds(at(3), 7, page)) return false;
        memset(block, 9, bytes);
        return in_child([&] { return holds(at(1), 0, 2 * page) && holds(at(0), 9, page); });
    }));
    EXPECT_TRUE(holds(block, 7, bytes));
    ASSERT_EQ(madvise(at(1), 2 * page, MADV_KEEPONFORK), 0);
    EXPECT_TRUE(in_child([&] { return holds(block, 7, bytes); }));
}

TEST_F(Mappings, WhatIsNotForkedIsNotInTheChild) {
    ASSERT_EQ(madvise(at(1), page, MADV_DONTFORK), 0);
    EXPECT_TRUE(in_child([&] {
        unsigned char there;
        return mincore(at(1), page, &there) == -1 && errno == ENOMEM && holds(at(0), 7, page) && holds(at(2), 7, page);
    }));
    EXPECT_TRUE(holds(block, 7, bytes));
    ASSERT_EQ(madvise(at(1), page, MADV_DOFORK), 0);
    EXPECT_TRUE(in_child([&] { return holds(block, 7, bytes); }));
}

TEST_F(Mappings, AChildFindsZerosInWhatItDoesNotNeedOfItsParents) {
    EXPECT_TRUE(in_child([&] {
        return madvise(at(1), page, MADV_DONTNEED) == 0 && holds(at(1), 0, page) && holds(at(0), 7, page) &&
               madvise(at(2), page, MADV_FREE) == 0 && madvise(at(3), page, MADV_WIPEONFORK) == 0 &&
               holds(at(3), 7, page) && in_child([&] { return holds(at(3), 0, page); });
    }));
    EXPECT_TRUE(holds(block, 7, bytes));
}

TEST_F(Mappings, WhatIsMappedOverABlockIsNotTheRegions) {
    ASSERT_EQ(mmap(at(4), page, read_write, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), at(4));
    *at(4) = 9;
    EXPECT_FALSE(reached(4));
    EXPECT_FALSE(reached(0, pages));
    EXPECT_TRUE(reached(0, 4));
    EXPECT_TRUE(reached(5, pages - 5));
    EXPECT_TRUE(in_child([&] { return *at(4) == 9 && holds(at(3), 7, page) && holds(at(5), 7, page); }));
    EXPECT_EQ(madvise(block, bytes, MADV_DONTNEED), 0);
    EXPECT_TRUE(holds(block, 0, bytes));
}

TEST_F(Mappings, TheFirstPageToo) {
    ASSERT_EQ(mmap(block, page, read_write, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), block);
    *block = 9;
    EXPECT_FALSE(reached(0));
    EXPECT_TRUE(in_child([&] { return *block == 9 && holds(at(1), 7, bytes - page); }));
}

TEST_F(Mappings, WhatIsUnmappedIsNotTheRegions) {
    ASSERT_EQ(munmap(at(3), 2 * page), 0);
    EXPECT_FALSE(reached(3));
    EXPECT_FALSE(may_read(at(3)));
    EXPECT_TRUE(may_read(at(2)));
    EXPECT_TRUE(in_child([&] { return holds(at(2), 7, page) && holds(at(5), 7, page); }));
    errno = 0;
    EXPECT_EQ(madvise(block, bytes, MADV_DONTNEED), -1);
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_TRUE(holds(at(5), 0, bytes - 5 * page));
}

TEST_F(Mappings, WhatIsProtectedIsTheCPUsToTouch) {
    ASSERT_EQ(mprotect(at(1), page, PROT_READ), 0);
    EXPECT_FALSE(reached(1));
    EXPECT_TRUE(reached(0));
    EXPECT_TRUE(reached(2, pages - 2));
    EXPECT_TRUE(may_read(at(1)));
    EXPECT_FALSE(may_write(at(1)));
    EXPECT_TRUE(in_child([&] { return holds(block, 7, bytes); }));
    ASSERT_EQ(mprotect(at(1), page, read_write), 0);
    EXPECT_TRUE(reached(0, pages));
    ASSERT_EQ(mprotect(at(5), page, PROT_NONE), 0);
    EXPECT_FALSE(may_read(at(5)));  // in a child
    EXPECT_TRUE(in_child([&] { return !mprotect(at(5), page, PROT_READ) && holds(at(5), 7, page); }));
}

TEST_F(Mappings, WhatIsRegisteredStaysThePagesThatItWas) {
    ASSERT_EQ(register_host(block, bytes, 0), Registration::done);
    ASSERT_EQ(mprotect(at(1), page, PROT_READ), 0);
    EXPECT_TRUE(reached(0, pages));
    EXPECT_EQ(unregister_host(block), Registration::done);
    EXPECT_FALSE(reached(0, pages));
    ASSERT_EQ(register_host(block, bytes, 0), Registration::done);
    EXPECT_FALSE(reached(0, pages));
    EXPECT_EQ(unregister_host(block), Registration::done);
}

TEST_F(Mappings, APartMoves) {
    memset(at(2), 8, page);
    auto* const to = static_cast<unsigned char*>(mremap(at(2), 2 * page, 3 * page, MREMAP_MAYMOVE));
    ASSERT_NE(static_cast<void*>(to), MAP_FAILED);
    EXPECT_TRUE(holds(to, 8, page) && holds(to + page, 7, page) && holds(to + 2 * page, 0, page));
    EXPECT_FALSE(may_read(at(2)) || may_read(at(3)));
    EXPECT_TRUE(reached(0, 2) && reached(4, pages - 4));
    // It is the process's own: a child has its own.
    memset(to, 5, page);
    EXPECT_TRUE(in_child([&] { return memset(to, 6, page) && holds(at(1), 7, page); }));
    EXPECT_TRUE(holds(to, 5, page));
    // And back, over the block.
    ASSERT_EQ(mremap(to, 2 * page, 2 * page, MREMAP_MAYMOVE | MREMAP_FIXED, at(2)), at(2));
    EXPECT_TRUE(holds(at(2), 5, page));
    EXPECT_FALSE(reached(2));
    munmap(to + 2 * page, page);
}

TEST_F(Mappings, APartMovesAsItIsProtectedAndMayLeaveZeros) {
    ASSERT_EQ(mprotect(at(1), page, PROT_NONE), 0);
    auto* const to = static_cast<unsigned char*>(mremap(at(1), page, page, MREMAP_MAYMOVE | MREMAP_DONTUNMAP));
    ASSERT_NE(static_cast<void*>(to), MAP_FAILED);
    EXPECT_FALSE(may_read(to));
    ASSERT_EQ(mprotect(to, page, read_write) | mprotect(at(1), page, read_write), 0);
    EXPECT_TRUE(holds(to, 7, page) && holds(at(1), 0, page));
    munmap(to, page);
}

// Where the kernel would have one mapping, there may be several here.
TEST_F(Mappings, APartMovesTogetherWithWhatIsInItsPlaceButNotWithAnotherProtection) {
    ASSERT_EQ(mmap(at(2), page, read_write, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), at(2));
    memset(at(2), 8, page);
    auto* const to = static_cast<unsigned char*>(mremap(at(1), 3 * page, 4 * page, MREMAP_MAYMOVE));
    ASSERT_NE(static_cast<void*>(to), MAP_FAILED);
    EXPECT_TRUE(holds(to, 7, page) && holds(to + page, 8, page) && holds(to + 2 * page, 7, page));
    munmap(to, 4 * page);
    ASSERT_EQ(mprotect(at(11), page, PROT_NONE), 0);
    errno = 0;
    EXPECT_EQ(mremap(at(10), 3 * page, 4 * page, MREMAP_MAYMOVE), MAP_FAILED);
    EXPECT_EQ(errno, EFAULT);
    EXPECT_EQ(mremap(at(3), 2 * page, 4 * page, MREMAP_MAYMOVE), MAP_FAILED);  // the first of them has moved
}

TEST_F(Mappings, APartIsShortenedInPlaceAndNotMadeLonger) {
    EXPECT_EQ(mremap(block, 4 * page, 2 * page, 0), block);
    EXPECT_FALSE(may_read(at(2)));
    EXPECT_TRUE(may_read(at(4)));
    EXPECT_EQ(mremap(block, 2 * page, 3 * page, 0), MAP_FAILED);
    EXPECT_EQ(mremap(block, 0, page, MREMAP_MAYMOVE), MAP_FAILED);  // private memory has no second mapping
    EXPECT_TRUE(holds(block, 7, 2 * page));
}

TEST_F(Mappings, AShorterBlockLeavesPagesOfTheRegion) {
    ASSERT_EQ(mprotect(at(40), page, PROT_NONE), 0);
    ASSERT_EQ(munmap(at(50), page), 0);
    ASSERT_TRUE(region_resize(block, 32 * page));
    ASSERT_TRUE(region_resize(block, bytes));
    memset(block, 1, bytes);
    EXPECT_TRUE(reached(0, pages));
}

TEST_F(Mappings, WhatCannotBeTheRegionsAgainIsInNoOtherBlock) {
    ASSERT_EQ(munmap(at(1), page), 0);
    the_source->refuse_renewals = true;
    region_free(block);
    std::vector<void*> others;
    for (int i = 0; i < 200; ++i) {
        auto* const p = static_cast<unsigned char*>(region_alloc(bytes, page, false));
        EXPECT_TRUE(p + bytes <= block || block + bytes <= p);
        others.push_back(p);
    }
    for (void* p : others) region_free(p);
    the_source->refuse_renewals = false;
    block = nullptr;
}

TEST_F(Mappings, HintsAreTaken) {
    for (const int advice : {MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED, MADV_DONTDUMP, MADV_DODUMP,
                             MADV_NOHUGEPAGE, MADV_HUGEPAGE, MADV_COLD, MADV_PAGEOUT})
        EXPECT_EQ(madvise(block, bytes, advice), 0) << advice;
    EXPECT_EQ(posix_madvise(block, bytes, POSIX_MADV_DONTNEED), 0);  // which only hints
    EXPECT_TRUE(holds(block, 7, bytes));
    EXPECT_EQ(madvise(block, bytes, 4711), -1);
}

TEST_F(Mappings, ItIsResidentLockedAndSynchronized) {
    unsigned char there[pages] = {};
    ASSERT_EQ(mincore(block, bytes, there), 0);
    for (const unsigned char one : there) EXPECT_TRUE(one & 1);
    EXPECT_EQ(msync(block, bytes, MS_SYNC), 0);
    EXPECT_EQ(msync(block, bytes, MS_ASYNC), 0);
    EXPECT_EQ(msync(block + 1, page, MS_SYNC), -1);
    EXPECT_EQ(msync(block, bytes, MS_SYNC | MS_ASYNC), -1);
    if (!mlock(block, page)) {  // there is a limit
        EXPECT_EQ(munlock(block, page), 0);
    }
    EXPECT_TRUE(holds(block, 7, bytes));
}

// Across the block's edge, where the neighbours are not the region's.
TEST_F(Mappings, OtherMemoryIsTheKernels) {
    auto* const p =
        static_cast<unsigned char*>(mmap(nullptr, 2 * page, read_write, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    memset(p, 3, 2 * page);
    EXPECT_EQ(madvise(p, page, MADV_DONTNEED), 0);
    EXPECT_TRUE(holds(p, 0, page) && holds(p + page, 3, page));
    EXPECT_EQ(mprotect(p, page, PROT_READ), 0);
    EXPECT_EQ(munmap(p, 2 * page), 0);
    errno = 0;
    EXPECT_EQ(madvise(p, page, MADV_DONTNEED), -1);
    EXPECT_EQ(errno, ENOMEM);
}

}  // namespace
