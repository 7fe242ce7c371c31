// SPDX-License-Identifier: Apache-2.0
// monitoring.h: the bridge's handle on its monitor (host-bridge/monitor): starts it when a client first asks how the
// GPUs are doing, passes on each such request and which worker serves which channel, starts it again when it has died,
// and reports in the snapshot when it is silent or not available.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/message.h"
#include "host-bridge/monitor/monitor.h"
#include "shm-device/region/host_region.h"

namespace barcuda {

class Monitoring {
  public:
    using Clock = std::chrono::steady_clock;
    ~Monitoring();

    // `cuda`: the library of the CUDA driver that the bridge has chosen; its NVML is beside it. `program`: the monitor,
    // which is this program.
    void start(HostRegion& region, const std::vector<barcuda_device>& devices, const std::string& cuda,
               std::string program = "/proc/self/exe");
    void client(std::uint32_t slot, pid_t worker);            // 0: no worker any more
    void show_memory(std::uint64_t limit);                    // the size of each GPU, as guests see it; 0: its own
    void show_held(std::size_t device, std::uint64_t bytes);  // by this guest's clients, on the card or in the store
    void want(Clock::time_point now = Clock::now());          // a client asks
    void look(Clock::time_point now = Clock::now());
    pid_t pid() const { return pid_; }                                  // of the monitor; -1: none
    bool asks() const { return roster_ != nullptr; }                    // there is an NVML, as far as known
    const Busy* busy(std::chrono::system_clock::time_point now) const;  // null: NVML was not asked recently

  private:
    void launch(Clock::time_point now);
    void say(barcuda_snapshot_state state);

    HostRegion* region_ = nullptr;
    barcuda_u32 workers_[BARCUDA_MAX_CHANNELS] = {};  // as in the roster, which may begin later
    std::string library_, program_;
    File roster_file_;
    Roster* roster_ = nullptr;
    pid_t pid_ = -1;
    barcuda_snapshot_state state_ = BARCUDA_SNAPSHOT_TAKEN;  // last said
    bool begun_ = false;                                     // it has taken a snapshot since it was started
    bool told_ = false;                                      // that it is silent was logged
    std::uint64_t sequence_ = 0;                             // last seen, and when it had just changed
    Clock::time_point changed_, launched_, wanted_;
};

}  // namespace barcuda
