// SPDX-License-Identifier: Apache-2.0
// model.cc: random operations on the heap's own entries and on the malloc family, by several threads, against a model
// that knows which bytes are whose. stress.cc sees a program's malloc alone; this one also sees pinned blocks, staging
// buffers, what find() says, a region that is full again and again, extents that are granted and released, what a
// program does to the mapping of a block, and the whole heap of a forked child.
//
//   model [--seconds N=10] [--threads N=4] [--seed N=1] [--forks 0|1]
//
// Every round fills the region until it refuses, works on, frees everything, and ends with no extent granted.
#include <getopt.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "guest-allocator/heap/core.h"
#include "guest-allocator/heap/sanitized.h"
#include "guest-allocator/heap/settings.h"
#include "tests/heap/support/memfd_source.h"

namespace barcuda::heap {
namespace {
test::MemfdSource* source = nullptr;
}
// Two GiB: one address in it is aligned to a GiB. Most of it is never written.
ExtentSource* connect() noexcept { return source = test::MemfdSource::open(std::size_t{2} << 30); }
}  // namespace barcuda::heap

using namespace barcuda::heap;

namespace {

constexpr std::size_t KiB = 1 << 10, MiB = 1 << 20;
std::uint64_t seed = 1;

enum class Room { malloc, pageable, pinned, staging };

struct Block {
    unsigned char* p = nullptr;
    std::size_t bytes = 0;
    std::uint64_t mark = 0;
    Room room = Room::malloc;
    unsigned flags = 0;
};

[[noreturn]] void wrong(const char* what, const Block& b) {
    fprintf(stderr, "model: %s: block %p of %zu bytes, room %d (--seed %llu)\n", what, static_cast<void*>(b.p), b.bytes,
            static_cast<int>(b.room), static_cast<unsigned long long>(seed));
    abort();
}

// Which words of a block carry its mark: all of a small one; of a larger one the first and last, and one in each of 61
// parts, at an offset that follows from the mark: a page that two blocks share by mistake is met sooner or later.
template <class F> void each_word(const Block& b, std::size_t bytes, F visit) {
    const std::size_t words = b.bytes / 8, seen = bytes / 8;
    if (words <= 512) {
        for (std::size_t w = 0; w < seen; ++w) visit(w);
        return;
    }
    const std::size_t step = words / 61;
    for (std::size_t w = b.mark % step; w < seen; w += step) visit(w);
    if (seen) visit(0);
    if (seen == words) visit(words - 1);
}
void fill(const Block& b) {
    each_word(b, b.bytes, [&](std::size_t w) {
        const std::uint64_t value = b.mark + w;
        memcpy(b.p + w * 8, &value, 8);
    });
}
void verify(const Block& b, std::size_t bytes) {
    each_word(b, bytes, [&](std::size_t w) {
        std::uint64_t value;
        memcpy(&value, b.p + w * 8, 8);
        if (value != b.mark + w) wrong("changed", b);
    });
}

// Who owns which addresses: no two blocks overlap.
class Owned {
  public:
    void add(const Block& b) {
        std::lock_guard lock(mutex_);
        const std::uintptr_t begin = at(b), end = begin + room(b);
        const auto next = ranges_.lower_bound(begin);
        if (next != ranges_.end() && next->first < end) wrong("overlaps the block behind it", b);
        if (next != ranges_.begin() && std::prev(next)->second > begin) wrong("overlaps the block before it", b);
        ranges_[begin] = end;
    }
    void remove(const Block& b) {
        std::lock_guard lock(mutex_);
        if (!ranges_.erase(at(b))) wrong("was nobody's", b);
    }
    std::mutex& mutex() { return mutex_; }

  private:
    static std::uintptr_t at(const Block& b) { return reinterpret_cast<std::uintptr_t>(b.p); }
    static std::uintptr_t room(const Block& b) { return b.bytes ? b.bytes : 1; }
    std::mutex mutex_;
    std::map<std::uintptr_t, std::uintptr_t> ranges_;
} owned;

struct Slot {
    std::mutex mutex;
    Block block;
};
std::array<Slot, 300> slots;
std::atomic<std::uint64_t> operations{0}, refusals{0}, forks{0}, moves{0}, in_place{0}, mapped{0};

struct Random {
    std::mt19937_64 next;
    std::size_t below(std::size_t n) { return next() % n; }
    bool one_in(std::size_t n) { return !below(n); }
    std::size_t size() {
        switch (below(12)) {
            case 0: return below(one_in(3) ? 300 * MiB : 20 * MiB);  // the region is full after a few of these
            case 1:
            case 2: return below(4 * MiB);
            case 3:
            case 4: return 60 * KiB + below(12 * KiB);  // about the threshold
            case 5: return below(32);
            case 6: return (1 + below(64)) * 64 * KiB;  // sizes that come again
            default: return below(200 * KiB);
        }
    }
    std::size_t alignment() {
        if (!one_in(8)) return 16;
        return std::size_t{16} << below(one_in(8) ? 27 : 13);  // to 1 GiB
    }
};

void take(Block& b, Random& random) {
    b = {};
    b.bytes = random.size();
    std::size_t alignment = random.alignment();
    bool zero = random.one_in(5);
    if (zero) b.bytes %= 4 * MiB;  // zeros are written
    switch (b.room = static_cast<Room>(random.below(4)); b.room) {
        case Room::malloc:
            if (void* p = nullptr; zero) {
                b.p = static_cast<unsigned char*>(calloc(1, b.bytes));
                alignment = 16;
            } else if (alignment == 16) b.p = static_cast<unsigned char*>(malloc(b.bytes));
            else if (!posix_memalign(&p, alignment, b.bytes)) b.p = static_cast<unsigned char*>(p);
            if (!b.p) wrong("malloc has no ordinary memory", b);
            if (malloc_usable_size(b.p) < b.bytes) wrong("usable size", b);
            break;
        case Room::pageable:
            if (b.bytes < run_bytes) b.bytes = run_bytes;
            b.p = static_cast<unsigned char*>(region_alloc(b.bytes, alignment, zero));
            break;
        case Room::pinned:
            b.flags = static_cast<unsigned>(random.below(8));
            alignment = alignment < page ? page : alignment;
            b.p = static_cast<unsigned char*>(pinned_alloc(b.bytes, b.flags, alignment));
            break;
        case Room::staging:
            b.p = static_cast<unsigned char*>(staging_alloc(b.bytes));
            alignment = page;
            break;
    }
    if (!b.p) {
        ++refusals;
        return;
    }
    if (reinterpret_cast<std::uintptr_t>(b.p) % alignment) wrong("alignment", b);
    b.mark = random.next();
    owned.add(b);
    if (zero && b.room < Room::pinned)
        each_word(b, b.bytes, [&](std::size_t w) {
            std::uint64_t value;
            memcpy(&value, b.p + w * 8, 8);
            if (value) wrong("zeroed memory is not", b);
        });
    fill(b);
}

void look(const Block& b, Random& random) {
    verify(b, b.bytes);
    if (b.room == Room::malloc || !b.bytes) return;
    const unsigned char* inside = b.p + random.below(b.bytes);
    const Found found = find(inside);
    const Kind kind = b.room == Room::pinned ? Kind::pinned : b.room == Room::pageable ? Kind::pageable : Kind::outside;
    if (found.kind != kind) wrong("find: another kind", b);
    if (b.room == Room::staging) return;
    if (reinterpret_cast<unsigned char*>(found.base) != b.p) wrong("find: another beginning", b);
    if (found.bytes != b.bytes && b.room == Room::pinned) wrong("find: another length", b);
    if (found.flags != b.flags) wrong("find: other flags", b);
    if (kind_of(inside, 1) != kind) wrong("kind_of", b);
}

void drop(Block& b) {
    owned.remove(b);
    switch (b.room) {
        case Room::malloc: free(b.p); break;
        case Room::pageable: region_free(b.p); break;
        case Room::pinned:
            if (!pinned_free(b.p)) wrong("pinned_free", b);
            break;
        case Room::staging: staging_free(b.p); break;
    }
    b = {};
}

void resize(Block& b, Random& random) {
    std::size_t bytes = random.size();
    const std::size_t keeps = bytes < b.bytes ? bytes : b.bytes;
    Block before = b;
    owned.remove(b);
    if (b.room == Room::malloc) {
        b.p = static_cast<unsigned char*>(realloc(b.p, bytes ? bytes : 1));
        if (!b.p) wrong("realloc", before);
        ++(b.p == before.p ? in_place : moves);
    } else if (region_resize(b.p, bytes = bytes < run_bytes ? run_bytes : bytes)) {
        ++in_place;
    } else {
        bytes = b.bytes;
    }
    before.p = b.p;
    verify(before, keeps < bytes ? keeps : bytes);
    b.bytes = bytes;
    owned.add(b);
    b.mark = random.next();
    fill(b);
}

// What a program does to pages in the midst of a block, and that it is done to them alone. The block is whole
// afterwards, or is freed as it is.
void map_part(Block& b, Random& random) {
    const auto begin = reinterpret_cast<std::uintptr_t>(b.p), end = begin + b.bytes;
    const std::size_t first = round_up(begin, page) / page, last = end / page;
    if (BARCUDA_SANITIZED || b.room > Room::pageable || !in_region(b.p, b.bytes) || last < first + 2) return;
    ++mapped;
    const std::size_t at = first + random.below(last - first - 1), most = last - at < 100 ? last - at : 100;
    auto* const p = reinterpret_cast<unsigned char*>(at * page);
    const std::size_t bytes = (1 + random.below(most)) * page;
    constexpr int read_write = PROT_READ | PROT_WRITE, ours = MAP_PRIVATE | MAP_ANONYMOUS;
    std::vector<unsigned char> was(p, p + bytes);
    const auto must = [&](bool right, const char* what) {
        if (!right) wrong(what, b);
    };
    const auto is_zero = [&] { return !*p && !memcmp(p, p + 1, bytes - 1); };
    switch (random.below(6)) {
        case 0: must(!madvise(p, bytes, MADV_DONTNEED) && is_zero(), "MADV_DONTNEED"); break;
        case 1:
            must(mmap(p, bytes, read_write, ours | MAP_FIXED, -1, 0) == p && is_zero(), "mmap over it");
            must(!reach(p, bytes), "the device still reaches what is mapped over");
            break;
        case 2: {
            auto* const to = static_cast<unsigned char*>(mremap(p, bytes, bytes + page, MREMAP_MAYMOVE));
            must(to != MAP_FAILED && !memcmp(to, was.data(), bytes), "mremap");
            must(mremap(to, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, p) == p, "mremap, back");
            munmap(to + bytes, page);
            break;
        }
        case 3:
            must(!mprotect(p, bytes, random.one_in(2) ? PROT_NONE : PROT_READ) && !reach(p, bytes), "mprotect");
            if (random.one_in(2)) return drop(b);
            must(!mprotect(p, bytes, read_write), "mprotect, back");
            break;
        case 4: must(!madvise(p, bytes, random.one_in(2) ? MADV_FREE : MADV_KEEPONFORK), "madvise"); break;
        default: must(!munmap(p, bytes), "munmap"); return drop(b);
    }
    memcpy(p, was.data(), bytes);
}

// The child sees every block that no thread had in hand, and may do with them what it likes.
void fork_once(Random& random) {
    ++forks;
    owned.mutex().lock();  // the child's model has to be in order too
    const pid_t pid = fork();
    owned.mutex().unlock();
    if (!pid) {
        for (Slot& slot : slots) {
            if (!slot.mutex.try_lock()) continue;
            if (slot.block.p && slot.block.room != Room::staging) {
                verify(slot.block, slot.block.bytes);
                if (slot.block.room == Room::malloc && random.one_in(2)) drop(slot.block);
                else memset(slot.block.p, 0xee, slot.block.bytes < 100 ? slot.block.bytes : 100);
            }
            slot.mutex.unlock();
        }
        _exit(0);
    }
    int status = -1;
    if (waitpid(pid, &status, 0) != pid || status) {
        fprintf(stderr, "model: a forked child ended with %d (--seed %llu)\n", status,
                static_cast<unsigned long long>(seed));
        abort();
    }
}

void step(Random& random) {
    if (random.one_in(2000)) trim(random.one_in(2));
    Slot& slot = slots[random.below(slots.size())];
    std::lock_guard lock(slot.mutex);
    Block& b = slot.block;
    ++operations;
    if (!b.p) return take(b, random);
    look(b, random);
    switch (random.below(7)) {
        case 0: break;
        case 6: return map_part(b, random);
        case 1:
        case 2:
            if (b.room == Room::malloc || b.room == Room::pageable) return resize(b, random);
            [[fallthrough]];
        default: drop(b);
    }
}

double seconds() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

}  // namespace

int main(int argc, char** argv) {
    double length = 10;
    std::uint64_t thread_count = 4, with_forks = 1;
    const option options[] = {{"seconds", 1, nullptr, 's'},
                              {"threads", 1, nullptr, 't'},
                              {"seed", 1, nullptr, 'r'},
                              {"forks", 1, nullptr, 'f'},
                              {nullptr, 0, nullptr, 0}};
    for (int c; (c = getopt_long(argc, argv, "", options, nullptr)) != -1;) {
        const std::uint64_t n = optarg ? strtoull(optarg, nullptr, 0) : 0;
        if (c == 's') length = static_cast<double>(n);
        else if (c == 't') thread_count = n;
        else if (c == 'r') seed = n;
        else if (c == 'f') with_forks = n;
        else return 2;
    }
    printf("model: --seed %llu --threads %llu\n", static_cast<unsigned long long>(seed),
           static_cast<unsigned long long>(thread_count));
    fflush(stdout);
    if (!activate()) {
        fprintf(stderr, "model: no region\n");
        return 1;
    }
    const double end = seconds() + length;
    std::uint64_t rounds = 0;
    for (; seconds() < end; ++rounds) {
        std::vector<std::thread> threads;
        for (std::uint64_t t = 0; t < thread_count; ++t)
            threads.emplace_back([=] {
                Random random{std::mt19937_64(seed * 1000003 + rounds * 1009 + t)};
                for (int i = 0; i < 3000 && seconds() < end; ++i) {
                    step(random);
                    if (with_forks && t == 0 && i == 1500) fork_once(random);
                }
            });
        for (auto& thread : threads) thread.join();
        for (Slot& slot : slots)
            if (slot.block.p) {
                verify(slot.block, slot.block.bytes);
                drop(slot.block);
            }
        trim(true);
        if (source->granted()) {
            fprintf(stderr, "model: %zu MiB of extents are left of nothing (--seed %llu)\n", source->granted() / MiB,
                    static_cast<unsigned long long>(seed));
            return 1;
        }
    }
    const Statistics& s = statistics;
    printf(
        "model: %llu operations in %llu rounds, %llu resized in place, %llu moved, %llu forks, %llu extents, refused "
        "%llu "
        "times, %llu fell back to ordinary memory, %llu parts were mapped: all as it should be\n",
        static_cast<unsigned long long>(operations.load()), static_cast<unsigned long long>(rounds),
        static_cast<unsigned long long>(in_place.load()), static_cast<unsigned long long>(moves.load()),
        static_cast<unsigned long long>(forks.load()), static_cast<unsigned long long>(s.grants.get()),
        static_cast<unsigned long long>(refusals.load()), static_cast<unsigned long long>(s.fallbacks.get()),
        static_cast<unsigned long long>(mapped.load()));
}
