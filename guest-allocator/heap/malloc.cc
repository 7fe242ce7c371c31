// SPDX-License-Identifier: Apache-2.0
// malloc.cc: the malloc family, interposed for the whole process. Below the limit, and until there is a reason
// (core.h), a block is the program's own allocator's: the next one behind us in the loader's order, which is libc's, or
// jemalloc or tcmalloc where the program brought one. `free` asks one range check whose block it is; so memory that
// began before us, or came out of libc (strdup, getline), goes back where it came from.
#include <dlfcn.h>
#include <errno.h>
#include <link.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "guest-allocator/heap/core.h"
#include "guest-allocator/heap/malloc.h"
#include "guest-allocator/heap/registered.h"
#include "guest-allocator/heap/sanitized.h"

#if !BARCUDA_SANITIZED  // then its tests use the rooms of the heap directly

#define PUBLIC extern "C" __attribute__((visibility("default")))
// Each in one line of the instruction cache: what such a function costs is the fetching of it.
#define HOT PUBLIC __attribute__((aligned(64)))
#define LIKELY(x) __builtin_expect(!!(x), 1)

using namespace barcuda;
using heap::limit;

namespace {

// The program's own allocator. Each entry starts as the function that looks them all up: the first call may come from
// the loader itself, before any constructor has run. Then it is one jump through a pointer, as any call into a library.
// glibc exports __libc_malloc and its relatives as well, and binding to those needs no lookup; but then a program with
// an allocator of its own would get its blocks from two.
template <class F> struct Next;
template <class R, class... A> struct Next<R(A...)> {
    std::atomic<R (*)(A...) noexcept> to;  // noexcept, so that a call can be a jump
    R operator()(A... a) const noexcept { return to.load(std::memory_order_relaxed)(a...); }
};
void look_up();
thread_local bool looking __attribute__((tls_model("initial-exec"))) = false;

#define NEXT(name, result, parameters, ...)                                               \
    extern Next<result parameters> next_##name;                                           \
    [[gnu::cold]] result first_##name parameters noexcept {                               \
        if (looking) return static_cast<result>(0); /* dlsym itself: it can do without */ \
        look_up();                                                                        \
        return next_##name(__VA_ARGS__);                                                  \
    }                                                                                     \
    constinit Next<result parameters> next_##name{first_##name};

NEXT(malloc, void*, (std::size_t n), n)
NEXT(free, void, (void* p), p)
NEXT(calloc, void*, (std::size_t n, std::size_t m), n, m)
NEXT(realloc, void*, (void* p, std::size_t n), p, n)
NEXT(memalign, void*, (std::size_t a, std::size_t n), a, n)
NEXT(aligned_alloc, void*, (std::size_t a, std::size_t n), a, n)
NEXT(posix_memalign, int, (void** p, std::size_t a, std::size_t n), p, a, n)
NEXT(malloc_usable_size, std::size_t, (void* p), p)

void look_up() {
    looking = true;
    const auto find = [](auto& next, const char* name) {
        // What an allocator lacks, it does not mix with its own blocks: libc's stands behind it in the same order.
        void* to = dlsym(RTLD_NEXT, name);
        if (!to) heap::die("no allocator behind Barcuda's");
        next.to.store(reinterpret_cast<decltype(next.to.load())>(to), std::memory_order_relaxed);
    };
    find(next_malloc, "malloc");
    find(next_free, "free");
    find(next_calloc, "calloc");
    find(next_realloc, "realloc");
    find(next_memalign, "memalign");
    find(next_aligned_alloc, "aligned_alloc");
    find(next_posix_memalign, "posix_memalign");
    find(next_malloc_usable_size, "malloc_usable_size");
    looking = false;
}

inline bool ordinary(std::size_t bytes) { return LIKELY(bytes < limit.load(std::memory_order_relaxed)); }
inline bool ours(const void* p) { return !LIKELY(!heap::in_region(p, 0)); }

// Cold halves: kept out of line, so that the hot ones are a compare and a jump.
[[gnu::noinline]] void* region_malloc(std::size_t bytes) {
    void* p = heap::region_alloc(bytes, 16, false);
    return p ? p : next_malloc(bytes);
}

[[gnu::noinline]] void* region_calloc(std::size_t count, std::size_t size) {
    std::size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return nullptr;
    }
    void* p = heap::region_alloc(bytes, 16, true);
    return p ? p : next_calloc(count, size);
}

[[gnu::noinline, gnu::cold]] void region_free(void* p) {  // cold: the other way falls through
    const int before = errno;                             // free() leaves errno alone
    heap::region_free(p);
    errno = before;
}

bool power_of_two(std::size_t n) { return n && !(n & (n - 1)); }

// What all code of the process calls by that name: this library's, unless the executable has its own.
void* everybodys(const char* name) {
    void* const process = dlopen(nullptr, RTLD_LAZY);
    void* const found = process ? dlsym(process, name) : nullptr;
    if (process) dlclose(process);
    return found;
}

// A block that crosses the threshold, the region's edge, or neither but cannot stay.
[[gnu::noinline]] void* region_realloc(void* p, std::size_t bytes) {
    const bool from = ours(p);
    if (!bytes) {
        free(p);
        return nullptr;
    }
    if (from && !ordinary(bytes) && heap::region_resize(p, bytes)) return p;
    void* to = ordinary(bytes) ? nullptr
               : from          ? heap::region_alloc_to_grow(bytes)
                               : heap::region_alloc(bytes, 16, false);
    if (!to && !from && !heap::lent(p)) return next_realloc(p, bytes);
    if (!to && !(to = next_malloc(bytes))) return nullptr;
    const std::size_t had = from ? heap::region_usable(p) : next_malloc_usable_size(p);
    std::memcpy(to, p, had < bytes ? had : bytes);
    free(p);
    return to;
}

}  // namespace

HOT void* malloc(std::size_t bytes) noexcept { return ordinary(bytes) ? next_malloc(bytes) : region_malloc(bytes); }

HOT void free(void* p) noexcept {
    if (ours(p)) return region_free(p);
    next_free(p);
}

PUBLIC void* calloc(std::size_t count, std::size_t size) noexcept {
    std::size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || ordinary(bytes)) return next_calloc(count, size);
    return region_calloc(count, size);
}

PUBLIC void* realloc(void* p, std::size_t bytes) noexcept {
    if (!p) return malloc(bytes);
    if (LIKELY(!ours(p) && ordinary(bytes) && !heap::ever_lent.load(std::memory_order_relaxed)))
        return next_realloc(p, bytes);
    return region_realloc(p, bytes);
}

// An allocator in front of us that lacks this one (jemalloc) relies on libc's to call its realloc.
PUBLIC void* reallocarray(void* p, std::size_t count, std::size_t size) noexcept {
    static std::atomic<void* (*)(void*, std::size_t)> known{nullptr};  // no guarded static: its guard would be a lock
    auto* to = known.load(std::memory_order_relaxed);
    if (!to) known = to = reinterpret_cast<void* (*)(void*, std::size_t)>(everybodys("realloc"));
    std::size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return nullptr;
    }
    return to(p, bytes);
}

PUBLIC void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
    if (!ordinary(bytes) && power_of_two(alignment))
        if (void* p = heap::region_alloc(bytes, alignment, false)) return p;
    return next_memalign(alignment, bytes);
}

PUBLIC void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
    if (!ordinary(bytes) && power_of_two(alignment))
        if (void* p = heap::region_alloc(bytes, alignment, false)) return p;
    return next_aligned_alloc(alignment, bytes);
}

PUBLIC int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) noexcept {
    if (!ordinary(bytes) && power_of_two(alignment) && alignment % sizeof(void*) == 0) {
        const int before = errno;  // this one answers by value
        void* p = heap::region_alloc(bytes, alignment, false);
        errno = before;
        if (p) {
            *out = p;
            return 0;
        }
    }
    return next_posix_memalign(out, alignment, bytes);
}

PUBLIC void* valloc(std::size_t bytes) noexcept { return memalign(heap::page, bytes); }

PUBLIC void* pvalloc(std::size_t bytes) noexcept {
    if (bytes > SIZE_MAX - heap::page) {
        errno = ENOMEM;
        return nullptr;
    }
    return memalign(heap::page, heap::round_up(bytes, heap::page));
}

PUBLIC std::size_t malloc_usable_size(void* p) noexcept {
    if (!p) return 0;
    return ours(p) ? heap::region_usable(p) : next_malloc_usable_size(p);
}

namespace {
// True if this library is the first, in the loader's order, with a function of this name. The executable does not
// count.
bool first_behind_executable(const char* name, const void* our_base) noexcept {
    void* const process = dlopen(nullptr, RTLD_LAZY);
    link_map* object = nullptr;
    if (!process || dlinfo(process, RTLD_DI_LINKMAP, &object)) return false;
    dlclose(process);
    while ((object = object->l_next)) {
        if (reinterpret_cast<void*>(object->l_addr) == our_base) return true;
        void* const library = dlopen(object->l_name, RTLD_LAZY | RTLD_NOLOAD);
        Dl_info there = {};
        const bool its_own = library && dladdr(dlsym(library, name), &there) &&
                             there.dli_fbase == reinterpret_cast<void*>(object->l_addr);
        if (library) dlclose(library);
        if (its_own) return false;
    }
    return false;
}

// An executable that is not position-independent and takes the function's address has an entry of its own with that
// name, which jumps to the function: the loader finds that entry (System V ABI, AMD64 supplement, 3.5.5 "Function
// Addresses"). Ubuntu's Python is one.
bool is_an_entry(const void* function) noexcept {
    Dl_info info = {};
    void* symbol = nullptr;
    return dladdr1(function, &info, &symbol, RTLD_DL_SYMENT) && symbol &&
           static_cast<const ElfW(Sym)*>(symbol)->st_shndx == SHN_UNDEF;
}
}  // namespace

bool heap::is_in_front() noexcept {
    Dl_info here = {}, there = {};
    dladdr(reinterpret_cast<void*>(look_up), &here);
    for (const char* name : {"malloc", "free"}) {
        void* const found = everybodys(name);
        if (!dladdr(found, &there)) return false;
        if (there.dli_fbase == here.dli_fbase) continue;
        if (!is_an_entry(found) || !first_behind_executable(name, here.dli_fbase)) return false;
    }
    return true;
}

#else

bool barcuda::heap::is_in_front() noexcept { return true; }

#endif
