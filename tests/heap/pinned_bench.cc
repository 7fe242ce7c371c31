// SPDX-License-Identifier: Apache-2.0
// pinned_bench.cc: what many small pinned blocks cost, in time and in bytes of the region: as runs of pages (what
// cudaHostAlloc gets), and as mimalloc would serve them at best (heap/small.cc, on extents of the same source; aligned
// to 16 bytes, and without the books that must say of an address which block it is in, how long, and with what flags).
// Threads take blocks of one size until each has `blocks` of them, then free one and take one at random, then free all.
//
//   pinned_bench [--blocks N]      a row for each size and number of threads; each cell in a process of its own
//
// time      processor time of all threads for an alloc and a free, nanoseconds
// granted   extents held at the peak for a byte asked for: the host registers, and so pins, whole extents
// touched   pages of the region that were ever written for a byte asked for: more than that must be there
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "guest-allocator/heap/core.h"
#include "guest-allocator/heap/settings.h"
#include "guest-allocator/heap/small.h"
#include "tests/heap/support/memfd_source.h"

namespace barcuda::heap {
namespace {
test::MemfdSource* source = nullptr;
}
ExtentSource* connect() noexcept { return source = test::MemfdSource::open(std::size_t{16} << 30); }
}  // namespace barcuda::heap

using namespace barcuda;

namespace {

struct Way {
    const char* name;
    void* (*alloc)(std::size_t);
    void (*free)(void*);
};
constexpr Way ways[] = {
    {"pages", [](std::size_t n) { return heap::pinned_alloc(n, 0); }, [](void* p) { heap::pinned_free(p); }},
    {"mimalloc", [](std::size_t n) { return heap::small::alloc(n, 16, false); }, heap::small::free},
};

struct Cell {
    double time, granted, touched;
};

double thread_seconds() {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

double touched_bytes() {
    struct stat s {};
    const int file = heap::source->file();
    if (file < 0 || fstat(file, &s)) return 0;
    close(file);
    return static_cast<double>(s.st_blocks) * 512;
}

Cell measure(const Way& way, std::size_t bytes, unsigned count, std::size_t blocks) {
    heap::settings.threshold = 1;  // small.cc loads mimalloc only where small blocks are asked for
    heap::small::open();
    heap::settings.mode = heap::Mode::never;  // this program's own malloc stays as it is
    if (!heap::activate()) _exit(1);
    constexpr unsigned rounds = 5, turns = 20;  // each block is replaced so many times in a round
    std::atomic<unsigned> full{0};
    std::atomic<bool> measured{false};
    Cell cell{};
    double best = 1e9;
    for (unsigned round = 0; round < rounds; ++round) {
        full = 0;
        measured = round > 0;
        std::vector<std::thread> threads;
        std::atomic<double> seconds{0};
        for (unsigned t = 0; t < count; ++t)
            threads.emplace_back([&, t] {
                std::vector<void*> kept(blocks);
                const auto take = [&] {
                    void* p = way.alloc(bytes);
                    if (!p) {
                        fprintf(stderr, "pinned_bench: no room\n");
                        _exit(1);
                    }
                    memset(p, 1, 8);
                    return p;
                };
                double start = thread_seconds();
                for (void*& p : kept) p = take();
                double spent = thread_seconds() - start;
                ++full;
                while (!measured) usleep(1000);
                unsigned state = t + 1;
                start = thread_seconds();
                for (std::size_t i = 0; i < blocks * turns; ++i) {
                    state = state * 1664525 + 1013904223;
                    void*& slot = kept[(state >> 8) % blocks];
                    way.free(slot);
                    slot = take();
                }
                for (void* p : kept) way.free(p);
                seconds += spent + thread_seconds() - start;
            });
        if (!measured) {
            while (full < count) usleep(1000);
            const double asked = static_cast<double>(bytes * blocks * count);
            cell.granted = static_cast<double>(heap::source->granted()) / asked;
            cell.touched = touched_bytes() / asked;
            measured = true;
        }
        for (auto& thread : threads) thread.join();
        if (round) best = std::min(best, seconds / static_cast<double>(blocks * (turns + 1) * count));
    }
    cell.time = best * 1e9;
    return cell;
}

Cell measure_apart(const Way& way, std::size_t bytes, unsigned threads, std::size_t blocks) {
    int answer[2];
    if (pipe(answer)) exit(1);
    const pid_t pid = fork();
    if (!pid) {
        const Cell cell = measure(way, bytes, threads, blocks);
        _exit(write(answer[1], &cell, sizeof cell) != sizeof cell);
    }
    Cell cell{};
    close(answer[1]);
    const bool done = read(answer[0], &cell, sizeof cell) == sizeof cell;
    close(answer[0]);
    waitpid(pid, nullptr, 0);
    if (!done) fprintf(stderr, "pinned_bench: %s, %zu bytes: no figures\n", way.name, bytes);
    return cell;
}

}  // namespace

int main(int argc, char** argv) {
    std::size_t blocks = 1000;
    if (argc == 3 && !strcmp(argv[1], "--blocks")) blocks = strtoul(argv[2], nullptr, 10);
    if (!blocks || (argc != 1 && argc != 3)) {
        fprintf(stderr, "usage: pinned_bench [--blocks N]\n");
        return 2;
    }
    printf("%zu blocks a thread\n%6s %8s", blocks, "bytes", "threads");
    for (const Way& way : ways) printf("   %10s: ns %9s %9s", way.name, "granted", "touched");
    printf("\n");
    for (const std::size_t bytes : {64, 256, 1024, 4096})
        for (const unsigned threads : {1, 4, 16}) {
            printf("%6zu %8u", bytes, threads);
            for (const Way& way : ways) {
                const Cell c = measure_apart(way, bytes, threads, blocks);
                printf("   %14.1f %9.2f %9.2f", c.time, c.granted, c.touched);
                fflush(stdout);
            }
            printf("\n");
        }
}
