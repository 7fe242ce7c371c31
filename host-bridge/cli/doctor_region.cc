// SPDX-License-Identifier: Apache-2.0
// doctor_region.cc: what `barcuda doctor` says of a region, on each system.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "base/os/clock.h"
#include "host-bridge/cli/findings.h"
#include "shm-device/cuda/visible_devices.h"
#include "shm-device/queue/sync.h"
#include "shm-device/region/region.h"
#include "shm-device/rows/listing.h"

namespace barcuda::doctor {
namespace {

// How much of the region is in use: while a client lives its extents are granted to it alone.
void look_at_books(const Region& region) {
    const Shape& h = region.shape();
    unsigned clients = 0;
    std::uint64_t free = 0;
    for (unsigned i = 0; i < h.channel_count; ++i)
        clients += observe(region.slots()[i].opened) != observe(region.slots()[i].reclaimed);
    for (unsigned i = 0; i < h.granule_count; ++i)
        free += observe(region.grants()[i].owner) == 0 && observe(region.grants()[i].mapped) == 0;
    note(fmt::format("in use: {} of {} channels, {} of {} MiB of extents", clients, h.channel_count,
                     (h.granule_count - free) * h.granule >> 20, h.granule_count * h.granule >> 20));
}

// Reports commands that this installation's library could send and that the bridge would not know.
void look_at_rows(const Region& region) {
    const std::span<const RowText> rows = row_texts();
    std::vector<RowNumber> numbers(rows.size());
    match(row_identities(), region.rows(), numbers);
    std::string names;
    unsigned lacking = 0;
    for (std::size_t op = 0; op < rows.size(); ++op)
        if (numbers[op] == no_row) names += fmt::format("{}{}", lacking++ ? ", " : "", rows[op].name);
    if (lacking)
        note(fmt::format(
            "that bridge lacks {} commands of this library, which answer \"not supported\" (docs/versions.md): {}",
            lacking, names));
}

// The GPUs that the bridge shows, and which of them programs in this environment see.
void look_at_devices(const Region& region) {
    std::vector<DeviceId> ids;
    for (unsigned i = 0; i < region.device_count(); ++i) {
        const barcuda_device& d = region.devices()[i];
        good(fmt::format("GPU {}: {} ({} MiB), GPU-{}", i, d.name, d.total_memory >> 20, uuid_text(d.uuid)));
        ids.push_back({d.uuid, d.pci_bus_id});
    }
    const char* const list = getenv("CUDA_VISIBLE_DEVICES");
    const char* const order = getenv("CUDA_DEVICE_ORDER");
    const VisibleDevices seen = visible_devices(ids, list, order);
    if (seen == visible_devices(ids, nullptr, nullptr)) return;
    const std::string wrong = seen.stopped_at.empty() ? ""
                              : seen.repeated         ? fmt::format("; it names {} twice", seen.stopped_at)
                                              : fmt::format("; there is no {}, which ends the list", seen.stopped_at);
    note(fmt::format(
        "CUDA_VISIBLE_DEVICES={}{}{}: programs see {}{}", list ? list : "", order ? ", CUDA_DEVICE_ORDER=" : "",
        order ? order : "",
        seen.numbers.empty() ? "no GPU" : fmt::format("GPU {}, in this order", fmt::join(seen.numbers, ", ")), wrong));
}

// A bridge that has ended says so, or its lock is free. If a guest cannot see the bridge's process, the heartbeat
// tells.
bool has_bridge(const Region& region) {
    constexpr const char* start = "start barcuda-bridge on the host";
    if (!region.served()) {
        bad("a bridge: none serves this region", start);
        return false;
    }
    constexpr int naps = 40;  // of 50 ms: a bridge's heartbeat changes at least four times a second
    const std::uint64_t beat = region.heartbeat();
    for (int i = 0; i < naps; ++i)
        if (region.heartbeat() != beat) return true;
        else os::nap(50'000'000);
    bad("a bridge: the one that served this region is silent (it was killed or stopped, or its host was)", start);
    return false;
}

}  // namespace

void look_at_region(bool needed, const char* path) {
    Region region;
    const char* const named = getenv("BARCUDA_REGION");
    if (Error e = region.open(path)) {
        if (e.kind == Error::no_channel) return note(fmt::format("in use: {}", e.text));
        return needed || (named && *named) || e.kind != Error::not_found ? bad("a region", e.text) : note(e.text);
    }
    char build[sizeof barcuda_header::build + 1];
    good(fmt::format("region {}: {} MiB at {:#x}, made by build {}", region.path(), region.shape().size >> 20,
                     region.shape().base, region.build(build)));
    const bool served = has_bridge(region);
    if (served) good("a bridge serves it");
    look_at_books(region);
    if (!served) return;
    look_at_rows(region);
    look_at_devices(region);
    if (region.device_count() == 0)
        bad("a GPU behind the region", "start barcuda-bridge on the host with --device auto");
}

void introduce() {
    report.line(fmt::format("Barcuda {}, layout {}, packets {}, {} commands", BARCUDA_VERSION, BARCUDA_LAYOUT,
                            BARCUDA_PACKETS, row_identities().size()));
}

int conclude(const char* as) {
    report.line(report.missing ? fmt::format("\n{} thing(s) missing, see above.", report.missing) : "\nAll is well.");
    if (report.json)
        fmt::print("{}\n", Json{{"version", BARCUDA_VERSION},
                                {"layout", BARCUDA_LAYOUT},
                                {"packets", BARCUDA_PACKETS},
                                {"commands", row_identities().size()},
                                {"as", as},
                                {"missing", report.missing},
                                {"findings", report.findings},
                                {"cage", report.cage}}
                               .dump(1, ' ', false, Json::error_handler_t::replace));
    return report.missing != 0;
}

}  // namespace barcuda::doctor
