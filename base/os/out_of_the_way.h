// SPDX-License-Identifier: Apache-2.0
// out_of_the_way.h: descriptors of ours in a process that is a program's.
#pragma once
#include <fcntl.h>
#include <unistd.h>

namespace barcuda {

// The same descriptor, closed by exec, up where no program that counts on getting 3 from its first open() meets it, if there
// is room.
inline int out_of_the_way(int fd) {
    const int high = ::fcntl(fd, F_DUPFD_CLOEXEC, 512);
    if (high >= 0) ::close(fd);
    return high >= 0 ? high : fd;
}

}  // namespace barcuda
