// SPDX-License-Identifier: Apache-2.0
// doctor.cc: `barcuda doctor` in a Windows guest: the DLLs, the ivshmem devices with their driver, the region of each
// and its bridge, and what to do about what is missing.
#include <fmt/format.h>
#include <windows.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>

#include "base/cli/installation.h"
#include "base/cli/options.h"
#include "base/os/ivshmem.h"
#include "host-bridge/cli/commands.h"
#include "host-bridge/cli/findings.h"

namespace barcuda {
namespace {

using namespace doctor;
namespace fs = std::filesystem;

// Ours has a name that no other driver exports.
bool is_ours(const fs::path& file) {
    const HMODULE library = LoadLibraryExW(file.c_str(), nullptr, DONT_RESOLVE_DLL_REFERENCES);
    return library && GetProcAddress(library, "barcuda_views");
}

void look_at_installation() {
    const fs::path folder = installation().links;
    std::error_code none;
    for (const char* name : {"nvcuda.dll", "nvml.dll", "cudart64_12.dll", "cudart64_13.dll"})
        if (fs::exists(folder / name, none)) good((folder / name).string());
        else bad((folder / name).string(), "copy all of build/lib/barcuda-windows (docs/windows.md)");
    std::array<wchar_t, MAX_PATH> system{};
    GetSystemDirectoryW(system.data(), system.size());
    const fs::path theirs = fs::path(system.data()) / "nvcuda.dll";
    if (!fs::exists(theirs, none))
        note(fmt::format("no {}: programs find ours by `barcuda exec`, or beside them", theirs.string()));
    else if (is_ours(theirs)) good(fmt::format("{} is Barcuda's: programs find it by themselves", theirs.string()));
    else note(fmt::format("{} is another driver's: programs find ours by `barcuda exec`", theirs.string()));
}

void look_at_devices() {
    const unsigned present = os::ivshmem::present(), usable = os::ivshmem::count();
    if (usable > 0) good(fmt::format("{} ivshmem devices with virtio-win's driver", usable));
    if (present > usable)
        bad(fmt::format("virtio-win's driver for {} of {} ivshmem devices", present - usable, present),
            "pnputil /add-driver D:\\ivshmem\\...\\ivshmem.inf /install, from virtio-win's ISO image "
            "(docs/windows.md)");
    if (present == 0 && usable == 0)
        bad("an ivshmem device (PCI 1AF4:1110)",
            "give the VM one, with a bridge on the host: `barcuda vm-config` there prints how");
    for (unsigned i = 0; i < usable; ++i) look_at_region(true, fmt::format("ivshmem:{}", i).c_str());
}

int examine(bool json) {
    report.json = json;
    introduce();
    report.begin("This installation");
    look_at_installation();
    const char* const named = std::getenv("BARCUDA_REGION");
    if (!named || !*named || std::string(named) == "ivshmem") {
        report.begin("The devices");
        look_at_devices();
    } else {
        report.begin("What BARCUDA_REGION names");
        std::istringstream in(named);
        for (std::string path; std::getline(in, path, ';');) look_at_region(true, path.c_str());
    }
    return conclude("guest");
}

}  // namespace

void add_doctor(App& app) {
    const auto json = std::make_shared<bool>(false);
    const Command command =
        app.add("doctor", "check this guest: what is missing, and what to do", [json] { return examine(*json); });
    add_json(command, *json);
}

}  // namespace barcuda
