// SPDX-License-Identifier: Apache-2.0
// shares.h: the bridges of this node as Kubernetes counts them: each is so many devices that are alike, "vm1-0", "vm1-1", ..., its shares, and each
// container that asks for one is its client. A bridge that was there once stays in the list, unhealthy while it does not answer, or while its
// region's file is not what it says.
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
    // `vms`: bridges that wait for a VM, one share each; else those with --no-vm. `names`: only these; empty: all.
    Shares(unsigned each, bool vms, std::set<std::string> names);

    // What there is now. True: something has changed.
    bool update(const watch::View& view);
    std::vector<Share> list() const;
    std::map<std::string, std::string> regions() const;  // of bridges that are healthy: name, region's file

    // The one bridge that these are shares of, with its region, which has just been verified. nullopt: `error` says why not, as a sentence.
    struct Chosen {
        std::string name, region;
    };
    std::optional<Chosen> choose(const std::vector<std::string>& ids, std::string& error) const;
    // `size` of `available`, `must` among them, all of one bridge if that can be: that with the most of them free.
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
    std::set<std::string> refused_;  // complaints that were made
};

}  // namespace barcuda::kubernetes
