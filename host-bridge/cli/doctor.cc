// SPDX-License-Identifier: Apache-2.0
// doctor.cc: `barcuda doctor`: what a host or a guest has, what is missing, and what to do about it. In a guest it does
// not look for what only a host needs.
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <tuple>

#include "base/cli/installation.h"
#include "base/cli/options.h"
#include "guest-allocator/commands/machine.h"
#include "host-bridge/between/device_choice.h"
#include "host-bridge/between/limits_link.h"
#include "host-bridge/cage/cage.h"
#include "host-bridge/cli/commands.h"
#include "host-bridge/cli/findings.h"
#include "host-bridge/watch/bridges.h"
#include "host-bridge/watch/text.h"
#include "shm-device/cuda/version.h"
#include "shm-device/doors/service_messages.h"

namespace barcuda {
namespace {

using namespace doctor;

void look_at_installation(const Machine& machine) {
    const Installation here = installation();
    for (const auto& [what, path, package] : {std::tuple{"guest library", here.library, ""},
                                              {"links", here.links + "/libcuda.so.1", ""},
                                              {"bridge", here.bridge, "barcuda-host"},
                                              {"software GPU", here.software, "barcuda-soft"}}) {
        if (access(path.c_str(), R_OK) == 0) good(fmt::format("{}: {}", what, path));
        else if (*package && machine.bridge) note(fmt::format("no {} here (Debian's package {})", what, package));
        else if (*package) note(fmt::format("no {} here: hosts have it (Debian's package {})", what, package));
        else bad(fmt::format("{}: {}", what, path), "run make, or make install");
    }
}

void look_at_guest(const Machine& machine) {
    for (const std::string& device : machine.devices) good(fmt::format("ivshmem device {}", device));
    if (!machine.pmem.empty()) good(fmt::format("virtio-pmem device {}", machine.pmem));
    constexpr const char* start = "systemctl enable --now barcuda-guest (docs/install.md)";
    if (machine.service) good(fmt::format("the guest's service listens at {}", door::usual_path));
    else if (machine.socket)
        bad(fmt::format("the guest's service: it has ended, but {} is still there", door::usual_path), start);
    else if (!machine.pmem.empty() && machine.devices.empty()) bad("the guest's service", start);
    else if (machine.module) good("kernel module uio_barcuda is loaded");
    else
        bad("kernel module uio_barcuda",
            "modprobe uio_barcuda (DKMS builds it, for Linux 5.10 and newer: docs/install.md)");
}

// Neither a device nor a bridge: the guest's packages are in a VM without the device.
void look_for_device(const Machine& machine) {
    if (!machine.unread_pmem.empty())
        bad("the guest's service, or a device of Barcuda's",
            fmt::format("systemctl enable --now barcuda-guest; `barcuda doctor` as root looks into {}",
                        machine.unread_pmem));
    else
        bad("a device of Barcuda's: this machine has neither an ivshmem device nor virtio-pmem with a region in it",
            "in a VM: give the VM one (`barcuda vm-config` on the host prints how), with a bridge running; on a host: "
            "install the bridge (Debian's package barcuda-host)");
}

// Whether the file that this bridge serves is still at the path where programs and VMs look for it. The door's name
// contains the file's numbers.
bool has_its_file(const watch::Bridge& bridge) {
    if (!bridge.region.starts_with('/') || bridge.region.starts_with("/proc/")) return true;
    struct stat st {};
    if (stat(bridge.region.c_str(), &st) != 0) return errno != ENOENT;
    return std::filesystem::path(bridge.door).filename().string().starts_with(limits_name_of(st));
}

// True: there are some.
bool look_at_bridges() {
    const watch::View view = watch::look(false);
    for (const watch::Bridge& b : view.bridges)
        if (has_its_file(b))
            good(fmt::format("bridge {} (pid {}) serves {}: {} clients; `barcuda ps` shows them", b.name, b.pid,
                             b.region, b.clients));
        else
            bad(fmt::format("the region of bridge {} (pid {}): {} was removed or replaced", b.name, b.pid, b.region),
                "restart the bridge and its VM: no other program finds that region any more");
    for (const std::string& complaint : view.complaints)
        if (complaint.ends_with("does not answer"))
            bad(complaint, "if it was stopped, kill -CONT its pid; else end it (kill -KILL), and start it again");
        else note(complaint);
    if (view.bridges.empty()) note(watch::nobody_serves(view));
    return !view.bridges.empty();
}

// A bridge takes NVIDIA's GPU if one works, otherwise the software GPU.
void look_at_gpus(bool driver) {
    const DeviceChoice nvidia = choose_device("cuda"), software = choose_device("soft");
    if (nvidia.error.empty()) good("NVIDIA's driver finds a GPU");
    else if (!software.error.empty())
        bad(fmt::format("a GPU of any kind: {}", nvidia.error),
            "install NVIDIA's driver (CUDA 12.4 or newer), or the software GPU (Debian's package barcuda-soft)");
    else if (driver && nvidia.error.find("NO_DEVICE") == std::string::npos)
        bad(fmt::format("a GPU that works: {}", nvidia.error),
            "see what nvidia-smi says, and the kernel's log (dmesg)");
    else note("bridges here use the software GPU, on the CPU");
}

void look_at_host(bool serves) {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (driver && dlsym(driver, "barcuda_guest_library"))
        note("libcuda.so.1 here is Barcuda's own: programs of this environment use it");
    else if (driver) {
        int version = 0;
        auto ask = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDriverGetVersion"));
        if (ask && ask(&version) == 0) good("CUDA driver " + cuda_version_text(version));
        if (version && version < 12040)
            bad("a recent CUDA driver", "Barcuda's bridge needs CUDA 12.4 or newer on the host");
    } else {
        note("no CUDA driver (libcuda.so.1)");
    }
    look_at_gpus(driver && !dlsym(driver, "barcuda_guest_library"));
    for (const char* library : {"libcublas.so.13", "libcurand.so.10"}) {
        void* found = nullptr;
        for (const std::string folder :
             {"", "/usr/local/cuda/lib64/"})  // as host-bridge/worker/session/libraries.cc does
            if (!found) found = dlopen((folder + library).c_str(), RTLD_LAZY | RTLD_LOCAL);
        if (found && dlsym(found, "barcuda_guest_library")) note(fmt::format("{} here is Barcuda's own", library));
        else if (found) good(fmt::format("{}: for programs that use it", library));
        else note(fmt::format("no {}: programs that use it get an error", library));
    }
    struct statvfs space;
    if (statvfs("/dev/shm", &space) == 0) {
        const auto free = static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize;
        if (free >> 30) good(fmt::format("/dev/shm has {} MiB free for regions", free >> 20));
        else if (serves) note(fmt::format("/dev/shm has only {} MiB free for further regions", free >> 20));
        else
            bad("room in /dev/shm",
                fmt::format("only {} MiB are free: mount -o remount,size=8G /dev/shm, or use --region on hugetlbfs",
                            free >> 20));
    }
    std::ifstream cpuinfo("/proc/cpuinfo");
    const std::string cpu{std::istreambuf_iterator<char>(cpuinfo), {}};
    const bool virtualizes = cpu.find(" vmx ") != cpu.npos || cpu.find(" svm ") != cpu.npos;
    if (virtualizes && access("/dev/kvm", R_OK | W_OK) == 0) good("/dev/kvm: guests can run at full speed");
    else
        note(
            "no hardware virtualization for this user: QEMU guests run in software emulation, slowly; copies are not "
            "affected");
}

// Which measures the workers of a bridge of this user would lack, by the names that switch them off.
void look_at_cage() {
    const std::string library = installation().software;
    cage::Wish software, all;
    software.software = true;
    all.with = "all";
    const cage::Plan soft = cage::plan(software, library), nvidia = cage::plan({}, library),
                     most = cage::plan(all, library);
    report.line(fmt::format("  {:10} {:10}", "software", "NVIDIA's"));
    std::map<std::string, std::string> why;  // and the measures for that reason
    for (unsigned i = 0; i < cage::measures; ++i) {
        const cage::About& about = cage::about(static_cast<cage::Measure>(i));
        const auto state = [&](const cage::Plan& plan) {
            if (plan.why[i].empty()) return "on";
            // What this machine lacks says more than what was not requested.
            why[(most.why[i].empty() ? plan : most).why[i]] += fmt::format(" {}", about.name);
            return "off";
        };
        const std::string with_soft = state(soft), with_nvidia = state(nvidia);
        report.line(fmt::format("  {:10} {:10} {:12} {}", with_soft, with_nvidia, about.name, about.what));
        report.cage.push_back({{"name", about.name},
                               {"what", about.what},
                               {"software", with_soft == "on"},
                               {"nvidia", with_nvidia == "on"},
                               {"why", with_soft == "on" ? nvidia.why[i] : soft.why[i]}});
    }
    for (const auto& [reason, names] : why) {
        std::istringstream in(names);  // contains a name twice if both drivers lack it
        const std::set<std::string> of{std::istream_iterator<std::string>(in), {}};
        report.line(fmt::format("  off: {}: {}", fmt::join(of, ", "), reason));
    }
    for (const cage::Plan& plan : {soft, nvidia})
        if (!plan.error.empty()) bad("the workers' cage", plan.error);
}

// Returns 0 if CUDA programs can run here, 1 if something is missing.
int examine(bool json) {
    report.json = json;
    const Machine machine;
    introduce();
    report.begin("This installation");
    look_at_installation(machine);
    const char* const named = getenv("BARCUDA_REGION");
    const bool is_guest = machine.is_guest() || !machine.bridge;
    if (!machine.is_guest() && !machine.bridge && named && *named) {
        report.begin("The region");  // in a container, which has no device
        look_at_region(true);
    } else if (!machine.is_guest() && !machine.bridge) {
        report.begin("As a guest");
        look_for_device(machine);
    } else if (machine.is_guest()) {
        report.begin("As a guest");
        look_at_guest(machine);
        look_at_region(true);
    } else {
        report.begin("The region");
        look_at_region(false);
        report.begin("As a host");
        if (machine.guest_package)
            note("the guest's package is installed, too, and there is no device of Barcuda's: in a VM, give it one");
        look_at_host(look_at_bridges());
        report.begin(
            "The workers' cage with each driver (--no-cage=NAME,... switches measures off, --cage=NAME,... on)");
        look_at_cage();
    }
    return conclude(is_guest ? "guest" : "host");
}

}  // namespace

void add_doctor(App& app) {
    const auto json = std::make_shared<bool>(false);
    const Command command =
        app.add("doctor", "check this machine: what is missing, and what to do", [json] { return examine(*json); });
    add_json(command, *json);
    command.add_option_function(
        "--region", [](const std::string& file) { setenv("BARCUDA_REGION", file.c_str(), 1); },
        "of this bridge's file (default: BARCUDA_REGION, or this guest's device)");
}

}  // namespace barcuda
