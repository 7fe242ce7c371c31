// SPDX-License-Identifier: Apache-2.0
// bar_door.h: another machine's memory that this process may map whole: a PCI device's resource2, or /dev/dax. The two
// sides look for each other's work by themselves, and neither sees the other's processes.
#pragma once
#include "shm-device/doors/whole_door.h"

namespace barcuda {

class BarDoor final : public WholeDoor {
  public:
    // A host can make a region in a DAX device: its memory may be what a VM is given.
    enum class By : std::uint8_t { pci, dax };
    BarDoor(const char* path, os::KeptFile&& file, std::uint64_t size, std::uint64_t unit, By by);

    bool is_elastic() const override { return false; }
};

// A DAX device, by its number: the size and the unit of mappings, which sysfs says. False: another device.
bool find_dax(unsigned major, unsigned minor, std::uint64_t& size, std::uint64_t& unit);

}  // namespace barcuda
