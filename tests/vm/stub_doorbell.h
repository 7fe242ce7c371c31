// stub_doorbell.h: QEMU's ivshmem-server protocol for one guest, and a host that answers each ring with a ring.
//
// The protocol is a stream of 64-bit numbers, some with a file descriptor: version 0; the guest's id; -1 and the
// region; then for each peer, the guest last, its id and one eventfd a vector. Ringing a peer is writing its eventfd.
// The host is peer 0.
#pragma once
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <thread>

namespace barcuda::vm {

class Doorbell {
  public:
    // Listens at once; QEMU may come when it likes.
    Doorbell(const char* path, int region) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
        listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 || listen(listener_, 1) != 0)
            std::perror(path);
        std::thread([this, region] { serve(region); }).detach();
    }

  private:
    static constexpr std::int64_t host = 0, guest = 1;

    void serve(int region) {
        const int qemu = accept(listener_, nullptr, nullptr);
        const int rings_host = eventfd(0, EFD_CLOEXEC), rings_guest = eventfd(0, EFD_CLOEXEC);
        send(qemu, 0);
        send(qemu, guest);
        send(qemu, -1, region);
        send(qemu, host, rings_host);
        send(qemu, guest, rings_guest);
        // QEMU makes our descriptors non-blocking: they are its own.
        for (pollfd p{rings_host, POLLIN, 0}; poll(&p, 1, -1) > 0 || errno == EINTR;) {
            std::uint64_t count;
            if (read(rings_host, &count, sizeof count) != sizeof count) continue;
            count = 1;
            if (write(rings_guest, &count, sizeof count) != sizeof count) return;
        }
    }

    static void send(int to, std::int64_t number, int fd = -1) {
        alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
        iovec data{&number, sizeof number};
        msghdr message{};
        message.msg_iov = &data;
        message.msg_iovlen = 1;
        if (fd >= 0) {
            message.msg_control = control;
            message.msg_controllen = sizeof control;
            cmsghdr* c = CMSG_FIRSTHDR(&message);
            c->cmsg_level = SOL_SOCKET;
            c->cmsg_type = SCM_RIGHTS;
            c->cmsg_len = CMSG_LEN(sizeof fd);
            std::memcpy(CMSG_DATA(c), &fd, sizeof fd);
        }
        if (sendmsg(to, &message, MSG_NOSIGNAL) < 0) std::perror("doorbell");
    }

    int listener_ = -1;
};

}  // namespace barcuda::vm
