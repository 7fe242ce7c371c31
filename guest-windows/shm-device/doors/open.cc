// SPDX-License-Identifier: Apache-2.0
// open.cc: which door a path leads to, on Windows: "ivshmem:N" is the device of that number, "ivshmem" all of them in
// their order, anything else a file. Paths may be several, with semicolons between them. Of several the first free one
// is taken: virtio-win's driver gives a device to one process at a time, so that a guest has as many devices as
// processes that use CUDA. What this process has already it takes again: nvcuda.dll and nvml.dll are in the same.
#include <fcntl.h>
#include <io.h>
#include <windows.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/os/ivshmem.h"
#include "base/os/view.h"
#include "shm-device/doors/view_door.h"
#include "shm-device/queue/sync.h"

namespace barcuda {
namespace {

constexpr char device_prefix[] = "ivshmem:", all_devices[] = "ivshmem";
constexpr std::size_t prefix_length = sizeof device_prefix - 1;

bool is_device(const char* path) { return std::strncmp(path, device_prefix, prefix_length) == 0; }

Error taken(const char* path) {
    return error(Error::no_channel, 0,
                 "%s: another process of this guest has it, and it serves one at a time; end that process, or give the "
                 "VM one more ivshmem device with a bridge of its own",
                 path);
}

Error open_device(const char* path, int& file) {
    char* end;
    void* device = nullptr;
    const unsigned long number = std::strtoul(path + prefix_length, &end, 10);
    const bool named = end != path + prefix_length && !*end;
    switch (named ? os::ivshmem::open(static_cast<unsigned>(number), device) : ENODEV) {
        case 0: break;
        case ENODEV:
            return error(Error::not_found, 0,
                         "%s: there is no such ivshmem device, or virtio-win's driver has none (`barcuda doctor` lists "
                         "them)",
                         path);
        case EACCES:
            return error(Error::permission, 0,
                         "%s: Windows does not let this user open the device; run the program as an administrator",
                         path);
        default:
            return error(Error::system, 0, "%s: virtio-win's driver does not open the device: Windows error %u", path,
                         os::ivshmem::last_error());
    }
    file = _open_osfhandle(reinterpret_cast<std::intptr_t>(device), O_RDWR | O_BINARY);
    return file >= 0 ? Error() : error(Error::system, errno, "%s: the process has too many open files", path);
}

// What the driver has said to the request for the device's memory.
Error unmapped(const char* path, int code) {
    const unsigned windows = os::ivshmem::last_error();
    switch (code) {
        case EBUSY: return taken(path);
        case EAGAIN:
            return error(Error::not_ready, 0,
                         "%s: the device has no memory yet; start its bridge on the host, and then the VM", path);
        case ENOTSUP:
            return error(Error::system, 0,
                         "%s: its driver does not know the request for its memory (Windows error %u); install the "
                         "ivshmem driver of a current virtio-win image",
                         path, windows);
        case ENOMEM:
            return error(Error::system, 0,
                         "%s: Windows could not map its memory (Windows error %u); use a region of 1 or 2 GiB, with a "
                         "bridge for each CUDA process of the guest",
                         path, windows);
        default: return error(Error::system, 0, "%s: its driver refuses its memory: Windows error %u", path, windows);
    }
}

Error open_one(DoorPlace& place, const char* path) {
    const bool device = is_device(path);
    int fd = -1;
    if (device) {
        if (Error e = open_device(path, fd)) return e;
    } else {
        fd = _open(path, O_RDWR | O_BINARY | O_NOINHERIT);
    }
    if (fd < 0 && _doserrno == ERROR_SHARING_VIOLATION) return taken(path);
    if (fd < 0 && errno == EACCES) return error(Error::permission, 0, "%s: permission denied", path);
    if (fd < 0) return error(Error::not_found, 0, "%s: there is no such region; name another path", path);
    os::KeptFile file;
    os::View* view = nullptr;
    file.keep(fd);
    if (const int code = os::map_view(fd, path, view))
        return device ? unmapped(path, code) : error(Error::system, code, "%s: cannot be mapped", path);
    place.make<ViewDoor>(path, std::move(file), view->bytes, reinterpret_cast<std::uint64_t>(view->base), !device);
    return {};
}

// Paths, one after another: of a list, or of all devices.
class Paths {
  public:
    explicit Paths(const char* list) : list_(list), devices_(std::strcmp(list, all_devices) == 0) {
        if (devices_) count_ = os::ivshmem::count();
        else
            for (const char* at = list; at; at = std::strchr(at, ';'), at = at ? at + 1 : at) ++count_;
    }
    unsigned count() const { return count_; }
    const char* path(unsigned number) {
        if (devices_) {
            std::snprintf(path_, sizeof path_, "%s%u", device_prefix, number);
            return path_;
        }
        const char* at = list_;
        for (; number > 0; --number) at = std::strchr(at, ';') + 1;
        std::snprintf(path_, sizeof path_, "%.*s", static_cast<int>(std::strcspn(at, ";")), at);
        return path_;
    }

  private:
    const char* const list_;
    const bool devices_;
    unsigned count_ = 0;
    char path_[Door::path_room] = "";
};

// Other projects use such devices, too, and a region without a bridge is of no use.
bool has_bridge(const os::View& view) {
    const auto& header = *reinterpret_cast<const barcuda_header*>(view.base);
    return view.bytes >= BARCUDA_MIN_SIZE && observe(header.magic) == BARCUDA_MAGIC && observe(header.bridge_pid) != 0;
}

Error open_first(DoorPlace& place, Paths& paths) {
    for (unsigned i = 0; i < paths.count(); ++i)
        if (os::find_view(paths.path(i)))
            if (!open_one(place, paths.path(i))) return {};
    unsigned taken = 0, unserved = 0, others = 0;
    for (unsigned i = 0; i < paths.count(); ++i) {
        if (const Error e = open_one(place, paths.path(i))) {
            ++(e.kind == Error::no_channel ? taken : others);
            continue;
        }
        if (has_bridge(*os::view_of(place->fd()))) return {};
        ++unserved;
        os::drop_view(place->fd());
        place.clear();
    }
    return error(
        Error::no_channel, 0,
        "none of %u regions is free: other processes of this guest have %u, no bridge serves %u, and %u cannot "
        "be opened; end a CUDA process, start the bridges on the host, or give the VM one more ivshmem device "
        "with a bridge of its own (`barcuda doctor` lists them)",
        paths.count(), taken, unserved, others);
}

}  // namespace

Error open_door(DoorPlace& place, const char* path, Opening) {
    place.clear();
    if (std::strlen(path) >= Door::path_room)
        return error(Error::not_found, 0, "a region's path has at most 255 bytes");
    Paths paths(path);
    if (paths.count() == 0)
        return error(Error::not_found, 0,
                     "this VM has no ivshmem device, or virtio-win's driver has none of them (`barcuda doctor` says "
                     "what to do)");
    return paths.count() == 1 ? open_one(place, paths.path(0)) : open_first(place, paths);
}

}  // namespace barcuda
