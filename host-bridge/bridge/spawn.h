// SPDX-License-Identifier: Apache-2.0
// spawn.h: what the bridge starts, as one value, and the fork and exec that do so. The child enters its control group
// and its namespaces, puts its descriptors in their places and executes its command; what fails on the way is said by
// its exit status.
#pragma once
#include <sys/resource.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "host-bridge/cage/cage.h"

namespace barcuda {

struct Spawn {
    struct Given {
        int file;   // of this process; -1: nothing is open there
        int place;  // in the child
    };
    std::string program;                 // its path
    std::vector<std::string> command;    // its name and its arguments
    std::vector<Given> files;            // all other descriptors behind the last place are closed
    std::optional<std::string> devices;  // CUDA_VISIBLE_DEVICES; else as here
    bool wrapped = false;                // another program is around the worker: it keeps the whole environment
    bool before_cage = false;            // this process has not taken on its own part of the cage yet: the child does
    const cage::Plan* cage = nullptr;    // null: none
    std::string group;                   // the control group to join; empty: none
    std::optional<rlimit> open_files;
    bool sibling = false;  // it becomes the child of this process's parent, the keeper (keeper/keeper.h)
};

// How a child ends that did not come as far as its command.
constexpr int no_descriptors = 125, no_namespaces = 124, no_group = 123, no_command = 127;

// The child; -1, with errno: there is none.
pid_t spawn(const Spawn& what);

}  // namespace barcuda
