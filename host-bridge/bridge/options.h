// SPDX-License-Identifier: Apache-2.0
// options.h: the options of a bridge (main.cc).
#pragma once
#include <cstdint>
#include <string>

#include "base/failure.h"
#include "host-bridge/between/cards.h"
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
    std::uint64_t size = 0;  // 0: the region's own size, or 4 GiB
    std::uint64_t base = 0;
    bool overwrite = false;
    Access access;  // of the region and the doorbell
    std::string device = "auto";
    // "blocks": cuMemAlloc gives memory that the worker maps itself (worker/memory/layer.h)
    std::string device_memory = "driver";
    std::string gpus;      // which of the host's GPUs the VM gets, as in --gpus; empty: all
    std::string expected;  // the CUDA_VISIBLE_DEVICES of the first client, if known
    WarmOptions warm;      // workers that wait with their context ready; with a wrapper none does
    std::string wrapper;   // runs each worker: words for a shell; empty: no wrapper
    std::string doorbell;  // a socket to which QEMU's ivshmem-doorbell connects; empty: none
    LimitOptions limits;
    MetricsOptions metrics;
    std::string user;         // the user and group that root's bridge becomes ("NAME:GROUP"); empty: it stays root
    cage::Wish cage;          // the bridge fills in what it knows of the worker
    turns::Share share;       // this VM's part of the GPUs' time; without a weight: no turns
    std::string turns;        // the file with which bridges share them; empty: this user's own, if there is a weight
    std::string cards;        // the file with which bridges share the memory of cards; empty: this one shares none
    std::uint64_t store = 0;  // bytes of host memory for what leaves a card
    std::uint64_t store_ready = 0;                      // of that: kept ready
    std::uint32_t wait = 60;                            // seconds that a program waits for device memory, at most
    std::uint32_t context_idle = 0;                     // seconds after which contexts leave a full card; 0: never
    std::uint64_t card_reserve = cards::usual_reserve;  // bytes of each card that are promised to no client
    std::string wake;    // the folder of a suspended VM, which this bridge wakes; empty: none
    int go_fd = -1;      // of `wake`: says here that all clients are back, and goes on when it reads a byte
    bool no_vm = false;  // clients are programs of this kernel: the bridge hears of each
    int ready_fd = -1;   // the bridge writes a line here when guests may connect
    int trial = -1;      // the bridge takes the place of one of another build, or says here why it cannot
    int served_fd = -1;  // closed when everything that the bridge has made is gone, also its workers
};

constexpr std::uint32_t longest_wait_for_memory = 24 * 60 * 60;  // seconds

// Replaces "off" of --cards by nothing. ("on" becomes a path when the bridge has become its user.) Returns what is
// wrong with the options of shared cards.
Failure settle_cards(BridgeOptions& options);

}  // namespace barcuda
