// SPDX-License-Identifier: Apache-2.0
// region.h: the shared region as a process sees it: opened, checked, mapped. (A worker maps no whole region, but its
// client's parts: host-bridge/worker/session/extents.h.)
//
// A region is anything that can be mapped: a tmpfs, memfd or hugetlbfs file, a /dev/uioN of the guest module, the socket
// of `barcuda guest serve`, a PCI device's resource2, a /dev/dax. All look the same from here: a header to read, a channel to open, extents to map. An
// extent lies at shape().base + offset in every process, guest and host alike, so that its pointers need no
// translation; header and channels may lie anywhere. docs/region.md is the specification of what is in it.
//
//   guest   Region r; if (Error e = r.open(nullptr)) complain(e.text);   r.open_channel(c); r.map_extent(...)
//   host    Region r; r.create(path, {.size = 8 << 30, .rows = identities}); fill the devices; r.announce();
//           r.map_channel(i, c)
//
// The guest half runs inside malloc of programs that we have never seen: it allocates nothing, throws nothing, and says
// what went wrong in a buffer that the caller owns.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.h"
#include "shm-device/layout.h"
#include "shm-device/queue/sync.h"
#include "shm-device/region/door.h"
#include "shm-device/region/shape.h"

namespace barcuda {

// A mapped channel. The same struct on both sides; who may write which part stands in layout.h.
struct Channel {
    char* memory = nullptr;  // BARCUDA_CHANNEL_SIZE bytes, zero when a client gets them
    std::uint32_t index = 0;
    std::uint32_t opening = 0;  // the slot's `opened` when this channel was mapped
    std::uint64_t offset = 0;   // of `memory` in the region: what descriptors' addresses count from

    barcuda_status& status() const { return *reinterpret_cast<barcuda_status*>(memory + BARCUDA_STATUS_OFFSET); }
    barcuda_client& client() const { return *reinterpret_cast<barcuda_client*>(memory + BARCUDA_CLIENT_OFFSET); }
    barcuda_calls& calls() const { return *reinterpret_cast<barcuda_calls*>(memory + BARCUDA_CALLS_OFFSET); }
    barcuda_supply& supply() const { return *reinterpret_cast<barcuda_supply*>(memory + BARCUDA_SUPPLY_OFFSET); }
    std::uint64_t* fences() const { return reinterpret_cast<std::uint64_t*>(memory + BARCUDA_FENCES_OFFSET); }
    bool contains(const void* p) const {
        return static_cast<std::size_t>(static_cast<const char*>(p) - memory) < BARCUDA_CHANNEL_SIZE;
    }
    char* commands() const { return memory + BARCUDA_COMMANDS_OFFSET; }
    explicit operator bool() const { return memory != nullptr; }
};

// What a new region shall be. Zeros mean: the defaults, or for an existing region what it already is.
struct Format {
    std::uint64_t size = 0;
    std::uint64_t base = 0;
    bool overwrite = false;  // an existing file that is no region, or one of another layout or size
    const char* build = "";  // the host's version
    // The identities of what the host knows (identity.h). Always needed.
    std::span<const std::uint64_t> rows = {};
};

class Region {
  public:
    enum class Kind : std::uint8_t { none, file, pci, dax, uio, door };

    Region() = default;
    ~Region() { close(); }
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;

    // ---- both sides
    // Opens and validates. No path: $BARCUDA_REGION, else the first UIO device of our module, else the guest service's socket.
    Error open(const char* path);
    // Forgets the mappings of the header (not channels, not extents). A bridge says that it is gone.
    void close();

    explicit operator bool() const { return header_ != nullptr; }
    Kind kind() const { return kind_; }
    const char* path() const { return path_; }
    int fd() const { return fd_; }
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
    // Whole pages of an extent that this process has mapped and nobody uses yet, at a second address, which the kernel
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
    // Interrupts the host, where the door has a doorbell; false: it has none.
    bool ring() const;
    // Wakes a bridge that sleeps, if it can be woken.
    void knock() const;
    // Waits for the host's next interrupt since the last one that was awaited, or `nanoseconds`. False: there is no
    // such door any more. One thread at a time.
    bool await_ring(std::uint64_t nanoseconds) const;
    // Does a bridge serve this region? (Where its locks cannot be seen, in a VM: has none said goodbye?)
    bool served() const;

    // ---- host
    // Formats a new file, or takes over an existing region with a higher epoch: then slots and grants stay as they are,
    // since clients of the old epoch may still hold them. Nobody can open it before announce(); a new file that was never
    // announced goes when it is closed.
    Error create(const char* path, const Format& format);
    void announce();
    // Between the two: what devices there are, whose table is in host_devices().
    void tell_devices(unsigned driver_version, unsigned count);
    // The bridge lives.
    void beat();
    barcuda_slot* host_slots() { return const_cast<barcuda_slot*>(slots()); }
    barcuda_grant* host_grants() { return const_cast<barcuda_grant*>(grants()); }
    barcuda_device* host_devices() { return const_cast<barcuda_device*>(devices()); }
    Error map_channel(std::uint32_t index, Channel& channel);
    void unmap_channel(Channel& channel);
    // Makes a channel as a client must find it: zero, but for its number. Before the slot's `reclaimed` is raised.
    Error clean_channel(std::uint32_t index);
    // Flat transport: has the process that opened this slot ended? (False where only the guest's module can tell.)
    bool owner_gone(std::uint32_t index) const;

  private:
    friend struct RegionProbe;  // tests: a BAR is not at hand everywhere
    template <class T> const T* table(std::uint64_t offset) const {
        return reinterpret_cast<const T*>(reinterpret_cast<const char*>(header_) + offset);
    }
    Error open_file(const char* path, int flags);
    Error check_owner(bool to_serve) const;
    Error lock_to_serve(const char* path);
    Error prepare(const char* path, const Format& format, barcuda_header& header, bool& keep);
    Error disown(std::uint32_t index);
    Error map_window(std::uint64_t offset, std::uint64_t bytes, int protection, char** address);
    void unmap_window(char* address, std::uint64_t offset, std::uint64_t bytes);
    Error open_uio_channel(Channel& channel);
    Error open_door(const char* path);
    Error map_door_header(char** header);
    Error open_door_channel(Channel& channel);
    int map_door_extent(std::uint64_t offset, std::uint64_t bytes) const;
    void tell_door() const;
    Error take_channel(void* memory, Channel& channel);
    Error open_flat_channel(Channel& channel);
    Error all_in_use(bool soon) const;
    Error claim_slot(std::uint32_t& index);
    int lock_byte(int command, short type, std::uint64_t offset) const;
    int lock_slot(std::uint32_t index, short type) const;
    Error check_fd() const;
    Error have_fd();

    // header_bytes of it: with slots, grants, devices and rows. The host writes it, and takes nothing from it.
    const barcuda_header* header_ = nullptr;
    barcuda_header& writable_header() { return *const_cast<barcuda_header*>(header_); }
    Shape shape_;
    std::span<const barcuda_u64> rows_;  // as the header said when it was checked
    const barcuda_snapshot* snapshot_ = nullptr;
    std::uint64_t beats_ = 0;
    std::uint64_t file_size_ = 0;           // of what was opened; 0: unknown (UIO: the module has checked it)
    std::uint64_t unit_ = 0;                // mappings begin and end at multiples of this: a page, or a huge page
    std::uint64_t device_ = 0, inode_ = 0;  // of fd_: a program may close descriptors that it did not open
    int fd_ = -1;
    bool made_ = false;  // a new file, not announced yet
    int creator_ = 0;    // pid of the bridge, if that is us: a forked worker does not say goodbye for it
    Kind kind_ = Kind::none;
    char path_[256] = "";
};

// Where a region without a path is: $BARCUDA_REGION, else "/dev/uioN" of the first device named "barcuda" in `sys`, else
// `door`, if there is such a socket.
Error find_region(char* path, std::size_t bytes, const char* sys = "/sys/class/uio",
                  const char* door = door::usual_path);

// Is this header one that we can trust our addresses to? `file_size` 0: not known. `path` is for the message.
// (validate.cc)
Error validate(const barcuda_header& header, std::uint64_t file_size, const char* path);
// Does the bridge read and write commands as we do? (validate.cc)
Error check_packets(const barcuda_header& header, const char* path);
// The host's version as it can be printed. (validate.cc)
const char* build_of(const barcuda_header& header, char (&build)[sizeof header.build + 1]);

// Says in a client's page who this process is: for the host to show. (introduce.cc)
void introduce(barcuda_client& client);

// When a process began, in clock ticks since boot (pid 0: this one); 0: there is none. A pid alone may be a reused one.
std::uint64_t start_time_of(std::uint32_t pid);
// Is it the process that began then, and has it not ended?
bool lives(std::uint32_t pid, std::uint64_t start_time);

// Can a region have this size and lie at this address? (validate.cc)
Error check_size(std::uint64_t size, const char* path);
Error check_base(std::uint64_t base, std::uint64_t size, const char* path);

// How a region of this size is divided: the fields of a header that follow from its size. (validate.cc)
void divide(barcuda_header& header, std::uint64_t size);

}  // namespace barcuda
