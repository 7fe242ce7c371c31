// SPDX-License-Identifier: Apache-2.0
// message.h: messages between processes of one machine, over a UNIX socket, each with a descriptor or without.
#pragma once
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <cstddef>
#include <string>
#include <utility>

namespace barcuda {

// A descriptor that closes itself; -1: none.
class File {
  public:
    File() = default;
    explicit File(int fd) : fd_(fd) {}
    File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    File& operator=(File&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~File();
    int fd() const { return fd_; }
    int release() { return std::exchange(fd_, -1); }
    explicit operator bool() const { return fd_ >= 0; }

  private:
    int fd_ = -1;
};

// The address of a socket at `path`; a path that is too long is cut.
inline sockaddr_un unix_address(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    return address;
}

// True: the whole message is on its way. `fd`: -1 for none; the caller keeps it.
bool send_message(int socket, const void* message, std::size_t bytes, int fd = -1);
// As recv(); `file`: the descriptor that came with the message.
ssize_t receive_message(int socket, void* message, std::size_t bytes, File& file, int flags = 0);

}  // namespace barcuda
