// SPDX-License-Identifier: Apache-2.0
#include "shm-device/doors/view_door.h"

#include "shm-device/queue/sync.h"

namespace barcuda {

ViewDoor::ViewDoor(const char* path, os::KeptFile&& file, std::uint64_t size, std::uint64_t base)
    : WholeDoor(path, std::move(file), size, BARCUDA_PAGE, os::Holder::open_file) {
    properties_.base = base;
    properties_.own_kernel = true;
    properties_.remaps = false;
    properties_.opens_again = false;
}

void ViewDoor::choose_bell(std::uint32_t& bell) {
    WholeDoor::choose_bell(bell);
    ring(nullptr);
}

// A bridge that serves a file notices who reads it (doors/file_door.cc).
void ViewDoor::ring(const std::uint32_t* word) const {
    if (!word) os::touch(fd());
}

// A bridge that serves a file has locked it.
bool ViewDoor::gone(const barcuda_slot* slots, std::uint32_t holder) const {
    os::FileFacts facts;
    const bool locks = os::facts_of(fd(), facts) == 0 && facts.type == os::FileFacts::Type::regular;
    if (holder == the_bridge) return locks && os::probe_byte(fd(), 0) == 0;
    return WholeDoor::gone(slots, holder);
}

}  // namespace barcuda
