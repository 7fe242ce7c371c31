// SPDX-License-Identifier: Apache-2.0
// descriptors.cc: the functions by which programs close descriptors that they may not have opened: daemons close all
// from 3 on, before or after their first CUDA call. For these functions the region's descriptor is not open, as without
// Barcuda. A forked child may close its own copy. (Raw system calls bypass this: where possible, the library then opens
// the region again, base/os/file.h.)
#include "guest-allocator/client/descriptors.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "guest-allocator/heap/next.h"
#include "guest-allocator/heap/sanitized.h"

namespace barcuda::guest {
namespace {
std::atomic<int> kept{-1};
std::atomic<pid_t> keeper{0};
}  // namespace

void keep_descriptor(int fd) noexcept {
    keeper.store(getpid(), std::memory_order_relaxed);
    kept.store(fd, std::memory_order_relaxed);
}

}  // namespace barcuda::guest

#if !BARCUDA_SANITIZED  // whose own these functions are then

namespace barcuda::guest {
namespace {

NEXT_FUNCTION(int(int), next_close, "close");

// The kept one, if it is in [first, last]; -1: none. (getpid() is called for those alone that would close it.)
int kept_in(unsigned first, unsigned last) noexcept {
    const int fd = kept.load(std::memory_order_relaxed);
    if (fd < 0 || static_cast<unsigned>(fd) < first || static_cast<unsigned>(fd) > last) return -1;
    return keeper.load(std::memory_order_relaxed) == getpid() ? fd : -1;
}

int close_in(unsigned first, unsigned last, int flags) noexcept {
    return static_cast<int>(syscall(SYS_close_range, first, last, flags));
}

// All of [first, end), also on kernels before 5.9.
void close_until(std::uint64_t first, std::uint64_t end) noexcept {
    if (first >= end || close_in(static_cast<unsigned>(first), static_cast<unsigned>(end - 1), 0) == 0) return;
    if (rlimit most{}; getrlimit(RLIMIT_NOFILE, &most) == 0) end = std::min<std::uint64_t>(end, most.rlim_cur);
    for (; first < end; ++first) next_close(static_cast<int>(first));
}

}  // namespace
}  // namespace barcuda::guest

#define PUBLIC extern "C" __attribute__((visibility("default")))
using namespace barcuda::guest;

PUBLIC int close(int fd) {
    if (fd >= 0 && kept_in(static_cast<unsigned>(fd), static_cast<unsigned>(fd)) >= 0) {
        errno = EBADF;
        return -1;
    }
    return next_close(fd);
}
// What this library itself closes (Makefile).
extern "C" __attribute__((visibility("hidden"))) int __wrap_close(int fd) { return next_close(fd); }

PUBLIC int close_range(unsigned first, unsigned last, int flags) noexcept {
    constexpr int at_exec = 4;  // CLOSE_RANGE_CLOEXEC: the kept one is closed by exec already
    const int own = flags & at_exec ? -1 : kept_in(first, last);
    if (own < 0) return close_in(first, last, flags);
    const auto at = static_cast<unsigned>(own);
    if (first < at && close_in(first, at - 1, flags) != 0) return -1;
    return at < last ? close_in(at + 1, last, flags) : 0;
}

PUBLIC void closefrom(int low) noexcept {
    constexpr std::uint64_t end = std::uint64_t{1} << 32;
    const unsigned first = low < 0 ? 0 : static_cast<unsigned>(low);
    const int own = kept_in(first, ~0u);
    const int before = errno;
    close_until(first, own < 0 ? end : static_cast<unsigned>(own));
    if (own >= 0) close_until(static_cast<unsigned>(own) + 1, end);
    errno = before;
}

#endif
