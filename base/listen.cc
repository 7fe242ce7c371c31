// SPDX-License-Identifier: Apache-2.0
#include "base/listen.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace barcuda {
namespace {

constexpr int most_waiting = 16;

File listen_at_path(const std::string& path, std::string& error) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) {
        error = fmt::format("{}: a socket's path has at most {} bytes", path, sizeof address.sun_path - 1);
        return {};
    }
    path.copy(address.sun_path, path.size());
    if (struct stat old; lstat(path.c_str(), &old) == 0 && S_ISSOCK(old.st_mode)) unlink(path.c_str());
    File listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const mode_t mask = umask(0177);  // until it has its own
    const bool bound =
        listener && bind(listener.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    umask(mask);
    if (bound && chmod(path.c_str(), 0660 & ~mask) == 0 && listen(listener.fd(), most_waiting) == 0) return listener;
    error = fmt::format("{}: cannot listen there: {}", path, strerror(errno));
    return {};
}

}  // namespace

File listen_at(const std::string& address, std::string& error) {
    if (address.starts_with('/')) return listen_at_path(address, error);
    const std::size_t colon = address.rfind(':');
    std::string host = address.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    addrinfo wish{}, *found = nullptr;
    wish.ai_socktype = SOCK_STREAM;
    wish.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
    if (colon == address.npos || host.empty() ||
        getaddrinfo(host.c_str(), address.c_str() + colon + 1, &wish, &found) != 0) {
        error =
            fmt::format("{}: neither HOST:PORT in numbers, as 127.0.0.1:9788, nor a path that begins with /", address);
        return {};
    }
    File listener(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int yes = 1;
    if (listener) setsockopt(listener.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    const bool listens = listener && bind(listener.fd(), found->ai_addr, found->ai_addrlen) == 0 &&
                         listen(listener.fd(), most_waiting) == 0;
    freeaddrinfo(found);
    if (listens) return listener;
    error = fmt::format("{}: cannot listen there: {}", address, strerror(errno));
    return {};
}

}  // namespace barcuda
