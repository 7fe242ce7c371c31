// SPDX-License-Identifier: Apache-2.0
// out_of_the_way.h: the library's descriptors in a program's process.
#pragma once
#include <fcntl.h>
#include <unistd.h>

namespace barcuda {

// The same descriptor, closed by exec, moved to a high number if there is room: some programs expect 3 from their first
// open().
inline int out_of_the_way(int fd) {
    const int high = ::fcntl(fd, F_DUPFD_CLOEXEC, 512);
    if (high >= 0) ::close(fd);
    return high >= 0 ? high : fd;
}

}  // namespace barcuda
