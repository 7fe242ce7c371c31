// SPDX-License-Identifier: Apache-2.0
// cdi.cc: `barcuda cdi`: a specification by which engines of containers hand on a bridge's GPUs: in a guest the module's devices, on a host
// regions. Source: the Container Device Interface, github.com/cncf-tags/container-device-interface (SPEC.md, version 0.5.0).
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "host-bridge/cli/commands.h"
#include "shm-device/door.h"

namespace barcuda {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr auto inside = "/run/barcuda/region";  // where a container finds a region: its /dev/shm is its own

json bound(const std::string& from, const std::string& to, const char* how) {
    return {{"hostPath", from}, {"containerPath", to}, {"options", {how, "rbind", "nosuid", "nodev"}}};
}

// Of this guest's module: [(device's name, its node)]
std::vector<std::pair<std::string, std::string>> nodes() {
    std::vector<std::pair<std::string, std::string>> all;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator("/sys/class/uio", none)) {
        std::string name;
        std::getline(std::ifstream(entry.path() / "name"), name);
        if (name == "barcuda")
            all.emplace_back(fmt::format("gpu{}", all.size()), "/dev/" + entry.path().filename().string());
    }
    return all;
}

json device(const std::string& name, json edits) { return {{"name", name}, {"containerEdits", std::move(edits)}}; }

}  // namespace

int cdi(const std::vector<std::string>& vms, const std::string& region) {
    const Installation here = installation();
    if (const std::string lacks = check(here); !lacks.empty()) return fmt::print(stderr, "barcuda cdi: {}\n", lacks), 1;
    json devices = json::array();
    const auto of_region = [&](const std::string& name, const std::string& file) {
        devices.push_back(device(name, {{"mounts", {bound(fs::absolute(file), inside, "rw")}},
                                        {"env", {fmt::format("BARCUDA_REGION={}", inside)}}}));
    };
    for (const std::string& name : vms) of_region(name, region.empty() ? "/dev/shm/barcuda-" + name : region);
    if (vms.empty())
        for (const auto& [name, node] : nodes())
            devices.push_back(device(name, {{"deviceNodes", {{{"path", node}, {"permissions", "rw"}}}}}));
    if (vms.empty() && fs::exists(door::usual_path)) of_region(fmt::format("gpu{}", devices.size()), door::usual_path);
    if (devices.empty())
        return fmt::print(stderr, "barcuda cdi: no GPU of a VM here: name bridges, as in `barcuda cdi vm1`\n"), 1;
    const std::string folder = fs::path(here.library).parent_path();
    const json all = {{"cdiVersion", "0.5.0"},
                      {"kind", "barcuda.dev/gpu"},
                      {"devices", devices},
                      {"containerEdits",
                       {{"mounts", {bound(folder, folder, "ro")}},
                        {"env", {"LD_PRELOAD=" + here.library, "LD_LIBRARY_PATH=" + here.links}}}}};
    fmt::print("{}\n", all.dump(2));
    return 0;
}

}  // namespace barcuda
