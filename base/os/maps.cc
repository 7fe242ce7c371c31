// SPDX-License-Identifier: Apache-2.0
// maps.cc: lines of /proc/self/maps, such as
// "200000000000-200002000000 rw-s 00000000 00:01 1025      /name".
#include "base/os/maps.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace barcuda::os {

int Mapping::protection() const {
    return (readable ? PROT_READ : 0) | (writable ? PROT_WRITE : 0) | (executable ? PROT_EXEC : 0);
}

Maps::Maps() noexcept : fd_(open("/proc/self/maps", O_RDONLY | O_CLOEXEC)) {}
Maps::~Maps() {
    if (fd_ >= 0) close(fd_);
}

bool Maps::next(Mapping& out) noexcept {
    char line[160];  // all that is read of a line is at its beginning; names may be cut
    std::size_t length = 0;
    for (;;) {
        if (at_ == held_) {
            const ssize_t n = fd_ < 0 ? 0 : read(fd_, text_, sizeof text_);
            if (n <= 0) return false;
            at_ = 0;
            held_ = static_cast<std::size_t>(n);
        }
        const char c = text_[at_++];
        if (c == '\n') break;
        if (length < sizeof line - 1) line[length++] = c;
    }
    line[length] = 0;
    char* at = line;
    const auto number = [&at](int base) {
        const std::uint64_t value = std::strtoull(at, &at, base);
        if (*at) ++at;  // the one character after it: '-', ' ' or ':'
        return value;
    };
    out.begin = number(16);
    out.end = number(16);
    out.readable = at[0] == 'r';
    out.writable = at[1] == 'w';
    out.executable = at[2] == 'x';
    out.shared = at[3] == 's';
    at += 5;
    out.offset = number(16);
    const auto major_ = static_cast<unsigned>(number(16)), minor_ = static_cast<unsigned>(number(16));
    out.device = makedev(major_, minor_);
    out.inode = number(10);
    out.is_stack = std::strstr(at, "[stack]") != nullptr;
    return true;
}

bool Maps::find(const void* p, Mapping& out) noexcept {
    while (next(out))
        if (out.holds(reinterpret_cast<std::uintptr_t>(p))) return true;
    return false;
}

}  // namespace barcuda::os
