// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/doorbell.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/log.h"
#include "base/message.h"

namespace barcuda {
namespace {

constexpr std::int64_t version = 0, host_id = 0, guest_id = 1, memory = -1;

bool send(int to, std::int64_t number, int fd = -1) { return send_message(to, &number, sizeof number, fd); }

}  // namespace

Doorbell::~Doorbell() {
    for (int fd : {listener_, qemu_, host_, guest_})
        if (fd >= 0) close(fd);
    if (listener_ >= 0) unlink(path_.c_str());
}

std::string Doorbell::open(const std::string& path, int region) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path)
        return fmt::format("{}: a socket's path has at most {} bytes", path, sizeof address.sun_path - 1);
    std::memcpy(address.sun_path, path.c_str(), path.size());
    struct stat old;  // a bridge that was killed leaves its socket behind; the region's lock says that it is gone
    if (lstat(path.c_str(), &old) == 0 && S_ISSOCK(old.st_mode)) unlink(path.c_str());
    host_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    guest_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const mode_t mask = umask(0177);  // until it has its own: who connects gets the whole region
    const bool bound = listener >= 0 && bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    umask(mask);
    // As the region's file: for its user and group, less the umask.
    if (host_ < 0 || guest_ < 0 || !bound || chmod(path.c_str(), 0660 & ~mask) != 0 || listen(listener, 4) != 0) {
        std::string why = fmt::format("{}: cannot listen for QEMU there: {}", path,
                                      errno == ENOENT ? "its folder is not there; make it" : strerror(errno));
        if (listener >= 0) close(listener);
        return why;
    }
    path_ = path;
    region_ = region;
    listener_ = listener;
    return {};
}

void Doorbell::watch(std::vector<pollfd>& fds) const {
    for (int fd : {listener_, qemu_, host_}) fds.push_back({fd, POLLIN, 0});  // poll() passes over what is -1
}

bool Doorbell::answer(const pollfd* fds, const std::function<bool(const Visitor&)>& is_worker) {
    if (fds[1].revents && qemu_ >= 0) {  // it never says anything
        close(qemu_);
        qemu_ = -1;
        log::info("the VM at the doorbell has gone");
    }
    if (fds[0].revents) greet(is_worker);
    std::uint64_t rings;
    if (!fds[2].revents || read(host_, &rings, sizeof rings) != sizeof rings) return false;
    log::debug("the guest rang");
    return true;
}

void Doorbell::greet(const std::function<bool(const Visitor&)>& is_worker) {
    const int qemu = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (qemu < 0) return;
    const Visitor peer = visitor_at(qemu);
    if (!peer.process || is_worker(peer)) {
        if (!peer.process) log::error("a process that has ended came to the doorbell and was sent away");
        else
            log::error(
                "the worker {} (user {}) came to the doorbell, where it could have the whole region, and was sent away",
                peer.pid, peer.user);
        close(qemu);
        return;
    }
    if (qemu_ >= 0) {
        log::error("a second VM came to the doorbell and was sent away: one region, one VM");
        close(qemu);
        return;
    }
    // A few bytes into an empty socket, which does not wait.
    if (send(qemu, version) && send(qemu, guest_id) && send(qemu, memory, region_) && send(qemu, host_id, host_) &&
        send(qemu, guest_id, guest_)) {
        qemu_ = qemu;
        log::info("a VM came to the doorbell");
    } else {
        log::error("a VM came to the doorbell and went: {}", strerror(errno));
        close(qemu);
    }
}

}  // namespace barcuda
