// SPDX-License-Identifier: Apache-2.0
#include "shm-device/doors/bar_door.h"

#include <cstdio>
#include <cstdlib>

namespace barcuda {
namespace {

std::uint64_t read_number(unsigned major, unsigned minor, const char* name) {
    char path[96], line[32];
    std::snprintf(path, sizeof path, "/sys/dev/char/%u:%u/%s", major, minor, name);
    return os::read_line(path, line, sizeof line) ? std::strtoull(line, nullptr, 0) : 0;
}

}  // namespace

BarDoor::BarDoor(const char* path, os::KeptFile&& file, std::uint64_t size, std::uint64_t unit, By by)
    : WholeDoor(path, std::move(file), size, unit, os::Holder::open_file) {
    if (by == By::dax) properties_.whole = this;
}

bool find_dax(unsigned major, unsigned minor, std::uint64_t& size, std::uint64_t& unit) {
    size = read_number(major, minor, "size");
    if (size == 0) return false;
    const std::uint64_t align = read_number(major, minor, "align");
    unit = align ? align : BARCUDA_PAGE;
    return true;
}

}  // namespace barcuda
