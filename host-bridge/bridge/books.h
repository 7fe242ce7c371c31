// SPDX-License-Identifier: Apache-2.0
// books.h: what the bridge has written down about its clients: plain records, without a process, a descriptor or a
// mapping in them. (Memory that clients hold is in grants.h and quotas.h, what they share in shared.h.) What a bridge
// must know that goes on with the clients of one that was killed is written in the ledger (ledger.h), as KeptClient.
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
#include "host-bridge/between/records.h"
#include "shm-device/layout.h"

namespace barcuda {

// One client: for lists while it is connected, and for the log at its end.
struct ClientRecord {
    std::uint32_t pid = 0;  // this and the next line: as the guest reports
    std::string program, user;
    pid_t worker = 0;  // 0: it never had one
    std::chrono::system_clock::time_point since = std::chrono::system_clock::now();
    Counts counts{};
    std::uint64_t most_device_memory = 0, most_region_memory = 0;
    std::optional<End> end;
    std::string how;  // it ended

    bool is_a_client() const { return worker || end; }         // a process that only asks NVML is not a client
    void note_end(End how_it_ended, const std::string& text);  // the first reason counts
    std::string text() const;                                  // pid, user and program
};

// The last request of a client's worker: whether it was answered, and how.
struct KeptRequest {
    enum State : std::uint32_t { none, asked, answered };
    State state;
    std::uint32_t bytes;   // of the message
    std::uint64_t number;  // of the request
    std::uint64_t lent;    // to the client before that, of the GPU that the request names
    char message[112];     // the request, or its answer
};

// What `barcuda limit` has made of the bridge's own options.
struct KeptRules {
    std::uint32_t changed;  // 0: nothing
    std::uint32_t weight, priority;
    std::uint64_t client[limit_count], guest[limit_count];
};

// Limits of one client alone.
using OwnLimits = std::array<std::optional<std::uint64_t>, limit_count>;

// A client of which a bridge that comes later must know: one that was given a worker, or was refused. One that waits
// for a worker is met again.
struct KeptClient {
    enum State : std::uint32_t { none, assigned, ended };  // ended: it has no worker any more
    State state;
    std::uint32_t opening;  // of its slot
    std::uint64_t number;   // in the order in which clients came
    std::int32_t worker;
    std::uint64_t base;          // where it has the region; checked
    std::uint32_t told;          // its worker has been sent its Assignment
    std::uint64_t worker_start;  // of /proc/PID/stat: tells a reused pid
    std::uint32_t device_count;
    std::uint8_t devices[BARCUDA_MAX_DEVICES];
    struct {
        std::uint64_t offset, bytes;
    } reserved[Preparation::most];  // what the worker had prepared
    std::uint64_t own[limit_count];
    std::uint32_t own_given;  // a bit for each
    // ---- ClientRecord
    std::uint32_t pid;
    char program[sizeof barcuda_client::program], user[sizeof barcuda_client::user];
    std::int64_t since;  // microseconds since 1970
    Counts counts;
    std::uint64_t most_device_memory, most_region_memory;
    std::uint32_t end;  // End + 1; 0: it goes on
    char how[sizeof barcuda_status::message];

    void take(const ClientRecord& record);
    void take(const OwnLimits& limits);
    ClientRecord record() const;
    OwnLimits limits() const;
};

// Of all clients that have come.
struct Totals {
    std::uint64_t came = 0, went[all_ends] = {};
    Counts counts{};  // of clients that have ended

    // Adds a client that has ended. Returns its line for the log; empty: it was not a client.
    std::string close(ClientRecord& record);
};

// Those that have gone.
struct KeptTotals {
    std::uint64_t came, went[all_ends];
    Counts counts;
    std::uint64_t closed;  // the number of the last of them: it does not count twice
};

void add(Counts& sum, const Counts& more);

}  // namespace barcuda
