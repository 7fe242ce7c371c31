// SPDX-License-Identifier: Apache-2.0
// cage_order.h: the measures that can confine a worker, and the bridge's order for one worker (cage/cage.h).
#pragma once
#include <sys/types.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace barcuda::cage {

enum class Measure : unsigned {
    environment,
    folder,
    descriptors,
    core,
    oom,
    cgroup,
    network,
    ipc,
    mounts,
    privileges,
    files,
    user,
    capabilities,
    dumpable,
    syscalls,
    extents,
    bridge,
    count
};
constexpr unsigned measures = static_cast<unsigned>(Measure::count);

// What one worker must do; sent as it is (link.h).
struct Order {
    std::uint32_t on = 0;   // a bit for each measure
    bool software = false;  // the driver is the software GPU, whose system calls are all known
    bool record = false;    // system calls that the software GPU does not make are logged and allowed
    uid_t user = 0;         // and its groups; the first is the main one
    unsigned group_count = 0;
    std::array<gid_t, 64> groups{};
    unsigned allowed_count = 0;  // system calls allowed beyond the driver's list (--allow-call)
    std::array<std::int32_t, 64> allowed{};
    bool allows(int call) const {
        return std::find(&allowed[0], &allowed[allowed_count], call) != &allowed[allowed_count];
    }
    bool has(Measure m) const { return on >> static_cast<unsigned>(m) & 1; }
    void drop(Measure m) { on &= ~(1u << static_cast<unsigned>(m)); }
};

}  // namespace barcuda::cage
