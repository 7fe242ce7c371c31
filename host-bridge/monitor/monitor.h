// SPDX-License-Identifier: Apache-2.0
// monitor.h: a process of the bridge's that asks the host's NVML how the GPUs are doing while a client watches, and
// writes the answers into the region (shm-device/region/snapshot.h). It is a process of its own, since NVML lives in
// NVIDIA's driver, which may keep it waiting, and which the bridge never opens. Of the region, which a guest can write,
// it reads what pid a client says that it has, and whether the client's page says that it is paused. The bridge tells
// it where to write, and which devices to ask about.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>

#include "shm-device/layout.h"

namespace barcuda {

// How busy the GPUs are, in percent, and how much of their memory is free, for the bridge and its visitors. The monitor
// writes it after each sweep.
struct Busy {
    static constexpr unsigned char unknown = 255;
    std::uint64_t taken;                                               // microseconds since 1970
    unsigned char gpus[BARCUDA_MAX_DEVICES];                           // by all users of the GPU, of this VM or not
    unsigned char clients[BARCUDA_MAX_CHANNELS][BARCUDA_MAX_DEVICES];  // by each client
    static constexpr std::uint64_t not_known = ~std::uint64_t{0};
    std::uint64_t free[BARCUDA_MAX_DEVICES];  // bytes of each GPU's memory that no process uses
};

// In a file in memory that bridge and monitor share. Only the fields before `bridge` change.
struct Roster {
    Busy busy;
    barcuda_u32 workers[BARCUDA_MAX_CHANNELS];  // pid of each channel's worker; 0: none
    barcuda_u32 wanted;                         // grows with each request; the monitor sleeps on it
    std::uint64_t memory;                       // bytes that the guest sees as each GPU's size; 0: the real size
    // What its clients have of each GPU, also in the host's memory (--cards); not_known: as far as NVML sees it.
    std::uint64_t held[BARCUDA_MAX_DEVICES];
    pid_t bridge;
    std::uint64_t bytes;  // of the region's parts before its heap: all pages end there, also huge ones
    barcuda_u32 channel_count, device_count;
    barcuda_device devices[BARCUDA_MAX_DEVICES];
};
constexpr int roster_fd = 4;  // of the monitor, beside region_fd

// Serves until the bridge ends. `library`: the NVML to open. Returns the exit status.
int run_monitor(const std::string& library);
constexpr int no_nvml = 3;  // exit status: the library is missing or does not work here

}  // namespace barcuda
