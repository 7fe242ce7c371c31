// SPDX-License-Identifier: Apache-2.0
// small.cc: mimalloc over the region. Each extent is an exclusive arena; each thread has a heap of its own in each
// arena that it has needed, and allocates from the newest first. mimalloc's headers of segments and pages lie in the
// arena; the arena's own books lie in private memory.
//
// What must be known of mimalloc (2.0.9, Debian's; run with 2.2.7 and 3.4.3 as well):
//   - It is opened privately, at the first need: it exports malloc itself, and loading it costs a millisecond.
//   - An arena's memory must be zeros, whatever `is_zero` says: extents are.
//   - `is_large` would send each thread's first segment to the system; "committed" alone already keeps it from giving
//     pages back, which is what shared memory needs.
//   - mi_heap_malloc_aligned returns misaligned blocks where size and alignment are the same power of two above 128;
//     mi_heap_malloc_aligned_at, with an offset of 0, does not take that shortcut.
//   - Heaps belong to a thread and end with it; other threads take over what it leaves. From 3.2 on they belong to no
//     thread, serve any thread and never end: there, each arena has one.
//   - A thread takes at least one segment of 32 MiB, there are at most 64 arenas, and none is released. So blocks of
//     64 KiB and more are not mimalloc's (pages.h), and arenas grow with the heap.
#include "guest-allocator/heap/small.h"

#include <dlfcn.h>
#include <mimalloc.h>
#include <pthread.h>

#include <cstring>

#include "base/os/clock.h"
#include "guest-allocator/heap/core.h"
#include "guest-allocator/heap/settings.h"

namespace barcuda::heap::small {

namespace {

// The library that the header belongs to: 209 is 2.0.9, 3011 is 3.0.11, 30403 is 3.4.3.
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#if MI_MALLOC_VERSION / 100 == 2
#define MAJOR 2
#else
#define MAJOR 3
#endif
#if MI_MALLOC_VERSION >= 30200 || (MI_MALLOC_VERSION >= 3200 && MI_MALLOC_VERSION < 10000)
constexpr bool heaps_serve_any_thread = true;
#else
constexpr bool heaps_serve_any_thread = false;
#endif
constexpr const char* library = "libmimalloc.so." TEXT(MAJOR);

struct Mimalloc {
    decltype(&mi_manage_os_memory_ex) manage;
    decltype(&mi_heap_new_in_arena) new_heap;
    decltype(&mi_heap_malloc) alloc;
    decltype(&mi_heap_zalloc) zalloc;
    decltype(&mi_heap_malloc_aligned_at) aligned;
    decltype(&mi_heap_zalloc_aligned_at) zaligned;
    decltype(&mi_free) free;
    decltype(&mi_usable_size) usable;
    decltype(&mi_zalloc) own;  // from mimalloc's own memory outside the region: a thread's list of heaps
} mi;
bool opened = false;

constexpr std::size_t most_arenas = 64;
mi_arena_id_t arenas[most_arenas];
mi_heap_t* heap_of[most_arenas];          // where heaps serve any thread
std::atomic<std::size_t> arena_count{0};  // grows under `growth`
std::size_t arena_bytes = 0;
std::atomic<std::uint32_t> full_at{0};  // when the region last refused an arena

// A thread's heaps. Where the thread is ending they are gone before its last frees and mallocs: `ended` says so.
struct Heaps {
    mi_heap_t* current;
    mi_heap_t* in[most_arenas];
};
Heaps ended;
thread_local Heaps* mine __attribute__((tls_model("initial-exec"))) = nullptr;
pthread_key_t key;

// Before mimalloc's own destructor for the thread, which takes the heaps apart: keys end in the order of their making.
void end_thread(void* heaps) {
    mine = &ended;
    mi.free(heaps);
}

Heaps* begin_thread() noexcept {
    if (!opened) return nullptr;
    Inside inside;
    mine = static_cast<Heaps*>(mi.own(sizeof(Heaps)));
    if (mine) pthread_setspecific(key, mine);
    return mine;
}

void* from(mi_heap_t* heap, std::size_t bytes, std::size_t alignment, bool zero) noexcept {
    if (bytes < 16) bytes = 16;  // mimalloc aligns blocks of a word to a word; libc, and so programs, all to 16
    if (alignment <= 16) return zero ? mi.zalloc(heap, bytes) : mi.alloc(heap, bytes);
    return zero ? mi.zaligned(heap, bytes, alignment, 0) : mi.aligned(heap, bytes, alignment, 0);
}

// One more arena, unless another thread was quicker. Each a quarter of all before it: 64 are enough for any region.
bool add_arena(std::size_t known) noexcept {
    if (os::coarse_seconds() - full_at.load(std::memory_order_relaxed) < 1) return false;
    growth.lock();
    const std::size_t n = arena_count.load(std::memory_order_relaxed);
    bool grown = n > known;
    if (!attach()) limit.store(SIZE_MAX, std::memory_order_relaxed);  // no region: no malloc need ask again
    if (!grown && n < most_arenas && connection.source) {
        Extent extent = grow(Use::small, arena_bytes / 4 > 2 * granule ? arena_bytes / 4 : 2 * granule);
        if (!extent.address) extent = grow(Use::small, granule);
        Inside inside;
        if (extent.address && mi.manage(extent.address, extent.bytes, true, false, true, -1, true, &arenas[n])) {
            if (heaps_serve_any_thread) heap_of[n] = mi.new_heap(arenas[n]);
            arena_bytes += extent.bytes;
            arena_count.store(n + 1, std::memory_order_release);
            grown = true;
        }
    }
    if (!grown) full_at.store(os::coarse_seconds(), std::memory_order_relaxed);
    growth.unlock();
    return grown;
}

[[gnu::noinline]] void* alloc_slowly(std::size_t bytes, std::size_t alignment, bool zero) noexcept {
    Heaps* heaps = mine ? mine : begin_thread();
    if (!heaps || heaps == &ended) return nullptr;
    for (;;) {
        const std::size_t n = arena_count.load(std::memory_order_acquire);
        for (std::size_t i = n; i-- > 0;) {
            if (!heaps->in[i]) {
                Inside inside;
                if (!(heaps->in[i] = heaps_serve_any_thread ? heap_of[i] : mi.new_heap(arenas[i]))) continue;
            } else if (heaps->in[i] == heaps->current) {
                continue;  // it has just refused
            }
            if (void* p = from(heaps->in[i], bytes, alignment, zero)) {
                heaps->current = heaps->in[i];
                return p;
            }
        }
        if (!add_arena(n)) break;
    }
    note_fallback(bytes);
    return nullptr;
}

}  // namespace

bool open() noexcept {
    static std::atomic<bool> begun{false}, done{false};
    if (settings.threshold >= run_bytes || done.load(std::memory_order_acquire)) return true;
    if (begun.exchange(true)) return false;  // waiting would be a lock, and the loader has one of its own
    const auto find = [](void* handle, auto& to, const char* name) {
        to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(dlsym(handle, name));
        if (!to) say("blocks below 64K stay ordinary memory, this mimalloc lacks ", name);
        return to != nullptr;
    };
    const bool has_key = pthread_key_create(&key, end_thread) == 0;  // before mimalloc makes its own: see end_thread
    void* const m = has_key ? dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) : nullptr;
    if (has_key && !m) say("blocks below 64K stay ordinary memory: ", dlerror());
    opened = m && find(m, mi.manage, "mi_manage_os_memory_ex") && find(m, mi.new_heap, "mi_heap_new_in_arena") &&
             find(m, mi.alloc, "mi_heap_malloc") && find(m, mi.zalloc, "mi_heap_zalloc") &&
             find(m, mi.aligned, "mi_heap_malloc_aligned_at") && find(m, mi.zaligned, "mi_heap_zalloc_aligned_at") &&
             find(m, mi.free, "mi_free") && find(m, mi.usable, "mi_usable_size") && find(m, mi.own, "mi_zalloc");
    done.store(true, std::memory_order_release);
    return true;
}

void* alloc(std::size_t bytes, std::size_t alignment, bool zero) noexcept {
    if (mine && mine->current)
        if (void* p = from(mine->current, bytes, alignment, zero)) return p;
    return alloc_slowly(bytes, alignment, zero);
}

void free(void* p) noexcept { mi.free(p); }
std::size_t usable(const void* p) noexcept { return mi.usable(p); }

void forget_all() noexcept {
    if (mine != &ended) mine = nullptr;
    if (opened) pthread_setspecific(key, nullptr);
    arena_count.store(0, std::memory_order_relaxed);
    arena_bytes = 0;
    full_at.store(0, std::memory_order_relaxed);
}

}  // namespace barcuda::heap::small
