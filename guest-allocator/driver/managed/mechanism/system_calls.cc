// SPDX-License-Identifier: Apache-2.0
// system_calls.cc: programs pass managed memory to the kernel. Where the program itself would wait, the kernel returns
// EFAULT. So the library has the functions by which programs read and write files and sockets: they fetch the memory
// first, and again if something was launched in between. A program without managed memory pays one load.
//
// The functions here are those that programs pass buffers to. Others (ioctl, io_uring, a struct that a call fills) see
// what the CPU had last: docs/managed.md.
#include <errno.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <mutex>

#include "guest-allocator/client/observer.h"
#include "guest-allocator/driver/host_function.h"
#include "guest-allocator/driver/managed/mechanism/exclusion.h"
#include "guest-allocator/driver/managed/mechanism/faults.h"
#include "guest-allocator/driver/managed/mechanism/signals.h"
#include "guest-allocator/driver/managed/state/state.h"
#include "guest-allocator/heap/next.h"
#include "guest-allocator/heap/sanitized.h"

#if !BARCUDA_SANITIZED  // the sanitizer has these functions

namespace {

using namespace barcuda::guest;

// Calls act(address, bytes, whether it is written) for memory that the kernel is to be given. True: act has for some of
// it.
template <class Do> [[gnu::always_inline]] inline bool each(const void* p, std::size_t bytes, bool write, Do act) {
    const auto at = reinterpret_cast<std::uintptr_t>(p);
    return bytes && at + bytes > at && managed::may_be_managed(at, bytes) && act(at, bytes, write);
}
template <class Do> bool each(const iovec* parts, int count, bool write, Do act) {
    const void* const list = parts;
    bool any = each(list, count > 0 ? static_cast<std::size_t>(count) * sizeof *parts : 0, false, act);
    if (any && act.stops) return true;  // the list itself cannot be read
    for (int i = 0; i < count; ++i) any |= each(parts[i].iov_base, parts[i].iov_len, write, act);
    return any;
}
template <class Do> bool each(const msghdr* message, bool write, Do act) {
    const void* const head = message;
    const bool any = each(head, sizeof *message, write, act);
    if (any && act.stops) return true;
    return any | each(message->msg_iov, static_cast<int>(message->msg_iovlen), write, act);
}

bool is_file(int fd) {
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}
bool is_file(FILE* file) { return is_file(fileno(file)); }

// A FILE is locked before anything else: a thread that has its lock may touch managed memory, and wait.
struct LockedFile {
    explicit LockedFile(int) {}
    explicit LockedFile(FILE* its) : file(its) { flockfile(file); }
    ~LockedFile() {
        if (file) funlockfile(file);
    }
    LockedFile(const LockedFile&) = delete;
    FILE* const file = nullptr;
};

// A system call on a file, with memory that the CPU may touch now: no function in a stream takes it away before the
// call has returned. Such a call waits for no stream.
struct NotAccessible {
    static constexpr bool stops = true;
    bool operator()(std::uintptr_t at, std::size_t bytes, bool write) const {
        return !managed::is_accessible(at, bytes, write);
    }
};
struct FaultIn {
    static constexpr bool stops = false;
    bool operator()(std::uintptr_t at, std::size_t bytes, bool write) const {
        return managed::fault_in(at, bytes, write);
    }
};
class CallInProgress {
  public:
    // False afterwards: the CPU may not touch some part any more.
    template <class Each> explicit CallInProgress(Each each_part) {
        managed::State& s = managed::state();
        std::unique_lock lock(s.mutex);
        s.calls.await_ends(lock);
        if ((counted_ = !each_part(NotAccessible{}))) s.calls.begin();
    }
    ~CallInProgress() {
        if (!counted_) return;
        std::lock_guard lock(managed::state().mutex);
        managed::state().calls.end();
    }
    CallInProgress(const CallInProgress&) = delete;
    explicit operator bool() const { return counted_; }

  private:
    bool counted_ = false;
};

// The memory is fetched before `call`, and again whenever another thread launches work between the two. A call on a
// file waits for no peer, so during it no work is launched, and no function in a stream takes memory away: all bytes
// are read or written.
template <class File, class Each, class Call> auto served(File file, Each each_part, Call call) {
    const auto bring = [&] { return each_part(FaultIn{}); };
    if (managed::fast_path.load(std::memory_order_relaxed) == managed::no_memory || !bring()) [[likely]]
        return call();
    constexpr int most = 1000;  // then the address is bad for another reason
    if (!in_host_function() && is_file(file())) {
        const LockedFile locked(file());
        const managed::HandlersDeferred deferred;
        const managed::Gate gate;
        for (int tries = 0; tries < most; ++tries) {
            bring();
            if (const CallInProgress in_progress(each_part); in_progress) return call();
        }
    }
    for (int tries = 0;; ++tries) {
        const auto r = call();
        if (tries == most || r != static_cast<decltype(r)>(-1) || errno != EFAULT || !bring()) return r;
    }
}

}  // namespace

#define PUBLIC extern "C" __attribute__((visibility("default")))
// A function's result and name, the file that it works on, its parameters and arguments, and what of them the kernel
// reads or writes. What the library itself calls by that name is __wrap_NAME (Makefile): its own memory is not managed,
// and it may hold locks.
#define SERVED(result, name, fd, parameters, arguments, ...)                                \
    static NEXT_FUNCTION(result parameters, next_##name, #name);                            \
    PUBLIC result name parameters {                                                         \
        return served([&] { return fd; }, [&](auto act) { return each(__VA_ARGS__, act); }, \
                      [&] { return next_##name arguments; });                               \
    }                                                                                       \
    extern "C" __attribute__((visibility("hidden"))) result __wrap_##name parameters { return next_##name arguments; }

SERVED(ssize_t, read, fd, (int fd, void* to, size_t n), (fd, to, n), to, n, true)
SERVED(ssize_t, pread, fd, (int fd, void* to, size_t n, off_t at), (fd, to, n, at), to, n, true)
SERVED(ssize_t, pread64, fd, (int fd, void* to, size_t n, off_t at), (fd, to, n, at), to, n, true)
SERVED(ssize_t, readv, fd, (int fd, const iovec* parts, int count), (fd, parts, count), parts, count, true)
SERVED(ssize_t, preadv, fd, (int fd, const iovec* parts, int count, off_t at), (fd, parts, count, at), parts, count,
       true)
SERVED(ssize_t, preadv64, fd, (int fd, const iovec* parts, int count, off_t at), (fd, parts, count, at), parts, count,
       true)
SERVED(ssize_t, recv, fd, (int fd, void* to, size_t n, int flags), (fd, to, n, flags), to, n, true)
SERVED(ssize_t, recvfrom, fd, (int fd, void* to, size_t n, int flags, sockaddr* from, socklen_t* room),
       (fd, to, n, flags, from, room), to, n, true)
SERVED(ssize_t, recvmsg, fd, (int fd, msghdr* message, int flags), (fd, message, flags), message, true)
SERVED(ssize_t, getrandom, -1, (void* to, size_t n, unsigned flags), (to, n, flags), to, n, true)

SERVED(ssize_t, write, fd, (int fd, const void* from, size_t n), (fd, from, n), from, n, false)
SERVED(ssize_t, pwrite, fd, (int fd, const void* from, size_t n, off_t at), (fd, from, n, at), from, n, false)
SERVED(ssize_t, pwrite64, fd, (int fd, const void* from, size_t n, off_t at), (fd, from, n, at), from, n, false)
SERVED(ssize_t, writev, fd, (int fd, const iovec* parts, int count), (fd, parts, count), parts, count, false)
SERVED(ssize_t, pwritev, fd, (int fd, const iovec* parts, int count, off_t at), (fd, parts, count, at), parts, count,
       false)
SERVED(ssize_t, pwritev64, fd, (int fd, const iovec* parts, int count, off_t at), (fd, parts, count, at), parts, count,
       false)
SERVED(ssize_t, send, fd, (int fd, const void* from, size_t n, int flags), (fd, from, n, flags), from, n, false)
SERVED(ssize_t, sendto, fd, (int fd, const void* from, size_t n, int flags, const sockaddr* to, socklen_t room),
       (fd, from, n, flags, to, room), from, n, false)
SERVED(ssize_t, sendmsg, fd, (int fd, const msghdr* message, int flags), (fd, message, flags), message, false)

// A FILE passes large buffers to the kernel without a copy.
SERVED(size_t, fread, file, (void* to, size_t size, size_t n, FILE* file), (to, size, n, file), to, size* n, true)
SERVED(size_t, fread_unlocked, file, (void* to, size_t size, size_t n, FILE* file), (to, size, n, file), to, size* n,
       true)
SERVED(size_t, fwrite, file, (const void* from, size_t size, size_t n, FILE* file), (from, size, n, file), from,
       size* n, false)
SERVED(size_t, fwrite_unlocked, file, (const void* from, size_t size, size_t n, FILE* file), (from, size, n, file),
       from, size* n, false)

// The compiler calls these instead in programs that are built with _FORTIFY_SOURCE.
SERVED(ssize_t, __read_chk, fd, (int fd, void* to, size_t n, size_t room), (fd, to, n, room), to, n, true)
SERVED(ssize_t, __pread_chk, fd, (int fd, void* to, size_t n, off_t at, size_t room), (fd, to, n, at, room), to, n,
       true)
SERVED(ssize_t, __pread64_chk, fd, (int fd, void* to, size_t n, off_t at, size_t room), (fd, to, n, at, room), to, n,
       true)
SERVED(ssize_t, __recv_chk, fd, (int fd, void* to, size_t n, size_t room, int flags), (fd, to, n, room, flags), to, n,
       true)
SERVED(ssize_t, __recvfrom_chk, fd,
       (int fd, void* to, size_t n, size_t room, int flags, sockaddr* from, socklen_t* length),
       (fd, to, n, room, flags, from, length), to, n, true)
SERVED(size_t, __fread_chk, file, (void* to, size_t room, size_t size, size_t n, FILE* file), (to, room, size, n, file),
       to, size* n, true)
SERVED(size_t, __fread_unlocked_chk, file, (void* to, size_t room, size_t size, size_t n, FILE* file),
       (to, room, size, n, file), to, size* n, true)

#endif
