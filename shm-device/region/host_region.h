// SPDX-License-Identifier: Apache-2.0
// host_region.h: a region as its host has it, which makes it and serves it. Guests do not link this.
//
//   HostRegion r; r.create(path, {.size = 8 << 30, .rows = identities}); fill the devices; r.announce();
//   r.map_channel(i, c)
#pragma once
#include <functional>

#include "shm-device/doors/whole_door.h"
#include "shm-device/region/region.h"

namespace barcuda {

// The properties of a new region. Zeros mean: the defaults, or for an existing region its present ones.
struct Format {
    std::uint64_t size = 0;
    std::uint64_t base = 0;
    bool overwrite = false;  // an existing file that is no region, or one of another layout or size
    const char* build = "";  // the host's version
    // The identities of what the host knows (identity.h). Always needed.
    std::span<const std::uint64_t> rows = {};
};

// What the books of an earlier bridge say of the region that it served. (Never the region itself: a guest may write
// there.)
struct Predecessor {
    int fd;  // the region's, with that bridge's lock; it stays the caller's
    std::uint32_t layout, packets;
    Shape shape;
    std::function<bool(std::uint32_t slot)> knows;  // the client of that slot goes on
};

// A region that was written to a disk, with its bridge's books.
struct Asleep {
    // The file that it was, if that may be there yet. (The same inode of the same boot; with `epoch`, no bridge has
    // served it since.)
    bool this_boot = false;
    std::uint64_t device = 0, inode = 0;
    std::uint32_t epoch = 0;
    std::function<Error(int file)> fill;  // writes all bytes of it, in place
};

class HostRegion : public Region {
  public:
    HostRegion() = default;
    ~HostRegion() { close(); }

    Error open(const char* path) = delete;  // a guest's
    // Formats a new file, or takes over an existing region with a higher epoch: then slots and grants stay as they are,
    // since clients of the old epoch may still hold them. No guest can open it before announce(); a new file that was
    // never announced goes when it is closed.
    Error create(const char* path, const Format& format);
    // Goes on with the region of an earlier bridge that was killed, and with the clients that its books know: their
    // channels stay as they are, and all guests go on. Others that it served are told that it has gone. What this
    // bridge would read differently is refused, and nothing has changed then.
    Error adopt(const char* path, const Format& format, const Predecessor& before);
    // Goes on with a region that was written to a disk: in a new file, or in the file that it was. That is filled in
    // place, since programs without a VM have it mapped. Where such a program lives, and no bridge has served the file
    // since, its bytes are newer than those on the disk, and stay.
    Error wake(const char* path, const Format& format, const Predecessor& before, const Asleep& asleep);
    // It is awake: what was on the disk is not to be woken here a second time.
    void awake();
    void announce();
    // Says that the bridge is gone.
    void close();

    // Between create() and announce(): what devices there are, whose table is in host_devices().
    void tell_devices(unsigned driver_version, unsigned count);
    // The bridge lives.
    void beat();
    std::uint32_t epoch() const { return observe(mine_->epoch); }
    barcuda_slot* host_slots() { return const_cast<barcuda_slot*>(slots()); }
    barcuda_grant* host_grants() { return const_cast<barcuda_grant*>(grants()); }
    barcuda_device* host_devices() { return const_cast<barcuda_device*>(devices()); }
    Error map_channel(std::uint32_t index, Channel& channel) { return whole_->map_channel(tables(), index, channel); }
    void unmap_channel(Channel& channel) { whole_->unmap_channel(channel); }
    // Makes a channel as a client must find it: zeros, except for its number. Call it before raising the slot's
    // `reclaimed`.
    Error clean_channel(std::uint32_t index);
    // Flat transport: has the process that opened this slot ended? (False where only the guest's module can tell.)
    bool owner_gone(std::uint32_t index) const { return whole_->gone(slots(), index); }

  private:
    friend struct RegionProbe;
    Error open_file(const char* path);
    Error lock_to_serve(const char* path);
    Error refusal(const char* path, const Format& format, const Predecessor& before) const;
    Error go_on(const char* path, const Format& format, const Predecessor& before);
    Error fill_in_place(const char* path, const Format& format, const Predecessor& before, const Asleep& asleep);
    void fill(barcuda_header& header, const Format& format) const;
    Error prepare(const char* path, const Format& format, barcuda_header& header, bool& keep);
    Error keep_there(std::uint64_t offset, std::uint64_t bytes, const char* path) const;
    Error disown(std::uint32_t index);

    WholeDoor* whole_ = nullptr;  // the door
    barcuda_header* mine_ = nullptr;
    std::uint64_t beats_ = 0;
    bool made_ = false;          // a new file, not announced yet
    std::uint32_t creator_ = 0;  // pid of the bridge, if that is us: a forked worker does not say goodbye for it
};

}  // namespace barcuda
