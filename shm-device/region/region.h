// SPDX-License-Identifier: Apache-2.0
// region.h: the shared region as a process sees it: opened, checked, mapped. (A worker maps no whole region, but its
// client's parts: host-bridge/worker/session/extents.h.)
//
// A region is anything that can be mapped: a tmpfs, memfd or hugetlbfs file, a /dev/uioN of the guest module, the
// socket of `barcuda guest serve`, a PCI device's resource2, a /dev/dax. Each has a door (doors/door.h). All look the
// same from here: a header to read, a channel to open, extents to map. An extent lies at shape().base + offset in every
// process, guest and host alike, so that its pointers need no translation; header and channels may lie anywhere. A
// client whose door has the region elsewhere says so in its page, and its worker maps its extents there.
// docs/region.md is the specification of what is in it. Here are the header and the arithmetic; what needs the system
// is the door's.
//
//   Region r; if (Error e = r.open(nullptr)) complain(e.text);   r.open_channel(c); r.map_extent(...)
//
// A host makes a region, and serves it: HostRegion (host_region.h).
//
// The guest half runs inside malloc of programs that we have never seen: it allocates nothing, throws nothing, and says
// what went wrong in a buffer that the caller owns.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.h"
#include "base/os/process.h"
#include "shm-device/doors/channel.h"
#include "shm-device/doors/door.h"
#include "shm-device/doors/shape.h"
#include "shm-device/layout.h"
#include "shm-device/queue/sync.h"

namespace barcuda {

class Region {
  public:
    Region() = default;
    ~Region() { close(); }
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;

    // ---- both sides
    // Opens and validates. No path: $BARCUDA_REGION, else the first UIO device of our module, else the guest service's
    // socket.
    Error open(const char* path);
    // Forgets the mapping of the header (not channels, not extents).
    void close();

    explicit operator bool() const { return header_ != nullptr; }
    // Only of a region that is open.
    Door& door() const { return *door_; }
    // Also of one that is not open.
    Door::Properties properties() const { return door_ ? door_->properties() : Door::Properties(); }
    const char* path() const { return door_ ? door_->path() : ""; }
    int fd() const { return door_ ? door_->fd() : -1; }
    // As the header said when it was checked. Those numbers are never read from the region again: a guest may write
    // there.
    const Shape& shape() const { return shape_; }
    const barcuda_slot* slots() const { return table<barcuda_slot>(BARCUDA_SLOTS_OFFSET); }
    const barcuda_grant* grants() const { return table<barcuda_grant>(BARCUDA_GRANTS_OFFSET); }
    const barcuda_device* devices() const { return table<barcuda_device>(BARCUDA_DEVICES_OFFSET); }
    std::span<const barcuda_u64> rows() const { return rows_; }
    // Null: the bridge takes none.
    const barcuda_snapshot* snapshot() const { return snapshot_; }

    // Extents: `offset` and `bytes` are multiples of the granule. The address is always at(offset).
    Error map_extent(std::uint64_t offset, std::uint64_t bytes, void** address = nullptr);
    void unmap_extent(std::uint64_t offset, std::uint64_t bytes);
    // Whole pages of an extent that this process has mapped and does not use yet, at a second address, which the kernel
    // chooses.
    Error map_again(std::uint64_t offset, std::uint64_t bytes, void** address);
    // Whole pages of such an extent, at their own address, in the place of whatever is mapped there.
    Error map_pages(std::uint64_t offset, std::uint64_t bytes);

    // Arithmetic only: whether anything is mapped there is the caller's knowledge.
    void* at(std::uint64_t offset) const { return reinterpret_cast<void*>(shape_.base + offset); }
    bool contains(const void* p) const { return reinterpret_cast<std::uintptr_t>(p) - shape_.base < shape_.size; }
    std::uint64_t offset_of(const void* p) const { return reinterpret_cast<std::uintptr_t>(p) - shape_.base; }

    // ---- guests and tools: what the header says now
    std::uint64_t heartbeat() const { return observe(header_->heartbeat); }
    unsigned driver_version() const { return observe(header_->driver_version); }
    // Of entries in devices(). A bridge that takes the region over may have other devices.
    unsigned device_count() const {
        const unsigned said = observe(header_->device_count);
        return said < BARCUDA_MAX_DEVICES ? said : BARCUDA_MAX_DEVICES;
    }
    // The host's version as it can be printed.
    const char* build(char (&text)[sizeof barcuda_header::build + 1]) const;

    // ---- guest
    // A fresh channel of this process, kept until close_channel() or the end of the process. One thread at a time.
    // Waits a little for one that the host is about to free.
    Error open_channel(Channel& channel);
    void close_channel(Channel& channel);
    // In a forked child: the channel is its parent's, and stays open.
    void leave_channel(Channel& channel);
    // Wakes a bridge that sleeps, if it can be woken.
    void knock() const { door_->ring(nullptr); }
    // Does a bridge serve this region? (Where its locks cannot be seen, in a VM: has none said goodbye?)
    bool served() const;
    // Has its last bridge ended, and said so? (One that was killed has not.)
    bool left() const { return observe(header_->bridge_pid) == 0; }

  protected:
    friend struct RegionProbe;  // tests: a header says what no bridge would
    template <class T> const T* table(std::uint64_t offset) const {
        return reinterpret_cast<const T*>(reinterpret_cast<const char*>(header_) + offset);
    }
    Tables tables() const { return {shape_, slots()}; }
    // What this region is from here on: as this copy of its header says, which was checked or made.
    void take(const char* header, const barcuda_header& copy);

    DoorPlace door_;

  private:
    Error choose_base(barcuda_header& copy) const;
    Error not_again(std::uint64_t offset, std::uint64_t bytes, int code) const;

    // header_bytes of it: with slots, grants, devices and rows. The host writes it, and takes nothing from it.
    const barcuda_header* header_ = nullptr;
    Shape shape_;
    std::span<const barcuda_u64> rows_;  // as the header said when it was checked
    const barcuda_snapshot* snapshot_ = nullptr;
};

// Is this header one that we can trust our addresses to? `file_size` 0: not known. `path` is for the message.
// (validate.cc)
Error validate(const barcuda_header& header, std::uint64_t file_size, const char* path);
// Does the bridge read and write commands as we do? (validate.cc)
Error check_packets(const barcuda_header& header, const char* path);
// The host's version as it can be printed. (validate.cc)
const char* build_of(const barcuda_header& header, char (&build)[sizeof header.build + 1]);

// Says in a client's page who this process is: for the host to show. (introduce.cc)
void introduce(barcuda_client& client);

// Can a region have this size and lie at this address? (validate.cc)
Error check_size(std::uint64_t size, const char* path);
Error check_base(std::uint64_t base, std::uint64_t size, const char* path, const Windows& windows = {});

// How a region of this size is divided: the fields of a header that follow from its size. (validate.cc)
void divide(barcuda_header& header, std::uint64_t size);

}  // namespace barcuda
