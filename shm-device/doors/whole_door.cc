// SPDX-License-Identifier: Apache-2.0
// whole_door.cc: who holds which channel where no guest module watches over them (the flat transport, and a BAR mapped
// whole).
//
// A client claims a slot in four steps, so that it may die between any two of them and leave nothing behind:
//   1. lock the slot's first byte in the file (a POSIX record lock: the kernel drops it when the process dies)
//   2. look again: is the slot still free?
//   3. lock its second byte (a lock of the open file), write start_time and pid
//   4. raise `opened` by compare-and-swap (CLAIM): now the host sees the slot, and its holder
// A client that dies before step 4 has opened nothing; one that dies after it has left its name. The first lock stays
// as long as the client does: it tells the bridge of clients whose pid it cannot see, in another pid namespace. But a
// process loses it by closing any descriptor of the file. Then the pid tells that the process lives, and the second
// lock that it still runs the program that has opened the channel: a mapping of the channel holds the open file, and so
// the lock, until exec or munmap. (A child that was forked may hold it longer than its parent, so it says nothing of a
// process that has ended.)
//
// A BAR or DAX device mapped whole is another machine's memory: the bridge sees neither pids nor locks of this kernel.
// Then pid is 0, which tells it not to look, and the next client that comes by closes the slots of dead ones: their
// lock is free.
#include "shm-device/doors/whole_door.h"

#include <cerrno>

#include "base/os/process.h"
#include "shm-device/queue/sync.h"

namespace barcuda {

WholeDoor::WholeDoor(const char* path, os::KeptFile&& file, std::uint64_t size, std::uint64_t unit, os::Holder holder)
    : Door(path, std::move(file)), holder_(holder), visible_(holder == os::Holder::process) {
    properties_.size = size;
    properties_.unit = unit;
    properties_.opens_again = true;
}

Error WholeDoor::map_window(const Shape& shape, std::uint64_t offset, std::uint64_t bytes, os::Access access,
                            char** address) {
    const std::uint64_t unit = properties_.unit;
    const std::uint64_t begin = offset / unit * unit, end = (offset + bytes + unit - 1) / unit * unit;
    void* const wish = shape.base ? reinterpret_cast<void*>(shape.base + begin) : nullptr;
    void* p = nullptr;
    if (const int code = os::map_file(fd(), begin, end - begin, access, &p, wish))
        return error(Error::system, code, "%s: cannot map its part at 0x%llx", path(), (unsigned long long)offset);
    *address = static_cast<char*>(p) + (offset - begin);
    return {};
}

void WholeDoor::unmap_window(char* address, std::uint64_t offset, std::uint64_t bytes) {
    const std::uint64_t unit = properties_.unit;
    const std::uint64_t begin = offset / unit * unit, end = (offset + bytes + unit - 1) / unit * unit;
    os::unmap(address - (offset - begin), end - begin);
}

Error WholeDoor::map_header(const char** header) {
    // Before anything is read: a file that ends inside a page would answer with SIGBUS.
    if (properties_.size < BARCUDA_MIN_SIZE)
        return error(Error::not_a_region, 0, "%s: not a Barcuda region: it has %llu bytes, the least is %llu", path(),
                     (unsigned long long)properties_.size, BARCUDA_MIN_SIZE);
    char* p = nullptr;
    if (Error e = map_window({}, 0, BARCUDA_CHANNELS_OFFSET, os::Access::read, &p)) return e;
    const std::uint64_t unit = properties_.unit;
    keep_header(p, (BARCUDA_CHANNELS_OFFSET + unit - 1) / unit * unit);
    *header = p;
    return {};
}

Error WholeDoor::map_header_to_write(char** header) {
    if (Error e = map_window({}, 0, BARCUDA_CHANNELS_OFFSET, os::Access::write, header)) return e;
    const std::uint64_t unit = properties_.unit;
    keep_header(*header, (BARCUDA_CHANNELS_OFFSET + unit - 1) / unit * unit);
    return {};
}

int WholeDoor::map_extent(std::uint64_t offset, std::uint64_t bytes, void* own, os::Over over) {
    return os::map_file_at(fd(), offset, own, bytes, over);
}

int WholeDoor::map_again(std::uint64_t offset, std::uint64_t bytes, void*, void** address) {
    return os::map_file(fd(), offset, bytes, os::Access::write, address);
}

Error WholeDoor::map_channel(const Tables& tables, std::uint32_t index, Channel& channel) {
    if (index >= tables.shape.channel_count)
        return error(Error::bad_range, 0, "%s: there is no channel %u", path(), index);
    if (Error e = have_file()) return e;
    Channel c;
    c.index = index;
    c.offset = BARCUDA_CHANNELS_OFFSET + index * BARCUDA_CHANNEL_SIZE;
    c.opening = observe(tables.slots[index].opened);  // WORD
    if (Error e = map_window(tables.shape, c.offset, BARCUDA_CHANNEL_SIZE, os::Access::write, &c.memory)) return e;
    channel = c;
    return {};
}

void WholeDoor::unmap_channel(Channel& channel) {
    if (channel) unmap_window(channel.memory, channel.offset, BARCUDA_CHANNEL_SIZE);
    channel = {};
}

// Where the bridge can see our pid, the lock is the process's: a forked child does not keep it. Elsewhere it is the
// open file's, which a second Region of the same process respects, too.
bool WholeDoor::claim_slot(barcuda_slot& s, std::uint32_t index) {
    const std::uint32_t me = visible_ ? os::this_process() : 0;
    const auto free = [&s] {
        const std::uint32_t opened = observe(s.opened);  // CLAIM
        return observe(s.closed) == opened && observe(s.reclaimed) == opened;
    };
    const auto abandoned = [&] { return !visible_ && observe(s.opened) == observe(s.closed) + 1; };
    if (!free() && !abandoned()) return false;
    if (os::lock_byte(fd(), slot_offset(index), os::Lock::exclusive, holder_) != 0) return false;
    if (abandoned()) publish(s.closed, observe(s.opened));  // its lock was free: its client is dead
    const auto lock_map = [&](os::Lock lock) {
        return visible_ && os::lock_byte(fd(), slot_offset(index) + 1, lock, os::Holder::open_file) == 0;
    };
    if (free()) {
        // Other threads of this process pass the lock too: they write the same name, and one of them wins the slot.
        publish(s.start_time, visible_ ? start_time_of(0) : 0);
        publish(s.pid, me);
        publish(s.map_lock, lock_map(os::Lock::shared) ? 1u : 0u);
        const std::uint32_t opened = observe(s.reclaimed);
        if (claim(s.opened, opened, opened + 1)) return true;  // CLAIM
    }
    lock_map(os::Lock::none);
    // If a thread of ours has won, the lock is the winner's.
    if (!visible_ || observe(s.pid) != me) os::lock_byte(fd(), slot_offset(index), os::Lock::none, holder_);
    return false;
}

Error WholeDoor::claim_slot(const Tables& tables, std::uint32_t& index) {
    const std::uint32_t count = tables.shape.channel_count;
    const std::uint64_t bytes = count * sizeof(barcuda_slot);
    char* memory = nullptr;
    if (Error e = map_window(tables.shape, BARCUDA_SLOTS_OFFSET, bytes, os::Access::write, &memory); e || !memory)
        return e;
    auto* const slots = reinterpret_cast<barcuda_slot*>(memory);
    index = 0;
    while (index < count && !claim_slot(slots[index], index)) ++index;
    unmap_window(memory, BARCUDA_SLOTS_OFFSET, bytes);
    if (index < count) return {};
    bool soon = false;  // will the host free one, now that its client has gone?
    for (std::uint32_t i = 0; i < count && !soon; ++i)
        soon = observe(tables.slots[i].opened) == observe(tables.slots[i].closed) || gone(tables.slots, i);
    return all_in_use(tables, soon);
}

Error WholeDoor::open_channel(const Tables& tables, Channel& channel) {
    std::uint32_t index = 0;
    if (Error e = claim_slot(tables, index)) return e;
    Error e = map_channel(tables, index, channel);
    if (e) {
        Channel unmapped;
        unmapped.index = index;
        close_channel(tables, unmapped, Leave::to_nobody);
    }
    return e;
}

void WholeDoor::close_channel(const Tables& tables, Channel& channel, Leave leave) {
    const std::uint32_t i = channel.index;
    unmap_channel(channel);
    char* memory = nullptr;
    if (leave == Leave::to_the_parent || check_file() ||
        map_window(tables.shape, slot_offset(i), sizeof(barcuda_slot), os::Access::write, &memory) || !memory)
        return;
    auto& s = *reinterpret_cast<barcuda_slot*>(memory);
    const std::uint32_t opened = observe(s.opened);
    claim(s.closed, opened - 1, opened);  // CLAIM: a bridge that thinks we are dead may have done it
    os::lock_byte(fd(), slot_offset(i), os::Lock::none, holder_);
    if (visible_) os::lock_byte(fd(), slot_offset(i) + 1, os::Lock::none, os::Holder::open_file);
    unmap_window(memory, slot_offset(i), sizeof(barcuda_slot));
}

// The lock is this open file's, so it is held by the bridge and its workers, as long as one of them lives.
int WholeDoor::lock_as_bridge() {
    const int code = os::lock_byte(fd(), 0, os::Lock::exclusive, os::Holder::open_file);
    is_bridge_ = is_bridge_ || code == 0;
    return code;
}

void WholeDoor::unlock_as_bridge() { os::lock_byte(fd(), 0, os::Lock::none, os::Holder::open_file); }

}  // namespace barcuda
