// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/cli/container.h"

#include <fmt/format.h>

#include <filesystem>

namespace barcuda::container {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr auto inside = "/run/barcuda/region";  // where a container finds a region: a container has its own /dev/shm

json in_cdi(const Edits& edits) {
    json all = json::object();
    for (const Mount& m : edits.mounts)
        all["mounts"].push_back({{"hostPath", m.from},
                                 {"containerPath", m.to},
                                 {"options", {m.read_only ? "ro" : "rw", "rbind", "nosuid", "nodev"}}});
    for (const auto& [name, value] : edits.variables) all["env"].push_back(fmt::format("{}={}", name, value));
    for (const std::string& path : edits.nodes) all["deviceNodes"].push_back({{"path", path}, {"permissions", "rw"}});
    return all;
}

}  // namespace

Edits library(const Installation& here) {
    const std::string folder = fs::path(here.library).parent_path();
    return {{{folder, folder, true}}, {{"LD_PRELOAD", here.library}, {"LD_LIBRARY_PATH", here.links}}, {}};
}

Mount nvidia_smi(const Installation& here) { return {here.command, "/usr/bin/nvidia-smi", true}; }

Edits region(const std::string& file) {
    return {{{fs::absolute(file), inside, false}}, {{"BARCUDA_REGION", inside}}, {}};
}

Edits node(const std::string& path) { return {{}, {}, {path}}; }

std::string usual_region(const std::string& vm) { return "/dev/shm/barcuda-" + vm; }

json specification(const std::map<std::string, Edits>& devices, const Edits& all, const std::string& of_kind) {
    json each = json::array();
    for (const auto& [name, edits] : devices) each.push_back({{"name", name}, {"containerEdits", in_cdi(edits)}});
    return {{"cdiVersion", "0.5.0"}, {"kind", of_kind}, {"devices", each}, {"containerEdits", in_cdi(all)}};
}

}  // namespace barcuda::container
