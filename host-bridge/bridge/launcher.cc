// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/launcher.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "host-bridge/between/book_file.h"
#include "host-bridge/between/link.h"
#include "shm-device/queue/wire.h"

namespace barcuda {

Launcher::Launcher(const BridgeOptions& options, const HostRegion& region, const Doorbell& doorbell,
                   const turns::Member& turns, const cage::Plan& cage, const Host& host, const rlimit& files,
                   const Kept& kept, Reserve reserve)
    : options_(options),
      region_(region),
      doorbell_(doorbell),
      turns_(turns),
      cage_(cage),
      host_(host),
      files_(files),
      kept_(kept),
      reserve_(std::move(reserve)),
      text_{&options.limits.guest.all[static_cast<unsigned>(Limit::log_text)], {}} {
    const char* const card = std::getenv("BARCUDA_SOFT_CARD");
    if (!card || !*card) return;
    if (const Failure failure = open_shared(card, "BARCUDA_SOFT_CARD", 0600, soft_card_)) {
        soft_card_ = File();
        log::warn("BARCUDA_SOFT_CARD: {}", failure.text());
    }
}

std::unique_ptr<WorkerProcess> Launcher::start(const std::vector<int>& devices) { return start(devices, Kind::usual); }
std::unique_ptr<WorkerProcess> Launcher::start_first() { return start({}, Kind::first); }
std::unique_ptr<WorkerProcess> Launcher::start_bare(const std::vector<int>& devices) {
    return start(devices, Kind::bare);
}

std::unique_ptr<WorkerProcess> Launcher::start(const std::vector<int>& devices, Kind kind) {
    auto worker = WorkerProcess::start(what_to_start(devices, kind == Kind::first), facts(devices));
    if (worker) prepare(*worker, kind);
    return worker;
}

WorkerProcess::Facts Launcher::facts(std::vector<int> devices) {
    return {std::move(devices), &kept_, cage_.groups, options_.limits.client[Limit::log_text], &text_};
}

std::unique_ptr<WorkerProcess> Launcher::adopt(pid_t pid, std::uint64_t start, std::string called) {
    return WorkerProcess::adopt(pid, start, std::move(called), facts({}));
}

std::unique_ptr<WorkerProcess> Launcher::for_client(std::uint32_t slot, const KeptClient& kept, bool from_disk) {
    const auto called = [slot](pid_t worker) { return fmt::format("channel {}: worker {}", slot, worker); };
    if (!from_disk) return adopt(kept.worker, kept.worker_start, called(kept.worker));
    auto worker =
        start_bare({kept.devices, kept.devices + std::min<std::size_t>(kept.device_count, std::size(kept.devices))});
    if (worker) worker->assign(called(worker->pid()));
    return worker;
}

// What a wrapper runs must be a name that is still this program in the wrapper's own processes.
Spawn Launcher::what_to_start(const std::vector<int>& devices, bool first) const {
    Spawn what;
    if (options_.wrapper.empty()) {
        what.program = "/proc/self/exe";
        what.command = {"barcuda-bridge", "--worker", host_.library};
    } else {
        std::error_code ec;
        const std::string self = std::filesystem::read_symlink("/proc/self/exe", ec);
        what.program = "/bin/sh";
        what.command = {"sh", "-c", "exec " + options_.wrapper + " \"$@\"", "sh", self, "--worker", host_.library};
        what.wrapped = true;
    }
    what.command.insert(what.command.end(), {"--device-memory", options_.device_memory});
    // Fixed, so that clients can be carried: decision 80.
    what.addresses = options_.device_memory == "blocks" ? Spawn::Addresses::fixed : Spawn::Addresses::apart;
    what.files = {{region_.fd(), region_fd},
                  {doorbell_ ? doorbell_.guest() : -1, doorbell_fd},
                  {turns_.fd(), turns_fd},
                  {soft_card_.fd(), soft_card_fd}};
    if (devices != host_.every) what.devices = visible_list(host_.devices, devices);
    what.before_cage = first;
    what.cage = &cage_;
    what.open_files = files_;
    return what;
}

void Launcher::prepare(WorkerProcess& worker, Kind kind) {
    Preparation prepared{kept_ ? getppid() : getpid(),
                         region_.shape().base,
                         static_cast<unsigned>(worker.devices().size()),
                         kind == Kind::first,
                         worker.wrapped(),
                         turns_.fd() >= 0,
                         !options_.cards.empty(),
                         soft_card_.fd() >= 0,
                         turns_.group(),
                         {},
                         cage_.order};
    for (auto& extent : prepared.extents) {
        if (kind == Kind::bare) break;
        const Grants::Run run = reserve_(wire::first_extent);
        if (run.bytes == 0) break;
        extent = {run.offset, run.bytes};
        worker.reserved.push_back(run);
    }
    send(worker.link(), &prepared, sizeof prepared, MSG_NOSIGNAL);
}

}  // namespace barcuda
