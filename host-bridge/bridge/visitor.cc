// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/visitor.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <utility>

namespace barcuda {
namespace {

bool has_ended(const File& process) {
    pollfd end{process.fd(), POLLIN, 0};
    return poll(&end, 1, 0) != 0;
}

}  // namespace

Visitor visitor_at(int socket) {
    ucred peer{};
    socklen_t size = sizeof peer;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.pid <= 0) return {};
    constexpr int peer_pidfd = 77;  // SO_PEERPIDFD, of Linux 6.5
    int process = -1;
    size = sizeof process;
    if (getsockopt(socket, SOL_SOCKET, peer_pidfd, &process, &size) != 0) {
        if (errno != ENOPROTOOPT) return {};
        process = static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0));
    }
    File its(process);
    if (!its || has_ended(its)) return {};
    return {peer.pid, peer.uid, std::move(its)};
}

bool is_a_bridges(const Visitor& visitor) {
    std::ifstream stat(fmt::format("/proc/{}/stat", visitor.pid));
    std::string line;
    std::getline(stat, line);
    const std::size_t name = line.rfind(')');  // followed by " S PARENT"; the name may contain anything
    if (name == line.npos || line.size() < name + 5) return false;
    std::ifstream comm(fmt::format("/proc/{}/comm", std::atoi(line.c_str() + name + 4)));
    std::string parent;
    std::getline(comm, parent);
    return parent == "barcuda-bridge" && !has_ended(visitor.process);
}

}  // namespace barcuda
