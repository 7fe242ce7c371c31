// SPDX-License-Identifier: Apache-2.0
// open.cc: which door a path leads to, on Windows: "ivshmem:N" is the device of that number, anything else a file.
#include <fcntl.h>
#include <io.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/os/ivshmem.h"
#include "base/os/view.h"
#include "shm-device/doors/view_door.h"

namespace barcuda {
namespace {

constexpr char device_prefix[] = "ivshmem:";
constexpr std::size_t prefix_length = sizeof device_prefix - 1;

int open_device(const char* path) {
    char* end;
    const unsigned long number = std::strtoul(path + prefix_length, &end, 10);
    if (end == path + prefix_length || *end) return -1;
    void* const device = os::ivshmem::open(static_cast<unsigned>(number));
    return device ? _open_osfhandle(reinterpret_cast<std::intptr_t>(device), O_RDWR | O_BINARY) : -1;
}

}  // namespace

Error open_door(DoorPlace& place, const char* path, Opening) {
    place.clear();
    if (std::strlen(path) >= Door::path_room)
        return error(Error::not_found, 0, "a region's path has at most 255 bytes");
    const bool device = std::strncmp(path, device_prefix, prefix_length) == 0;
    const int fd = device ? open_device(path) : _open(path, O_RDWR | O_BINARY | O_NOINHERIT);
    if (fd < 0 && device)
        return error(Error::not_found, 0, "%s: there is no such ivshmem device, or virtio-win's driver has none", path);
    if (fd < 0 && errno == EACCES) return error(Error::permission, 0, "%s: permission denied", path);
    if (fd < 0) return error(Error::not_found, 0, "%s: there is no such region; name another path", path);
    os::KeptFile file;
    os::View view;
    file.keep(fd);
    if (const int code = os::map_view(fd, view))
        return code == EBUSY
                   ? error(Error::no_channel, 0,
                           "%s: another process of this guest has the device, which serves one at a time", path)
                   : error(Error::system, code, "%s: cannot be mapped", path);
    place.make<ViewDoor>(path, std::move(file), view.bytes, reinterpret_cast<std::uint64_t>(view.base), !device);
    return {};
}

}  // namespace barcuda
