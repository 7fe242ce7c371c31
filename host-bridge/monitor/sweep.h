// SPDX-License-Identifier: Apache-2.0
// sweep.h: asks the host's NVML all of its questions about the devices of a region.
#pragma once
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "host-bridge/monitor/monitor.h"
#include "shm-device/region/snapshot.h"
#include "shm-device/rows/nvml_rows.h"

namespace barcuda::nvml {

// The host's libnvidia-ml.so.1: NVIDIA's, or the software GPU's. A function that it lacks is null.
class Host {
  public:
    // Opens and initializes the library. Returns what went wrong; empty: nothing.
    std::string open(const std::string& library);
    void* function(Question q) const { return functions_[static_cast<std::size_t>(q)]; }

    // The device that CUDA reports in this way; null: NVML does not know it.
    Device find(const barcuda_device& device) const;

    struct Use {
        unsigned pid;
        unsigned long long memory;
    };
    std::vector<Use> users(Device device) const;
    // The newest sample of each process since `since`, which becomes the time of the newest one.
    std::vector<ProcessUtilization> samples(Device device, unsigned long long& since) const;

  private:
    void* symbol(const char* name) const;
    void* library_ = nullptr;
    void* functions_[static_cast<std::size_t>(Question::count)]{};
};

class Sweeper {
  public:
    Sweeper(const Host& host, std::vector<Device> devices);

    // From now on a GPU has this size, and the memory that the last sweep's processes use of it counts as used; 0: the
    // GPU's own values. `held`: where the bridge says of each GPU how much that is; null: it does not.
    void show_memory(std::uint64_t limit, const std::uint64_t* held = nullptr);
    // Asks again for everything that may have changed.
    void ask();
    struct Client {
        unsigned pid, slot;  // pid in the guest
    };
    // Finds which clients use which device. `client_of`: the client of a worker's pid; null: not a worker with a
    // client.
    template <class ClientOf> void find_processes(const ClientOf& client_of) {
        processes_.clear();
        busy_.clear();
        for (unsigned d = 0; d < devices_.size(); ++d) {
            for (const ProcessUtilization& s : host_.samples(devices_[d], sampled_[d])) seen_[{d, s.pid}] = s;
            for (const Host::Use& use : host_.users(devices_[d])) {
                const Client* const client = client_of(use.pid);
                if (!client || processes_.size() == BARCUDA_MAX_PROCESSES) continue;
                const auto s = seen_.find({d, use.pid});
                const ProcessUtilization sample = s == seen_.end() ? ProcessUtilization{} : s->second;
                if (s != seen_.end()) busy_.push_back({client->slot, d, sample.timestamp, sample.sm});
                processes_.push_back({client->pid, d, use.memory, sample.timestamp, sample.sm, sample.memory,
                                      sample.encoder, sample.decoder});
            }
        }
        forget_the_old();
    }
    // Which clients are paused, of which NVML knows nothing.
    void show_paused(const snapshot::PausedClients& clients);
    void tell(Busy& busy) const;
    snapshot::Sweep result() const { return {answers_, contents_, processes_, taken_}; }

  private:
    bool samples_are_known() const { return !seen_.empty(); }  // NVML reports what single processes do with a GPU
    void ask(When when);
    template <Question q> void ask();
    void forget_the_old();

    const Host& host_;
    const std::vector<Device> devices_;
    std::vector<barcuda_answers> answers_;  // by Question; then the paused clients
    std::vector<std::byte> contents_;
    std::vector<barcuda_process> processes_;
    struct Share {
        unsigned slot, device;
        unsigned long long sampled;
        unsigned percent;
    };
    std::vector<Share> busy_;
    std::vector<unsigned long long> sampled_;                           // by device: the newest sample's time
    std::map<std::pair<unsigned, unsigned>, ProcessUtilization> seen_;  // by device and worker: its newest sample
    std::uint64_t taken_ = 0, seldom_ = 0;  // when everything was asked, and the rarely asked rows
};

}  // namespace barcuda::nvml
