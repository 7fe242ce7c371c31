// SPDX-License-Identifier: Apache-2.0
// heap_bench.cc: what the driver layer's calls into the heap cost, medians of 15 rounds, over a memfd: pinned blocks,
// registration, the question "what is this address?", and a fork with a heap of 256 MiB and of 1 GiB.
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "guest-allocator/heap/core.h"
#include "guest-allocator/heap/heap.h"
#include "guest-allocator/heap/registered.h"
#include "tests/heap/support/memfd_source.h"

namespace barcuda::heap {
ExtentSource* connect() noexcept { return test::MemfdSource::open(std::size_t{4} << 30); }
}  // namespace barcuda::heap

using namespace barcuda;

namespace {

double seconds() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

template <class F> double median(int rounds, int times, F once) {
    std::vector<double> each;
    for (int i = 0; i < rounds; ++i) {
        const double start = seconds();
        for (int k = 0; k < times; ++k) once();
        each.push_back((seconds() - start) / times * 1e9);
    }
    std::sort(each.begin(), each.end());
    return each[each.size() / 2];
}

void line(const char* what, double ns) { printf("%-44s %12.1f ns\n", what, ns); }

void pinned(const char* what, std::size_t bytes) {
    line(what, median(15, 100000, [=] { heap::pinned_free(heap::pinned_alloc(bytes, 0)); }));
}

double fork_and_wait() {
    const double start = seconds();
    const pid_t pid = fork();
    if (!pid) _exit(0);
    const double time = seconds() - start;
    waitpid(pid, nullptr, 0);
    return time * 1e3;
}

}  // namespace

int main() {
    if (!heap::activate()) return 1;
    pinned("pinned 4 KiB, alloc + free", 4 << 10);
    pinned("pinned 16 MiB, alloc + free", 16 << 20);
    pinned("pinned 256 MiB, alloc + free", 256 << 20);
    void* const block = heap::region_alloc(16 << 20, 16, false);
    line("register + unregister 16 MiB of the region", median(15, 100000, [=] {
             heap::register_host(block, 16 << 20, 0);
             heap::unregister_host(block);
         }));
    void* const inside = heap::pinned_alloc(64 << 20, 0);
    volatile int sink = 0;
    line("kind of a pinned address",
         median(15, 1000000, [&] { sink = static_cast<int>(heap::kind_of(inside, 4096)); }));
    line("find the block around an address", median(15, 1000000, [&] {
             sink = static_cast<int>(heap::find(static_cast<char*>(inside) + (33 << 20)).kind);
         }));
    printf("%-44s %12.2f ms\n", "fork, next to nothing in the heap", fork_and_wait());
    for (std::size_t MiB : {256, 256, 1024}) {
        void* p = heap::region_alloc(MiB << 20, 16, false);
        memset(p, 1, MiB << 20);
        double best = fork_and_wait();
        for (int i = 0; i < 2; ++i) best = std::min(best, fork_and_wait());
        char what[64];
        snprintf(what, sizeof what, "fork, %zu MiB written", MiB);
        printf("%-44s %12.2f ms (%.3f ms a MiB)\n", what, best, best / static_cast<double>(MiB));
        heap::region_free(p);
    }
}
