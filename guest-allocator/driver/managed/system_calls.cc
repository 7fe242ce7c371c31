// SPDX-License-Identifier: Apache-2.0
// system_calls.cc: the kernel is given managed memory. It answers EFAULT for what the CPU may not touch, where the program itself
// would have waited. So the functions by which programs read and write files and sockets are ours as well: they bring the memory
// to the host first, and again if something was launched in between. A program without managed memory pays one look for it.
//
// Named here are those that programs hand buffers to. Others (ioctl, io_uring, a struct that a call fills) get what the CPU has
// touched last: docs/managed.md.
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <optional>

#include "guest-allocator/client/observer.h"
#include "guest-allocator/driver/host_function.h"
#include "guest-allocator/driver/managed/table.h"
#include "guest-allocator/heap/sanitized.h"

#if !BARCUDA_SANITIZED  // whose own these functions are then

namespace {

using namespace barcuda::guest;

// The next one behind us in the loader's order.
template <class F> struct Next;
template <class R, class... A> struct Next<R(A...)> {
    const char* const name;
    std::atomic<R (*)(A...)> to{nullptr};
    R operator()(A... a) {
        auto* f = to.load(std::memory_order_relaxed);
        if (!f) to.store(f = reinterpret_cast<R (*)(A...)>(dlsym(RTLD_NEXT, name)), std::memory_order_relaxed);
        return f(a...);
    }
};

// True: some of it is managed, and the CPU may touch all of that now.
bool for_the_kernel(const void* p, std::size_t bytes, bool write) {
    const auto at = reinterpret_cast<std::uintptr_t>(p);
    return bytes && at + bytes > at && managed::near_homes(at, bytes) && managed::bring(at, bytes, write);
}
bool for_the_kernel(const iovec* parts, int count, bool write) {
    const void* const list = parts;
    bool any = for_the_kernel(list, count > 0 ? static_cast<std::size_t>(count) * sizeof *parts : 0, false);
    for (int i = 0; i < count; ++i) any |= for_the_kernel(parts[i].iov_base, parts[i].iov_len, write);
    return any;
}
bool for_the_kernel(const msghdr* message, bool write) {
    const void* const head = message;
    const bool any = for_the_kernel(head, sizeof *message, write);
    return any | for_the_kernel(message->msg_iov, static_cast<int>(message->msg_iovlen), write);
}

bool is_file(int fd) {
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

// `bring` before `call`, and again for as often as others launch work in the moment between the two. A file's bytes are there: what
// is given work waits until they are read or written, so that none are missing at the end.
template <class File, class Bring, class Call> auto served(File file, Bring bring, Call call) {
    if (managed::calm.load(std::memory_order_relaxed) == managed::unused || !bring()) [[likely]]
        return call();
    std::optional<managed::Gate> gate;
    if (!in_host_function() && is_file(file())) gate.emplace(), bring();
    constexpr int most = 1000;  // then the address is bad for another reason
    for (int tries = 0;; ++tries) {
        const auto r = call();
        if (tries == most || r != static_cast<decltype(r)>(-1) || errno != EFAULT || !bring()) return r;
    }
}

}  // namespace

#define PUBLIC extern "C" __attribute__((visibility("default")))
// A function, whose file it works on, its parameters and arguments, and what of them the kernel reads or writes.
#define SERVED(result, name, fd, parameters, arguments, ...)                           \
    PUBLIC result name parameters {                                                    \
        static constinit Next<result parameters> next{#name};                          \
        return served([&] { return fd; }, [&] { return for_the_kernel(__VA_ARGS__); }, \
                      [&] { return next arguments; });                                 \
    }

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

// Large ones of a stream go to the kernel from where they lie.
SERVED(size_t, fread, fileno(file), (void* to, size_t size, size_t n, FILE* file), (to, size, n, file), to, size* n,
       true)
SERVED(size_t, fread_unlocked, fileno(file), (void* to, size_t size, size_t n, FILE* file), (to, size, n, file), to,
       size* n, true)
SERVED(size_t, fwrite, fileno(file), (const void* from, size_t size, size_t n, FILE* file), (from, size, n, file), from,
       size* n, false)
SERVED(size_t, fwrite_unlocked, fileno(file), (const void* from, size_t size, size_t n, FILE* file),
       (from, size, n, file), from, size* n, false)

// What the compiler makes of them in programs that are built with _FORTIFY_SOURCE.
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
SERVED(size_t, __fread_chk, fileno(file), (void* to, size_t room, size_t size, size_t n, FILE* file),
       (to, room, size, n, file), to, size* n, true)
SERVED(size_t, __fread_unlocked_chk, fileno(file), (void* to, size_t room, size_t size, size_t n, FILE* file),
       (to, room, size, n, file), to, size* n, true)

#endif
