// SPDX-License-Identifier: Apache-2.0
#include "base/os/process.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace barcuda {
namespace {

struct Life {
    std::uint64_t start_time = 0;  // in clock ticks since boot; 0: there is no such process
    bool ended = false;            // a zombie without threads, for its parent to reap
};

// Fields 3, 20 and 22 of /proc/PID/stat. The name before them (in parentheses) may contain anything.
Life life_of(std::uint32_t pid) {
    char path[40], text[1024];
    if (pid == 0) std::snprintf(path, sizeof path, "/proc/self/stat");
    else std::snprintf(path, sizeof path, "/proc/%u/stat", pid);
    const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return {};
    const ssize_t n = ::read(fd, text, sizeof text - 1);
    ::close(fd);
    if (n <= 0) return {};
    text[n] = '\0';
    const char* at = std::strrchr(text, ')');
    if (!at || at[1] != ' ') return {};
    at += 2;
    const char state = *at;
    unsigned long long threads = 0;
    for (int field = 3; field < 22 && at; ++field) {
        if (field == 20) threads = std::strtoull(at, nullptr, 10);
        at = std::strchr(at, ' ');
        if (at) ++at;
    }
    if (!at) return {};
    return {std::strtoull(at, nullptr, 10), (state == 'Z' || state == 'X') && threads <= 1};
}

}  // namespace

std::uint64_t start_time_of(std::uint32_t pid) { return life_of(pid).start_time; }
bool lives(std::uint32_t pid, std::uint64_t start_time) {
    const Life life = life_of(pid);
    return pid != 0 && life.start_time != 0 && life.start_time == start_time && !life.ended;
}

namespace os {

std::uint32_t this_process() noexcept { return static_cast<std::uint32_t>(::getpid()); }

unsigned this_user() noexcept { return ::geteuid(); }

int processors() noexcept {
    cpu_set_t set;
    return ::sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

}  // namespace os
}  // namespace barcuda
