// SPDX-License-Identifier: Apache-2.0
// mappings.cc: mmap, munmap, mremap, mprotect, madvise and msync of the process. Of memory that is no block of the
// region they are libc's. Of a block they do what the kernel does with private memory, as docs/heap.md lists it:
//
//   mmap, munmap    the pages are marked: what lies there is the program's, and copies take it from there
//   mprotect        the pages are marked: copies touch them as the CPU does, with all that follows
//   mremap          the contents move to private memory; the region's pages stay where they are
//   madvise         what the kernel refuses for shared memory, or does in another way, is done here
//   msync           nothing, as for private memory
//
// Marks are kept outside the region, a byte a page, and are changed without a lock: a handler of a signal may call
// all of these functions wherever it interrupts a thread.
//
// No page of a granted extent is ever given back to the system: the host's GPU has it pinned, and would go on with a
// page that no process sees. So memory that a program gives back (MADV_DONTNEED) is overwritten with zeros, and
// MADV_REMOVE is refused as it is for private memory.
#include "guest-allocator/heap/mappings.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/os/maps.h"
#include "base/os/thread.h"
#include "guest-allocator/heap/core.h"
#include "guest-allocator/heap/next.h"
#include "guest-allocator/heap/sanitized.h"

namespace barcuda::heap {

std::atomic<bool> ever_marked{false};

namespace {

using Marks = std::atomic<std::uint8_t>;
std::atomic<Marks*> table{nullptr};  // one a page of the window; address space, touched where pages are marked

// Until the constructor has looked up the functions behind ours: the loader's lock is never waited for in a call.
void* system_mmap(void* p, std::size_t n, int protection, int flags, int fd, off_t at) {
    return reinterpret_cast<void*>(syscall(SYS_mmap, p, n, protection, flags, fd, at));
}
int system_munmap(void* p, std::size_t n) { return static_cast<int>(syscall(SYS_munmap, p, n)); }
int system_mprotect(void* p, std::size_t n, int protection) {
    return static_cast<int>(syscall(SYS_mprotect, p, n, protection));
}
int system_madvise(void* p, std::size_t n, int advice) { return static_cast<int>(syscall(SYS_madvise, p, n, advice)); }

NEXT_FUNCTION_OR(void*(void*, std::size_t, int, int, int, off_t), next_mmap, "mmap", system_mmap);
NEXT_FUNCTION_OR(int(void*, std::size_t), next_munmap, "munmap", system_munmap);
NEXT_FUNCTION_OR(int(void*, std::size_t, int), next_mprotect, "mprotect", system_mprotect);
NEXT_FUNCTION_OR(int(void*, std::size_t, int), next_madvise, "madvise", system_madvise);

std::size_t index_of(const void* p) noexcept {
    return (reinterpret_cast<std::uintptr_t>(p) - window.base.load(std::memory_order_relaxed)) / page;
}
Granule& granule_of(const void* p) noexcept {
    return granules[(reinterpret_cast<std::uintptr_t>(p) - window.base.load(std::memory_order_relaxed)) / granule];
}

// The table is open.
void mark(std::byte* p, std::size_t bytes, unsigned add, unsigned remove = 0) noexcept {
    Marks* const marks = table.load(std::memory_order_relaxed);
    for (std::size_t i = index_of(p), end = i + (bytes + page - 1) / page; i < end; ++i) {
        if (add) granules[i / (granule / page)].marked.store(true, std::memory_order_relaxed);
        if (remove) marks[i].fetch_and(static_cast<std::uint8_t>(~remove), std::memory_order_relaxed);
        if (add) marks[i].fetch_or(static_cast<std::uint8_t>(add), std::memory_order_relaxed);
    }
}

// What the program has made of the page's protection.
int protection_at(const std::byte* p) noexcept {
    os::Mapping m;
    return os::Maps().find(p, m) ? m.protection() : PROT_NONE;
}

}  // namespace

unsigned marks_of(const void* p) noexcept {
    Marks* const marks = table.load(std::memory_order_acquire);
    return marks ? marks[index_of(p)].load(std::memory_order_relaxed) : 0;
}

bool find_mark(const void* p, std::size_t bytes, unsigned wanted) noexcept {
    const auto* at = static_cast<const std::byte*>(p);
    bool found = false;
    each_granule(at, bytes, [&](std::size_t from, std::size_t part) {
        if (!granule_of(at + from).marked.load(std::memory_order_relaxed)) return true;
        for (std::size_t i = index_of(at + from), last = index_of(at + from + part - 1); i <= last && !found; ++i)
            found = table.load(std::memory_order_relaxed)[i].load(std::memory_order_relaxed) & wanted;
        return !found;
    });
    return found;
}

bool unmark(std::byte* p, std::size_t bytes) noexcept {
    bool done = true;
    each_marked(p, bytes, [&](std::byte* begin, std::size_t n, unsigned marks) {
        if (marks & replaced) {
            growth.lock();
            Inside inside;
            if (!connection.source || !connection.source->renew({begin, n})) done = false;
            growth.unlock();
        } else if (marks & guarded) {
            done &= !next_mprotect(begin, n, PROT_READ | PROT_WRITE);
        }
        if (done && marks) mark(begin, n, 0, marks);
    });
    return done;
}

void carry_out_marks(std::byte* p, std::size_t bytes) noexcept {
    if (!is_marked(p, bytes, any_mark)) return;
    each_marked(p, bytes, [](std::byte* begin, std::size_t n, unsigned marks) {
        if (marks & not_forked) {
            next_munmap(begin, n);
        } else if (marks & wiped_on_fork) {
            const int protection = protection_at(begin);
            if (next_mmap(begin, n, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != begin)
                die("a forked child cannot wipe the memory that its parent marked (MADV_WIPEONFORK)", begin);
            next_madvise(begin, n, MADV_WIPEONFORK);  // for children of its own
        }
        if (marks & ~replaced) mark(begin, n, 0, marks & ~replaced);
    });
}

#if !BARCUDA_SANITIZED  // whose own these functions are then

namespace {

// The kernel's own, also later: mremap is variadic.
void* next_mremap(void* p, std::size_t had, std::size_t n, int flags, void* to) {
    return reinterpret_cast<void*>(syscall(SYS_mremap, p, had, n, flags, to));
}
int system_msync(void* p, std::size_t n, int flags) { return static_cast<int>(syscall(SYS_msync, p, n, flags)); }
NEXT_FUNCTION_OR(int(void*, std::size_t, int), next_msync, "msync", system_msync);

bool open_table() noexcept {
    if (table.load(std::memory_order_acquire)) return true;
    const std::size_t bytes = window.bytes.load(std::memory_order_relaxed) / page * sizeof(Marks);
    void* const fresh =
        next_mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fresh == MAP_FAILED) return false;
    Marks* none = nullptr;
    if (!table.compare_exchange_strong(none, static_cast<Marks*>(fresh))) next_munmap(fresh, bytes);
    ever_marked.store(true);
    return true;
}

// Whose pages these are.
enum class Whose {
    others,
    heap,    // a block's, and still the region's
    kept,    // in a forked child: its snapshot of its parent's
    pinned,  // cudaHostAlloc's, and the library's own: a device's memory to the program
};

bool near(const void* p, std::size_t bytes) noexcept {
    const std::size_t size = window.bytes.load(std::memory_order_acquire);
    if (!size || self.forking) return false;
    const auto begin = reinterpret_cast<std::uintptr_t>(p);
    const std::uintptr_t base = window.base.load(std::memory_order_relaxed);
    return begin < base + size && bytes && begin + bytes > base;
}

Whose whose(const std::byte* p) noexcept {
    if (!in_region(p, 1) || marks_of(p) & replaced) return Whose::others;
    switch (use_of(p)) {
        case Use::pageable:
        case Use::small: return Whose::heap;
        case Use::kept_pages:
        case Use::kept_small: return Whose::kept;
        case Use::pinned: return Whose::pinned;
        default: return Whose::others;
    }
}

// visit(begin, bytes, whose) for the parts of whole pages at p that are each one's, until it answers false.
template <class F> bool each_part(void* p, std::size_t bytes, F visit) noexcept {
    auto* at = static_cast<std::byte*>(p);
    std::byte* const end = at + round_up(bytes, page);
    auto* const first = reinterpret_cast<std::byte*>(window.base.load(std::memory_order_relaxed));
    std::byte* const last = first + window.bytes.load(std::memory_order_relaxed);
    while (at < end) {
        std::byte* const begin = at;
        const Whose one = whose(at);
        if (at < first) at = std::min(first, end);
        else if (at >= last) at = end;
        else
            for (at += page; at < end && at < last && whose(at) == one;) at += page;
        if (!visit(begin, static_cast<std::size_t>(at - begin), one)) return false;
    }
    return true;
}

void mark_blocks(void* p, std::size_t bytes, unsigned add, unsigned remove) noexcept {
    const int before = errno;
    each_part(p, bytes, [&](std::byte* begin, std::size_t n, Whose one) {
        if (one == Whose::heap) mark(begin, n, add, remove);
        return true;
    });
    errno = before;
}

// Something is there now that is not the region's.
void replace_blocks(void* p, std::size_t bytes) noexcept {
    mark_blocks(p, bytes, replaced, guarded | wiped_on_fork | not_forked);
}

bool refuse(int error) noexcept {
    errno = error;
    return false;
}

// Where the module makes a child's snapshot, its memory is a private mapping of a file, whose pages the kernel would
// fetch again from that file. It becomes anonymous, with its contents or without.
bool make_anonymous(std::byte* p, std::size_t bytes, bool with_contents) noexcept {
    os::Mapping m;
    if (!os::Maps().find(p, m) || !m.inode) return true;
    const int protection = protection_at(p);
    if (!with_contents) return next_mmap(p, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p;
    void* const fresh = next_mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh == MAP_FAILED) return false;
    if (!(protection & PROT_READ)) next_mprotect(p, bytes, PROT_READ);
    std::memcpy(fresh, p, bytes);
    if (protection != (PROT_READ | PROT_WRITE)) next_mprotect(fresh, bytes, protection);
    if (next_mremap(fresh, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, p) == p) return true;
    next_munmap(fresh, bytes);
    return false;
}

// Private memory is cleared whatever its protection says.
void clear(std::byte* p, std::size_t bytes) noexcept {
    each_marked(p, bytes, [](std::byte* begin, std::size_t n, unsigned marks) {
        if (!(marks & guarded)) return void(std::memset(begin, 0, n));
        for (std::size_t at = 0, part; at < n; at += part) {
            os::Mapping m;
            if (!os::Maps().find(begin + at, m)) return;
            part = std::min<std::size_t>(m.end - reinterpret_cast<std::uintptr_t>(begin + at), n - at);
            const int protection = protection_at(begin + at);
            next_mprotect(begin + at, part, PROT_READ | PROT_WRITE);
            std::memset(begin + at, 0, part);
            next_mprotect(begin + at, part, protection);
        }
    });
}

// Advice that asks for nothing: where the kernel has none of it for a shared mapping, or for a device's, it is taken.
bool is_hint(int advice) noexcept {
    constexpr int hints[] = {MADV_NORMAL,   MADV_RANDOM,     MADV_SEQUENTIAL, MADV_WILLNEED,
                             MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_MERGEABLE,  MADV_UNMERGEABLE,
                             MADV_DONTDUMP, MADV_DODUMP,     MADV_COLD,       MADV_PAGEOUT};
    return std::find(std::begin(hints), std::end(hints), advice) != std::end(hints);
}

bool advise_block(std::byte* p, std::size_t bytes, int advice) noexcept {
    constexpr int dont_need_locked = 24;  // MADV_DONTNEED_LOCKED, Linux 5.18
    switch (advice) {
        case MADV_DONTNEED:
        case dont_need_locked: clear(p, bytes); return true;
        case MADV_FREE: return true;  // at any time later, or never
        case MADV_REMOVE: return refuse(EINVAL);
        case MADV_WIPEONFORK: mark(p, bytes, wiped_on_fork); return true;
        case MADV_KEEPONFORK: mark(p, bytes, 0, wiped_on_fork); return true;
        case MADV_DONTFORK: mark(p, bytes, not_forked); return true;
        case MADV_DOFORK: mark(p, bytes, 0, not_forked); return true;
        default: return !next_madvise(p, bytes, advice) || (errno == EINVAL && is_hint(advice));
    }
}

bool advise_kept(std::byte* p, std::size_t bytes, int advice) noexcept {
    switch (advice) {
        case MADV_DONTNEED:
        case MADV_FREE:
            if (!make_anonymous(p, bytes, false)) return refuse(ENOMEM);
            break;
        case MADV_WIPEONFORK:
        case MADV_KEEPONFORK:
            if (!make_anonymous(p, bytes, true)) return refuse(ENOMEM);
            break;
        default: break;
    }
    return !next_madvise(p, bytes, advice) || (errno == EINVAL && is_hint(advice));
}

// As the kernel: what is not mapped is passed over, and said at the end; any other error ends it.
int advise(void* p, std::size_t bytes, int advice) noexcept {
    if (!near(p, bytes) || reinterpret_cast<std::uintptr_t>(p) % page || round_up(bytes, page) < bytes)
        return next_madvise(p, bytes, advice);
    if (!open_table()) {
        errno = ENOMEM;
        return -1;
    }
    const int before = errno;
    bool holes = false;
    const bool done = each_part(p, bytes, [&](std::byte* begin, std::size_t n, Whose one) {
        const bool ok = one == Whose::heap                              ? advise_block(begin, n, advice)
                        : one == Whose::kept                            ? advise_kept(begin, n, advice)
                        : one == Whose::pinned && advice == MADV_REMOVE ? refuse(EINVAL)
                                                                        : !next_madvise(begin, n, advice);
        if (!ok && errno == ENOMEM) return holes = true;
        return ok;
    });
    if (!done) return -1;
    errno = holes ? ENOMEM : before;
    return holes ? -1 : 0;
}

void* map(void* p, std::size_t bytes, int protection, int flags, int fd, off_t at) noexcept {
    const bool over = flags & MAP_FIXED && near(p, bytes);
    if (over && !open_table()) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    void* const mapped = next_mmap(p, bytes, protection, flags, fd, at);
    if (over && mapped != MAP_FAILED) replace_blocks(p, bytes);
    return mapped;
}

int unmap(void* p, std::size_t bytes) noexcept {
    const bool over = near(p, bytes);
    if (over && !open_table()) {
        errno = ENOMEM;
        return -1;
    }
    const int failed = next_munmap(p, bytes);
    if (over && !failed) replace_blocks(p, bytes);
    return failed;
}

template <class Call> int protect(void* p, std::size_t bytes, int protection, Call call) noexcept {
    const bool over = near(p, bytes);
    if (over && !open_table()) {
        errno = ENOMEM;
        return -1;
    }
    constexpr int all = PROT_READ | PROT_WRITE;
    const bool guards = (protection & all) != all;
    // First the mark: nothing goes past the protection once the program believes in it.
    if (over && guards) mark_blocks(p, bytes, guarded, 0);
    const int failed = call();
    if (over && !guards && !failed) mark_blocks(p, bytes, 0, guarded);
    return failed;
}

// Memory of a block, or private and anonymous memory in its place, with one protection: the kernel would have one
// mapping of it.
bool can_move(std::byte* p, std::size_t bytes, int& protection) noexcept {
    protection = PROT_READ | PROT_WRITE;
    if (!is_marked(p, bytes, any_mark))
        return each_part(p, bytes, [](std::byte*, std::size_t, Whose one) { return one == Whose::heap; });
    os::Mapping m;
    for (std::byte *at = p, *end = p + bytes; at < end; at = reinterpret_cast<std::byte*>(m.end)) {
        if (!in_region(at, 1) || !os::Maps().find(at, m)) return false;
        if (m.shared ? whose(at) != Whose::heap : m.inode != 0) return false;
        if (at == p) protection = m.protection();
        if (protection != m.protection()) return false;
    }
    return true;
}

// A part of a block that moves, or changes its length.
void* move_block(std::byte* p, std::size_t had, std::size_t bytes, int flags, void* wish) noexcept {
    const auto fail = [](int error) {
        errno = error;
        return MAP_FAILED;
    };
    const bool fixed = flags & MREMAP_FIXED, stays = flags & MREMAP_DONTUNMAP;
    auto* const target = static_cast<std::byte*>(wish);
    had = round_up(had, page);
    bytes = round_up(bytes, page);
    if (flags & ~(MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP) || reinterpret_cast<std::uintptr_t>(p) % page ||
        !had || !bytes || ((fixed || stays) && !(flags & MREMAP_MAYMOVE)) || (stays && had != bytes) ||
        (fixed && (reinterpret_cast<std::uintptr_t>(target) % page || (target < p + had && p < target + bytes))))
        return fail(EINVAL);
    int protection;
    if (!can_move(p, had, protection)) return fail(EFAULT);
    if (!fixed && !stays && bytes <= had) return bytes < had && unmap(p + bytes, had - bytes) ? MAP_FAILED : p;
    if (!(flags & MREMAP_MAYMOVE)) return fail(ENOMEM);  // what follows in the region is another's
    const unsigned marks = marks_of(p);
    void* const to = map(fixed ? target : nullptr, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | (fixed ? MAP_FIXED : 0), -1, 0);
    if (to == MAP_FAILED) return to;
    if (!(protection & PROT_READ)) next_mprotect(p, had, PROT_READ);
    std::memcpy(to, p, std::min(had, bytes));
    if (protection != (PROT_READ | PROT_WRITE)) next_mprotect(to, bytes, protection);
    if (marks & wiped_on_fork) next_madvise(to, bytes, MADV_WIPEONFORK);
    if (marks & not_forked) next_madvise(to, bytes, MADV_DONTFORK);
    if (stays) map(p, had, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    else unmap(p, had);
    return to;
}

void* remap(void* p, std::size_t had, std::size_t bytes, int flags, void* to) noexcept {
    if (near(p, had ? had : 1) && !open_table()) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    if (near(p, had ? had : 1) &&
        !each_part(p, had ? had : 1, [](std::byte*, std::size_t, Whose one) { return one != Whose::heap; }))
        return move_block(static_cast<std::byte*>(p), had, bytes, flags, to);
    const bool over = flags & MREMAP_FIXED && near(to, bytes);
    if (over && !open_table()) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    void* const moved = next_mremap(p, had, bytes, flags, to);
    if (over && moved != MAP_FAILED) replace_blocks(moved, bytes);
    return moved;
}

int sync(void* p, std::size_t bytes, int flags) noexcept {
    const os::Uncancelled uncancelled;
    if (next_msync(p, 0, flags)) return -1;  // for the address and the flags
    return each_part(p, bytes,
                     [&](std::byte* begin, std::size_t n, Whose one) {
                         return one == Whose::heap || !next_msync(begin, n, flags);
                     })
               ? 0
               : -1;
}

}  // namespace

#endif

}  // namespace barcuda::heap

#if !BARCUDA_SANITIZED

#define PUBLIC extern "C" __attribute__((visibility("default")))
namespace heap = barcuda::heap;

PUBLIC void* mmap(void* p, std::size_t bytes, int protection, int flags, int fd, off_t at) noexcept {
    return heap::map(p, bytes, protection, flags, fd, at);
}
PUBLIC void* mmap64(void* p, std::size_t bytes, int protection, int flags, int fd, off_t at) noexcept {
    return heap::map(p, bytes, protection, flags, fd, at);
}
PUBLIC int munmap(void* p, std::size_t bytes) noexcept { return heap::unmap(p, bytes); }
PUBLIC void* mremap(void* p, std::size_t had, std::size_t bytes, int flags, ...) noexcept {
    va_list more;
    va_start(more, flags);
    void* const to = flags & (MREMAP_FIXED | MREMAP_DONTUNMAP) ? va_arg(more, void*) : nullptr;
    va_end(more);
    return heap::remap(p, had, bytes, flags, to);
}
PUBLIC int mprotect(void* p, std::size_t bytes, int protection) noexcept {
    return heap::protect(p, bytes, protection, [&] { return heap::next_mprotect(p, bytes, protection); });
}
PUBLIC int pkey_mprotect(void* p, std::size_t bytes, int protection, int key) noexcept {
    return heap::protect(p, bytes, protection, [&] {
        return key == -1 ? heap::next_mprotect(p, bytes, protection)
                         : static_cast<int>(syscall(SYS_pkey_mprotect, p, bytes, protection, key));
    });
}
PUBLIC int madvise(void* p, std::size_t bytes, int advice) noexcept { return heap::advise(p, bytes, advice); }

// A cancellation point where there is anything to do.
PUBLIC int msync(void* p, std::size_t bytes, int flags) {
    return heap::near(p, bytes) ? heap::sync(p, bytes, flags) : heap::next_msync(p, bytes, flags);
}

#endif
