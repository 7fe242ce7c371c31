// SPDX-License-Identifier: Apache-2.0
// launcher.h: how this bridge starts a worker: with the region, its driver, its cage and its part of the host's
// devices; and the first message that it sends to the worker.
#pragma once
#include <sys/resource.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "host-bridge/between/probe.h"
#include "host-bridge/between/turns.h"
#include "host-bridge/bridge/books.h"
#include "host-bridge/bridge/doorbell.h"
#include "host-bridge/bridge/options.h"
#include "host-bridge/bridge/worker_process.h"
#include "shm-device/region/host_region.h"

namespace barcuda {

class Launcher {
  public:
    // `reserve`: memory of the region of this size for a later client; none: there is too little.
    using Reserve = std::function<Grants::Run(std::uint64_t bytes)>;

    Launcher(const BridgeOptions& options, const HostRegion& region, const Doorbell& doorbell,
             const turns::Member& turns, const cage::Plan& cage, const Host& host, const rlimit& files,
             const Kept& kept, Reserve reserve);

    // A worker whose driver shows exactly these devices, in this order. Null: it cannot be started, and errno says why.
    std::unique_ptr<WorkerProcess> start(const std::vector<int>& devices);
    // The very first worker, which reports the devices.
    std::unique_ptr<WorkerProcess> start_first();
    // One that goes on with a client, and so reserves no memory of the region for it.
    std::unique_ptr<WorkerProcess> start_bare(const std::vector<int>& devices);

    // The worker with which a client of an earlier bridge goes on: its own, or a new one if the client was suspended
    // (`from_disk`). Null: its worker has ended, or no worker can be started.
    std::unique_ptr<WorkerProcess> for_client(std::uint32_t slot, const KeptClient& kept, bool from_disk);
    // One of an earlier bridge's (WorkerProcess::adopt).
    std::unique_ptr<WorkerProcess> adopt(pid_t pid, std::uint64_t start, std::string called);

  private:
    WorkerProcess::Facts facts(std::vector<int> devices);
    enum class Kind { usual, first, bare };
    std::unique_ptr<WorkerProcess> start(const std::vector<int>& devices, Kind kind);
    Spawn what_to_start(const std::vector<int>& devices, bool first) const;
    void prepare(WorkerProcess& worker, Kind kind);

    const BridgeOptions& options_;
    const HostRegion& region_;
    const Doorbell& doorbell_;
    const turns::Member& turns_;
    const cage::Plan& cage_;
    const Host& host_;
    const rlimit& files_;  // how many a worker may have open
    const Kept& kept_;
    const Reserve reserve_;
    File soft_card_;  // by which software GPUs share their memory (soft-gpu/driver/card.h); none: they do not
    WorkersText text_;
};

}  // namespace barcuda
