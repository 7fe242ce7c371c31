#include "guest-allocator/heap/thread_cache.h"

#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <cstring>

#include "guest-allocator/heap/settings.h"

extern "C" {
void* __libc_malloc(std::size_t bytes) noexcept;
void* __libc_calloc(std::size_t count, std::size_t bytes) noexcept;
void __libc_free(void* p) noexcept;
}

namespace barcuda::heap::thread_cache {

constinit thread_local Cache* mine = nullptr;
std::atomic<std::size_t> below{0};
std::uintptr_t key = 0;

namespace {

Cache none{};  // without blocks and without room: of threads that are ending
pthread_key_t end_of_thread;

void end_thread(void* own) {
    auto* const cache = static_cast<Cache*>(own);
    mine = &none;  // what the destructors after this one free
    for (Block* block : cache->first)
        while (block) {
            if (reinterpret_cast<std::uintptr_t>(block) % 16) written_to(block);
            Block* const next = reinterpret_cast<Block*>(hide(block->next, block->next));
            block->key = 0;
            __libc_free(block);
            block = next;
        }
    __libc_free(cache);
}

// Behind our malloc stands glibc's and nobody else's.
bool in_front_of_glibc() noexcept { return dlsym(RTLD_NEXT, "malloc") == dlsym(RTLD_DEFAULT, "__libc_malloc"); }

// Chunks are as put() takes them to be, and glibc keeps blocks in a cache of its own. It marks those in their second
// word, with a number that the process draws once: the same mark on ours, and a block that is freed to both of us is
// noticed, whichever had it first.
bool learn() noexcept {
    const auto usable = reinterpret_cast<std::size_t (*)(void*)>(dlsym(RTLD_NEXT, "malloc_usable_size"));
    if (!usable) return false;
    for (const std::size_t bytes : {std::size_t{25}, std::size_t{24}, std::size_t{500}, largest}) {
        void* const p = __libc_malloc(bytes);
        if (!p) return false;
        volatile auto* const words = static_cast<volatile std::uintptr_t*>(p);
        const std::size_t chunk = (bytes + 8 + 15) / 16 * 16;
        const bool known = usable(p) + 8 == chunk && words[-1] / 16 * 16 == chunk;
        if (known) words[1] = 0;
        __libc_free(p);
        if (!known || !words[1] || (key && words[1] != key)) return false;
        key = words[1];
    }
    return true;
}

}  // namespace

void open() noexcept {
    static std::atomic_flag begun = ATOMIC_FLAG_INIT;
    if (begun.test_and_set() || !in_front_of_glibc() || !learn()) return;
    if (pthread_key_create(&end_of_thread, end_thread)) return;
    below.store(std::min(largest + 1, settings.threshold), std::memory_order_release);
}

void* begin_thread(std::size_t bytes) noexcept {
    if (auto* const cache = static_cast<Cache*>(__libc_calloc(1, sizeof(Cache)))) {
        std::fill(std::begin(cache->room) + 2, std::end(cache->room), most);
        mine = cache;
        if (pthread_setspecific(end_of_thread, cache)) mine = &none, __libc_free(cache);
    }
    return __libc_malloc(bytes);
}

void check_and_free(void* p) noexcept {
    for (Block* block : mine->first)
        while (block) {
            if (block == p) die("free(): this block is free already", p);
            block = reinterpret_cast<Block*>(hide(block->next, block->next));
        }
    __libc_free(p);
}

void* written_to(const void* p) noexcept { die("malloc(): the program has written to a block after freeing it", p); }

}  // namespace barcuda::heap::thread_cache
