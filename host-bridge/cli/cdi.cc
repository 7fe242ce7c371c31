// SPDX-License-Identifier: Apache-2.0
// cdi.cc: `barcuda cdi`: a specification with which container engines give a bridge's GPUs to a container: in a guest
// the module's devices, on a host regions.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <regex>

#include "base/cli/installation.h"
#include "base/cli/names.h"
#include "host-bridge/cli/commands.h"
#include "host-bridge/cli/container.h"
#include "host-bridge/watch/region_file.h"
#include "shm-device/doors/service_messages.h"

namespace barcuda {
namespace {

namespace fs = std::filesystem;

// The device nodes of this guest's module.
std::vector<std::string> nodes() {
    std::vector<std::string> all;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator("/sys/class/uio", none)) {
        std::string name;
        std::getline(std::ifstream(entry.path() / "name"), name);
        if (name == "barcuda") all.push_back("/dev/" + entry.path().filename().string());
    }
    return all;
}

// What is no VENDOR/CLASS as CDI has it (SPEC.md, "kind"): its complaint, for the command line.
std::string check_kind(const std::string& kind) {
    static const std::regex form("[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?/[A-Za-z]([A-Za-z0-9_-]*[A-Za-z0-9])?");
    if (kind.size() <= 126 && std::regex_match(kind, form)) return {};
    return fmt::format("{} is no kind of device: VENDOR/CLASS, such as nvidia.com/gpu", kind);
}

// Prints a CDI specification (Container Device Interface) of these VMs' bridges, or of this guest's devices, as devices
// of that kind. `region`: the region's file, if it is not /dev/shm/barcuda-NAME; only with one VM.
int cdi(const std::vector<std::string>& vms, const std::string& region, const std::string& kind) {
    if (vms.size() != 1 && !region.empty())
        return complain("cdi", "--region needs the name of exactly one bridge", wrong_usage);
    const Installation here = installation();
    if (const std::string lacks = check(here); !lacks.empty()) return complain("cdi", lacks);
    std::map<std::string, container::Edits> devices;
    std::string none;
    const std::set<uid_t> owners = watch::believed_users({}, none);
    for (const std::string& name : vms) {
        const std::string wanted = fs::absolute(region.empty() ? container::usual_region(name) : region);
        const watch::RegionFile file = watch::region_file(wanted, owners);
        // A container engine mounts whatever is at that path.
        if (!file.error.empty()) return complain("cdi", file.error);
        devices[name] = container::region(file.path);
    }
    const auto next = [&] { return fmt::format("gpu{}", devices.size()); };
    if (vms.empty())
        for (const std::string& node : nodes()) devices[next()] = container::node(node);
    if (vms.empty() && fs::exists(door::usual_path)) devices[next()] = container::region(door::usual_path);
    if (devices.empty()) return complain("cdi", "no GPU of a VM here: name bridges, as in `barcuda cdi vm1`");
    if (devices.size() == 1) devices["all"] = devices.begin()->second;  // as NVIDIA's tool names them
    container::Edits all = container::library(here);
    if (kind.starts_with("nvidia.com/")) all.mounts.push_back(container::nvidia_smi(here));
    fmt::print("{}\n", container::specification(devices, all, kind).dump(2));
    return 0;
}

struct CdiOptions {
    std::vector<std::string> bridges;
    std::string region, kind = container::kind;
};

}  // namespace

void add_cdi(App& app) {
    const auto options = std::make_shared<CdiOptions>();
    const Command command =
        app.add("cdi", "for containers: a CDI specification of this guest's GPUs, or of bridges of this host",
                [options] { return cdi(options->bridges, options->region, options->kind); });
    command
        .add_option("NAME", options->bridges, "of bridges, as in barcuda-bridge@NAME (default: this guest's devices)")
        .check(check_name);
    command.add_option("--region", options->region, "the bridge's file (default: /dev/shm/barcuda-NAME)");
    command
        .add_option("--as", options->kind,
                    fmt::format("VENDOR/CLASS of the devices' names (default: {}); nvidia.com/gpu for what is written "
                                "for NVIDIA's",
                                container::kind))
        .check(check_kind);
}

}  // namespace barcuda
