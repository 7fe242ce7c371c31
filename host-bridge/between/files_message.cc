// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/between/files_message.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>

namespace barcuda {
namespace {

constexpr std::size_t room = CMSG_SPACE(most_files * sizeof(int));

}  // namespace

bool send_files(int socket, const void* message, std::size_t bytes, const std::vector<File>& files) {
    alignas(cmsghdr) char control[room] = {};
    iovec data{const_cast<void*>(message), bytes};
    msghdr header{};
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    if (const std::size_t count = std::min(files.size(), most_files); count != 0) {
        header.msg_control = control;
        header.msg_controllen = CMSG_SPACE(count * sizeof(int));
        cmsghdr* const c = CMSG_FIRSTHDR(&header);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(count * sizeof(int));
        for (std::size_t i = 0; i < count; ++i) {
            const int fd = files[i].fd();
            std::memcpy(CMSG_DATA(c) + i * sizeof fd, &fd, sizeof fd);
        }
    }
    return sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(bytes);
}

ssize_t receive_files(int socket, void* message, std::size_t bytes, std::vector<File>& files) {
    alignas(cmsghdr) char control[room];
    iovec data{message, bytes};
    msghdr header{};
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    files.clear();
    const ssize_t got = recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_TRUNC);
    if (got < 0) return got;
    for (cmsghdr* c = CMSG_FIRSTHDR(&header); c; c = CMSG_NXTHDR(&header, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
        for (std::size_t at = 0; at + sizeof(int) <= c->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(c) + at, sizeof fd);
            files.emplace_back(fd);
        }
    }
    return got;
}

}  // namespace barcuda
