// SPDX-License-Identifier: Apache-2.0
// whole_door.h: a door behind which a process may map all of the region: what a file and a BAR have in common. No
// module and no service watches over channels there, so clients claim slots by themselves.
#pragma once
#include "shm-device/doors/door.h"

namespace barcuda {

class WholeDoor : public Door {
  public:
    Error map_header(const char** header) override;
    Error open_channel(const Tables& tables, Channel& channel) override;
    void close_channel(const Tables& tables, Channel& channel, Leave leave) override;
    int map_extent(std::uint64_t offset, std::uint64_t bytes, void* own, os::Over over) override;
    int map_again(std::uint64_t offset, std::uint64_t bytes, void* own, void** address) override;

    // ---- host (host_region.h)
    // Takes the lock of the region's bridge. EAGAIN: another open file has it.
    int lock_as_bridge();
    void unlock_as_bridge();
    void set_size(std::uint64_t bytes) { properties_.size = bytes; }
    Error map_header_to_write(char** header);
    Error map_channel(const Tables& tables, std::uint32_t index, Channel& channel);
    void unmap_channel(Channel& channel);
    // Maps a part anywhere: if that is free, at the address that it has in the worker. Huge pages are mapped whole:
    // then the part lies inside a larger mapping.
    Error map_window(const Shape& shape, std::uint64_t offset, std::uint64_t bytes, os::Access access, char** address);
    void unmap_window(char* address, std::uint64_t offset, std::uint64_t bytes);
    // Can a file's end be moved, and holes be punched in the file?
    virtual bool is_elastic() const = 0;

  protected:
    // `holder`: of the lock on a slot. A process's: the bridge can see our pid and the lock.
    WholeDoor(const char* path, os::KeptFile&& file, std::uint64_t size, std::uint64_t unit, os::Holder holder);
    bool is_bridge() const { return is_bridge_; }

  private:
    Error claim_slot(const Tables& tables, std::uint32_t& index);
    bool claim_slot(barcuda_slot& slot, std::uint32_t index);

    const os::Holder holder_;
    const bool visible_;
    bool is_bridge_ = false;
};

// The door behind a descriptor that is open already, whose path is that. The door closes it. (open.cc)
Error take_door(DoorPlace& place, const char* path, int fd, Opening opening);

// Where in the region a slot lies.
inline std::uint64_t slot_offset(std::uint32_t index) { return BARCUDA_SLOTS_OFFSET + index * sizeof(barcuda_slot); }

}  // namespace barcuda
