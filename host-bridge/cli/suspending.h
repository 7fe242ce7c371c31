// SPDX-License-Identifier: Apache-2.0
// suspending.h: `barcuda suspend` for other commands.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

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
    // What took how long, in order, and what its threads were busy with.
    struct Step {
        std::string name;
        double seconds = 0;
        std::uint64_t bytes = 0;  // of a part
        FrameTimes busy{};
    };
    std::vector<Step> steps;
};

// For people: a line for each step.
std::string text_of(const std::vector<Suspended::Step>& steps);

// Why the VM of this region can be neither suspended nor moved; empty: it can.
Failure may_leave(const std::string& region);

// Sends what the clients' memory and code have now, while they run, of as many as can. What it sends is compared later.
Failure send_ahead(const SuspendOrder& order,
                   const std::function<Failure(const std::function<Failure(FrameWriter&)>&)>& send);

// Writes the state of a bridge and its clients to that place, and the bridge ends. Returns the command's status: 0, or
// it has said why not, and the clients run as before.
int suspend_to(SetPlace& place, const SuspendOrder& order, Suspended& what);

}  // namespace barcuda
