// SPDX-License-Identifier: Apache-2.0
// door.h: a client of the guest module as its tests see it: plain open, mmap and munmap, without libbarcuda.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "shm-device/layout.h"
#include "shm-device/queue/sync.h"
#include "tests/vm/stub_bridge.h"

namespace barcuda::vm {

constexpr off_t map_header = 0, map_channel = BARCUDA_PAGE, map_extents = 2 * BARCUDA_PAGE;

inline const char* device() {
    const char* named = std::getenv("BARCUDA_TEST_DEVICE");
    return named ? named : "/dev/uio0";
}

// mmap that answers with errno: 0 when it worked, and then *address is where.
inline int map(int fd, off_t which, void* where, std::size_t bytes, int protection, int flags,
               char** address = nullptr) {
    void* p = mmap(where, bytes, protection, flags, fd, which);
    if (address) *address = static_cast<char*>(p);
    return p == MAP_FAILED ? errno : 0;
}

// What every client may read. One for the whole test program.
class Header {
  public:
    Header() : fd_(open(device(), O_RDWR | O_CLOEXEC)) {
        int e = map(fd_, map_header, nullptr, BARCUDA_CHANNELS_OFFSET, PROT_READ, MAP_SHARED, &memory_);
        if (e) {
            std::fprintf(stderr, "%s: %s\n", device(), strerror(e));
            std::exit(1);
        }
        constant_ = *reinterpret_cast<barcuda_header*>(memory_);
    }
    ~Header() {
        munmap(memory_, BARCUDA_CHANNELS_OFFSET);
        close(fd_);
    }
    Header(const Header&) = delete;
    const barcuda_header* operator->() const { return &constant_; }
    const barcuda_slot& slot(unsigned i) const {
        return reinterpret_cast<barcuda_slot*>(memory_ + BARCUDA_SLOTS_OFFSET)[i];
    }
    const barcuda_grant& grant(unsigned i) const {
        return reinterpret_cast<barcuda_grant*>(memory_ + BARCUDA_GRANTS_OFFSET)[i];
    }
    char* address(unsigned granule) const {
        return reinterpret_cast<char*>(constant_.base + constant_.extents_offset + granule * BARCUDA_GRANULE);
    }
    char* memory() const { return memory_; }

  private:
    int fd_;
    char* memory_ = nullptr;
    barcuda_header constant_{};
};

inline const Header& header() {
    static const Header h;
    return h;
}

// Polls, for the host answers in its own time. What has not come after ten seconds is not coming.
template <class Condition> void wait_until(Condition condition) {
    for (int i = 0; i < 20000; ++i, usleep(500))
        if (condition()) return;
    ADD_FAILURE() << "waited in vain";
}

// One open file with a channel. Everything is given back at the end, and the slot awaited until it is free again.
class Client {
  public:
    explicit Client(bool wait_for_grants = true) {
        fd_ = open(device(), O_RDWR | O_CLOEXEC);
        error_ = map(fd_, map_channel, nullptr, BARCUDA_CHANNEL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, &channel_);
        if (error_) return;
        index_ = reinterpret_cast<barcuda_status*>(channel_)->channel;
        opening_ = observe(slot().opened);
        if (wait_for_grants) wait_until([&] { return observe(slot().served) == opening_; });
    }
    ~Client() {
        if (!error_) munmap(channel_, BARCUDA_CHANNEL_SIZE);
        if (!error_) munmap(address(), stub_granules * BARCUDA_GRANULE);
        close(fd_);
    }
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    int fd() const { return fd_; }
    int error() const { return error_; }
    char* channel() const { return channel_; }
    unsigned index() const { return index_; }
    unsigned opening() const { return opening_; }
    const barcuda_slot& slot() const { return header().slot(index_); }
    const barcuda_grant& grant(unsigned i = 0) const { return header().grant(granule(i)); }
    unsigned granule(unsigned i = 0) const { return index_ * stub_granules + i; }
    char* address(unsigned i = 0) const { return header().address(granule(i)); }

    // Maps `count` of its own granules from its i-th on. Errno.
    int map_extents(unsigned i = 0, unsigned count = 1) const { return map_at(address(i), count * BARCUDA_GRANULE); }
    int map_at(void* where, std::size_t bytes, int flags = MAP_SHARED | MAP_FIXED_NOREPLACE) const {
        return map(fd_, map_extents_of_file, where, bytes, PROT_READ | PROT_WRITE, flags);
    }

  private:
    static constexpr off_t map_extents_of_file = ::barcuda::vm::map_extents;
    int fd_ = -1, error_ = 0;
    char* channel_ = nullptr;
    unsigned index_ = 0, opening_ = 0;
};

// Runs `body` in a forked child. Answers its exit status: what it returned, or 128 + the signal that killed it.
template <class Body> pid_t start_child(Body&& body) {
    const pid_t pid = fork();
    if (pid == 0) _exit(std::forward<Body>(body)());
    return pid;
}

inline int status_of(pid_t pid) {
    int how = 0;
    while (waitpid(pid, &how, 0) < 0 && errno == EINTR) continue;
    return WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how);
}

template <class Body> int in_child(Body&& body) { return status_of(start_child(std::forward<Body>(body))); }

// A meeting point of two processes: what one signals, the other awaits.
class Gate {
  public:
    Gate() {
        if (pipe(fds_) != 0) std::abort();
    }
    ~Gate() {
        close(fds_[0]);
        close(fds_[1]);
    }
    void open_for(int count = 1) const {
        for (int i = 0; i < count; ++i)
            if (write(fds_[1], "", 1) != 1) std::abort();
    }
    void wait() const {
        char c;
        while (read(fds_[0], &c, 1) != 1) continue;
    }

  private:
    int fds_[2];
};

}  // namespace barcuda::vm
