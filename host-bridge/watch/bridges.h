// SPDX-License-Identifier: Apache-2.0
// bridges.h: the bridges of this machine, and what each says of itself and its clients (list_link.h): what `barcuda ps`, `top` and
// `metrics` show. A bridge is found by its door (limits_link.h); who may not knock there hears nothing of it but that there is one. What comes from a
// guest, or from a bridge of another user, is made plain here: text without what a terminal obeys, numbers within their ranges.
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

using Percent = std::optional<unsigned>;  // none: nobody knows

struct Gpu {
    std::string name, uuid;
    std::uint64_t memory = 0, held = 0;  // bytes: all of it; what the VM's clients have
    Percent busy;                        // whoever uses it
};

struct Client {
    unsigned channel = 0, pid = 0;  // the guest's pid
    int worker = 0;                 // its pid; 0: none
    std::string program, user;      // in the guest
    double age = 0;                 // seconds
    std::string state;              // running, held, away ... (pause_states.h)
    double paused_for = 0;          // seconds that it has been held or away; 0: it runs
    std::uint64_t region_memory = 0, most_region_memory = 0, most_device_memory = 0, queued = 0;
    std::vector<std::uint64_t> device_memory;  // by GPU
    std::vector<Percent> busy;                 // likewise
    Counts counts{};

    std::uint64_t all_device_memory() const;
    Percent all_busy() const;  // the sum, which is more than 100 with several GPUs
};

struct Bridge {
    pid_t pid = 0;
    uid_t user = 0;
    std::string door;                 // where it was asked
    std::string name, region, build;  // as it says
    bool software = false, interrupts = false, no_vm = false;
    double began = 0, age = 0;  // seconds since 1970; seconds
    std::uint64_t region_size = 0, region_heap = 0, region_held = 0;
    unsigned channels = 0, warm = 0;
    std::uint64_t clients = 0, came = 0, queued = 0;
    std::array<std::uint64_t, all_ends> went{};
    Counts counts{};  // of all clients, those that are gone too
    std::vector<Gpu> gpus;
    std::vector<Client> rows;  // clients, and processes that only ask how the GPUs are doing
};

// One that has not said anything of itself: it stands still, or too many ask it.
struct SilentBridge {
    pid_t pid = 0;
    uid_t user = 0;
};

struct View {
    std::vector<Bridge> bridges;          // by name
    std::vector<SilentBridge> silent;     // not among those
    std::vector<std::string> complaints;  // sentences: bridges that could not be asked
    unsigned others = 0;                  // bridges of other users, which tell us nothing
};

// Where bridges are asked: all that listen on this machine, or the one that serves a region.
class Doors {
  public:
    // `users`: only theirs (empty: everybody's). Any user may listen at such a door and say anything.
    explicit Doors(const std::string& region = {}, std::set<uid_t> users = {});
    struct Found {
        std::set<std::string> doors;
        unsigned others = 0;  // of users whom we may not ask
    };
    Found list() const;
    bool believes(uid_t user) const { return users_.empty() || users_.contains(user); }

  private:
    std::set<uid_t> users_;
    std::string begins_;  // as the doors' names do
    File folder_;         // opened once, since who looks again and again may not be able to open files any more
};

// Asks all of them at once; `busy`: how busy the GPUs are, too, for which NVML is asked.
View look(bool busy, const Doors& doors = Doors());
// The same, once, for who does not look again soon: waits until NVML has been asked.
View look_at_gpus(const Doors& doors = Doors());

std::string printable(const std::string& text);  // ASCII; the rest as \xNN

}  // namespace barcuda::watch
