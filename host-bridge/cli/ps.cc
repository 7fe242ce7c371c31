// SPDX-License-Identifier: Apache-2.0
// ps.cc: `barcuda ps`: the bridges of this machine, their VMs and clients, once.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/cli/options.h"
#include "host-bridge/cli/commands.h"
#include "host-bridge/cli/notices.h"
#include "host-bridge/watch/bridges.h"
#include "host-bridge/watch/json.h"
#include "host-bridge/watch/text.h"

namespace barcuda {
namespace {

using namespace watch;

void print(std::vector<std::vector<std::string>> rows) {
    const std::vector<std::string> lines = columns(std::move(rows));
    for (const std::string& line : lines) fmt::print("{}\n", line);
}

// Keeps only these VMs' bridges, and, where all of them answer, nothing of what is wrong with others. Returns the names
// that no answering bridge has.
std::vector<std::string> keep_only(View& view, const std::vector<std::string>& vms) {
    // Of several bridges with one name each has its pid behind that.
    const auto is_of = [](const Bridge& b, const std::string& vm) {
        return b.name == vm || b.name.starts_with(vm + "/");
    };
    std::erase_if(view.bridges, [&](const Bridge& b) {
        return std::ranges::none_of(vms, [&](const std::string& vm) { return is_of(b, vm); });
    });
    std::vector<std::string> missing = vms;
    std::erase_if(missing, [&](const std::string& vm) {
        return std::ranges::any_of(view.bridges, [&](const Bridge& b) { return is_of(b, vm); });
    });
    if (missing.empty()) {
        view.silent.clear();
        view.complaints.clear();
    }
    for (const std::string& vm : missing)
        view.complaints.push_back(
            fmt::format("there is no VM with the name {} whose bridge answers{}", printable(vm),
                        view.others ? "; bridges of other users run on this machine, which root may see" : ""));
    return missing;
}

int ps(const std::vector<std::string>& vms, bool json) {
    View view = look(false);
    const bool all_there = vms.empty() || keep_only(view, vms).empty();
    for (const std::string& complaint : view.complaints) fmt::print(stderr, "barcuda ps: {}\n", complaint);
    const int status = view.silent.empty() && all_there ? 0 : 1;
    if (json) {
        fmt::print("{}\n", json_of(view).dump(1));
        return status;
    }
    if (view.bridges.empty() && view.silent.empty()) {
        if (all_there) fmt::print("{}\n", with_hint(nobody_serves(view)));
        return status;
    }
    std::vector<std::vector<std::string>> bridges = {
        {"VM", ">BRIDGE", ">AGE", ">CLIENTS", ">CHANNELS", ">REGION", ">OF", ">GPU", ">GPU MEMORY", ">OF", "NAME"}};
    std::vector<std::vector<std::string>> clients = {
        {"VM", ">CHANNEL", ">PID", "USER", "PROGRAM", ">AGE", ">GPU MEMORY", ">REGION", ">WORKER", "STATE"}};
    for (const Bridge& b : view.bridges) {
        std::vector<std::string> row = {b.name,
                                        std::to_string(b.pid),
                                        age(b.age),
                                        std::to_string(b.clients),
                                        std::to_string(b.channels),
                                        size(b.region_held),
                                        size(b.region_heap)};
        for (std::size_t d = 0; d < b.gpus.size(); ++d) {
            const watch::Gpu& gpu = b.gpus[d];
            row.insert(row.end(), {std::to_string(d), size(gpu.held), size(gpu.memory), gpu.name});
            bridges.push_back(row);
            row = {"", "", "", "", "", "", ""};
        }
        for (const Client& c : b.rows)
            clients.push_back({b.name, std::to_string(c.channel), std::to_string(c.pid), c.user.empty() ? "?" : c.user,
                               c.program, age(c.age), size(c.all_device_memory()), size(c.region_memory),
                               c.worker ? std::to_string(c.worker) : "-", c.worker ? c.state : "-"});
    }
    for (const SilentBridge& b : view.silent) {
        std::vector<std::string> row(bridges[0].size());
        row[0] = "?";
        row[1] = b.pid ? std::to_string(b.pid) : "?";
        row[2] = "silent";
        bridges.push_back(row);
    }
    print(bridges);
    if (view.bridges.empty()) return status;
    if (clients.size() == 1) {
        fmt::print("\nNo client uses them.\n");
        return status;
    }
    fmt::print("\n");
    print(clients);
    return status;
}

}  // namespace

void add_ps(App& app) {
    const auto json = std::make_shared<bool>(false);
    const auto vms = std::make_shared<std::vector<std::string>>();
    Command command = app.add("ps", "on a host: running bridges, their VMs and clients; root sees all users' bridges",
                              [json, vms] { return ps(*vms, *json); });
    command.add_option("VM", *vms, "only these, by their names");
    add_json(command, *json);
}

}  // namespace barcuda
