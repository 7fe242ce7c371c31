// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/kubernetes/shares.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "host-bridge/watch/region_file.h"

namespace barcuda::kubernetes {
namespace {

constexpr std::size_t most_complaints = 256;  // a bridge may report a new name each second

std::string bridge_of(const std::string& id) { return id.substr(0, id.rfind('-')); }

// Whether both the kubelet (63 characters for an id) and CDI accept the name.
bool can_be_named(const std::string& name) {
    constexpr std::size_t most = 58;
    const auto plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
    return !name.empty() && name.size() <= most && plain(name.front()) && plain(name.back()) &&
           std::ranges::all_of(name, [&](char c) { return plain(c) || c == '-' || c == '_' || c == '.'; });
}

}  // namespace

Shares::Shares(unsigned each, bool vms, std::set<std::string> names)
    : each_(vms ? 1 : each), vms_(vms), names_(std::move(names)) {}

bool Shares::update(const watch::View& view) {
    const std::lock_guard lock(mutex_);
    std::map<std::string, Bridge> now = bridges_;
    for (auto& [name, bridge] : now) bridge.healthy = false;
    for (const watch::Bridge& b : view.bridges) {
        if (b.no_vm == vms_ || (!names_.empty() && !names_.contains(b.name))) continue;
        std::string why = "its name cannot be the name of a device, or another bridge has it";
        if (can_be_named(b.name)) {
            const watch::RegionFile file = watch::region_file(b.region, b.door, b.user);
            if (file.error.empty()) now[b.name] = {file.path, b.door, b.user, true};
            why = file.error;
        }
        if (!why.empty() && refused_.size() < most_complaints && refused_.insert(b.name + why).second)
            log::warn("the bridge {} is left out: {}", b.name, why);
    }
    for (const auto& [name, bridge] : now)
        if (const auto before = bridges_.find(name); before == bridges_.end() || before->second != bridge)
            log::info("{}: {}, {}", name, bridge.region, bridge.healthy ? "healthy" : "unhealthy");
    const bool changed = now != bridges_;
    bridges_ = std::move(now);
    return changed;
}

std::vector<Share> Shares::list() const {
    const std::lock_guard lock(mutex_);
    std::vector<Share> all;
    for (const auto& [name, bridge] : bridges_)
        for (unsigned i = 0; i < each_; ++i) all.push_back({fmt::format("{}-{}", name, i), bridge.healthy});
    return all;
}

std::map<std::string, std::string> Shares::regions() const {
    const std::lock_guard lock(mutex_);
    std::map<std::string, std::string> all;
    for (const auto& [name, bridge] : bridges_)
        if (bridge.healthy) all[name] = bridge.region;
    return all;
}

std::optional<Shares::Chosen> Shares::choose(const std::vector<std::string>& ids, std::string& error) const {
    const auto all = list();
    std::set<std::string> names;
    for (const std::string& id : ids) {
        if (std::ranges::find(all, id, &Share::id) == all.end()) {
            error = fmt::format("{}: there is no such share of a bridge", id);
            return std::nullopt;
        }
        names.insert(bridge_of(id));
    }
    if (names.size() != 1) {
        error =
            fmt::format("a container gets shares of one bridge, not of {}: {}", names.size(), fmt::join(names, ", "));
        return {};
    }
    const std::lock_guard lock(mutex_);
    const auto& [name, bridge] = *bridges_.find(*names.begin());
    if (!bridge.healthy) {
        error = fmt::format("{}: its bridge does not answer; start it on the node", name);
        return std::nullopt;
    }
    const watch::RegionFile file = watch::region_file(bridge.region, bridge.door, bridge.user);
    if (!file.error.empty()) {
        error = fmt::format("{}: {}", name, file.error);
        return std::nullopt;
    }
    return Chosen{name, file.path};
}

std::vector<std::string> Shares::prefer(std::vector<std::string> available, const std::vector<std::string>& must,
                                        std::size_t size) const {
    std::map<std::string, std::size_t> free;
    for (const std::string& id : available) ++free[bridge_of(id)];
    const auto first = must.empty() ? std::ranges::max_element(free, {}, [](const auto& b) { return b.second; })
                                    : free.find(bridge_of(must.front()));
    const std::string wanted = first == free.end() ? std::string() : first->first;
    const auto rank = [&](const std::string& id) {  // first those that must be chosen, then others of the same bridge
        return std::ranges::find(must, id) != must.end() ? 0 : bridge_of(id) == wanted ? 1 : 2;
    };
    std::ranges::stable_sort(available, {}, rank);
    if (available.size() > size) available.resize(size);
    return available;
}

}  // namespace barcuda::kubernetes
