// SPDX-License-Identifier: Apache-2.0
// open.cc: which door a path leads to.
#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "shm-device/doors/bar_door.h"
#include "shm-device/doors/file_door.h"
#include "shm-device/doors/socket_door.h"
#include "shm-device/doors/stub_door.h"
#include "shm-device/doors/uio_door.h"

namespace barcuda {
namespace {

Error cannot_open(const char* path, int code) {
    if (code == ENOENT || code == ENXIO || code == ENODEV)
        return error(Error::not_found, 0, "%s: there is no such region; start barcuda-bridge, or name another path",
                     path);
    if (code == EACCES || code == EPERM)
        return error(
            Error::permission, 0,
            "%s: permission denied; only root and members of the group 'barcuda' may open it (usermod -aG barcuda "
            "USER, then log in again)",
            path);
    if (code == ELOOP)
        return error(Error::foreign, 0, "%s: a symbolic link, which may lead to any file; name the file itself", path);
    return error(Error::system, code, "%s: cannot be opened", path);
}

Error check_unit(const Door& door) {
    const std::uint64_t unit = door.properties().unit;
    if (unit >= BARCUDA_PAGE && BARCUDA_GRANULE % unit == 0) return {};
    return error(Error::bad_size, 0, "%s: made of pages of %llu MiB, but extents are mapped in steps of %llu MiB",
                 door.path(), (unsigned long long)(unit >> 20), (unsigned long long)(BARCUDA_GRANULE >> 20));
}

bool is_the_modules(unsigned major, unsigned minor) {
    char file[64], name[16];
    std::snprintf(file, sizeof file, "/sys/dev/char/%u:%u/name", major, minor);
    return os::read_line(file, name, sizeof name) && std::strcmp(name, "barcuda") == 0;
}

}  // namespace

Error open_door(DoorPlace& place, const char* path, Opening opening) {
    place.clear();
    if (std::strlen(path) >= Door::path_room)
        return error(Error::not_found, 0, "a region's path has at most 255 bytes");
    if (opening != Opening::to_make && os::is_socket(path)) return place.make<SocketDoor>(path).connect();
    int flags = O_RDWR | O_CLOEXEC;
    if (opening == Opening::to_make) flags |= O_CREAT | O_EXCL;
    if (opening == Opening::to_serve && !os::names_a_descriptor(path)) flags |= O_NOFOLLOW;
    const int fd = ::open(path, flags, 0660);
    if (fd < 0 && errno == ENOENT && opening == Opening::to_make)
        return error(Error::not_found, 0, "%s: its folder is not there; make it, or name another path", path);
    if (fd < 0) return cannot_open(path, errno);
    return take_door(place, path, fd, opening);
}

Error take_door(DoorPlace& place, const char* path, int fd, Opening opening) {
    os::KeptFile file;
    os::FileFacts facts;
    int code = file.keep(fd);
    if (code == 0) code = os::facts_of(file.fd(), facts);
    if (code != 0) return error(Error::system, code, "%s: cannot be examined", path);

    using Type = os::FileFacts::Type;
    using System = os::FileFacts::System;
    std::uint64_t size = 0, unit = BARCUDA_PAGE;
    if (facts.type == Type::regular && facts.system == System::sysfs)
        return check_unit(place.make<BarDoor>(path, std::move(file), facts.size, unit, BarDoor::By::pci));
    if (facts.type == Type::regular) {
        if (facts.system == System::huge_pages) unit = facts.block;
        const auto& door = place.make<FileDoor>(path, std::move(file), facts.size, unit);
        Error e = check_unit(door);
        return e ? e : door.check_owner(facts, opening != Opening::to_use);
    }
    if (facts.type == Type::characters && is_the_modules(facts.major, facts.minor))
        return check_unit(place.make<UioDoor>(path, std::move(file)));
    if (facts.type == Type::characters && find_dax(facts.major, facts.minor, size, unit))
        return check_unit(place.make<BarDoor>(path, std::move(file), size, unit, BarDoor::By::dax));
    return place.make<StubDoor>(path, "neither a file nor a device that can hold a region").refusal();
}

}  // namespace barcuda
