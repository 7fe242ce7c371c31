// SPDX-License-Identifier: Apache-2.0
// other_allocators.cc: the functions of jemalloc and tcmalloc beside the malloc family. Their manuals let programs give
// blocks of malloc to these functions, and jemalloc's own operators of C++ do it: operator new with an alignment calls
// aligned_alloc, which is ours, and operator delete calls sdallocx. So these are ours as well: for a block in the
// region they do what free and similar functions do, all others are passed to the allocator. Where the program has no
// such allocator, they are free and similar functions.
#include <dlfcn.h>
#include <malloc.h>

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string_view>

#include "guest-allocator/heap/core.h"
#include "guest-allocator/heap/sanitized.h"

#if !BARCUDA_SANITIZED  // then the program's malloc is the sanitizer's

namespace barcuda::heap {
namespace {

// The allocator's own; null: it has none. They are looked up only where it is not libc: each name that is not found
// would cost the start of every program a microsecond.
constexpr const char* names[] = {"sdallocx",      "dallocx",    "sallocx",           "rallocx",    "xallocx",
                                 "mallocx",       "tc_free",    "tc_cfree",          "tc_realloc", "tc_malloc_size",
                                 "tc_free_sized", "free_sized", "free_aligned_sized"};
constinit void* functions[std::size(names)] = {};
consteval std::size_t place_of(std::string_view name) {
    std::size_t i = 0;
    while (names[i] != name) ++i;
    return i;
}
template <class F> F* next(std::size_t place) noexcept { return reinterpret_cast<F*>(functions[place]); }

[[gnu::constructor(101)]] void meet_allocator() {
    Dl_info its = {}, libc = {};
    if (!dladdr(dlsym(RTLD_NEXT, "malloc"), &its) || !dladdr(dlsym(RTLD_NEXT, "gnu_get_libc_version"), &libc) ||
        its.dli_fbase == libc.dli_fbase)
        return;
    for (std::size_t i = 0; i < std::size(names); ++i) functions[i] = dlsym(RTLD_NEXT, names[i]);
    dlerror();  // the program has not asked
}

bool ours(const void* p) noexcept { return in_region(p, 0); }

void* resize(void* p, std::size_t bytes, int flags) noexcept {
    constexpr int zero = 0x40, log_of_alignment = 0x3f;  // jemalloc's MALLOCX_ZERO, MALLOCX_LG_ALIGN
    const auto make = next<void*(std::size_t, int)>(place_of("mallocx"));
    const int alignment = flags & log_of_alignment;
    void* const to = make        ? make(bytes, flags)
                     : alignment ? memalign(std::size_t{1} << alignment, bytes)
                                 : malloc(bytes);
    if (!to) return nullptr;
    const std::size_t had = malloc_usable_size(p);
    std::memcpy(to, p, had < bytes ? had : bytes);
    if (flags & zero && had < bytes) std::memset(static_cast<char*>(to) + had, 0, bytes - had);
    free(p);
    return to;
}

}  // namespace
}  // namespace barcuda::heap

using namespace barcuda::heap;

// NOLINTBEGIN(bugprone-macro-parentheses): types
// A function, its parameters and arguments, the first of which is p, and what it is of a block in the region.
#define ALSO(result, name, parameters, arguments, in_region)                                                   \
    extern "C" __attribute__((visibility("default"))) result name parameters noexcept {                        \
        if (const auto to = ours(p) ? nullptr : next<result parameters>(place_of(#name))) return to arguments; \
        return in_region;                                                                                      \
    }
ALSO(void, sdallocx, (void* p, std::size_t bytes, int flags), (p, bytes, flags), free(p))
ALSO(void, dallocx, (void* p, int flags), (p, flags), free(p))
ALSO(std::size_t, sallocx, (const void* p, int flags), (p, flags), malloc_usable_size(const_cast<void*>(p)))
ALSO(void*, rallocx, (void* p, std::size_t bytes, int flags), (p, bytes, flags), resize(p, bytes, flags))
ALSO(std::size_t, xallocx, (void* p, std::size_t bytes, std::size_t more, int flags), (p, bytes, more, flags),
     malloc_usable_size(p))
ALSO(void, tc_free, (void* p), (p), free(p))
ALSO(void, tc_cfree, (void* p), (p), free(p))
ALSO(void, tc_free_sized, (void* p, std::size_t bytes), (p, bytes), free(p))
ALSO(void*, tc_realloc, (void* p, std::size_t bytes), (p, bytes), realloc(p, bytes))
ALSO(std::size_t, tc_malloc_size, (void* p), (p), malloc_usable_size(p))
ALSO(void, free_sized, (void* p, std::size_t bytes), (p, bytes), free(p))
ALSO(void, free_aligned_sized, (void* p, std::size_t alignment, std::size_t bytes), (p, alignment, bytes), free(p))
// NOLINTEND(bugprone-macro-parentheses)

#endif
