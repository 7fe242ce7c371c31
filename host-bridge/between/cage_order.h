// SPDX-License-Identifier: Apache-2.0
// cage_order.h: which measures there are around a worker, and the bridge's order for one (cage/cage.h).
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

// What one worker is to do, sent as it is (link.h).
struct Order {
    std::uint32_t on = 0;   // a bit for each measure
    bool software = false;  // its driver is the software GPU, whose every system call is known
    bool record = false;    // system calls beyond the software GPU's are told in the log, and done
    uid_t user = 0;         // and its groups, of which the first is the main one
    unsigned group_count = 0;
    std::array<gid_t, 64> groups{};
    unsigned allowed_count = 0;  // system calls beyond its driver's list (--allow-call)
    std::array<std::int32_t, 64> allowed{};
    bool allows(int call) const {
        return std::find(&allowed[0], &allowed[allowed_count], call) != &allowed[allowed_count];
    }
    bool has(Measure m) const { return on >> static_cast<unsigned>(m) & 1; }
    void drop(Measure m) { on &= ~(1u << static_cast<unsigned>(m)); }
};

}  // namespace barcuda::cage
