// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/monitor/monitor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <span>
#include <thread>
#include <unordered_map>

#include "base/log.h"
#include "base/os/futex.h"
#include "host-bridge/between/link.h"
#include "host-bridge/monitor/sweep.h"
#include "shm-device/queue/sync.h"

namespace barcuda {
namespace {

using Clock = std::chrono::steady_clock;

// A guest's answer is at most as old as one sweep plus the time until the end of the next: a second, if a sweep takes
// at most three tenths of one. NVIDIA's driver answers NVML and CUDA in turn, so a sweep slows CUDA down: there is none
// while no process asks, and one at once, after a pause, when one does.
constexpr std::chrono::milliseconds sweep_every{700}, pause{300}, wanted_for{3000}, idle_nap{10'000};

// Waits until it is time for the next sweep; the last one began at `begun`.
class Demand {
  public:
    explicit Demand(const barcuda_u32& wanted) : word_(wanted), seen_(observe(wanted)) {}
    void wait(Clock::time_point begun) {
        while (Clock::now() < begun + pause) std::this_thread::sleep_until(begun + pause);
        for (;;) {
            const auto now = Clock::now();
            if (const barcuda_u32 wanted = observe(word_); wanted != seen_) {
                seen_ = wanted;
                last_ = now;
                return;
            }
            const bool idle = now > last_ + wanted_for;
            if (!idle && now >= begun + sweep_every) return;
            const std::chrono::nanoseconds nap = idle ? idle_nap : begun + sweep_every - now;
            futex_wait(word_, seen_, static_cast<std::uint64_t>(nap.count()), Among::processes);
        }
    }

  private:
    const barcuda_u32& word_;
    barcuda_u32 seen_;
    Clock::time_point last_ = Clock::now();  // when a process last asked for a sweep
};

// Opens the file again: the lock of the bridge's own open file says that the region is served, and a monitor that is
// stuck in the driver may outlive its bridge.
char* map_region(std::uint64_t bytes) {
    const int file = open(fmt::format("/proc/self/fd/{}", region_fd).c_str(), O_RDWR | O_CLOEXEC);
    void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file < 0 ? region_fd : file, 0);
    if (file >= 0) close(file);
    close(region_fd);
    return at == MAP_FAILED ? nullptr : static_cast<char*>(at);
}

// 0: the process has ended.
unsigned parent_of(unsigned pid) {
    std::string text;
    std::getline(std::ifstream(fmt::format("/proc/{}/stat", pid)), text);
    unsigned parent = 0;
    const auto name_ends = text.rfind(')');  // the process chooses its name, which may contain anything
    if (name_ends != text.npos) std::sscanf(text.c_str() + name_ends + 1, " %*c %u", &parent);
    return parent;
}

using Clients = std::unordered_map<unsigned, nvml::Sweeper::Client>;  // by worker

// For the host's process `pid`: the client of that worker, or of the worker that runs below this process's wrapper
// (--worker-wrapper). Null: no worker.
const nvml::Sweeper::Client* client_of(unsigned pid, const Clients& clients) {
    constexpr int deepest = 32;  // a pid that is reused while we look must not lead us in circles
    for (int i = 0; pid > 1 && i < deepest; ++i, pid = parent_of(pid))
        if (const auto client = clients.find(pid); client != clients.end()) return &client->second;
    return nullptr;
}

}  // namespace

int run_monitor(const std::string& library) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    void* const shared = mmap(nullptr, sizeof(Roster), PROT_READ | PROT_WRITE, MAP_SHARED, roster_fd, 0);
    if (shared == MAP_FAILED) {
        log::error("cannot map the roster: {}", strerror(errno));
        return 1;
    }
    auto& roster = *static_cast<Roster*>(shared);
    if (getppid() != roster.bridge) return 1;  // the bridge has ended already
    char* const region = map_region(roster.bytes);
    if (!region) {
        log::error("cannot map the region: {}", strerror(errno));
        return 1;
    }
    auto& snapshot = *reinterpret_cast<barcuda_snapshot*>(region + BARCUDA_SNAPSHOT_OFFSET);

    nvml::Host host;
    if (std::string error = host.open(library); !error.empty()) {
        log::warn("NVML does not work in guests: {}", error);
        return no_nvml;
    }
    std::vector<nvml::Device> devices;
    for (const barcuda_device& device : std::span(roster.devices, roster.device_count)) {
        devices.push_back(host.find(device));
        if (!devices.back()) log::warn("NVML does not know device {} ({})", devices.size() - 1, device.name);
    }

    nvml::Sweeper sweeper(host, std::move(devices));
    for (Demand demand(roster.wanted);;) {
        const auto begun = Clock::now();
        Clients clients;
        snapshot::PausedClients paused{};
        std::size_t paused_count = 0;
        for (unsigned slot = 0; slot < roster.channel_count; ++slot)
            if (const unsigned worker = observe(roster.workers[slot])) {
                const char* channel = region + BARCUDA_CHANNELS_OFFSET + slot * BARCUDA_CHANNEL_SIZE;
                const auto* its = reinterpret_cast<const barcuda_client*>(channel + BARCUDA_CLIENT_OFFSET);
                const unsigned pid = observe(its->pid);
                if (!pid) continue;
                clients[worker] = {pid, slot};
                const auto* status = reinterpret_cast<const barcuda_status*>(channel + BARCUDA_STATUS_OFFSET);
                if (const barcuda_u32 how = observe(status->paused); how != BARCUDA_PAUSED_NO)
                    paused[paused_count++] = {pid, how};
            }
        sweeper.find_processes([&](unsigned pid) { return client_of(pid, clients); });
        sweeper.show_memory(observe(roster.memory), roster.held);
        sweeper.show_paused(paused);
        sweeper.ask();
        snapshot::write(snapshot, sweeper.result());
        sweeper.tell(roster.busy);
        const std::chrono::duration<double, std::milli> took = Clock::now() - begun;
        log::debug("a sweep: {:.1f} ms", took.count());
        demand.wait(begun);
    }
}

}  // namespace barcuda
