// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/between/conveyor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

namespace barcuda {

std::size_t Conveyor::usual_slots() { return 4 * std::clamp<std::size_t>(std::thread::hardware_concurrency(), 2, 16); }

Failure Conveyor::make(std::size_t slots, Ends& ends) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return strerror(errno);
    ends.filler = File(pair[0]);
    ends.taker = File(pair[1]);
    ends.room = File(memfd_create("barcuda-conveyor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    const int file = ends.room.fd();
    if (!ends.room || ftruncate(file, static_cast<off_t>(slots * slot_bytes)) != 0 ||
        fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return strerror(errno);
    return {};
}

Conveyor::~Conveyor() {
    if (!room_.empty()) munmap(room_.data(), room_.size());
}

Failure Conveyor::open(File socket, const File& room, std::chrono::milliseconds within) {
    struct stat st {};
    const int seals = room ? fcntl(room.fd(), F_GET_SEALS) : -1;
    if (!socket || fstat(room.fd(), &st) != 0 || seals < 0 || !(seals & F_SEAL_SHRINK))
        return "the conveyor has no room";
    const auto bytes = static_cast<std::size_t>(st.st_size) / slot_bytes * slot_bytes;
    if (bytes < 2 * slot_bytes) return "the conveyor's room is too small";
    void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, room.fd(), 0);
    if (at == MAP_FAILED) return fmt::format("the conveyor's room cannot be mapped: {}", strerror(errno));
    room_ = {static_cast<std::byte*>(at), bytes};
    socket_ = std::move(socket);
    const std::chrono::seconds whole = std::chrono::duration_cast<std::chrono::seconds>(within);
    const timeval limit{whole.count(), std::chrono::microseconds(within - whole).count()};
    for (const int wait : {SO_RCVTIMEO, SO_SNDTIMEO})
        if (within != within.zero() && setsockopt(socket_.fd(), SOL_SOCKET, wait, &limit, sizeof limit) != 0)
            return strerror(errno);
    return {};
}

// By write() and read(), which a worker's cage allows for every descriptor. SIGPIPE is ignored, or blocked.
bool Conveyor::say(Word word) const {
    if (gone_) return false;
    ssize_t n = 0;
    do n = write(socket_.fd(), &word, sizeof word);
    while (n < 0 && errno == EINTR);
    if (n != sizeof word) gone_ = true;  // no other thread waits for it, too
    return n == sizeof word;
}

bool Conveyor::has_word() const {
    pollfd p{socket_.fd(), POLLIN, 0};
    return poll(&p, 1, 0) > 0;
}

bool Conveyor::hear(Word& word) const {
    ssize_t n = 0;
    // If the other side closed with unread words, the first read fails with ECONNRESET, once; its words follow.
    do n = read(socket_.fd(), &word, sizeof word);
    while (n < 0 && (errno == EINTR || errno == ECONNRESET));
    return n == sizeof word && (word.slot == Word::end || word.slot < slots()) && word.bytes <= slot_bytes;
}

void Conveyor::close() const { shutdown(socket_.fd(), SHUT_RDWR); }

}  // namespace barcuda
