// SPDX-License-Identifier: Apache-2.0
// door.cc: a region behind a guest service, which has the device and gives out files of its parts (door.h). Nothing is
// asked for but by connecting and by the heap as it grows, which never overlap. It runs within malloc: so by system calls
// that are no cancellation points.
#include "shm-device/region/door.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/out_of_the_way.h"
#include "shm-device/region/region.h"

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

Error Region::open_door(const char* path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (std::strlen(path) >= sizeof address.sun_path)
        return error(Error::not_found, 0, "%s: too long a path for a socket", path);
    std::memcpy(address.sun_path, path, std::strlen(path) + 1);
    fd_ = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd_ < 0) return error(Error::system, errno, "%s: no socket can be had", path);
    fd_ = out_of_the_way(fd_);
    struct stat st;
    if (::fstat(fd_, &st) != 0) return error(Error::system, errno, "%s: cannot be examined", path);
    device_ = st.st_dev;
    inode_ = st.st_ino;
    kind_ = Kind::door;
    unit_ = BARCUDA_PAGE;
    file_size_ = 0;  // the service has compared the header with the device
    if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return {};
    if (errno == ECONNREFUSED)
        return error(Error::not_ready, 0,
                     "%s: nobody answers; start the guest's service (systemctl start barcuda-guest)", path);
    if (errno == EACCES || errno == EPERM)
        return error(Error::permission, 0,
                     "%s: permission denied; only root and members of the group 'barcuda' may open it (usermod -aG "
                     "barcuda USER, then log in again)",
                     path);
    return error(Error::system, errno, "%s: cannot connect", path);
}

Error Region::map_door_header(char** header) {
    door::Answer answer;
    int file;
    int code = ask(fd_, {door::What::header}, answer, &file, 1);
    if (code == 0) {
        void* p = ::mmap(nullptr, BARCUDA_CHANNELS_OFFSET, PROT_READ, MAP_SHARED, file, 0);
        code = p == MAP_FAILED ? errno : 0;
        ::close(file);
        if (code == 0) return *header = static_cast<char*>(p), Error{};
    }
    return error(Error::system, code, "%s: cannot map the header", path_);
}

Error Region::open_door_channel(Channel& channel) {
    door::Answer answer;
    int file;
    int code = ask(fd_, {door::What::channel}, answer, &file, 1);
    if (code == ENOSPC || code == EAGAIN) return all_in_use(code == EAGAIN);
    if (code == 0) {
        void* p = ::mmap(nullptr, BARCUDA_CHANNEL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        code = p == MAP_FAILED ? errno : 0;
        ::close(file);
        // A child would keep it open beyond its parent's end.
        if (code == 0) return ::madvise(p, BARCUDA_CHANNEL_SIZE, MADV_DONTFORK), take_channel(p, channel);
    }
    return error(Error::system, code, "%s: cannot open a channel", path_);
}

// 0, or an errno and nothing is mapped. Granule by granule, since each is a file.
int Region::map_door_extent(std::uint64_t offset, std::uint64_t bytes) const {
    int code = 0;
    std::uint64_t done = 0;
    for (std::uint64_t n; done < bytes && code == 0;) {
        n = std::min<std::uint64_t>(bytes - done, door::most_files * BARCUDA_GRANULE);
        int files[door::most_files];
        const unsigned count = static_cast<unsigned>(n / BARCUDA_GRANULE);
        door::Answer answer;
        code = ask(fd_, {door::What::extent, 0, offset + done, n}, answer, files, count);
        if (code != 0) break;
        for (unsigned i = 0; i < count; ++i) {
            void* const want = at(offset + done);
            if (code == 0) {
                void* const p = ::mmap(want, BARCUDA_GRANULE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE,
                                       files[i], 0);
                code = p == want ? 0 : p == MAP_FAILED ? errno : EEXIST;
                if (p != want && p != MAP_FAILED) ::munmap(p, BARCUDA_GRANULE);
                if (code == 0) done += BARCUDA_GRANULE;
            }
            ::close(files[i]);
        }
    }
    if (code != 0) ::munmap(at(offset), done), tell_door();
    return code;
}

// Something was unmapped. The service would see it a tenth of a second later.
void Region::tell_door() const {
    if (kind_ == Kind::door && !check_fd()) tell(fd_, {door::What::released}, MSG_DONTWAIT);
}

}  // namespace barcuda
