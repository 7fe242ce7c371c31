// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/cli/ask.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "host-bridge/between/files_message.h"
#include "host-bridge/between/limits_link.h"
#include "host-bridge/cli/notices.h"

namespace barcuda {
namespace {

File make_socket() {
    File to(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    constexpr timeval patience{10, 0};  // for a bridge that answers several times a second
    for (const int what : {SO_SNDTIMEO, SO_RCVTIMEO})
        if (!to || setsockopt(to.fd(), SOL_SOCKET, what, &patience, sizeof patience) != 0) return {};
    return to;
}

bool connects(const File& to, const std::string& path) {
    const sockaddr_un address = unix_address(path);
    return connect(to.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

}  // namespace

// Any user may create a socket there, so the command checks its owner.
Failure connect_to_region(const std::string& region, File& to) {
    struct stat st {};
    if (const int error = stat(region.c_str(), &st) == 0 ? 0 : errno; error == ENOENT)
        return with_hint(
            fmt::format("{}: there is no such region; --region or BARCUDA_REGION names the bridge's region, and "
                        "`barcuda ps --json` shows them.",
                        region));
    else if (error != 0) return fmt::format("{}: {}", region, strerror(error));
    if (to = make_socket(); !to) return strerror(errno);
    std::string error = region + ": no bridge serves this region (on this machine)";
    std::error_code ec;
    for (const auto& entry : std::filesystem::directory_iterator(limits_folder, ec)) {
        struct stat door {};
        if (!entry.path().filename().string().starts_with(limits_name_of(st)) ||
            lstat(entry.path().c_str(), &door) != 0 || !S_ISSOCK(door.st_mode) ||
            (door.st_uid != 0 && door.st_uid != st.st_uid && door.st_uid != geteuid()))
            continue;
        if (connects(to, entry.path())) return {};
        if (errno == EACCES)
            error = fmt::format("{}: its bridge is user {}'s: only that user and root may see and change limits",
                                region, door.st_uid);
        else if (errno != ECONNREFUSED)  // the socket of a bridge that was killed
            error = fmt::format("{}: {}", region, strerror(errno));
    }
    return error;
}

Failure connect_to_door(const std::string& door, File& to) {
    to = make_socket();
    if (to && connects(to, door)) return {};
    return fmt::format("{}: {}", door, strerror(errno));
}

Failure connect_to_doors_of(const std::string& door, uid_t user, File& to) {
    Failure error = door + ": its bridge has ended";
    to = make_socket();
    if (!to) return strerror(errno);
    std::error_code ec;
    for (const auto& entry : std::filesystem::directory_iterator(limits_folder, ec)) {
        struct stat st {};
        const std::string path = entry.path();
        if (!path.starts_with(door.substr(0, door.rfind('-') + 1)) || lstat(path.c_str(), &st) != 0 ||
            !S_ISSOCK(st.st_mode) || st.st_uid != user)
            continue;
        if (connects(to, path)) return {};
        if (errno != ECONNREFUSED) error = fmt::format("{}: {}", path, strerror(errno));
    }
    return error;
}

Failure exchange(const File& to, const void* request, std::size_t bytes, void* reply, std::size_t most,
                 std::size_t& received, std::vector<File>& files) {
    if (send(to.fd(), request, bytes, MSG_NOSIGNAL) != static_cast<ssize_t>(bytes) && errno != EPIPE)
        return strerror(errno);
    const ssize_t n = receive_files(to.fd(), reply, most, files);
    if (n < 0) return errno == EAGAIN ? "its bridge does not answer" : strerror(errno);
    received = static_cast<std::size_t>(n);
    return {};
}

}  // namespace barcuda
