// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/describing.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <chrono>
#include <cstring>

#include "host-bridge/bridge/ledger.h"
#include "shm-device/queue/sync.h"

namespace barcuda {
namespace {

std::string name_of(const barcuda_device& device) { return {device.name, strnlen(device.name, sizeof device.name)}; }

// Two numbers that must be equal.
Failure differs(const char* what, std::uint64_t its, std::uint64_t ours, const std::string& build) {
    if (its == ours) return {};
    return fmt::format(
        "its {} has number {}, this build's {}: use a build with the same number (it was suspended by "
        "barcuda {})",
        what, its, ours, build);
}

}  // namespace

Description describe(const Ground& ground) {
    Description d;
    const Shape& shape = ground.region.shape();
    d.build = BARCUDA_VERSION;
    d.name = ground.options.name;
    d.region = ground.options.region;
    d.when = fmt::format("{:%Y-%m-%d %H:%M:%S %z}", fmt::localtime(std::chrono::system_clock::now()));
    d.layout = BARCUDA_LAYOUT;
    d.packets = BARCUDA_PACKETS;
    d.books = Ledger::form;
    d.driver = ground.host.devices.driver_version;
    for (const barcuda_device& device : ground.host.devices.all) d.gpus.push_back(name_of(device));
    d.base = shape.base;
    d.size = shape.size;
    struct stat st {};
    if (fstat(ground.region.fd(), &st) == 0) {
        d.device = st.st_dev;
        d.inode = st.st_ino;
    }
    d.boot = this_boot();
    d.epoch = ground.region.epoch();
    return d;
}

Failure refuse(const Description& set, const BridgeOptions& options) {
    if (Failure f = differs("layout", set.layout, BARCUDA_LAYOUT, set.build)) return f;
    if (Failure f = differs("format of packets", set.packets, BARCUDA_PACKETS, set.build)) return f;
    if (Failure f = differs("form of books", set.books, Ledger::form, set.build)) return f;
    if (options.size != 0 && options.size != set.size)
        return fmt::format("its region has {} MiB, and --size says {} MiB", set.size >> 20, options.size >> 20);
    if (options.base != 0 && options.base != set.base)
        return fmt::format("its region lies at {:#x}, and --base says {:#x}", set.base, options.base);
    if (!set.clients.empty() && options.device_memory != "blocks")
        return "its clients have memory at addresses that only --device-memory blocks gives again";
    return {};
}

Failure refuse(const Description& set, const HostDevices& devices) {
    std::vector<std::string> ours;
    for (const barcuda_device& device : devices.all) ours.push_back(name_of(device));
    if (set.gpus == ours) return {};
    return fmt::format("its GPUs were {}, and this bridge's are {}: choose GPUs of the same names with --gpus",
                       fmt::join(set.gpus, ", "), fmt::join(ours, ", "));
}

}  // namespace barcuda
