// SPDX-License-Identifier: Apache-2.0
// private_memory.cu: what POSIX and Linux promise about memory of malloc, whatever the GPU copies to it and from it:
// advice, protection, other memory that is mapped in its place, parts that move, forks. docs/heap.md lists the
// promises by the names of these functions.
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <initializer_list>

#include "check.h"

static const size_t page = 4096, pages = 512, bytes = pages * page;
static unsigned char *block, *device;

static unsigned char* at(size_t number) { return block + number * page; }
static bool holds(const void* p, unsigned char byte, size_t n) {
    const unsigned char* c = (const unsigned char*)p;
    return c[0] == byte && !memcmp(c, c + 1, n - 1);
}

static void fresh() {
    REQUIRE(posix_memalign((void**)&block, page, bytes) == 0);
    memset(block, 7, bytes);
}

// The GPU sees what the CPU sees, and the other way round.
static void both_see_the_same() {
    static unsigned char seen[bytes];
    CHECK(cudaMemcpy(device, block, bytes, cudaMemcpyHostToDevice));
    memset(seen, 0x55, bytes);
    CHECK(cudaMemcpy(seen, device, bytes, cudaMemcpyDeviceToHost));
    REQUIRE(memcmp(seen, block, bytes) == 0);
    CHECK(cudaMemset(device, 0x33, bytes));
    CHECK(cudaMemcpy(block, device, bytes, cudaMemcpyDeviceToHost));
    REQUIRE(holds(block, 0x33, bytes));
}
static void done(const char* what) {
    both_see_the_same();
    free(block);
    fresh();  // any will do
    both_see_the_same();
    free(block);
    printf("  %s\n", what);
}

template <class F> static bool in_child(F body) {
    const pid_t pid = fork();
    if (!pid) _exit(body() ? 0 : 1);
    int status = -1;
    return waitpid(pid, &status, 0) == pid && status == 0;
}

static void dont_need() {
    fresh();
    REQUIRE(madvise(at(1), 3 * page - 100, MADV_DONTNEED) == 0);
    REQUIRE(holds(at(0), 7, page) && holds(at(1), 0, 3 * page) && holds(at(4), 7, bytes - 4 * page));
    REQUIRE(madvise(block + 1, page, MADV_DONTNEED) == -1 && errno == EINVAL);
    REQUIRE(mprotect(at(8), page, PROT_NONE) == 0 && madvise(at(8), page, MADV_DONTNEED) == 0);
    REQUIRE(mprotect(at(8), page, PROT_READ | PROT_WRITE) == 0 && holds(at(8), 0, page) && holds(at(9), 7, page));
    done("dont_need");
}

static void free_later() {
    fresh();
    REQUIRE(madvise(block, bytes, MADV_FREE) == 0);
    for (size_t i = 0; i < pages; i++) REQUIRE(holds(at(i), 7, page) || holds(at(i), 0, page));
    memset(block, 8, bytes);
    REQUIRE(holds(block, 8, bytes));
    done("free_later");
}

static void no_holes() {
    fresh();
    REQUIRE(madvise(block, bytes, MADV_REMOVE) == -1 && errno == EINVAL && holds(block, 7, bytes));
    done("no_holes");
}

static void wipe_on_fork() {
    fresh();
    REQUIRE(madvise(at(1), 2 * page, MADV_WIPEONFORK) == 0);
    REQUIRE(in_child([] {
        if (!holds(at(0), 7, page) || !holds(at(1), 0, 2 * page) || !holds(at(3), 7, page)) return false;
        memset(block, 9, bytes);
        return in_child([] { return holds(at(0), 9, page) && holds(at(1), 0, 2 * page); });
    }));
    REQUIRE(holds(block, 7, bytes));
    REQUIRE(madvise(at(1), 2 * page, MADV_KEEPONFORK) == 0);
    REQUIRE(in_child([] { return holds(block, 7, bytes); }));
    done("wipe_on_fork");
}

static void dont_fork() {
    fresh();
    REQUIRE(madvise(at(1), page, MADV_DONTFORK) == 0);
    REQUIRE(in_child([] {
        unsigned char there;
        return mincore(at(1), page, &there) == -1 && errno == ENOMEM && holds(at(0), 7, page) && holds(at(2), 7, page);
    }));
    REQUIRE(madvise(at(1), page, MADV_DOFORK) == 0);
    REQUIRE(in_child([] { return holds(block, 7, bytes); }));
    done("dont_fork");
}

static void snapshot_at_fork() {
    fresh();
    REQUIRE(in_child([] {
        if (!holds(block, 7, bytes)) return false;
        memset(block, 9, bytes);
        if (madvise(at(1), page, MADV_DONTNEED) || madvise(at(2), page, MADV_FREE)) return false;
        if (!holds(at(1), 0, page) || madvise(at(3), page, MADV_WIPEONFORK) || !holds(at(3), 9, page)) return false;
        return in_child([] { return holds(at(3), 0, page) && holds(at(4), 9, page); });
    }));
    REQUIRE(holds(block, 7, bytes));
    done("snapshot_at_fork");
}

static void mapped_over() {
    fresh();
    REQUIRE(mmap(at(4), page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at(4));
    *at(4) = 9;
    unsigned char seen = 0;
    CHECK(cudaMemcpy(device, block, bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(&seen, device + 4 * page, 1, cudaMemcpyDeviceToHost));
    REQUIRE(seen == 9);
    REQUIRE(in_child([] { return *at(4) == 9 && holds(at(3), 7, page) && holds(at(5), 7, page); }));
    done("mapped_over");
}

static void unmapped() {
    fresh();
    REQUIRE(munmap(at(4), 2 * page) == 0);
    unsigned char there;
    REQUIRE(mincore(at(4), page, &there) == -1 && errno == ENOMEM);
    CHECK(cudaMemcpy(device, block, 4 * page, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(at(6), device, page, cudaMemcpyDeviceToHost));
    REQUIRE(cudaHostRegister(at(2), 4 * page, cudaHostRegisterDefault) == cudaErrorInvalidValue);
    REQUIRE(cudaGetLastError() == cudaErrorInvalidValue);
    REQUIRE(mmap(at(4), 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at(4));
    REQUIRE(holds(at(4), 0, 2 * page));
    done("unmapped");
}

static volatile sig_atomic_t faults;
static void open_again(int, siginfo_t* info, void*) {
    faults++;
    unsigned char* const p = (unsigned char*)((size_t)info->si_addr & ~(page - 1));
    if (p < block || p >= block + bytes || mprotect(p, page, PROT_READ | PROT_WRITE)) _exit(3);
}

// The GPU does not get past a protection that the CPU has: the copy faults as the CPU would, or fails.
static void read_only() {
    fresh();
    struct sigaction action = {}, before;
    action.sa_sigaction = open_again;
    action.sa_flags = SA_SIGINFO;
    REQUIRE(sigaction(SIGSEGV, &action, &before) == 0);
    REQUIRE(mprotect(at(1), page, PROT_READ) == 0);
    unsigned char seen = 0;
    CHECK(cudaMemcpy(device, block, bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(&seen, device + page, 1, cudaMemcpyDeviceToHost));
    REQUIRE(seen == 7 && faults == 0);
    CHECK(cudaMemset(device, 5, bytes));
    const cudaError_t copied = cudaMemcpy(block, device, bytes, cudaMemcpyDeviceToHost);
    REQUIRE(copied == cudaSuccess ? faults == 1 && holds(block, 5, bytes) : faults == 0 && holds(at(1), 7, page));
    (void)cudaGetLastError();
    REQUIRE(mprotect(block, bytes, PROT_READ | PROT_WRITE) == 0);
    REQUIRE(mprotect(at(2), page, PROT_READ) == 0);
    REQUIRE(in_child([] { return *at(2) = 1, faults > 0; }));
    REQUIRE(mprotect(at(2), page, PROT_READ | PROT_WRITE) == 0);
    sigaction(SIGSEGV, &before, nullptr);
    done("read_only");
}

static void moved() {
    fresh();
    memset(at(2), 8, page);
    unsigned char* to = (unsigned char*)mremap(at(2), 2 * page, 3 * page, MREMAP_MAYMOVE);
    REQUIRE(to != MAP_FAILED && holds(to, 8, page) && holds(to + page, 7, page) && holds(to + 2 * page, 0, page));
    unsigned char there, seen[3];
    REQUIRE(mincore(at(2), page, &there) == -1 && errno == ENOMEM);
    CHECK(cudaMemcpy(device, to, 3 * page, cudaMemcpyHostToDevice));
    for (int i = 0; i < 3; i++) CHECK(cudaMemcpy(&seen[i], device + i * page, 1, cudaMemcpyDeviceToHost));
    REQUIRE(seen[0] == 8 && seen[1] == 7 && seen[2] == 0);
    REQUIRE(in_child([=] { return memset(to, 6, page) && holds(at(1), 7, page); }) && holds(to, 8, page));
    REQUIRE(mremap(to, 2 * page, 2 * page, MREMAP_MAYMOVE | MREMAP_FIXED, at(2)) == at(2));  // and back
    REQUIRE(holds(at(2), 8, page) && holds(at(3), 7, page));
    munmap(to + 2 * page, page);
    REQUIRE(mremap(at(8), 2 * page, page, 0) == at(8));
    REQUIRE(mincore(at(9), page, &there) == -1 && errno == ENOMEM);
    REQUIRE(mmap(at(9), page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at(9));
    done("moved");
}

// What a kernel may lack it may refuse.
static void hints() {
    fresh();
    for (int advice : {MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED, MADV_DONTDUMP, MADV_DODUMP})
        REQUIRE(madvise(block, bytes, advice) == 0);
    for (int advice : {MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_COLD, MADV_PAGEOUT})
        REQUIRE(madvise(block, bytes, advice) == 0 || errno == EINVAL);
    REQUIRE(posix_madvise(block, bytes, POSIX_MADV_DONTNEED) == 0);
    REQUIRE(holds(block, 7, bytes));
    done("hints");
}

static void resident() {
    fresh();
    static unsigned char there[pages];
    REQUIRE(mincore(block, bytes, there) == 0);
    for (size_t i = 0; i < pages; i++) REQUIRE(there[i] & 1);
    REQUIRE(msync(block, bytes, MS_SYNC) == 0 && msync(block, bytes, MS_ASYNC) == 0);
    if (mlock(block, page) == 0) REQUIRE(munlock(block, page) == 0);  // there is a limit
    REQUIRE(holds(block, 7, bytes));
    done("resident");
}

int main() {
    CHECK(cudaMalloc(&device, bytes));
    dont_need();
    free_later();
    no_holes();
    wipe_on_fork();
    dont_fork();
    snapshot_at_fork();
    mapped_over();
    unmapped();
    read_only();
    moved();
    hints();
    resident();
    return verdict(0);
}
