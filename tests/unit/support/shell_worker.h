// SPDX-License-Identifier: Apache-2.0
// shell_worker.h: a process of the shell's in the place of a worker, for tests of the bridge. What it runs finds the
// worker's descriptors in their places.
#pragma once
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "host-bridge/bridge/worker_process.h"
#include "shm-device/queue/sync.h"

namespace barcuda::test {

inline Spawn shell(const std::string& script) {
    Spawn what;
    what.program = "/bin/sh";
    what.command = {"sh", "-c", script};
    return what;
}
// Waits for the end of its link, as a worker does that has no client.
inline const std::string idle = "cat <&4 > /dev/null";

inline std::unique_ptr<WorkerProcess> start_worker(const std::string& script = idle, std::vector<int> devices = {}) {
    return WorkerProcess::start(shell(script), {std::move(devices), 0, nullptr});
}
inline void open_driver(WorkerProcess& worker) { publish(worker.sheet().bare, 1u); }
// Until its process has ended.
inline void await_end(const WorkerProcess& worker) {
    pollfd end{worker.end(), POLLIN, 0};
    poll(&end, 1, -1);
}

// A descriptor of the worker's, by its number. -1: not available here.
inline File workers_file(const WorkerProcess& worker, int number) {
    const std::string exe = "/proc/" + std::to_string(worker.pid()) + "/exe";
    std::error_code ec;
    const auto own = std::filesystem::read_symlink("/proc/self/exe", ec);
    while (std::filesystem::read_symlink(exe, ec) == own) usleep(1000);  // until its descriptors are in their places
    return File(static_cast<int>(syscall(SYS_pidfd_getfd, worker.end(), number, 0)));
}
// Its end of its link, to speak for it.
inline File workers_link(const WorkerProcess& worker) { return workers_file(worker, link_fd); }

}  // namespace barcuda::test
