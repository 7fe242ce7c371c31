// SPDX-License-Identifier: Apache-2.0
// monitor.h: a process of the bridge's that asks the host's NVML how the GPUs are doing, for as long as somebody wants to
// know, and writes the answers into the region (shm-device/region/snapshot.h). A process of its own, since NVML lives in NVIDIA's driver, which may keep it waiting,
// and which the bridge never opens. Of the region, which a guest can write, it reads what pid a client says that it has, and
// nothing else: where to write, and which devices to ask about, it has from the bridge.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>

#include "shm-device/layout.h"

namespace barcuda {

// How busy the GPUs are, in percent, and what is free of them, for the bridge and its visitors; the monitor writes it behind each sweep.
struct Busy {
    static constexpr unsigned char unknown = 255;
    std::uint64_t taken;                                               // in microseconds since 1970
    unsigned char gpus[BARCUDA_MAX_DEVICES];                           // all that uses them, of this VM or not
    unsigned char clients[BARCUDA_MAX_CHANNELS][BARCUDA_MAX_DEVICES];  // what each client has of them
    static constexpr std::uint64_t not_known = ~std::uint64_t{0};
    std::uint64_t free[BARCUDA_MAX_DEVICES];  // bytes of each GPU's memory that no process has
};

// In a file in memory that bridge and monitor share. Constant but for the first four.
struct Roster {
    Busy busy;
    barcuda_u32 workers[BARCUDA_MAX_CHANNELS];  // pid of each channel's client's; 0: nobody
    barcuda_u32 wanted;                         // grows with each wish to know; the monitor sleeps on it
    std::uint64_t memory;                       // bytes that the guest sees as each GPU's size; 0: all
    pid_t bridge;
    std::uint64_t bytes;  // of the region's parts before its heap: where all pages, also huge ones, end
    barcuda_u32 channel_count, device_count;
    barcuda_device devices[BARCUDA_MAX_DEVICES];
};
constexpr int roster_fd = 4;  // the monitor's, beside region_fd

// Serves until the bridge ends. `library`: of NVML. Returns the exit status.
int run_monitor(const std::string& library);
constexpr int no_nvml = 3;  // exit status: the library is not there, or does not work here

}  // namespace barcuda
