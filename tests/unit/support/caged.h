// SPDX-License-Identifier: Apache-2.0
// caged.h: a child process that a test of the cage confines, and its result.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "host-bridge/between/link.h"
#include "host-bridge/cage/cage.h"
#include "host-bridge/cage/measures.h"
#include "tests/unit/support/sanitized.h"

namespace barcuda::cage {

#define SKIP_WITH_SANITIZERS() \
    if (sanitized) GTEST_SKIP() << "sanitizers make calls of their own"

inline Wish soft() {
    Wish wish;
    wish.software = true;
    return wish;
}
inline std::string why(const Plan& plan, Measure m) { return plan.why[static_cast<unsigned>(m)]; }
inline Order only(Measure m) {
    Order order;
    order.on = 1u << static_cast<unsigned>(m);
    order.software = true;
    return order;
}

// The result of a child: its exit status, and what it has noted.
struct Child {
    int status = -1;
    std::uint32_t denied = Sheet::nothing;
    std::string log;  // what it wrote to log_fd
};
inline Child child(const std::function<int(std::uint32_t* denied)>& body) {
    auto* const denied = static_cast<std::uint32_t*>(
        mmap(nullptr, sizeof(std::uint32_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    *denied = Sheet::nothing;
    int log[2];
    if (pipe(log) != 0) return {};
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(log[1], log_fd);
        for (int fd = region_fd; fd <= soft_card_fd; ++fd)  // as in a worker, what the body opens has a higher number
            if (fcntl(fd, F_GETFD) < 0) dup2(STDIN_FILENO, fd);
        _exit(body(denied));
    }
    ::close(log[1]);
    Child c;
    char text[4096];
    for (ssize_t n; (n = read(log[0], text, sizeof text)) > 0;) c.log.append(text, static_cast<std::size_t>(n));
    ::close(log[0]);
    waitpid(pid, &c.status, 0);
    c.denied = *denied;
    munmap(denied, sizeof *denied);
    return c;
}

// Runs `body` under the list of NVIDIA's driver, with these additional calls.
inline Child with_nvidias_list(const std::function<int()>& body, const char* calls = "") {
    return child([&](std::uint32_t* denied) {
        Order order = only(Measure::syscalls);
        order.software = false;
        if (allow_calls(calls, order)) return 3;
        return close(order, denied) ? 2 : body();
    });
}

// What NVIDIA's driver was seen to do (580.159.04) in cuCheckpointProcess* of its own process, apart from its devices.
inline bool reaches_what_a_checkpoint_needs() {
    const std::string self = "/proc/" + std::to_string(getpid());
    int pipes[2];
    if (pipe2(pipes, O_CLOEXEC) != 0) return false;
    const auto opens = [&](const std::string& path, int how) { return open((self + path).c_str(), how | O_CLOEXEC); };
    const int again = opens("/fd/" + std::to_string(pipes[0]), O_RDONLY | O_NONBLOCK);
    const int name = opens("/task/" + std::to_string(gettid()) + "/comm", O_RDWR), maps = opens("/maps", O_RDONLY);
    char byte;
    return again >= 0 && name >= 0 && maps >= 0 && read(maps, &byte, 1) == 1 &&
           open("/proc/devices", O_RDONLY | O_CLOEXEC) >= 0 && dup2(pipes[1], name) == name &&
           dup3(pipes[0], maps, O_CLOEXEC) == maps;
}

}  // namespace barcuda::cage
