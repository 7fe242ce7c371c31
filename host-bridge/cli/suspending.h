// SPDX-License-Identifier: Apache-2.0
// suspending.h: `barcuda suspend` for other commands.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/failure.h"
#include "host-bridge/suspended/set.h"

namespace barcuda {

class Qemu;

struct SuspendOrder {
    const char* command;       // the subcommand's name
    std::string region, vm{};  // without a name: the VM of that region
    std::string door{};        // of the VM with that name
    double within = 10;        // seconds
    // The guest's machine, connected and checked, or none: it is stopped and saved, too, and is still stopped
    // behind that. Whether it goes on is the caller's to say.
    Qemu* guest = nullptr;
};

struct Suspended {
    std::size_t clients = 0;
    std::uint64_t bytes = 0, written = 0;  // of all parts, and of their files
};

// Why the VM of this region can be neither suspended nor moved; empty: it can.
Failure may_leave(const std::string& region);

// Writes the state of a bridge and its clients to that place, and the bridge ends. Returns the command's status: 0, or
// it has said why not, and the clients run as before.
int suspend_to(SetPlace& place, const SuspendOrder& order, Suspended& what);

}  // namespace barcuda
