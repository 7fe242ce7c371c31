// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/control.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "host-bridge/log.h"

namespace barcuda {
namespace {

constexpr std::size_t most_visitors = 8;
constexpr std::chrono::milliseconds pause{50};

void say(int to, const LimitReply& reply) {
    if (send(to, &reply, reply.bytes(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        log::debug("`barcuda limit` takes no answer: {}", strerror(errno));
}

}  // namespace

std::string Control::open(int region) {
    struct stat st {};
    sockaddr_un address;
    File listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!listener || fstat(region, &st) != 0) return strerror(errno);
    const socklen_t length = limits_address(st, address);
    if (bind(listener.fd(), reinterpret_cast<const sockaddr*>(&address), length) != 0)
        return errno == EADDRINUSE ? "somebody else has taken this region's name" : strerror(errno);
    if (listen(listener.fd(), most_visitors) != 0) return strerror(errno);
    listener_ = std::move(listener);
    return {};
}

void Control::watch(std::vector<pollfd>& fds) const {
    fds.push_back({Clock::now() < deaf_until_ ? -1 : listener_.fd(), POLLIN, 0});  // poll() passes over what is -1
    for (const Visitor& visitor : visitors_) fds.push_back({visitor.file.fd(), POLLIN, 0});
}

void Control::answer(const pollfd* fds, const std::function<void(const LimitRequest&, LimitReply&)>& serve) {
    const bool knocked = fds++->revents != 0;
    for (auto visitor = visitors_.begin(); visitor != visitors_.end(); ++fds) {
        if (fds->revents == 0) {
            ++visitor;
            continue;
        }
        LimitRequest request;
        const auto reply = std::make_unique<LimitReply>();
        const auto refuse = [&](const std::string& why) { why.copy(reply->error, sizeof reply->error - 1); };
        const ssize_t n = recv(visitor->file.fd(), &request, sizeof request, MSG_DONTWAIT | MSG_TRUNC);
        if (!visitor->welcome)
            refuse(fmt::format("only root and the bridge's own user ({}) may see and change limits", geteuid()));
        else if (n != sizeof request || request.version != LimitRequest::form)
            refuse("the bridge is of another version (" BARCUDA_VERSION ")");
        else serve(request, *reply);
        if (n > 0) say(visitor->file.fd(), *reply);
        visitor = visitors_.erase(visitor);
    }
    if (knocked) greet();
}

void Control::greet() {
    File visitor(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    ucred who{};
    socklen_t length = sizeof who;
    if (!visitor || getsockopt(visitor.fd(), SOL_SOCKET, SO_PEERCRED, &who, &length) != 0) return;
    const bool welcome = who.uid == 0 || who.uid == geteuid();
    if (!welcome) deaf_until_ = Clock::now() + pause;
    if (visitors_.size() == most_visitors) {
        const auto goes = std::ranges::find(visitors_, false, &Visitor::welcome);
        if (goes == visitors_.end() && !welcome) return;
        visitors_.erase(goes == visitors_.end() ? visitors_.begin() : goes);
    }
    visitors_.push_back({std::move(visitor), welcome});
}

}  // namespace barcuda
