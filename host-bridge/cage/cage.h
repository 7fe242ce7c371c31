// SPDX-License-Identifier: Apache-2.0
// cage.h: what a worker cannot do, though a client may have taken it over. The bridge decides once which measures
// there are to be (Plan), tries them in a process of its own, and tells each worker (Order). The worker takes on
// those that its driver can start under (enter), opens its driver, and then gives up what only a start needs (close).
// Each measure is a row of a table (measures.cc), and its name switches it off.
#pragma once
#include <sys/types.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/message.h"
#include "host-bridge/between/cage_order.h"

namespace barcuda::cage {

struct About {
    const char* name;
    const char* what;  // a worker has, or cannot do
};
const About& about(Measure measure);

// Where the software GPU puts compiled kernels: a range that is aligned to its size, a power of two. Empty: nowhere.
struct CodePlace {
    std::uintptr_t base = 0;
    std::size_t size = 0;
};

class OwnUser;  // users.h

struct Wish {                            // the operator's
    std::string without;                 // names of measures, with commas between, or "all"
    std::string with;                    // the same: they are on all the same, or the bridge does not start
    std::string user;                    // of workers; empty: one that nobody else has, of root's bridge
    std::shared_ptr<const OwnUser> own;  // which a bridge that is not root's any more has from when it was (users.h)
    std::string calls;                   // names of system calls, with commas between, that are allowed all the same
    bool record = false;
    bool wrapped = false, software = false;  // a tool is around the worker; its driver is the software GPU
};

// What the workers of a bridge see in place of the host's network, System V objects and mounts (namespaces.cc).
class Namespaces {
  public:
    // Those among its measures. The driver lies in `library`.
    // `users`: a namespace that they are to belong to; -1: what this process may make them in.
    explicit Namespaces(const Order& order, const std::string& library = {}, int users = -1) {
        make(order, library, users);
    }
    static bool any_in(const Order& order);
    int error(Measure measure) const;  // 0, or why there is none
    // Those among the measures of `order`, all of which are there. For a process without threads. False: one cannot be joined, with errno;
    // where `failed` is told of such ones it goes on to the others.
    bool join(const Order& order, const std::function<void(Measure)>& failed = {}) const;
    static constexpr std::size_t kinds = 3;

  private:
    void make(const Order& order, const std::string& library, int users);
    bool enter(std::size_t kind) const;
    std::array<File, kinds> files_;
    File users_, root_;
    std::array<int, kinds> errors_{};
};

// What the operator shows workers of the host's files besides, with colons between (--allow-path).
constexpr auto more_files = "BARCUDA_ALLOW_PATH";

class Groups;  // cgroup.h

struct Plan {
    Order order;
    std::string error;                             // the wish cannot be had
    std::array<std::string, measures> why;         // a measure is off
    std::array<bool, measures> switched{};         // ... since the operator says so
    std::array<bool, measures> named{};            // the operator has asked for this one: it must be to be had
    std::shared_ptr<const Namespaces> namespaces;  // where workers have a measure that is one
    std::shared_ptr<Groups> groups;                // where they have 'cgroup'
    std::shared_ptr<const OwnUser> own;            // where they have a user that nobody else has
    bool bridge_keeps_dumps = false;               // nor has the bridge itself the measures that are its own, too
};

// What is wrong with such a list; empty: nothing.
std::string check_names(const std::string& names);
// Such a list of calls, into `order`; or what is wrong with it.
std::string allow_calls(const std::string& names, Order& order);
// What the wish comes to, by itself.
Plan decide(const Wish& wish);
// The same, less what cannot be had here: tries each measure in a child, where nothing is lost by it. `library`: the
// driver's. `region`: that workers are to serve; -1: none in particular. `meanwhile` is called while the child does so, with the plan that
// holds if it finds nothing missing.
Plan plan(const Wish& wish, const std::string& library, int region = -1,
          const std::function<void(const Plan&)>& meanwhile = {});
// Says in the log what is off.
void report(const Plan& plan);

// What a worker starts with, for exec: of this process's environment what drivers and workers read.
std::vector<char*> environment(const Order& order);

// In a process that is to be a worker, before it starts the worker's program: its namespaces and its user. False, with errno: not
// to be had; where `failed` is told of such a measure it goes on to the others.
bool join(const Plan& plan, const std::function<void(Measure)>& failed = {});
// In the worker. An error text, or nothing.
std::string enter(const Order& order, const std::string& library);
// After the driver's start, in all threads. `denied` is memory that outlives the process: there the worker writes the
// number of the system call that it ends for.
std::string close(const Order& order, std::uint32_t* denied, CodePlace code = {});

// The bridge's own, at its start: it never gains a privilege, and leaves no core dump.
void enter_bridge(const Plan& plan);
// When all is open that it listens at, and before it starts another process: what it cannot call then (Measure::bridge)
// neither can its workers nor its exporter. An error text, or nothing.
std::string close_bridge(const Plan& plan);

// "called socket, which its cage denies (syscalls)"
std::string denied(std::uint32_t call);

}  // namespace barcuda::cage
