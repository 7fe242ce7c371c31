// SPDX-License-Identifier: Apache-2.0
// books.h: what the bridge has written down about its clients: plain records, without a process, a descriptor or a
// mapping in them. (Memory that clients hold is in grants.h and quotas.h, what they share in shared.h.)
#pragma once
#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "host-bridge/between/limits.h"
#include "host-bridge/between/link.h"
#include "host-bridge/between/list_link.h"

namespace barcuda {

// Of one client: for lists while it is there, and for the log when it has gone.
struct ClientRecord {
    std::uint32_t pid = 0;  // this and the next line: as the guest says
    std::string program, user;
    pid_t worker = 0;  // 0: it was given none
    std::chrono::system_clock::time_point since = std::chrono::system_clock::now();
    Counts counts{};
    std::uint64_t most_device_memory = 0, most_region_memory = 0;
    std::optional<End> end;
    std::string how;  // it ended

    bool is_a_client() const { return worker || end; }         // a process that only asks NVML is none
    void note_end(End how_it_ended, const std::string& text);  // the first reason counts
    std::string text() const;                                  // pid, user and program
};

// Limits of one client alone.
using OwnLimits = std::array<std::optional<std::uint64_t>, limit_count>;

// Of all clients that have come.
struct Totals {
    std::uint64_t came = 0, went[all_ends] = {};
    Counts counts{};  // of those that have gone

    // Adds a client that has gone. Returns what the log says of it; empty: it was none.
    std::string close(ClientRecord& record);
};

void add(Counts& sum, const Counts& more);

}  // namespace barcuda
