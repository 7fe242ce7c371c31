// SPDX-License-Identifier: Apache-2.0
// probe.h: what the host's GPUs are, and which of them a VM gets: written into the region once, so that guests ask the region
// instead of the host.
#pragma once
#include <string>
#include <vector>

#include "shm-device/region/host_region.h"

namespace barcuda {

struct Driver;

struct HostDevices {
    std::vector<barcuda_device> all;  // as CUDA counts them
    unsigned driver_version = 0;
    bool chosen = false;    // not all that there are, or in another order
    std::string error;      // not empty: why there are none
    bool answered = false;  // whoever has opened the driver said that, or what there is
};
// What this host has for the bridge's workers: the driver that they open, and what it shows.
struct Host {
    std::string library;
    bool software = false;  // it is the software GPU
    HostDevices devices;
    std::vector<int> every;  // the numbers of all devices
};
// Opens the driver in a child process, which then ends: nothing of the driver stays in the bridge.
HostDevices probe_devices(const std::string& library, int stop = -1);
// The two ends of a SOCK_SEQPACKET pair, in processes of this program: whose driver is open says what it shows, who asked waits for that.
// `why`, if not empty, is why it shows none. Where `stop` can be read nobody waits any more.
bool report_devices(const Driver& driver, int link, const std::string& why = {});
HostDevices receive_devices(int link, const std::string& library, int stop = -1);

// Keeps of `devices` what `gpus` names (--gpus: as CUDA_VISIBLE_DEVICES, but nothing in it may be wrong), in its order. Returns
// what is wrong; empty: nothing.
std::string choose(HostDevices& devices, const std::string& gpus);

void publish_devices(HostRegion& region, const HostDevices& devices);

// By which CUDA_VISIBLE_DEVICES a driver shows these of the devices, by number. (From the host's own memory: guests may write the
// region's table.)
std::string visible_list(const HostDevices& devices, const std::vector<int>& numbers);
// Which of the devices a program with this list sees (null: it has none).
std::vector<int> devices_seen(const HostDevices& devices, const char* list);

}  // namespace barcuda
