// SPDX-License-Identifier: Apache-2.0
// list_link.h: what `barcuda ps` and its like ask a running bridge, and what it says: over the door of limits_link.h, one message
// there, one back, each with a limited number of clients. (The bridge's end: bridge/list_desk.h; the others': watch/bridges.cc.)
#pragma once
#include <cstddef>
#include <cstdint>

#include "host-bridge/between/link.h"

namespace barcuda {

struct ListRequest {
    static constexpr std::uint32_t form = 1;
    std::uint32_t version = form;
    std::uint32_t from = 0;  // the first channel to tell of
    bool busy = false;       // how busy the GPUs are, too: for some seconds from now on the bridge's monitor asks NVML
};

struct ListedGpu {
    char name[64];
    unsigned char uuid[16];
    std::uint64_t memory, held;  // bytes: all of it; what this VM's clients have
    std::uint8_t busy;           // percent, whoever uses it; Busy::unknown
};

struct ListedClient {
    std::uint32_t channel;
    std::int32_t worker;  // its pid; 0: none, or no longer
    std::uint32_t pid;    // as all that a guest says it is shown, and believed in nothing
    char program[120], user[32];
    std::uint64_t since;  // microseconds since 1970
    std::uint64_t region_memory, most_region_memory, queued;
    std::uint64_t device_memory[BARCUDA_MAX_DEVICES],
        most_device_memory;  // by the region's numbers; most: of all together
    Counts counts;
    std::uint8_t busy[BARCUDA_MAX_DEVICES];
    Paused paused;
    std::uint64_t paused_for;  // microseconds that it has been held or away; 0: it runs
};

enum class End : unsigned { left, refused, died, ends };  // of a client: by itself; for what it sent; with its worker
constexpr unsigned all_ends = static_cast<unsigned>(End::ends);

struct ListReply {
    std::uint32_t version = ListRequest::form;
    char error[256] = {};  // not empty: nothing else counts
    char name[64] = {}, region[256] = {}, build[64] = {};
    bool software = false, interrupts = false, no_vm = false;
    std::uint64_t now = 0, since = 0;  // of the bridge's clock, in microseconds since 1970
    std::uint64_t region_size = 0, region_heap = 0, region_held = 0;
    std::uint32_t channels = 0, warm = 0;
    std::uint64_t clients = 0, came = 0, went[all_ends] = {};  // clients: now
    Counts counts = {};                                        // of all clients, those that are gone too
    std::uint64_t queued = 0;
    std::uint32_t gpu_count = 0;
    ListedGpu gpus[BARCUDA_MAX_DEVICES] = {};
    std::uint32_t next = 0;  // the channel to go on from; 0: that were all
    std::uint32_t count = 0;
    static constexpr std::uint32_t most = 64;  // so that a message fits a socket's buffer
    ListedClient rows[most] = {};              // of which only `count` are sent
    std::size_t bytes() const { return offsetof(ListReply, rows) + count * sizeof(ListedClient); }
};

}  // namespace barcuda
