// thread_cache.h: the blocks below 1 KiB that a thread has freed last, kept for its next mallocs, in front of glibc's
// malloc. A library in front of an allocator costs a jump each way, which is a tenth of what glibc's malloc and free
// take together. So this one keeps what would have come back soonest from glibc's own cache of the thread, and is
// spared the way there: as many blocks of the same sizes, with the same checks, of the same chunks. Everything else
// remains glibc's.
//
// It begins with the heap: a process that never touches CUDA has none. Nor has one with another allocator behind us,
// which knows its blocks better, or whose glibc has been told to keep no such cache (glibc.malloc.tcache_count=0
// in GLIBC_TUNABLES): see open().
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "guest-allocator/heap/core.h"

namespace barcuda::heap::thread_cache {

// A freed block. `next` is hidden as glibc hides its own (safe linking): a program that writes to a freed block does
// not steer a later malloc with it. `key` says that the block is most likely in a cache, ours or glibc's.
struct Block {
    std::uintptr_t next;
    std::uintptr_t key;
};

// One list for each size of a chunk, in steps of 16 bytes: 32 (24 for the program) to 1040 (1032).
constexpr std::size_t largest = 1032, sizes = (largest + 8) / 16 + 1;
constexpr std::uint8_t most = 7;  // of one size, as glibc does
struct Cache {
    Block* first[sizes];
    std::uint8_t room[sizes];
};

// Null in a thread that has not begun. In one that is ending: a cache without room.
extern constinit thread_local Cache* mine __attribute__((tls_model("initial-exec"), visibility("hidden")));
// Blocks of fewer bytes come from a cache: 0 until open(), then 1033 or the threshold.
[[gnu::visibility("hidden")]] extern std::atomic<std::size_t> below;
[[gnu::visibility("hidden")]] extern std::uintptr_t key;

// The heap begins. Only from a constructor or a CUDA call: not from inside malloc. Repeated, it does nothing.
void open() noexcept;

// The rare ends of malloc() and free() below; jumps, so that those need no frame on the stack.
void* begin_thread(std::size_t bytes) noexcept;  // gives the thread a cache, and a block of glibc's
void* written_to(const void* p) noexcept;        // dies: the program has written to a block after freeing it
void check_and_free(void* p) noexcept;           // dies if it is in this thread's cache; else it is glibc's to free

// `next` as it is kept at `at`.
inline std::uintptr_t hide(const std::uintptr_t& at, std::uintptr_t next) noexcept {
    return reinterpret_cast<std::uintptr_t>(&at) >> 12 ^ next;
}

// A block of fewer than `below` bytes. `next` is glibc's malloc.
template <class F> inline void* malloc(std::size_t bytes, const F& next) noexcept {
    Cache* const cache = mine;
    if (__builtin_expect(!cache, 0)) return begin_thread(bytes);
    const std::size_t size = bytes <= 24 ? 2 : (bytes + 8 + 15) / 16;
    Block* const block = cache->first[size];
    if (!block) return next(bytes);
    if (__builtin_expect(reinterpret_cast<std::uintptr_t>(block) % 16 != 0, 0)) return written_to(block);
    cache->first[size] = reinterpret_cast<Block*>(hide(block->next, block->next));
    ++cache->room[size];
    block->key = 0;
    return block;
}

// Any block of glibc's, in a thread that has begun. `next` is glibc's free. The word in front of a block is the size of
// its chunk, whose lowest bits are flags; open() has made sure of it.
template <class F> inline void free(Cache* cache, void* p, const F& next) noexcept {
    if (!p) return;
    const std::size_t chunk = static_cast<const std::size_t*>(p)[-1], size = chunk / 16;
    const bool sound = (reinterpret_cast<std::uintptr_t>(p) % 16 | (chunk & 8)) == 0;  // if not, glibc says so
    if (size >= sizes || !sound) return next(p);
    auto* const block = static_cast<Block*>(p);
    if (__builtin_expect(block->key == key, 0)) return check_and_free(p);
    if (!cache->room[size]) return next(p);
    block->next = hide(block->next, reinterpret_cast<std::uintptr_t>(cache->first[size]));
    block->key = key;
    cache->first[size] = block;
    --cache->room[size];
}

}  // namespace barcuda::heap::thread_cache
