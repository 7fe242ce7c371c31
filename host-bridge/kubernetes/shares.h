// SPDX-License-Identifier: Apache-2.0
// shares.h: how Kubernetes counts the bridges of this node: each bridge is a number of identical devices, "vm1-0",
// "vm1-1", ..., its shares; a container that requests one becomes a client. A bridge stays in the list, unhealthy while
// it does not answer, or while its region's file does not match what it says.
#pragma once
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "host-bridge/watch/bridges.h"

namespace barcuda::kubernetes {

struct Share {
    std::string id;
    bool healthy;
    bool operator==(const Share&) const = default;
};

class Shares {
  public:
    // `vms`: only bridges that wait for a VM, one share each; otherwise only those with --no-vm. `names`: only these;
    // empty: all.
    Shares(unsigned each, bool vms, std::set<std::string> names);

    // Takes the current bridges. True: something has changed.
    bool update(const watch::View& view);
    std::vector<Share> list() const;
    std::map<std::string, std::string> regions() const;  // of healthy bridges: name, region's file

    // The one bridge of these shares, with its region, which was verified just now. nullopt: `error` says why not, as a
    // sentence.
    struct Chosen {
        std::string name, region;
    };
    std::optional<Chosen> choose(const std::vector<std::string>& ids, std::string& error) const;
    // Chooses `size` of `available`, including `must`. All are of one bridge if possible: the bridge with the most free
    // ones.
    std::vector<std::string> prefer(std::vector<std::string> available, const std::vector<std::string>& must,
                                    std::size_t size) const;

  private:
    struct Bridge {
        std::string region, door;
        uid_t user;
        bool healthy;
        bool operator==(const Bridge&) const = default;
    };
    const unsigned each_;
    const bool vms_;
    const std::set<std::string> names_;
    mutable std::mutex mutex_;  // the kubelet's calls come in threads of their own
    std::map<std::string, Bridge> bridges_;
    std::set<std::string> refused_;  // complaints already logged
};

}  // namespace barcuda::kubernetes
