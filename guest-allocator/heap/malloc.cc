// malloc.cc: the malloc family, interposed for the whole process. Below the limit, and until there is a reason
// (core.h), a block is libc's own, reached through the names that glibc exports for its own use: no lookup, no
// recursion, and they work before any constructor has run. `free` asks one range check whose block it is; so memory
// that began before us, or came out of libc (strdup, getline), goes back where it came from.
//
// A program that brings an allocator of its own which replaces malloc under these names as well (jemalloc, tcmalloc,
// mimalloc do) keeps it: the loader binds both sides of each pair to the same library.
#include <dlfcn.h>
#include <errno.h>

#include <cstdint>
#include <cstring>

#include "guest-allocator/heap/core.h"

// Under a sanitizer the program's malloc is the sanitizer's; its tests use the rooms of the heap directly.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BARCUDA_NO_MALLOC
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define BARCUDA_NO_MALLOC
#endif
#endif

#ifndef BARCUDA_NO_MALLOC

// noplt: one jump instead of two on the path of every small block.
#define LIBC extern "C" __attribute__((noplt))
LIBC void* __libc_malloc(std::size_t) noexcept;
LIBC void __libc_free(void*) noexcept;
LIBC void* __libc_calloc(std::size_t, std::size_t) noexcept;
LIBC void* __libc_realloc(void*, std::size_t) noexcept;
LIBC void* __libc_memalign(std::size_t, std::size_t) noexcept;

#define PUBLIC extern "C" __attribute__((visibility("default")))
#define LIKELY(x) __builtin_expect(!!(x), 1)

using namespace barcuda;
using heap::limit;

namespace {

inline bool ordinary(std::size_t bytes) { return LIKELY(bytes < limit.load(std::memory_order_relaxed)); }
inline bool ours(const void* p) { return !LIKELY(!heap::in_region(p, 0)); }

// Cold halves: kept out of line, so that the hot ones are a compare and a jump.
[[gnu::noinline]] void* region_malloc(std::size_t bytes) {
    void* p = heap::region_alloc(bytes, 16, false);
    return p ? p : __libc_malloc(bytes);
}

[[gnu::noinline]] void* region_calloc(std::size_t count, std::size_t size) {
    std::size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) return errno = ENOMEM, nullptr;
    void* p = heap::region_alloc(bytes, 16, true);
    return p ? p : __libc_calloc(count, size);
}

[[gnu::noinline]] void region_free(void* p) {
    const int before = errno;  // free() leaves errno alone
    heap::region_free(p);
    errno = before;
}

std::size_t libc_usable(void* p) {
    // glibc exports no private name for this one. Looked up at the first realloc that enters the region: by then the
    // program runs, and dlsym of a name that exists does not allocate.
    static const auto next = reinterpret_cast<std::size_t (*)(void*)>(dlsym(RTLD_NEXT, "malloc_usable_size"));
    return next ? next(p) : 0;
}

void* aligned(std::size_t alignment, std::size_t bytes) {
    if (!ordinary(bytes))
        if (void* p = heap::region_alloc(bytes, alignment, false)) return p;
    return __libc_memalign(alignment, bytes);
}

bool power_of_two(std::size_t n) { return n && !(n & (n - 1)); }

// A block that crosses the threshold, the region's edge, or neither but cannot stay.
[[gnu::noinline]] void* region_realloc(void* p, std::size_t bytes) {
    const bool from = ours(p);
    if (!bytes) return free(p), nullptr;
    if (from && !ordinary(bytes) && heap::region_resize(p, bytes)) return p;
    void* to = ordinary(bytes) ? nullptr : heap::region_alloc(bytes, 16, false);
    if (!to && !from) return __libc_realloc(p, bytes);
    if (!to && !(to = __libc_malloc(bytes))) return nullptr;
    const std::size_t had = from ? heap::region_usable(p) : libc_usable(p);
    std::memcpy(to, p, had < bytes ? had : bytes);
    free(p);
    return to;
}

}  // namespace

PUBLIC void* malloc(std::size_t bytes) noexcept {
    return ordinary(bytes) ? __libc_malloc(bytes) : region_malloc(bytes);
}

PUBLIC void free(void* p) noexcept {
    if (LIKELY(!ours(p))) return __libc_free(p);
    region_free(p);
}

PUBLIC void* calloc(std::size_t count, std::size_t size) noexcept {
    std::size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || ordinary(bytes)) return __libc_calloc(count, size);
    return region_calloc(count, size);
}

PUBLIC void* realloc(void* p, std::size_t bytes) noexcept {
    if (!p) return malloc(bytes);
    if (LIKELY(!ours(p) && ordinary(bytes))) return __libc_realloc(p, bytes);
    return region_realloc(p, bytes);
}

PUBLIC void* reallocarray(void* p, std::size_t count, std::size_t size) noexcept {
    std::size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) return errno = ENOMEM, nullptr;
    return realloc(p, bytes);
}

PUBLIC void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
    // glibc's own rule: whatever is not a power of two is rounded up to one.
    if (alignment > SIZE_MAX / 2 + 1) return errno = EINVAL, nullptr;
    while (!power_of_two(alignment)) alignment = alignment ? (alignment | (alignment - 1)) + 1 : 16;
    return aligned(alignment, bytes);
}

PUBLIC void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept { return memalign(alignment, bytes); }

PUBLIC int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) noexcept {
    if (alignment % sizeof(void*) || !power_of_two(alignment)) return EINVAL;
    const int before = errno;  // this one answers by value
    void* p = aligned(alignment, bytes);
    errno = before;
    return p ? (*out = p, 0) : ENOMEM;
}

PUBLIC void* valloc(std::size_t bytes) noexcept { return aligned(heap::page, bytes); }

PUBLIC void* pvalloc(std::size_t bytes) noexcept {
    if (bytes > SIZE_MAX - heap::page) return errno = ENOMEM, nullptr;
    return aligned(heap::page, heap::round_up(bytes, heap::page));
}

PUBLIC std::size_t malloc_usable_size(void* p) noexcept {
    if (!p) return 0;
    return ours(p) ? heap::region_usable(p) : libc_usable(p);
}

#endif
