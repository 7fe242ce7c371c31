// SPDX-License-Identifier: Apache-2.0
// stress.cc: random operations of the malloc family against a model, by several threads, with forks in between. Every
// block is filled with bytes that follow from its own seed and is verified in full before it is resized or freed, by
// whatever thread comes upon it. It knows nothing of Barcuda: run it under LD_PRELOAD.
//
//   stress [SECONDS=2] [THREADS=4] [SEED=1] [MiB kept at most=256]
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

namespace {

struct Random {
    uint64_t state;
    uint64_t operator()() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return state;
    }
    size_t below(size_t n) { return static_cast<size_t>((*this)() % n); }
};

struct Block {
    unsigned char* p = nullptr;
    size_t bytes = 0;
    uint64_t seed = 0;
};

[[noreturn]] void wrong(const char* what, const Block& block, size_t at) {
    fprintf(stderr, "stress: %s: block %p of %zu bytes, at %zu\n", what, static_cast<void*>(block.p), block.bytes, at);
    abort();
}

uint64_t word(uint64_t seed, size_t at) { return (seed + at) * 0x9e3779b97f4a7c15u; }

void fill(const Block& b) {
    size_t at = 0;
    for (; at + 8 <= b.bytes; at += 8) {
        const uint64_t w = word(b.seed, at);
        memcpy(b.p + at, &w, 8);
    }
    for (; at < b.bytes; ++at) b.p[at] = static_cast<unsigned char>(word(b.seed, at));
}

void verify(const Block& b, size_t bytes) {
    size_t at = 0;
    // The last word of the block may have been written bytewise: compare whole words only where fill() wrote them.
    for (; at + 8 <= bytes && at + 8 <= b.bytes; at += 8) {
        uint64_t w;
        memcpy(&w, b.p + at, 8);
        if (w != word(b.seed, at)) wrong("changed", b, at);
    }
    for (; at < bytes; ++at) {
        const size_t start = at & ~size_t{7};
        uint64_t w = word(b.seed, start);
        const auto expected = start + 8 <= b.bytes ? reinterpret_cast<unsigned char*>(&w)[at - start]
                                                   : static_cast<unsigned char>(word(b.seed, at));
        if (b.p[at] != expected) wrong("changed", b, at);
    }
}

// Sizes as programs have them: mostly small, some large, a few huge.
size_t some_size(Random& random) {
    switch (random.below(16)) {
        case 0: return random.below(4) ? random.below(8 << 20) : random.below(40 << 20);
        case 1:
        case 2: return random.below(1 << 20);
        case 3:
        case 4: return 60000 + random.below(12000);  // about the threshold
        case 5: return random.below(20);
        default: return random.below(4000);
    }
}

constexpr size_t slots = 512;
struct Slot {
    std::mutex mutex;
    Block block;
} table[slots];
std::atomic<size_t> kept{0};
std::atomic<uint64_t> operations{0}, forks{0};
size_t most_kept;

void drop(Block& b) {
    kept -= b.bytes;
    free(b.p);
    b = {};
}

void step(Random& random, bool may_fork) {
    Slot& slot = table[random.below(slots)];
    std::lock_guard lock(slot.mutex);
    Block& b = slot.block;
    if (b.p) {
        verify(b, b.bytes);
        if (malloc_usable_size(b.p) < b.bytes) wrong("usable size", b, 0);
    }
    size_t bytes = some_size(random);
    if (kept + bytes > most_kept) bytes = random.below(1000);
    const unsigned kind = static_cast<unsigned>(random.below(b.p ? 8 : 5));
    if (b.p && kind < 4) return drop(b);
    if (b.p) {  // resize
        const Block before = b;
        auto* p = static_cast<unsigned char*>(realloc(b.p, bytes ? bytes : 1));
        if (!p) wrong("realloc failed", b, 0);
        b.p = p;
        const size_t keeps = bytes < before.bytes ? bytes : before.bytes;
        Block moved = before;
        moved.p = p;
        verify(moved, keeps);
        kept += bytes - before.bytes;
    } else {
        size_t alignment = 1;
        switch (kind) {
            case 0:
            case 1: b.p = static_cast<unsigned char*>(malloc(bytes)); break;
            case 2:
                b.p = static_cast<unsigned char*>(calloc(1, bytes));
                for (size_t at = 0; b.p && at < bytes; ++at)
                    if (b.p[at]) wrong("calloc gave old bytes", Block{b.p, bytes, 0}, at);
                break;
            case 3:
                alignment = size_t{16} << random.below(random.below(8) ? 9 : 18);
                b.p = static_cast<unsigned char*>(aligned_alloc(alignment, bytes));
                break;
            default: {
                alignment = size_t{8} << random.below(12);
                void* p = nullptr;
                if (!posix_memalign(&p, alignment, bytes)) b.p = static_cast<unsigned char*>(p);
            }
        }
        if (!b.p) wrong("no memory", Block{nullptr, bytes, 0}, 0);
        if (reinterpret_cast<uintptr_t>(b.p) % alignment) wrong("alignment", Block{b.p, bytes, 0}, alignment);
        kept += bytes;
    }
    b.bytes = bytes;
    b.seed = random();
    fill(b);
    if (may_fork) {
        ++forks;
        const pid_t pid = fork();
        if (!pid) {
            // The child may touch what its thread holds: this block. It verifies it, scribbles over it, and works
            // alone.
            verify(b, b.bytes);
            memset(b.p, 0xee, b.bytes);
            Random own{random.state | 1};
            for (int i = 0; i < 50; ++i) {
                Block c{static_cast<unsigned char*>(malloc(some_size(own))), 100, own()};
                c.bytes = malloc_usable_size(c.p) < 100 ? malloc_usable_size(c.p) : 100;
                fill(c);
                verify(c, c.bytes);
                free(c.p);
            }
            free(b.p);
            _exit(0);
        }
        int status = -1;
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
        if (status) wrong("the child failed", b, static_cast<size_t>(status));
        verify(b, b.bytes);
    }
}

}  // namespace

int main(int argc, char** argv) {
    const auto argument = [&](int i, unsigned long otherwise) {
        return argc > i ? strtoul(argv[i], nullptr, 10) : otherwise;
    };
    const double seconds = static_cast<double>(argument(1, 2));
    const auto thread_count = argument(2, 4);
    const uint64_t seed = argument(3, 1);
    most_kept = argument(4, 256) << 20;
    timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    const auto over = [&] {
        timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return static_cast<double>(t.tv_sec - start.tv_sec) + static_cast<double>(t.tv_nsec - start.tv_nsec) * 1e-9 >
               seconds;
    };
    // Threads start and end: each lives for a few thousand steps, and its blocks stay behind for the others.
    std::vector<std::thread> threads;
    for (unsigned long t = 0; t < thread_count; ++t)
        threads.emplace_back([&, t] {
            for (uint64_t life = 0; !over(); ++life)
                std::thread([&] {
                    Random random{(seed + 1) * 0x9e3779b97f4a7c15u ^ (life * 1000 + t + 1)};
                    for (int i = 0; i < 2000 && !over(); ++i, ++operations) step(random, t == 0 && i % 500 == 99);
                }).join();
        });
    for (auto& thread : threads) thread.join();
    for (Slot& slot : table)
        if (slot.block.p) {
            verify(slot.block, slot.block.bytes);
            drop(slot.block);
        }
    printf("stress: %llu operations, %llu forks, every byte as it should be\n",
           static_cast<unsigned long long>(operations.load()), static_cast<unsigned long long>(forks.load()));
}
