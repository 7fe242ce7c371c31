// SPDX-License-Identifier: Apache-2.0
// fork.cc: a forked child gets a snapshot of its parent's heap. The region is shared memory: without this, parent and
// child would write into each other's blocks. A private mapping of the same file is no snapshot (it shows what the
// parent writes later), and the parent must keep the file's pages, because the device writes to them. So the child
// copies: it replaces each extent by private memory at the same address, before fork() returns in either process.
//
//   prepare   the forking thread takes every lock of the heap, so the books are consistent at the fork
//   child     copies the blocks in use and the memory that they are lent to (registered/), but no holes of the file;
//             forgets the connection; starts without locks
//   parent    holds the locks until the child has copied: no block that the child needs is freed and used again
//
// A process without threads takes no locks, as it takes none of glibc's: a signal handler that forks may have
// interrupted the heap, and would deadlock with its own thread. Then the books do not change in the parent.
//
// Other threads of the parent continue, and may write into blocks while the child copies them, which a kernel's fork
// would not show. Blocks that the forking thread guards by locks in its own fork handlers are safe: those handlers run
// after ours have waited. Where the kernel module makes the snapshot nothing is copied, and no process waits. vfork,
// posix_spawn, system and popen run no fork handlers and need nothing. A raw clone() system call bypasses all of this,
// as it bypasses glibc's malloc.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/os/maps.h"
#include "guest-allocator/heap/copy_on_write.h"
#include "guest-allocator/heap/core.h"
#include "guest-allocator/heap/fork.h"
#include "guest-allocator/heap/mappings.h"
#include "guest-allocator/heap/next.h"
#include "guest-allocator/heap/pages.h"
#include "guest-allocator/heap/registered.h"
#include "guest-allocator/heap/small.h"
#include "guest-allocator/heap/statistics.h"

namespace barcuda::heap {

namespace {

// Between prepare and parent/child; guarded by the locks that the forking thread holds.
int copied[2] = {-1, -1};   // a pipe: the child writes when it has copied; end of file: no child is left to do so
int cancellable;            // the thread's state before: nothing of this is a cancellation point
bool alone = false;         // no other threads, and no locks
bool kept_by_copy = false;  // in a child: its kept blocks are private memory

std::atomic<ExtentSource*> told_of_forks{nullptr};  // the connection that a child must call

bool shares() noexcept {
    return connection.source && !connection.source->forks_by_itself() && statistics.granted_bytes.get();
}

template <class F> void each_extent(F visit) noexcept {
    const std::size_t end = window.bytes.load(std::memory_order_relaxed) / granule;
    for (std::size_t g = 0; g < end;) {
        const Use use = granules[g].use.load(std::memory_order_relaxed);
        if (use == Use::pageable || use == Use::pinned || use == Use::small) {
            visit(g, use,
                  Extent{reinterpret_cast<std::byte*>(window.base.load() + g * granule), granules[g].count * granule});
            g += granules[g].count;
        } else {
            ++g;
        }
    }
}

// Where in `file` the mapping has the byte at `address`, by the kernel's own list; -1 if it maps another file there.
off_t offset_in(int file, const void* address) noexcept {
    struct stat wanted;
    os::Mapping m;
    if (fstat(file, &wanted)) return -1;
    os::Maps maps;
    if (!maps.find(address, m) || m.inode != wanted.st_ino || m.device != wanted.st_dev) return -1;
    return static_cast<off_t>(m.offset + (reinterpret_cast<std::uintptr_t>(address) - m.begin));
}

// Copies bytes from the region, from `from` on, to private memory, which is zeros. Reading a hole of shared memory
// would fill it, so where there is a file its holes are left out; and read() from it takes half as long as memcpy,
// which faults on both sides.
class Copier {
  public:
    // `there`, at `from` or behind it, is where the region is mapped for certain.
    Copier(const std::byte* from, int file, const std::byte* there) : from_(from), file_(file) {
        if (file_ < 0) return;
        const off_t found = offset_in(file_, there);
        if (found < 0) file_ = -1;
        else start_ = found - (there - from_);
    }
    // [at, at + bytes) of them, to `to`.
    void copy(std::byte* to, std::size_t at, std::size_t bytes) noexcept {
        const std::size_t end = at + bytes;
        for (std::size_t hole, begin = at; begin < end; begin = hole) {
            hole = end;
            if (file_ >= 0) {
                const off_t data = lseek(file_, start_ + static_cast<off_t>(begin), SEEK_DATA) - start_;
                if (data < 0 && errno == ENXIO) return;  // nothing but holes from here on
                if (data >= static_cast<off_t>(end)) return;
                if (data >= 0) {
                    begin = static_cast<std::size_t>(data);
                    const off_t next = lseek(file_, start_ + data, SEEK_HOLE) - start_;
                    if (next > data && next < static_cast<off_t>(end)) hole = static_cast<std::size_t>(next);
                }  // a file that cannot tell has no holes
            }
            copy_data(to + (begin - at), begin, hole - begin);
            statistics.fork_bytes.add(hole - begin);
        }
    }

  private:
    void copy_data(std::byte* to, std::size_t at, std::size_t bytes) noexcept {
        while (bytes && file_ >= 0) {
            const ssize_t n = pread(file_, to, bytes, start_ + static_cast<off_t>(at));
            if (n <= 0) break;
            to += n;
            at += static_cast<std::size_t>(n);
            bytes -= static_cast<std::size_t>(n);
        }
        std::memcpy(to, from_ + at, bytes);
    }
    const std::byte* const from_;
    int file_;
    off_t start_ = 0;
};

bool move(std::byte* from, std::size_t bytes, std::byte* to) noexcept {
    return mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to;
}

// Advice for a part of memory makes a mapping of its own of it, and the kernel moves one mapping at a time.
void move_in_parts(std::byte* from, std::size_t bytes, std::byte* to) noexcept {
    os::Mapping m;
    for (std::size_t at = 0, n; at < bytes; at += n) {
        if (!os::Maps().find(from + at, m)) die("a forked child cannot find its copy of the heap (/proc/self/maps)");
        n = std::min<std::size_t>(m.end - reinterpret_cast<std::uintptr_t>(from + at), bytes - at);
        if (!move(from + at, n, to + at)) die("a forked child cannot take its copy of the heap into place", to + at);
    }
}

const std::byte* first_of_region(Extent extent) noexcept {
    const std::byte* at = extent.address;
    if (is_marked(at, extent.bytes, replaced))
        while (at < extent.address + extent.bytes - page && marks_of(at) & replaced) at += page;
    return at;
}

// A part of an extent, to its place in `to`: what the program keeps from the child is not copied, and what the
// program has protected is protected in the child.
void copy_part(Copier& copier, Extent extent, std::byte* to, std::byte* part, std::size_t bytes) noexcept {
    const auto copy = [&](std::byte* begin, std::size_t n) {
        const auto at = static_cast<std::size_t>(begin - extent.address);
        copier.copy(to + at, at, n);
    };
    if (!is_marked(part, bytes, any_mark)) return copy(part, bytes);
    each_marked(part, bytes, [&](std::byte* begin, std::size_t n, unsigned marks) {
        const bool wanted = !(marks & (replaced | wiped_on_fork | not_forked));
        if (marks & replaced || !(marks & guarded)) return wanted ? copy(begin, n) : void();
        for (std::byte* const end = begin + n; begin < end; begin += n) {
            os::Mapping m;
            if (!os::Maps().find(begin, m)) die("a forked child cannot read its list of mappings (/proc/self/maps)");
            n = std::min<std::size_t>(m.end - reinterpret_cast<std::uintptr_t>(begin),
                                      static_cast<std::size_t>(end - begin));
            if (!m.readable) mprotect(begin, n, PROT_READ);
            if (wanted) copy(begin, n);
            mprotect(to + (begin - extent.address), n, m.protection());
        }
    });
}

// What the program has mapped in the region's place stays.
void take_place(Extent extent, std::byte* to) noexcept {
    if (!is_marked(extent.address, extent.bytes, replaced)) {
        if (!move(to, extent.bytes, extent.address)) move_in_parts(to, extent.bytes, extent.address);
        return;
    }
    each_marked(extent.address, extent.bytes, [&](std::byte* begin, std::size_t n, unsigned marks) {
        std::byte* const copied = to + (begin - extent.address);
        if (marks & replaced) munmap(copied, n);
        else move_in_parts(copied, n, begin);
    });
}

void snapshot(Use use, Extent extent, int file) noexcept {
    Copier copier(extent.address, file, first_of_region(extent));
    constexpr std::size_t huge = std::size_t{2} << 20;  // aligned to it, the move below moves page tables, not entries
    auto* raw = static_cast<std::byte*>(
        mmap(nullptr, extent.bytes + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (raw == MAP_FAILED) die("no memory for a forked child's copy of the heap");
    auto* to = reinterpret_cast<std::byte*>(round_up(reinterpret_cast<std::uintptr_t>(raw), huge));
    if (use == Use::small) {
        copy_part(copier, extent, to, extent.address, extent.bytes);
    } else {
        (use == Use::pinned ? pinned : pageable).each_block(extent, [&](std::byte* block, std::size_t bytes) {
            // Huge pages where a block fills them: a fault for 512 pages. Not for the rest: they would be mostly empty.
            const auto at = static_cast<std::size_t>(block - extent.address);
            if (bytes >= 2 * huge) madvise(to + at, bytes, MADV_HUGEPAGE);
            copy_part(copier, extent, to, block, bytes);
        });
    }
    take_place(extent, to);
    if (to > raw) munmap(raw, static_cast<std::size_t>(to - raw));
    if (const std::size_t behind = huge - static_cast<std::size_t>(to - raw)) munmap(to + extent.bytes, behind);
}

// What of the region is lent to other addresses is no less shared. It is copied before the extents are, from which it
// is.
void part_lent(int file) noexcept {
    part_loans(file, [](int file, std::byte* where, const std::byte* from, std::size_t bytes) {
        void* to = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (to == MAP_FAILED) die("no memory for a forked child's copy of registered memory");
        Copier(from, file, from).copy(static_cast<std::byte*>(to), 0, bytes);
        if (mremap(to, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, where) != where)
            die("a forked child cannot take its copy of registered memory into place", where);
    });
}

// Where a program has used up its descriptors, it can fork all the same, and has two more for the moment.
bool open_pipe() noexcept {
    if (!pipe2(copied, O_CLOEXEC)) return true;
    rlimit most;
    if (errno != EMFILE || getrlimit(RLIMIT_NOFILE, &most)) return false;
    rlimit more{most.rlim_cur + 2, most.rlim_max};
    if (more.rlim_cur > more.rlim_max) more.rlim_max = more.rlim_cur;  // only root may
    if (setrlimit(RLIMIT_NOFILE, &more)) return false;
    const bool opened = !pipe2(copied, O_CLOEXEC);
    setrlimit(RLIMIT_NOFILE, &most);
    return opened;
}

void prepare() noexcept {
    int cancellable_before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellable_before);
    const bool threads = !__libc_single_threaded;
    if (threads) {
        lock_loans();
        growth.lock();
        pageable.freeze();
        pinned.freeze();
        lock_registrations();
    }
    alone = !threads;
    cancellable = cancellable_before;
    self.forking = true;
    if (shares() && !open_pipe()) die("fork: no file descriptors left to wait for the child's copy of the heap");
}

// The thread that forks holds the locks, in its parent and in the child.
void open_again() noexcept {
    self.forking = false;
    const int cancellable_before = cancellable;
    if (!alone) {
        unlock_registrations();
        pinned.thaw();
        pageable.thaw();
        growth.unlock();
        unlock_loans();
    }
    pthread_setcancelstate(cancellable_before, nullptr);
}

void parent() noexcept {
    if (copied[1] >= 0) {
        const int before = errno;
        close(copied[1]);  // a fork that failed: this was the last write end
        char byte;
        while (read(copied[0], &byte, 1) < 0 && errno == EINTR) {}
        close(copied[0]);
        copied[0] = copied[1] = -1;
        errno = before;
        statistics.forks.add();
    }
    note_fork();
    open_again();
}

void child() noexcept {
    if (connection.source) {
        kept_by_copy = !connection.source->forks_by_itself();
        forget_statistics();
        const int file = kept_by_copy ? connection.source->file() : -1;
        if (kept_by_copy) part_lent(file);
        each_extent([&](std::size_t first, Use use, Extent extent) {
            keeps_parents_blocks = true;
            if (kept_by_copy) snapshot(use, extent, file);
            carry_out_marks(extent.address, extent.bytes);
            for (std::size_t g = first, n = extent.bytes / granule; n; ++g, --n)
                granules[g].use.store(use == Use::small ? Use::kept_small : Use::kept_pages, std::memory_order_relaxed);
        });
        limit.store(SIZE_MAX, std::memory_order_relaxed);  // until the child uses CUDA itself: see activate()
        connection = {};
        active.store(false, std::memory_order_relaxed);
        pageable.forget_all();
        pinned.forget_all();
        small::forget_all();
        forget_registered();
        forget_forks();
    }
    if (ExtentSource* const source = told_of_forks.exchange(nullptr)) source->forked();
    if (copied[1] >= 0) {
        // Lets the parent continue. The end of this process alone would not do that while a process that another thread
        // has started, without fork handlers, still has the pipe.
        if (write(copied[1], "", 1) < 0) die("a forked child cannot say that it has its copy of the heap");
        close(copied[0]);  // not before: without its parent the write would raise SIGPIPE
        close(copied[1]);
        copied[0] = copied[1] = -1;
    }
    open_again();
}

}  // namespace

void tell_of_forks(ExtentSource& source) noexcept { told_of_forks.store(&source); }
void tell_of_no_forks() noexcept { told_of_forks.store(nullptr); }

void watch_forks() noexcept { pthread_atfork(prepare, parent, child); }

void forget(void* p) noexcept {
    const std::uint32_t at = page_of(p);
    if (!kept_by_copy || use_of(p) != Use::kept_pages || books[at].is() != State::used) return;
    madvise(p, std::size_t{books[at].pages} * page, MADV_DONTNEED);  // private memory: it goes back to the system
}

bool keeps_parents_blocks = false;

bool in_kept_blocks(const void* p, std::size_t bytes) noexcept {
    if (!in_region(p, bytes) || !bytes) return false;
    const std::size_t offset = reinterpret_cast<std::uintptr_t>(p) - window.base.load();
    for (std::size_t g = offset / granule; g <= (offset + bytes - 1) / granule; ++g)
        if (const Use use = granules[g].use.load(std::memory_order_relaxed);
            use == Use::kept_pages || use == Use::kept_small)
            return true;
    return false;
}

}  // namespace barcuda::heap

// Without fork handlers by its definition; the heap's must run all the same.
extern "C" __attribute__((visibility("default"))) pid_t _Fork() noexcept {
    static NEXT_FUNCTION(pid_t(), next, "_Fork");
    if (!next) {
        errno = ENOSYS;
        return -1;
    }
    barcuda::heap::prepare();
    const pid_t pid = next();
    pid ? barcuda::heap::parent() : barcuda::heap::child();
    return pid;
}
