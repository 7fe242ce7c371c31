// SPDX-License-Identifier: Apache-2.0
// cage.h: what a worker cannot do, even after a client has taken it over. The bridge decides once which measures apply
// (Plan), tries them in a separate process, and sends each worker its Order. The worker first takes the measures under
// which its driver can start (enter), opens its driver, and then gives up what only the start needs (close). Each
// measure is a row of a table (measures.cc); its name switches it off.
#pragma once
#include <sys/types.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/failure.h"
#include "base/message.h"
#include "host-bridge/between/cage_order.h"

namespace barcuda::cage {

struct About {
    const char* name;
    const char* what;  // ends the sentence "a worker has ..." or "a worker cannot ..."
};
const About& about(Measure measure);

// Where the software GPU puts compiled kernels: a range whose size is a power of two, aligned to that size. Empty:
// nowhere.
struct CodePlace {
    std::uintptr_t base = 0;
    std::size_t size = 0;
};

class OwnUser;  // users.h

struct Wish {             // what the operator asks for
    std::string without;  // names of measures, separated by commas, or "all"
    std::string with;     // the same; the bridge starts only if these are available
    std::string user;     // of workers; empty: root's bridge takes one for them alone
    // the workers' user, if the bridge was started as root and stepped down (users.h)
    std::shared_ptr<const OwnUser> own;
    std::string calls;  // names of system calls, separated by commas, that are allowed in addition
    bool record = false;
    bool wrapped = false, software = false;  // a tool runs around the worker; its driver is the software GPU
};

// What a bridge's workers see instead of the host's network, System V objects and mounts (namespaces.cc).
class Namespaces {
  public:
    // Makes the namespaces among the measures of `order`. `library`: where the driver is. `users`: a namespace of users
    // that owns them; -1: the one that this process may use.
    explicit Namespaces(const Order& order, const std::string& library = {}, int users = -1) {
        make(order, library, users);
    }
    static bool any_in(const Order& order);
    int error(Measure measure) const;  // 0, or why the namespace does not exist
    // Joins the namespaces among the measures of `order`; all of them must exist. The calling process must have one
    // thread. False: one cannot be joined, and errno says why; with `failed`, join() reports such a measure and
    // continues with the others.
    bool join(const Order& order, const std::function<void(Measure)>& failed = {}) const;
    static constexpr std::size_t kinds = 3;

  private:
    void make(const Order& order, const std::string& library, int users);
    bool enter(std::size_t kind) const;
    std::array<File, kinds> files_;
    File users_, root_;
    std::array<int, kinds> errors_{};
};

// More files of the host that the operator shows to workers, separated by colons (--allow-path).
constexpr auto more_files = "BARCUDA_ALLOW_PATH";

class Groups;  // cgroup.h

struct Plan {
    Order order;
    std::string error;                             // why the workers cannot have this cage
    std::array<std::string, measures> why;         // why a measure is off
    std::array<bool, measures> switched{};         // ... because the operator switched it off
    std::array<bool, measures> named{};            // the operator asked for this one: it must be available
    std::shared_ptr<const Namespaces> namespaces;  // if workers have a measure that is a namespace
    std::shared_ptr<Groups> groups;                // if workers have 'cgroup'
    std::shared_ptr<const OwnUser> own;            // if workers have a user of their own
    bool bridge_keeps_dumps = false;               // the bridge does not take 'dumpable' for itself either
};

// Checks a list of measures.
Failure check_names(const std::string& names);
// Checks a list of system calls, and writes it into `order`.
Failure allow_calls(const std::string& names, Order& order);
// The plan for what the operator asks for, before anything is tried.
Plan decide(const Wish& wish);
// The same, without the measures that are not available here: each one is tried in a child process, where it does no
// harm. `library`: the driver. `region`: the region that the workers will serve; -1: no particular one. `meanwhile`
// runs while the child tries the measures, with the plan that applies if all are available.
Plan plan(const Wish& wish, const std::string& library, int region = -1,
          const std::function<void(const Plan&)>& meanwhile = {});
// Logs which measures are off.
void report(const Plan& plan);

// A worker's environment, for exec: of this process's variables those that drivers and workers read.
std::vector<char*> environment(const Order& order);

// In a process that becomes a worker, before it executes the worker's program: takes its namespaces and its user.
// False: not available, and errno says why; with `failed`, join() reports such a measure and continues with the others.
bool join(const Plan& plan, const std::function<void(Measure)>& failed = {});
// In the worker.
Failure enter(const Order& order, const std::string& library);
// After the driver's start; applies to all threads. `denied` is memory that outlives the process: the worker writes the
// number of the system call that ends it there.
Failure close(const Order& order, std::uint32_t* denied, CodePlace code = {});

// The bridge's own measures at its start: it never gains privileges, and it leaves no core dump.
void enter_bridge(const Plan& plan);
// Called when the bridge listens at all of its sockets, and before it starts another process. From then on the bridge,
// its workers and its exporter cannot make certain calls (Measure::bridge).
Failure close_bridge(const Plan& plan);

// "called socket, which its cage denies (syscalls)"
std::string denied(std::uint32_t call);

}  // namespace barcuda::cage
