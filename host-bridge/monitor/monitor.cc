// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/monitor/monitor.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>
#include <unordered_map>

#include "host-bridge/link.h"
#include "host-bridge/log.h"
#include "host-bridge/monitor/sweep.h"
#include "shm-device/sync.h"

namespace barcuda {
namespace {

// What a guest reads is as old as the sweep was long, and as the time until the next one is over: a second at most, if
// a sweep takes no longer than three tenths of one.
constexpr std::chrono::milliseconds sweep_every{700};

// The region up to its heap: where all pages, also huge ones, end.
char* map_region() {
    void* at = mmap(nullptr, BARCUDA_GRANULE, PROT_READ, MAP_SHARED, region_fd, 0);
    if (at == MAP_FAILED) return nullptr;
    const std::uint64_t bytes = static_cast<barcuda_header*>(at)->extents_offset;
    munmap(at, BARCUDA_GRANULE);
    at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, region_fd, 0);
    return at == MAP_FAILED ? nullptr : static_cast<char*>(at);
}

}  // namespace

int run_monitor(const std::string& library) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    char* const region = map_region();
    void* const shared = mmap(nullptr, sizeof(Roster), PROT_READ, MAP_SHARED, roster_fd, 0);
    if (!region || shared == MAP_FAILED) return log::error("cannot map the region: {}", strerror(errno)), 1;
    const auto& header = *reinterpret_cast<const barcuda_header*>(region);
    const auto& roster = *static_cast<const Roster*>(shared);
    auto& snapshot = *reinterpret_cast<barcuda_snapshot*>(region + header.snapshot_offset);

    nvml::Host host;
    if (std::string error = host.open(library); !error.empty())
        return log::warn("NVML does not work in guests: {}", error), no_nvml;
    std::vector<nvml::Device> devices;
    const auto* table = reinterpret_cast<const barcuda_device*>(region + BARCUDA_DEVICES_OFFSET);
    for (unsigned i = 0; i < header.device_count; ++i) {
        devices.push_back(host.find(table[i]));
        if (!devices.back()) log::warn("NVML does not know device {} ({:.255})", i, table[i].name);
    }

    nvml::Sweeper sweeper(host, std::move(devices));
    for (auto begun = std::chrono::steady_clock::now();;) {
        std::unordered_map<unsigned, unsigned> clients;  // by worker
        for (unsigned slot = 0; slot < header.channel_count; ++slot)
            if (const unsigned worker = observe(roster.workers[slot])) {
                const char* channel = region + BARCUDA_CHANNELS_OFFSET + slot * BARCUDA_CHANNEL_SIZE;
                clients[worker] =
                    observe(reinterpret_cast<const barcuda_client*>(channel + BARCUDA_CLIENT_OFFSET)->pid);
            }
        sweeper.ask();
        sweeper.find_processes([&](unsigned worker) {
            const auto client = clients.find(worker);
            return client == clients.end() ? 0 : client->second;
        });
        snapshot::write(snapshot, sweeper.result());
        begun = std::max(begun + sweep_every, std::chrono::steady_clock::now());
        std::this_thread::sleep_until(begun);
    }
}

}  // namespace barcuda
