// SPDX-License-Identifier: Apache-2.0
// bridges.h: the bridges of this machine, and what each says about itself and its clients (list_link.h): the data of
// `barcuda ps`, `top` and `metrics`. A bridge is found by its door (limits_link.h); a user without access to the door
// learns only that the bridge exists. What comes from a guest, or from another user's bridge, is sanitized here: text
// without control characters, numbers within their ranges.
#pragma once
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/message.h"
#include "host-bridge/between/list_link.h"

namespace barcuda::watch {

using Percent = std::optional<unsigned>;  // none: unknown

struct Gpu {
    std::string name, uuid;
    std::uint64_t memory = 0, held = 0;  // bytes: in all; held by the VM's clients
    Percent busy;                        // by all users of the GPU
};

struct Client {
    unsigned channel = 0, pid = 0;  // pid in the guest
    int worker = 0;                 // pid; 0: none
    std::string program, user;      // in the guest
    double age = 0;                 // seconds
    // running, held, away ... (pause_states.h); of one that is not paused, on a shared card: waits (for memory), out
    // (some of its memory is in the store)
    std::string state;
    double paused_for = 0;  // seconds since it was held or moved away; 0: it runs
    std::uint64_t region_memory = 0, most_region_memory = 0, most_device_memory = 0, queued = 0;
    std::vector<std::uint64_t> device_memory;  // by GPU
    std::vector<Percent> busy;                 // by GPU
    SharedMemory shared{};
    Counts counts{};

    std::uint64_t all_device_memory() const;
    Percent all_busy() const;  // the sum, which can be more than 100 with several GPUs
};

struct Bridge {
    pid_t pid = 0;
    uid_t user = 0;
    std::string door;                 // the socket where it was asked
    std::string name, region, build;  // as the bridge says
    bool software = false, interrupts = false, no_vm = false;
    double began = 0, age = 0;  // seconds since 1970; seconds
    std::uint64_t region_size = 0, region_heap = 0, region_held = 0;
    unsigned channels = 0, warm = 0;
    std::uint64_t clients = 0, came = 0, queued = 0;
    std::array<std::uint64_t, all_ends> went{};
    Counts counts{};  // of all clients, also those that have ended
    bool shares_cards = false;
    std::uint64_t store = 0, store_held = 0;  // bytes
    SharedMemory shared{};                    // of all clients, also those that have ended
    std::vector<Gpu> gpus;
    std::vector<Client> rows;  // clients, and processes that only ask for the state of the GPUs
};

// A bridge that has not answered: it hangs, or too many processes ask it.
struct SilentBridge {
    pid_t pid = 0;
    uid_t user = 0;
};

struct View {
    std::vector<Bridge> bridges;          // by name
    std::vector<SilentBridge> silent;     // not in `bridges`
    std::vector<std::string> complaints;  // sentences about bridges that could not be asked
    unsigned others = 0;                  // bridges of other users, which do not answer us
};

// Where to ask bridges: all that listen on this machine, or the one that serves a region.
class Doors {
  public:
    // `users`: only their bridges (empty: all users'). Any user may listen at such a door and say anything.
    explicit Doors(const std::string& region = {}, std::set<uid_t> users = {});
    struct Found {
        std::set<std::string> doors;
        unsigned others = 0;  // doors of users that we may not ask
    };
    Found list() const;
    bool believes(uid_t user) const { return users_.empty() || users_.contains(user); }

  private:
    std::set<uid_t> users_;
    std::string begins_;  // the doors' names begin with this
    File folder_;         // opened once, because a program that looks repeatedly may later be unable to open files
};

// Asks all of them at once. `busy`: also asks how busy the GPUs are, which makes the monitor ask NVML.
View look(bool busy, const Doors& doors = Doors());
// The same, once, for a caller that does not look again soon: waits until the monitor has asked NVML.
View look_at_gpus(const Doors& doors = Doors());

std::string printable(const std::string& text);  // ASCII; the rest as \xNN

}  // namespace barcuda::watch
