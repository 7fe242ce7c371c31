// SPDX-License-Identifier: Apache-2.0
// slots.cc: who holds which channel where no guest module watches over them (the flat transport, and a BAR mapped
// whole).
//
// A client claims a slot in four steps, so that it may die between any two of them and leave nothing behind:
//   1. lock the slot's first byte in the file (a POSIX record lock: the kernel drops it when the process dies)
//   2. look again: is the slot still free?
//   3. lock its second byte (a lock of the open file), write start_time and pid
//   4. raise `opened` by compare-and-swap (CLAIM): now the host sees the slot, and its holder
// A client that dies before step 4 has opened nothing; one that dies after it has left its name. The first lock stays as long
// as the client does: it tells the bridge of clients whose pid it cannot see, in another pid namespace. But a process loses it by
// closing any descriptor of the file. Then the pid tells that the process lives, and the second lock that it still runs the program that
// has opened the channel: a mapping of the channel holds the open file, and so the lock, until exec or munmap. (A child that was
// forked may hold it longer than its parent, so it says nothing of a process that has ended.)
//
// A BAR or DAX device mapped whole is another machine's memory: the bridge sees neither pids nor locks of this kernel.
// Then pid is 0, which tells it not to look, and the next client that comes by closes the slots of dead ones: their
// lock is free.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "shm-device/queue/sync.h"
#include "shm-device/queue/wait.h"
#include "shm-device/region/region.h"

namespace barcuda {
namespace {

struct Life {
    std::uint64_t start_time = 0;  // in clock ticks since boot; 0: there is no such process
    bool ended = false;            // a zombie without threads: only its parent still cares
};

// Fields 3, 20 and 22 of /proc/PID/stat. The name before them (in parentheses) may contain anything.
Life life_of(std::uint32_t pid) {
    char path[40], text[1024];
    if (pid == 0) std::snprintf(path, sizeof path, "/proc/self/stat");
    else std::snprintf(path, sizeof path, "/proc/%u/stat", pid);
    const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return {};
    const ssize_t n = ::read(fd, text, sizeof text - 1);
    ::close(fd);
    if (n <= 0) return {};
    text[n] = '\0';
    const char* at = std::strrchr(text, ')');
    if (!at || at[1] != ' ') return {};
    at += 2;
    const char state = *at;
    unsigned long long threads = 0;
    for (int field = 3; field < 22 && at; ++field) {
        if (field == 20) threads = std::strtoull(at, nullptr, 10);
        at = std::strchr(at, ' ');
        if (at) ++at;
    }
    if (!at) return {};
    return {std::strtoull(at, nullptr, 10), (state == 'Z' || state == 'X') && threads <= 1};
}

std::uint64_t slot_offset(std::uint32_t index) { return BARCUDA_SLOTS_OFFSET + index * sizeof(barcuda_slot); }

}  // namespace

std::uint64_t start_time_of(std::uint32_t pid) { return life_of(pid).start_time; }
bool lives(std::uint32_t pid, std::uint64_t start_time) {
    const Life life = life_of(pid);
    return pid != 0 && life.start_time != 0 && life.start_time == start_time && !life.ended;
}

// One byte of the file, locked or asked about. 0 or errno; EAGAIN: it is somebody else's.
int Region::lock_byte(int command, short type, std::uint64_t offset) const {
    struct flock lock {};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    lock.l_start = static_cast<off_t>(offset);
    lock.l_len = 1;
    if (::fcntl(fd_, command, &lock) != 0) return errno == EACCES ? EAGAIN : errno;
    return command == F_OFD_GETLK && lock.l_type != F_UNLCK ? EAGAIN : 0;
}

// Where the bridge can see our pid, the lock is the process's (F_SETLK): a forked child does not keep it. Elsewhere it
// is the open file's (F_OFD_SETLK), which a second Region of the same process respects too.
int Region::lock_slot(std::uint32_t index, short type) const {
    return lock_byte(kind_ == Kind::file ? F_SETLK : F_OFD_SETLK, type, slot_offset(index));
}

Error Region::claim_slot(std::uint32_t& index) {
    char* memory = nullptr;
    const std::uint64_t bytes = shape_.channel_count * sizeof(barcuda_slot);
    if (Error e = map_window(BARCUDA_SLOTS_OFFSET, bytes, PROT_READ | PROT_WRITE, &memory)) return e;
    auto* slots = reinterpret_cast<barcuda_slot*>(memory);
    const bool visible = kind_ == Kind::file;  // to the bridge: our pid and our locks
    const std::uint32_t me = visible ? static_cast<std::uint32_t>(::getpid()) : 0;
    bool claimed = false;
    for (std::uint32_t i = 0; i < shape_.channel_count && !claimed; ++i) {
        barcuda_slot& s = slots[i];
        const auto free = [&s] {
            const std::uint32_t opened = observe(s.opened);  // CLAIM
            return observe(s.closed) == opened && observe(s.reclaimed) == opened;
        };
        const auto abandoned = [&] { return !visible && observe(s.opened) == observe(s.closed) + 1; };
        if (!free() && !abandoned()) continue;
        if (lock_slot(i, F_WRLCK) != 0) continue;
        if (abandoned()) publish(s.closed, observe(s.opened));  // its lock was free: its client is dead
        if (free()) {
            // Other threads of this process pass the lock too: they write the same name, and one of them wins the slot.
            publish(s.start_time, visible ? start_time_of(0) : 0);
            publish(s.pid, me);
            publish(s.map_lock, visible && lock_byte(F_OFD_SETLK, F_RDLCK, slot_offset(i) + 1) == 0 ? 1u : 0u);
            const std::uint32_t opened = observe(s.reclaimed);
            claimed = claim(s.opened, opened, opened + 1);  // CLAIM
            index = i;
        }
        if (claimed) continue;
        if (visible) lock_byte(F_OFD_SETLK, F_UNLCK, slot_offset(i) + 1);
        if (!visible || observe(s.pid) != me) lock_slot(i, F_UNLCK);  // else a thread of ours has won
    }
    unmap_window(memory, BARCUDA_SLOTS_OFFSET, bytes);
    if (claimed) return {};
    bool soon = false;  // will the host free one, now that its client has gone?
    for (std::uint32_t i = 0; i < shape_.channel_count && !soon; ++i)
        soon = observe(this->slots()[i].opened) == observe(this->slots()[i].closed) || owner_gone(i);
    return all_in_use(soon);
}

Error Region::all_in_use(bool soon) const {
    Error e =
        error(Error::no_channel, 0, "%s: all %u channels are in use; end a CUDA process, or make the region larger",
              path_, shape_.channel_count);
    e.code = soon ? EAGAIN : ENOSPC;
    return e;
}

Error Region::open_channel(Channel& channel) {
    // A script that starts one short program after the other is faster than the host that cleans up behind them.
    constexpr int kTries = 200;
    constexpr std::uint64_t kNap = 10'000'000;  // nanoseconds: two seconds in all
    for (int tries = 1;; ++tries) {
        if (Error e = have_fd()) return e;
        Error e = kind_ == Kind::uio    ? open_uio_channel(channel)
                  : kind_ == Kind::door ? open_door_channel(channel)
                                        : open_flat_channel(channel);
        if (e.kind != Error::no_channel || e.code != EAGAIN || tries == kTries) return e;
        if (kind_ == Kind::file && !served()) return e;
        Os::nap(kNap);
    }
}

Error Region::open_flat_channel(Channel& channel) {
    std::uint32_t index = 0;
    if (Error e = claim_slot(index)) return e;
    Error e = map_channel(index, channel);
    if (e) {
        Channel unmapped;
        unmapped.index = index;
        close_channel(unmapped);
    }
    return e;
}

void Region::close_channel(Channel& channel) {
    if (kind_ == Kind::uio || kind_ == Kind::door) {
        if (channel) ::munmap(channel.memory, BARCUDA_CHANNEL_SIZE);  // the module, or the service, does the rest
        channel = {};
        tell_door();
        return;
    }
    const std::uint32_t i = channel.index;
    unmap_channel(channel);
    char* memory = nullptr;
    if (check_fd() || map_window(slot_offset(i), sizeof(barcuda_slot), PROT_READ | PROT_WRITE, &memory)) return;
    auto& s = *reinterpret_cast<barcuda_slot*>(memory);
    const std::uint32_t opened = observe(s.opened);
    claim(s.closed, opened - 1, opened);  // CLAIM: a bridge that thinks we are dead may have done it
    lock_slot(i, F_UNLCK);
    if (kind_ == Kind::file) lock_byte(F_OFD_SETLK, F_UNLCK, slot_offset(i) + 1);
    unmap_window(memory, slot_offset(i), sizeof(barcuda_slot));
}

void Region::leave_channel(Channel& channel) {
    if (kind_ == Kind::uio || kind_ == Kind::door) channel = {};  // a child has no mapping of it
    else unmap_channel(channel);
}

bool Region::owner_gone(std::uint32_t index) const {
    const barcuda_slot& s = slots()[index];
    const std::uint32_t pid = observe(s.pid);
    if (kind_ != Kind::file || pid == 0) return false;
    if (lock_byte(F_OFD_GETLK, F_WRLCK, slot_offset(index)) != 0) return false;
    if (!lives(pid, observe(s.start_time))) return true;
    return observe(s.map_lock) && lock_byte(F_OFD_GETLK, F_WRLCK, slot_offset(index) + 1) == 0;
}

}  // namespace barcuda
