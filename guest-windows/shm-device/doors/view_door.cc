// SPDX-License-Identifier: Apache-2.0
#include "shm-device/doors/view_door.h"

#include "shm-device/queue/sync.h"

namespace barcuda {

ViewDoor::ViewDoor(const char* path, os::KeptFile&& file, std::uint64_t size, std::uint64_t base, bool is_file)
    : WholeDoor(path, std::move(file), size, BARCUDA_PAGE, os::Holder::open_file), is_file_(is_file) {
    properties_.base = base;
    properties_.own_kernel = !is_file;  // under Wine, the bridge's processors are this process's, too
    properties_.remaps = false;
    properties_.opens_again = false;
}

void ViewDoor::choose_bell(std::uint32_t& bell) {
    WholeDoor::choose_bell(bell);
    ring(nullptr);
}

// A bridge that serves a file notices who reads it (doors/file_door.cc).
void ViewDoor::ring(const std::uint32_t* word) const {
    if (!word && is_file_) os::touch(fd());
}

// A bridge that serves a file has locked it.
bool ViewDoor::gone(const barcuda_slot* slots, std::uint32_t holder) const {
    if (holder == the_bridge) return is_file_ && os::probe_byte(fd(), 0) == 0;
    return WholeDoor::gone(slots, holder);
}

// Wine takes locks in the file itself, where the bridge sees them, though it does not see the process: the slot's
// second lock says that the client lives.
Error ViewDoor::open_channel(const Tables& tables, Channel& channel) {
    if (Error e = WholeDoor::open_channel(tables, channel)) return e;
    const std::uint64_t slot = slot_offset(channel.index);
    char* memory = nullptr;
    if (!is_file_ || os::lock_byte(fd(), slot + 1, os::Lock::shared, os::Holder::open_file) != 0 ||
        map_window(tables.shape, slot, sizeof(barcuda_slot), os::Access::write, &memory) || !memory)
        return {};
    publish(reinterpret_cast<barcuda_slot*>(memory)->map_lock, 1u);
    unmap_window(memory, slot, sizeof(barcuda_slot));
    return {};
}

void ViewDoor::close_channel(const Tables& tables, Channel& channel, Leave leave) {
    const std::uint64_t slot = slot_offset(channel.index);
    WholeDoor::close_channel(tables, channel, leave);
    if (is_file_) os::lock_byte(fd(), slot + 1, os::Lock::none, os::Holder::open_file);
}

}  // namespace barcuda
