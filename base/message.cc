// SPDX-License-Identifier: Apache-2.0
#include "base/message.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

namespace barcuda {
File::~File() {
    if (fd_ >= 0) close(fd_);
}

bool send_message(int socket, const void* message, std::size_t bytes, int fd) {
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
    iovec data{const_cast<void*>(message), bytes};
    msghdr header{};
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    if (fd >= 0) {
        header.msg_control = control;
        header.msg_controllen = sizeof control;
        cmsghdr* c = CMSG_FIRSTHDR(&header);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof fd);
        std::memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    return sendmsg(socket, &header, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes);
}

ssize_t receive_message(int socket, void* message, std::size_t bytes, File& file, int flags) {
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    iovec data{message, bytes};
    msghdr header{};
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = CMSG_LEN(sizeof(int));  // room for one: the kernel drops further descriptors
    const ssize_t got = recvmsg(socket, &header, flags | MSG_CMSG_CLOEXEC);
    file = File();
    if (got < 0) return got;
    for (cmsghdr* c = CMSG_FIRSTHDR(&header); c; c = CMSG_NXTHDR(&header, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
        int fd;
        std::memcpy(&fd, CMSG_DATA(c), sizeof fd);
        file = File(fd);
    }
    return got;
}

}  // namespace barcuda
