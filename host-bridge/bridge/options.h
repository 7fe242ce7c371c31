// SPDX-License-Identifier: Apache-2.0
// options.h: what a bridge is told at its start (main.cc).
#pragma once
#include <cstdint>
#include <string>

#include "host-bridge/between/limits.h"
#include "host-bridge/between/turns.h"
#include "host-bridge/bridge/access.h"
#include "host-bridge/bridge/exporting.h"
#include "host-bridge/bridge/warm.h"
#include "host-bridge/cage/cage.h"

namespace barcuda {

struct BridgeOptions {
    std::string region = "/dev/shm/barcuda";
    std::string name;        // of the VM, in the log and in lists of bridges
    std::uint64_t size = 0;  // 0: what the region is, or 4 GiB
    std::uint64_t base = 0;
    bool overwrite = false;
    Access access;  // of the region and the doorbell
    std::string device = "auto";
    std::string gpus;      // which of the host's the VM gets, as --gpus names them; empty: all
    std::string expected;  // the CUDA_VISIBLE_DEVICES of the first client, if that is known
    WarmOptions warm;      // workers that wait with their context ready; with a wrapper none does
    std::string wrapper;   // what runs each worker: words for a shell; empty: nothing between
    std::string doorbell;  // a socket where QEMU's ivshmem-doorbell asks for interrupts; empty: none
    LimitOptions limits;
    MetricsOptions metrics;
    std::string user;    // that root's bridge becomes, and its group ("NAME:GROUP"); empty: it stays root
    cage::Wish cage;     // of which the bridge itself fills in what it knows of the worker
    turns::Share share;  // this VM's part of the GPUs' time; without a weight: whatever comes
    std::string turns;   // the file by which bridges share them; empty: this user's own, where there is a weight
    bool no_vm = false;  // clients are programs of this kernel: they are heard when they come
    int ready_fd = -1;   // a line is written here once guests may come
    int served_fd = -1;  // closed when all that the bridge has made is gone, its workers too
};

}  // namespace barcuda
