// SPDX-License-Identifier: Apache-2.0
#include "shm-device/doors/file_door.h"

#include "base/os/barrier.h"
#include "base/os/futex.h"
#include "base/os/process.h"
#include "shm-device/queue/sync.h"

namespace barcuda {

FileDoor::FileDoor(const char* path, os::KeptFile&& file, std::uint64_t size, std::uint64_t unit)
    : WholeDoor(path, std::move(file), size, unit, os::Holder::process) {
    properties_.whole = this;
    properties_.offset_is_place = true;
}

Error FileDoor::check_owner(const os::FileFacts& facts, bool to_serve) const {
    const unsigned me = os::this_user();
    if (facts.owner != 0 && facts.owner != me)
        return error(Error::foreign, 0,
                     "%s: belongs to user %u, and that user could read and change all that is in it; a region must "
                     "belong to root "
                     "or to you (user %u): remove the file, give it to one of them (chown), or name another path",
                     path(), facts.owner, me);
    if (facts.names == 0) return {};  // a memfd: it has no name that another process could open
    if (facts.all_may_write)
        return error(Error::foreign, 0,
                     "%s: every user of this machine may write to it (mode %04o); take that right away (chmod o-w)",
                     path(), facts.mode);
    if (to_serve && facts.names != 1)
        return error(Error::foreign, 0,
                     "%s: the file has %u names (hard links), so it is something else as well; name a file of its own",
                     path(), facts.names);
    return {};
}

void FileDoor::choose_bell(std::uint32_t& bell) {
    fenced_ = os::has_joined_barrier();
    publish(bell, fenced_ ? BARCUDA_BELL_FUTEX : BARCUDA_BELL_NONE);  // WORD
    ring(nullptr);
}

// A bridge watches its file (inotify), which is mapped all the time and read never but here.
void FileDoor::ring(const std::uint32_t* word) const {
    if (word && fenced_) futex_wake(*word, Among::processes);
    if (!word && !check_file()) os::touch(fd());
}

void FileDoor::await(const std::uint32_t& word, std::uint32_t seen, std::uint64_t nanoseconds) {
    if (!fenced_) return Door::await(word, seen, nanoseconds);
    futex_wait(word, seen, nanoseconds, Among::processes);
}

bool FileDoor::gone(const barcuda_slot* slots, std::uint32_t holder) const {
    // The bridge's own open file holds the lock; asking through it would find no conflict.
    if (holder == the_bridge) return !is_bridge() && !check_file() && os::probe_byte(fd(), 0) == 0;
    const barcuda_slot& s = slots[holder];
    const std::uint32_t pid = observe(s.pid);
    if (os::probe_byte(fd(), slot_offset(holder)) != 0) return false;
    // A Windows program under Wine: its second lock alone tells that it lives. In a VM there are no locks to see.
    if (pid == 0) return observe(s.map_lock) && os::probe_byte(fd(), slot_offset(holder) + 1) == 0;
    if (!lives(pid, observe(s.start_time))) return true;
    return observe(s.map_lock) && os::probe_byte(fd(), slot_offset(holder) + 1) == 0;
}

}  // namespace barcuda
