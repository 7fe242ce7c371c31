// SPDX-License-Identifier: Apache-2.0
// spawn.h: what the bridge starts (a worker, its monitor, its exporter), as one value, and the fork and exec that do
// it. The child enters its control group and its namespaces, moves its descriptors to their numbers and executes its
// command; its exit status says what failed on the way.
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
        int file;   // of this process; -1: none is open at that number
        int place;  // in the child
    };
    std::string program;                 // its path
    std::vector<std::string> command;    // its name and its arguments
    std::vector<Given> files;            // all other descriptors above the last number are closed
    std::optional<std::string> devices;  // CUDA_VISIBLE_DEVICES; none: as here
    bool wrapped = false;                // another program is around the worker: it keeps the whole environment
    bool before_cage = false;            // this process has not taken its own part of the cage yet, so the child does
    const cage::Plan* cage = nullptr;    // null: none
    std::string group;                   // the control group to join; empty: none
    std::optional<rlimit> open_files;
    // Where it has its memory: where this process would, away from guest programs' addresses (BARCUDA_DEVICE_BASE), or
    // away from them and at the same addresses in every process of the program.
    enum class Addresses { as_here, apart, fixed } addresses = Addresses::as_here;
    bool sibling = false;  // it becomes the child of this process's parent, the keeper (keeper/keeper.h)
};

// The exit status of a child that did not reach its command.
constexpr int no_descriptors = 125, no_namespaces = 124, no_group = 123, no_command = 127;

// Returns the child; -1: there is none, and errno says why.
pid_t spawn(const Spawn& what);

}  // namespace barcuda
