// SPDX-License-Identifier: Apache-2.0
// pause_states.h: the states of a client that can be paused, and the permitted transitions. The worker (worker/hold.h)
// changes the state when the bridge orders it (bridge/pausing.h).
//
//   running --> holding --> held --> away --> returning --> running
//      ^           |          |                   |
//      +-----------+----------+                   +--> stuck
//
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace barcuda {

enum class Paused : std::uint32_t {
    running,
    holding,  // the worker takes no command, and waits until the GPU has finished the client's work
    // the worker takes no command, and the GPU has no work of the client; the client's memory is still on the GPU
    held,
    away,       // the GPU holds nothing of the client: its memory and its contexts are in the worker's own memory
    returning,  // memory and contexts are on their way back
    stuck,      // the driver failed on the way: the client is lost
};
constexpr std::array<std::string_view, 6> paused_names{"running", "holding", "held", "away", "returning", "stuck"};

constexpr std::string_view name_of(Paused state) {
    const auto i = static_cast<std::size_t>(state);
    if (i < paused_names.size()) return paused_names[i];
    return "unknown";
}

constexpr bool may_follow(Paused from, Paused to) {
    using enum Paused;
    switch (from) {
        case running: return to == holding;
        case holding: return to == held || to == running;
        case held: return to == running || to == away || to == stuck;
        case away: return to == returning;
        case returning: return to == running || to == stuck;
        case stuck: return false;
    }
    return false;
}

// What prevented an order. A result of the driver may come with it.
enum class Obstacle : std::uint32_t {
    none,
    order,          // this order is not possible in this state
    work,           // the GPU's work did not end in time
    no_checkpoint,  // the driver has no checkpoint functions
    lock,           // the driver refused to lock the process,
    checkpoint,     // to move its memory away,
    restore,        // to bring the memory back,
    unlock,         // to unlock the process
    unified,        // the driver moves no unified memory
};
constexpr std::string_view text_of(Obstacle obstacle) {
    switch (obstacle) {
        case Obstacle::none: return "";
        case Obstacle::order: return "the worker cannot do this in its state";
        case Obstacle::work:
            return "its GPU work did not end within the time (it may wait for the program): give more with --within";
        case Obstacle::no_checkpoint:
            return "the driver has no checkpoint (NVIDIA's has one from 570 on): --keep-memory holds the client, and "
                   "leaves "
                   "its memory on the GPU";
        case Obstacle::lock: return "the driver did not lock the process";
        case Obstacle::checkpoint: return "the driver did not move the client's memory from the GPU";
        case Obstacle::restore: return "the driver did not bring the client's memory back to the GPU";
        case Obstacle::unlock: return "the driver did not unlock the process";
        case Obstacle::unified:
            return "the driver does not support that for what the client has, as for __managed__ variables, which are "
                   "in its unified memory: --keep-memory holds the client, and leaves its memory on the GPU";
    }
    return "unknown";
}

}  // namespace barcuda
