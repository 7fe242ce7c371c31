// SPDX-License-Identifier: Apache-2.0
// probe.h: which GPUs the host has, and which of them a VM gets. The bridge writes them into the region once, so guests
// ask the region, not the host.
#pragma once
#include <string>
#include <vector>

#include "base/failure.h"
#include "shm-device/region/host_region.h"

namespace barcuda {

struct Driver;

struct HostDevices {
    std::vector<barcuda_device> all;  // in CUDA's order
    unsigned driver_version = 0;
    bool chosen = false;    // not all devices, or in another order
    std::string error;      // not empty: why there are none
    bool answered = false;  // the process that opened the driver reported devices or an error
};
// What this host offers the bridge's workers: the driver that they open, and the devices that it shows.
struct Host {
    std::string library;
    bool software = false;  // the driver is the software GPU
    HostDevices devices;
    std::vector<int> every;  // the numbers of all devices
};
// Opens the driver in a child process, which then ends: nothing of the driver stays in the bridge.
HostDevices probe_devices(const std::string& library, int stop = -1);
// The two ends of a SOCK_SEQPACKET pair between processes of this program: the process that has opened the driver
// reports its devices; the process that asked waits for them. `why`, if not empty, says why there are none. The wait
// ends when `stop` becomes readable.
bool report_devices(const Driver& driver, int link, const std::string& why = {});
HostDevices receive_devices(int link, const std::string& library, int stop = -1);

// Keeps those of `devices` that `gpus` names (--gpus: like CUDA_VISIBLE_DEVICES, but each entry must be valid), in that
// order.
Failure choose(HostDevices& devices, const std::string& gpus);

void publish_devices(HostRegion& region, const HostDevices& devices);

// The CUDA_VISIBLE_DEVICES with which a driver shows these devices, by number. (From the host's own memory: guests may
// write the region's table.)
std::string visible_list(const HostDevices& devices, const std::vector<int>& numbers);
// The devices that a program with this list sees (null: it has no list).
std::vector<int> devices_seen(const HostDevices& devices, const char* list);

}  // namespace barcuda
