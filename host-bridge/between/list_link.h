// SPDX-License-Identifier: Apache-2.0
// list_link.h: what `barcuda ps` and related commands ask a running bridge, and its answer, over the socket of
// limits_link.h: one message each way, with a limited number of clients. (The bridge's end: bridge/list_desk.h; the
// commands': watch/bridges.cc.)
#pragma once
#include <cstddef>
#include <cstdint>

#include "host-bridge/between/link.h"

namespace barcuda {

struct ListRequest {
    static constexpr std::uint32_t form = 2;
    std::uint32_t version = form;
    std::uint32_t from = 0;  // the first channel to report
    bool busy = false;       // also report how busy the GPUs are: for some seconds the bridge's monitor then asks NVML
};

struct ListedGpu {
    char name[64];
    unsigned char uuid[16];
    std::uint64_t memory, held;  // bytes: in all; held by this VM's clients
    std::uint8_t busy;           // percent, of all users of the GPU; Busy::unknown
};

// What clients have of shared cards (bridge/residents.h).
struct SharedMemory {
    std::uint64_t promised, out, lacks;     // bytes on the card, or that may be there; in the store; waited for
    std::uint64_t moved_out, moved_back;    // bytes, so far
    std::uint64_t waits, refusals, waited;  // how often; nanoseconds
};

struct ListedClient {
    std::uint32_t channel;
    std::int32_t worker;  // pid; 0: none, or no longer
    std::uint32_t pid;    // what a guest says is shown, and used for nothing else
    char program[120], user[32];
    std::uint64_t since;  // microseconds since 1970
    std::uint64_t region_memory, most_region_memory, queued;
    std::uint64_t device_memory[BARCUDA_MAX_DEVICES],
        most_device_memory;  // by the region's numbers; most: of all together
    Counts counts;
    std::uint8_t busy[BARCUDA_MAX_DEVICES];
    Paused paused;
    std::uint32_t parked;      // 1: it is away until it has a command (a bridge that parks none says 0)
    std::uint64_t paused_for;  // microseconds since it was held or moved away; 0: it runs
    SharedMemory shared;
};

// how a client ended: by itself; for what it sent; with its worker
enum class End : unsigned { left, refused, died, ends };
constexpr unsigned all_ends = static_cast<unsigned>(End::ends);

struct ListReply {
    std::uint32_t version = ListRequest::form;
    char error[256] = {};  // not empty: the rest is not valid
    char name[64] = {}, region[256] = {}, build[64] = {};
    bool software = false, interrupts = false, no_vm = false;
    std::uint64_t now = 0, since = 0;  // of the bridge's clock, in microseconds since 1970
    std::uint64_t region_size = 0, region_heap = 0, region_held = 0;
    std::uint32_t channels = 0, warm = 0;
    std::uint64_t clients = 0, came = 0, went[all_ends] = {};  // clients: connected now
    Counts counts = {};                                        // of all clients, also those that have ended
    std::uint64_t queued = 0;
    std::uint32_t gpu_count = 0;
    bool shares_cards = false;
    std::uint64_t store = 0, store_held = 0;  // bytes
    SharedMemory shared = {};                 // of all clients, also those that have ended
    ListedGpu gpus[BARCUDA_MAX_DEVICES] = {};
    std::uint32_t next = 0;  // the channel to continue with; 0: that was the last
    std::uint32_t count = 0;
    static constexpr std::uint32_t most = 64;  // so that a message fits a socket's buffer
    ListedClient rows[most] = {};              // only `count` of them are sent
    std::size_t bytes() const { return offsetof(ListReply, rows) + count * sizeof(ListedClient); }
};

}  // namespace barcuda
