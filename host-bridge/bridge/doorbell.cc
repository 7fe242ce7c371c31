// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/doorbell.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "base/message.h"

namespace barcuda {
namespace {

constexpr std::int64_t version = 0, host_id = 0, guest_id = 1, memory = -1;

bool send(int to, std::int64_t number, int fd = -1) { return send_message(to, &number, sizeof number, fd); }

}  // namespace

Doorbell::~Doorbell() {
    if (listener_) unlink(path_.c_str());
}

bool Doorbell::hear(const File& file) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = file.fd();
    return epoll_ctl(any_.fd(), EPOLL_CTL_ADD, file.fd(), &event) == 0;
}

bool Doorbell::adopt(const std::string& path, int region, const Kept& kept) {
    File listener = kept.take("doorbell.listener"), host = kept.take("doorbell.host"),
         guest = kept.take("doorbell.guest"), qemu = kept.take("doorbell.qemu");
    any_ = File(epoll_create1(EPOLL_CLOEXEC));
    if (!listener || !host || !guest || !any_ || !hear(listener) || !hear(host) || (qemu && !hear(qemu))) return false;
    path_ = path;
    region_ = region;
    kept_ = kept ? &kept : nullptr;
    listener_ = std::move(listener);
    host_ = std::move(host);
    guest_ = std::move(guest);
    qemu_ = std::move(qemu);
    return true;
}

Failure Doorbell::open(const std::string& path, int region, const Kept& kept) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path)
        return fmt::format("{}: a socket's path has at most {} bytes", path, sizeof address.sun_path - 1);
    std::memcpy(address.sun_path, path.c_str(), path.size());
    // a bridge that was killed leaves its socket behind; the region's lock shows that the bridge has ended
    struct stat old;
    if (lstat(path.c_str(), &old) == 0 && S_ISSOCK(old.st_mode)) unlink(path.c_str());
    any_ = File(epoll_create1(EPOLL_CLOEXEC));
    host_ = File(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    guest_ = File(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    File listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const mode_t mask = umask(0177);  // until it has its final mode, because a peer gets the whole region
    const bool bound = listener && bind(listener.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    umask(mask);
    // Like the region's file: for its user and group, minus the umask.
    if (!any_ || !host_ || !guest_ || !bound || chmod(path.c_str(), 0660 & ~mask) != 0 ||
        listen(listener.fd(), 4) != 0 || !hear(listener) || !hear(host_))
        return fmt::format("{}: cannot listen for QEMU there: {}", path,
                           errno == ENOENT ? "its folder is not there; make it" : strerror(errno));
    path_ = path;
    region_ = region;
    kept_ = kept ? &kept : nullptr;
    listener_ = std::move(listener);
    kept.keep("doorbell.listener", listener_.fd());
    kept.keep("doorbell.host", host_.fd());
    kept.keep("doorbell.guest", guest_.fd());
    return {};
}

bool Doorbell::answer(const std::function<bool(const Visitor&)>& is_worker) {
    epoll_event happened[3];
    const int count = epoll_wait(any_.fd(), happened, std::size(happened), 0);
    const auto has_said = [&](const File& file) {
        return file && std::any_of(happened, happened + std::max(count, 0),
                                   [&](const epoll_event& event) { return event.data.fd == file.fd(); });
    };
    if (has_said(qemu_)) {  // QEMU never sends anything
        epoll_ctl(any_.fd(), EPOLL_CTL_DEL, qemu_.fd(), nullptr);
        qemu_ = File();
        if (kept_) kept_->drop("doorbell.qemu");
        log::info("the VM has disconnected from the doorbell");
    }
    const bool rung = has_said(host_);
    if (has_said(listener_)) greet(is_worker);
    std::uint64_t rings = 0;
    if (!rung || read(host_.fd(), &rings, sizeof rings) != sizeof rings) return false;
    log::debug("the guest rang");
    return true;
}

void Doorbell::greet(const std::function<bool(const Visitor&)>& is_worker) {
    File qemu(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!qemu) return;
    const Visitor peer = visitor_at(qemu.fd());
    if (!peer.process || is_worker(peer)) {
        if (!peer.process) log::error("a connection to the doorbell was refused: its process has ended");
        else
            log::error("a connection to the doorbell was refused: worker {} (user {}) would get the whole region there",
                       peer.pid, peer.user);
        return;
    }
    if (qemu_) return log::error("a second VM connected to the doorbell and was refused: one region, one VM");
    // A few bytes into an empty socket, which does not wait.
    const int to = qemu.fd();
    if (send(to, version) && send(to, guest_id) && send(to, memory, region_) && send(to, host_id, host_.fd()) &&
        send(to, guest_id, guest_.fd()) && hear(qemu)) {
        qemu_ = std::move(qemu);
        if (kept_) kept_->keep("doorbell.qemu", qemu_.fd());
        log::info("a VM has connected to the doorbell");
    } else {
        log::error("a VM connected to the doorbell and is gone again: {}", strerror(errno));
    }
}

}  // namespace barcuda
