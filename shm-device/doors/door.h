// SPDX-License-Identifier: Apache-2.0
// door.h: one way by which a process reaches a region: what differs between a file, a BAR, the guest module's device
// and the guest service's socket stands behind this interface, in a file each.
//
//   file_door.h     a file of this kernel's: tmpfs, memfd, hugetlbfs     all is mapped; locks and pids are seen
//   bar_door.h      a PCI device's resource2, or /dev/dax                all is mapped; the other side sees no lock
//   uio_door.h      /dev/uioN of the guest module                        the module gives channels and extents
//   socket_door.h   the socket of `barcuda guest serve`                  the service gives a file of each part
//   stub_door.h     what this system has no door for                     refuses by name
//
// open_door() finds out which it is. A door runs inside malloc of unknown programs: it allocates nothing and throws
// nothing. It has no lock: one thread at a time, except for ring(), await() and gone().
#pragma once
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/os/file.h"
#include "base/os/map.h"
#include "shm-device/doors/channel.h"
#include "shm-device/doors/service_messages.h"
#include "shm-device/doors/shape.h"
#include "shm-device/layout.h"

namespace barcuda {

class WholeDoor;

// What a door gives channels by: the region's division, as it was checked, and its slots.
struct Tables {
    Shape shape;
    const barcuda_slot* slots = nullptr;
};

class Door {
  public:
    static constexpr std::size_t path_room = 256;
    static constexpr std::uint32_t the_bridge = ~std::uint32_t{0};  // a holder that has no slot

    struct Properties {
        std::uint64_t size =
            0;  // bytes of what was opened; 0: unknown, the peer has compared the header with the device
        std::uint64_t unit = BARCUDA_PAGE;  // mappings begin and end at multiples of this: a page, or a huge page
        bool own_kernel = false;            // the bridge and its workers run on other processors
        bool forks_by_itself = false;       // a forked child gets a snapshot of the extents (heap/extents.h)
        bool remaps = true;                 // pages of an extent can be mapped again where they were
        bool opens_again = false;           // the path leads to the same file again
        bool offset_is_place = false;       // the heap can read the extents in the file, at their offsets
        WholeDoor* whole = nullptr;         // this door, if a host can make a region behind it
        std::uint64_t base = 0;             // where the system has put the region; 0: it goes where its header says
    };
    enum class Leave : std::uint8_t { to_nobody, to_the_parent };

    virtual ~Door();
    Door(const Door&) = delete;
    Door& operator=(const Door&) = delete;

    const char* path() const { return path_; }
    int fd() const { return file_.fd(); }
    const Properties& properties() const { return properties_; }
    // The descriptor is still ours; or is again, where the same file can be opened again.
    Error check_file() const;
    Error have_file();

    // The header and the tables behind it, to be read. Stays mapped as long as the door.
    virtual Error map_header(const char** header) = 0;

    // A fresh channel of this process. Error::no_channel with EAGAIN: the host is about to free one.
    virtual Error open_channel(const Tables& tables, Channel& channel) = 0;
    // Gives it back; or, in a forked child, forgets the channel, which is the parent's and stays open.
    virtual void close_channel(const Tables& tables, Channel& channel, Leave leave) = 0;

    // Extents; 0 or an errno, as in map.h. map_again: whole pages that this process has mapped at `own` and does not
    // use yet, at a second address, which the kernel chooses.
    virtual int map_extent(std::uint64_t offset, std::uint64_t bytes, void* own, os::Over over) = 0;
    virtual int map_again(std::uint64_t offset, std::uint64_t bytes, void* own, void** address) = 0;
    // Something was unmapped.
    virtual void released() {}

    // Chooses how this process and its worker wake each other, says so in `bell` (a barcuda_bell) of the client's page,
    // and lets the bridge look.
    virtual void choose_bell(std::uint32_t& bell);
    // The worker's fence, made when it goes to sleep, orders what this process posts before what it reads: on one
    // kernel.
    bool is_fenced() const { return fenced_; }
    // Wakes the worker's thread that sleeps on this word of a channel; null: wakes the bridge.
    virtual void ring(const std::uint32_t* word) const;
    // A thread of ours sleeps on this word of a channel, whose value was `seen`, until the worker wakes it, or for
    // `nanoseconds` at most. seen() is what to read before the thread says that it will sleep.
    virtual void await(const std::uint32_t& word, std::uint32_t seen, std::uint64_t nanoseconds);
    std::uint32_t seen(const std::uint32_t& word) const;

    // Has the process ended that holds this slot (or is the_bridge)? False also where that cannot be seen.
    virtual bool gone(const barcuda_slot* slots, std::uint32_t holder) const;

  protected:
    Door(const char* path, os::KeptFile&& file);
    void keep_header(const void* header, std::size_t bytes);
    Error take_channel(void* memory, const Tables& tables, Channel& channel) const;  // that a peer has chosen
    Error all_in_use(const Tables& tables, bool soon) const;

    os::KeptFile file_;
    Properties properties_;
    bool fenced_ = false;
    const std::uint32_t* heard_ = nullptr;  // what threads sleep on, where it is no word of the channel

  private:
    friend struct RegionProbe;  // tests: a BAR is not at hand everywhere
    char path_[path_room];
    void* header_ = nullptr;
    std::size_t header_bytes_ = 0;
};

// Room for a door of any kind, since there is no malloc.
class DoorPlace {
  public:
    DoorPlace() = default;
    ~DoorPlace() { clear(); }
    DoorPlace(const DoorPlace&) = delete;
    DoorPlace& operator=(const DoorPlace&) = delete;

    template <class D, class... Arguments> D& make(Arguments&&... arguments) {
        static_assert(sizeof(D) <= sizeof room_ && alignof(D) <= alignof(std::max_align_t));
        clear();
        D* const door = new (room_) D(std::forward<Arguments>(arguments)...);
        door_ = door;
        return *door;
    }
    void clear() {
        if (Door* const door = std::exchange(door_, nullptr)) door->~Door();
    }
    explicit operator bool() const { return door_ != nullptr; }
    Door* operator->() const { return door_; }
    Door& operator*() const { return *door_; }

  private:
    Door* door_ = nullptr;
    alignas(std::max_align_t) std::byte room_[512]{};
};

enum class Opening : std::uint8_t {
    to_use,    // a guest's, or a tool's
    to_make,   // a host's: a new file
    to_serve,  // a host's: one that is there, and no link to it
};
// Opens the door for this path. After an error the place may have a door nevertheless, whose file was
// opened.
Error open_door(DoorPlace& place, const char* path, Opening opening = Opening::to_use);

// Where a region without a path is: $BARCUDA_REGION, else "/dev/uioN" of the first device named "barcuda" in `sys`,
// else `socket`, if there is such a socket.
Error find_region(char* path, std::size_t bytes, const char* sys = "/sys/class/uio",
                  const char* socket = door::usual_path);

}  // namespace barcuda
