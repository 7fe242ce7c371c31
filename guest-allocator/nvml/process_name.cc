// SPDX-License-Identifier: Apache-2.0
// process_name.cc: the name of a process of this guest; as natively, the program's name with its path.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "guest-allocator/nvml/library.h"

using namespace barcuda::guest::nvml;

NVML nvmlSystemGetProcessName(unsigned pid, char* name, unsigned room) {
    if (Status s = ready(); s != success) return s;
    if (!name || room == 0) return invalid_argument;
    char path[32], line[4096];
    std::snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = file < 0 ? -1 : read(file, line, sizeof line - 1);
    if (file >= 0) close(file);
    if (n <= 0) return not_found;
    line[n] = '\0';
    std::snprintf(name, room, "%s", line);
    return std::strlen(line) < room ? success : insufficient_size;
}
