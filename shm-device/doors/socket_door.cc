// SPDX-License-Identifier: Apache-2.0
// socket_door.cc: it runs within malloc: so by system calls that are no cancellation points.
#include "shm-device/doors/socket_door.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace barcuda {
namespace {

bool tell(int socket, const door::Request& request, int flags) {
    ssize_t n;
    do n = ::syscall(SYS_sendto, socket, &request, sizeof request, flags | MSG_NOSIGNAL, nullptr, 0);
    while (n < 0 && errno == EINTR);
    return n == sizeof request;
}

// 0 and `count` descriptors, or an errno.
int ask(int socket, const door::Request& request, door::Answer& answer, int* files, unsigned count) {
    if (!tell(socket, request, 0)) return errno;
    alignas(cmsghdr) char control[CMSG_SPACE(door::most_files * sizeof(int))];
    iovec data{&answer, sizeof answer};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    ssize_t n;
    do n = ::syscall(SYS_recvmsg, socket, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0) return errno;
    unsigned got = 0;
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
        for (std::size_t at = CMSG_LEN(0); at + sizeof(int) <= c->cmsg_len; at += sizeof(int)) {
            int fd;
            std::memcpy(&fd, reinterpret_cast<char*>(c) + at, sizeof fd);
            if (got < count) files[got++] = fd;
            else ::close(fd);
        }
    }
    const int error = n != sizeof answer               ? ECONNRESET
                      : answer.error                   ? answer.error
                      : message.msg_flags & MSG_CTRUNC ? EMFILE  // the program has used up its descriptors
                      : got != count                   ? EPROTO
                                                       : 0;
    while (error && got) ::close(files[--got]);
    return error;
}

}  // namespace

SocketDoor::SocketDoor(const char* path) : Door(path, {}) {
    properties_.own_kernel = true;
    properties_.remaps = false;  // the service gives each granule's file once
}

Error SocketDoor::connect() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (std::strlen(path()) >= sizeof address.sun_path)
        return error(Error::not_found, 0, "%s: too long a path for a socket", path());
    std::memcpy(address.sun_path, path(), std::strlen(path()) + 1);
    const int fresh = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fresh < 0) return error(Error::system, errno, "%s: cannot make a socket", path());
    if (const int code = file_.keep(fresh)) return error(Error::system, code, "%s: cannot be examined", path());
    if (::connect(fd(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return {};
    if (errno == ECONNREFUSED)
        return error(Error::not_ready, 0,
                     "%s: no service answers; start the guest's service (systemctl start barcuda-guest)", path());
    if (errno == EACCES || errno == EPERM)
        return error(Error::permission, 0,
                     "%s: permission denied; only root and members of the group 'barcuda' may open it (usermod -aG "
                     "barcuda USER, then log in again)",
                     path());
    return error(Error::system, errno, "%s: cannot connect", path());
}

Error SocketDoor::map_header(const char** header) {
    door::Answer answer;
    int file;
    void* p = nullptr;
    int code = ask(fd(), {door::What::header}, answer, &file, 1);
    if (code == 0) {
        code = os::map_file(file, 0, BARCUDA_CHANNELS_OFFSET, os::Access::read, &p);
        ::close(file);
    }
    if (code != 0) return error(Error::system, code, "%s: cannot map the header", path());
    keep_header(p, BARCUDA_CHANNELS_OFFSET);
    *header = static_cast<const char*>(p);
    return {};
}

Error SocketDoor::open_channel(const Tables& tables, Channel& channel) {
    door::Answer answer;
    int file;
    void* p = nullptr;
    int code = ask(fd(), {door::What::channel}, answer, &file, 1);
    if (code == ENOSPC || code == EAGAIN) return all_in_use(tables, code == EAGAIN);
    if (code == 0) {
        code = os::map_file(file, 0, BARCUDA_CHANNEL_SIZE, os::Access::write, &p);
        ::close(file);
    }
    if (code != 0) return error(Error::system, code, "%s: cannot open a channel", path());
    os::keep_from_children(p, BARCUDA_CHANNEL_SIZE);  // a child would keep it open beyond its parent's end
    return take_channel(p, tables, channel);
}

void SocketDoor::close_channel(const Tables&, Channel& channel, Leave leave) {
    // A child has no mapping of it.
    if (leave == Leave::to_nobody && channel) os::unmap(channel.memory, BARCUDA_CHANNEL_SIZE);
    channel = {};
    if (leave == Leave::to_nobody) released();
}

// Granule by granule, since each is a file.
int SocketDoor::map_extent(std::uint64_t offset, std::uint64_t bytes, void* own, os::Over over) {
    if (over != os::Over::nothing) return ENOTSUP;
    char* const at = static_cast<char*>(own);
    int code = 0;
    std::uint64_t done = 0;
    while (done < bytes && code == 0) {
        const std::uint64_t n = std::min<std::uint64_t>(bytes - done, door::most_files * BARCUDA_GRANULE);
        int files[door::most_files];
        const unsigned count = static_cast<unsigned>(n / BARCUDA_GRANULE);
        door::Answer answer;
        code = ask(fd(), {door::What::extent, 0, offset + done, n}, answer, files, count);
        if (code != 0) break;
        for (unsigned i = 0; i < count; ++i) {
            if (code == 0) code = os::map_file_at(files[i], 0, at + done, BARCUDA_GRANULE, over);
            if (code == 0) done += BARCUDA_GRANULE;
            ::close(files[i]);
        }
    }
    if (code != 0) {
        os::unmap(own, done);
        released();
    }
    return code;
}

int SocketDoor::map_again(std::uint64_t offset, std::uint64_t bytes, void* own, void** address) {
    void* room = nullptr;
    int code = os::map_memory(bytes, os::Access::none, &room);
    if (code != 0) return code;
    for (std::uint64_t at = 0, n; code == 0 && at < bytes; at += n) {  // each granule is a file
        n = std::min<std::uint64_t>(bytes - at, BARCUDA_GRANULE - (offset + at) % BARCUDA_GRANULE);
        code = os::copy_mapping(static_cast<char*>(own) + at, n, static_cast<char*>(room) + at);
    }
    if (code == 0) *address = room;
    else os::unmap(room, bytes);
    return code;
}

// The service would see it a tenth of a second later.
void SocketDoor::released() {
    if (!check_file()) tell(fd(), {door::What::released}, MSG_DONTWAIT);
}

}  // namespace barcuda
