// SPDX-License-Identifier: Apache-2.0
// malloc_bench.cc: what malloc and free cost, in nanoseconds a pair, median of 15 rounds. Run it as it is for the
// program's own allocator, and under LD_PRELOAD with BARCUDA_HEAP=always for the heap; compare within one run. A single
// thread's rows are its processor time, so that a busy machine changes them little; those of several are elapsed time.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace {

double seconds(clockid_t clock) {
    timespec t;
    clock_gettime(clock, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

template <class F> double median(int pairs, F round, clockid_t clock = CLOCK_THREAD_CPUTIME_ID) {
    std::vector<double> times;
    for (int i = 0; i < 15; ++i) {
        const double start = seconds(clock);
        round();
        times.push_back((seconds(clock) - start) / pairs * 1e9);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

// Blocks of mixed small sizes, kept for a while and freed in another order, as programs do.
double mixed() {
    static void* kept[4096];
    constexpr int n = 1 << 20;
    return median(n, [] {
        unsigned state = 1;
        for (int i = 0; i < n; ++i) {
            state = state * 1664525 + 1013904223;
            void*& slot = kept[state >> 20];
            free(slot);
            const std::size_t bytes = 16 + (state >> 8) % 1000;
            slot = malloc(bytes);
            static_cast<char*>(slot)[bytes - 1] = 1;
        }
        for (void*& p : kept) {
            free(p);
            p = nullptr;
        }
    });
}

double pair(std::size_t bytes, int n, bool touch) {
    return median(n, [=] {
        for (int i = 0; i < n; ++i) {
            auto* p = static_cast<volatile char*>(malloc(bytes));
            if (touch)
                for (std::size_t at = 0; at < bytes; at += 4096) p[at] = 1;
            p[0] = 1;
            free(const_cast<char*>(p));
        }
    });
}

// The same by several threads at once: for each pair of all of them.
double pairs_of_threads(std::size_t bytes, int n, int count) {
    const auto round = [=] {
        std::vector<std::thread> threads;
        for (int t = 0; t < count; ++t)
            threads.emplace_back([=] {
                for (int i = 0; i < n; ++i) {
                    auto* p = static_cast<volatile char*>(malloc(bytes));
                    p[0] = 1;
                    free(const_cast<char*>(p));
                }
            });
        for (auto& thread : threads) thread.join();
    };
    return median(n * count, round, CLOCK_MONOTONIC);
}

}  // namespace

int main() {
    printf("%-28s %10.1f ns\n", "32 B", pair(32, 1 << 20, false));
    printf("%-28s %10.1f ns\n", "16 B to 1 KiB, mixed", mixed());
    printf("%-28s %10.1f ns\n", "1 MiB", pair(1 << 20, 1 << 12, false));
    printf("%-28s %10.1f ns\n", "1 MiB, four threads", pairs_of_threads(1 << 20, 1 << 14, 4));
    printf("%-28s %10.1f ns\n", "64 MiB", pair(64 << 20, 1 << 12, false));
    printf("%-28s %10.1f ns\n", "64 MiB, every page written", pair(64 << 20, 2, true));
}
