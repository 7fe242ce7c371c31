// SPDX-License-Identifier: Apache-2.0
// machine.h: what this machine is to Barcuda: a guest has a device, a host has a bridge. For commands that do something
// else in each.
#pragma once
#include <string>
#include <vector>

namespace barcuda {

// A guest has an ivshmem device, whose BAR2 becomes a region through our module; or memory of virtio-pmem, of which its
// service gives out parts. (Whether a region is in that memory only root can see.)
struct Machine {
    Machine();
    std::vector<std::string> devices;  // ivshmem's addresses
    std::string pmem;                  // the device with a region in it
    std::string unread_pmem;           // a device that this user cannot look into
    bool module;                       // uio_barcuda is loaded
    bool socket;                       // the guest's service has made its socket ...
    bool service;                      // ... and listens there
    bool guest_package;                // the guest's unit is installed
    bool bridge;                       // the bridge is installed
    bool is_guest() const { return module || socket || !devices.empty() || !pmem.empty(); }
};

}  // namespace barcuda
