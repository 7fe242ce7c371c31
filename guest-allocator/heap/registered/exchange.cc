// SPDX-License-Identifier: Apache-2.0
// exchange.cc: the two exchanges. From the first moment in which another thread may wait to the last one, no step may
// take a lock that such a thread could hold: no malloc, no joining of threads, and no signal handlers.
//
//   replace        other threads may read; a writer waits
//     protect        UFFDIO_WRITEPROTECT: from here on no thread writes `p`
//     copy           to `alias`
//     mremap         `alias` over `p`: one step for all readers, since the kernel lets no page fault in between
//     wake           threads that waited repeat their access, in the new memory
//
//   make_private   other threads wait
//     mremap         an empty private mapping over `p`, whose missing pages this library delivers. Its registration
//                    moves with it only if a thread reads the event (UFFD_FEATURE_EVENT_REMAP), and until then mremap
//                    does not return: so a thread of its own calls it
//     deliver        UFFDIO_COPY of all that no thread can write any more
#include "guest-allocator/heap/registered/exchange.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/os/maps.h"
#include "guest-allocator/heap/core.h"

namespace barcuda::heap {

namespace {

class Faults {
  public:
    explicit Faults(std::uint64_t features) noexcept : fd_(open_any()) {
        uffdio_api api{UFFD_API, features, 0};
        if (fd_ >= 0 && ioctl(fd_, UFFDIO_API, &api)) {
            close(fd_);
            fd_ = -1;
        }
    }
    ~Faults() {
        if (fd_ >= 0) close(fd_);
    }
    Faults(const Faults&) = delete;
    int fd() const noexcept { return fd_; }

    bool watch(void* p, std::size_t bytes, std::uint64_t mode) noexcept {
        uffdio_register what{range(p, bytes), mode, 0};
        return fd_ >= 0 && !ioctl(fd_, UFFDIO_REGISTER, &what);
    }
    // Before Linux 6.4 mapping by mapping; memory that was registered in parts before is several.
    bool protect(void* p, std::size_t bytes, bool yes) noexcept {
        const auto begin = reinterpret_cast<std::uintptr_t>(p), end = begin + bytes;
        os::Maps maps;
        for (os::Mapping m; maps.next(m) && m.begin < end;)
            if (m.end > begin && !protect_one(std::max(begin, m.begin), std::min(end, m.end), yes)) return false;
        return true;
    }
    // Said aloud, since the end of the descriptor is not enough: a child that another thread has just started may
    // still hold it.
    void wake(void* p, std::size_t bytes) noexcept {
        uffdio_range what = range(p, bytes);
        ioctl(fd_, UFFDIO_WAKE, &what);
    }
    void unwatch(void* p, std::size_t bytes) noexcept {
        uffdio_range what = range(p, bytes);
        ioctl(fd_, UFFDIO_UNREGISTER, &what);
    }
    // To pages that are missing. False: no memory.
    bool deliver(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
        for (std::size_t at = 0; at < bytes;) {
            uffdio_copy what{reinterpret_cast<std::uintptr_t>(to) + at, reinterpret_cast<std::uintptr_t>(from) + at,
                             bytes - at, 0, 0};
            if (!ioctl(fd_, UFFDIO_COPY, &what)) return true;
            if (what.copy > 0) at += static_cast<std::size_t>(what.copy);
            else if (errno == EEXIST) at += page;
            else if (errno != EAGAIN && errno != EINTR) return false;
        }
        return true;
    }

  private:
    bool protect_one(std::uintptr_t begin, std::uintptr_t end, bool yes) noexcept {
        uffdio_writeprotect what{{begin, end - begin}, yes ? UFFDIO_WRITEPROTECT_MODE_WP : 0};
        int failed;
        while ((failed = ioctl(fd_, UFFDIO_WRITEPROTECT, &what)) && errno == EAGAIN) {}
        return !failed;
    }
    static uffdio_range range(void* p, std::size_t bytes) noexcept {
        return {reinterpret_cast<std::uintptr_t>(p), bytes};
    }
    // With the faults of system calls if we may, else without.
    static int open_any() noexcept {
        constexpr int flags = O_CLOEXEC | O_NONBLOCK;
        if (const long fd = syscall(SYS_userfaultfd, flags); fd >= 0) return static_cast<int>(fd);
        if (const int door = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC); door >= 0) {
            const int fd = ioctl(door, USERFAULTFD_IOC_NEW, flags);
            close(door);
            if (fd >= 0) return fd;
        }
        return static_cast<int>(syscall(SYS_userfaultfd, flags | UFFD_USER_MODE_ONLY));
    }
    int fd_;
};

// A handler that ran now, on this thread, could touch the range and wait for itself.
class Quiet {
  public:
    Quiet() noexcept {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~Quiet() {
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
        errno = error_;
    }
    Quiet(const Quiet&) = delete;

  private:
    sigset_t before_;
    const int error_ = errno;
};

// Not memcpy: a sanitizer's would look at whose bytes these are.
void copy_pages(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    std::size_t words = bytes / 8;
    asm volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(words) : : "memory");
}

bool move(void* from, std::size_t bytes, void* to) noexcept {
    return mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to;
}

// A move that fails before it has started (too many mappings) leaves its target unchanged. One that fails later (no
// memory for page tables) does not, and the process cannot continue.
void must_be_there(const std::byte* p, std::size_t bytes) noexcept {
    if (msync(const_cast<std::byte*>(p), bytes, MS_ASYNC) && errno == ENOMEM)
        die("no memory left to exchange registered memory, whose contents are lost", p);
}

struct Move {
    void* from;
    std::size_t bytes;
    void* to;
    int ended;  // an eventfd
    bool moved = false;
};
void* run(void* what) noexcept {
    auto* m = static_cast<Move*>(what);
    m->moved = move(m->from, m->bytes, m->to);
    const std::uint64_t one = 1;
    if (write(m->ended, &one, sizeof one) != sizeof one) die("cannot write to an eventfd");
    return nullptr;
}

void await(int fd) noexcept {
    pollfd one{fd, POLLIN, 0};
    while (poll(&one, 1, -1) != 1) {}
}

// Until the kernel has said that the mapping has moved (true), or the attempt has ended.
bool noted(int faults, int ended) noexcept {
    for (;;) {
        pollfd both[] = {{faults, POLLIN, 0}, {ended, POLLIN, 0}};
        poll(both, 2, -1);
        for (uffd_msg message; read(faults, &message, sizeof message) == sizeof message;)
            if (message.event == UFFD_EVENT_REMAP) return true;  // else a fault: its page comes with the others
        if (both[1].revents) return false;
    }
}

}  // namespace

bool replace(std::byte* p, std::size_t bytes, std::byte* alias) noexcept {
    // A missing page cannot be protected: a page that was never touched becomes one of zeros.
    if (madvise(p, bytes, MADV_POPULATE_READ))
        for (std::size_t at = 0; at < bytes; at += page) *reinterpret_cast<volatile std::byte*>(p + at);
    madvise(alias, bytes, MADV_POPULATE_WRITE);  // its page faults now, not while others wait; not all memory can
    const Quiet quiet;
    Faults faults(UFFD_FEATURE_PAGEFAULT_FLAG_WP);
    if (!faults.watch(p, bytes, UFFDIO_REGISTER_MODE_WP)) return false;
    bool done = faults.protect(p, bytes, true);
    if (done) {
        copy_pages(alias, p, bytes);
        done = move(alias, bytes, p);
        if (!done) must_be_there(p, bytes);
    }
    if (!done) faults.protect(p, bytes, false);
    faults.wake(p, bytes);
    return done;
}

bool make_private(std::byte* p, std::size_t bytes, const std::byte* same) noexcept {
    void* fresh = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh == MAP_FAILED) return false;
    const Quiet quiet;
    Faults faults(UFFD_FEATURE_EVENT_REMAP);
    Move work{fresh, bytes, p, eventfd(0, EFD_CLOEXEC)};
    pthread_t mover;
    bool done = false;
    if (work.ended >= 0 && faults.watch(fresh, bytes, UFFDIO_REGISTER_MODE_MISSING) &&
        !pthread_create(&mover, nullptr, run, &work)) {
        done = noted(faults.fd(), work.ended);
        await(work.ended);
        if (done && !faults.deliver(p, same, bytes)) die("no memory left for what was registered", p);
        if (done) faults.unwatch(p, bytes);
        else must_be_there(p, bytes);
        pthread_join(mover, nullptr);
    }
    if (!done) munmap(fresh, bytes);
    if (work.ended >= 0) close(work.ended);
    return done;
}

}  // namespace barcuda::heap
