// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/monitoring.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "base/os/futex.h"
#include "host-bridge/between/device_choice.h"
#include "host-bridge/between/link.h"
#include "host-bridge/bridge/spawn.h"
#include "shm-device/queue/sync.h"

namespace barcuda {
namespace {

// A sweep takes some tens of milliseconds. A driver that resets a GPU, or has lost one, may block its callers for long;
// if many programs begin at once it takes ten seconds to start.
constexpr std::chrono::seconds silent_after{5}, silent_at_first_after{30};
// A monitor without requests for this long may be silent.
constexpr std::chrono::seconds wanted_for{2};
// A monitor that dies repeatedly costs a start of NVML each time.
constexpr std::chrono::seconds between_launches{5};

}  // namespace

Monitoring::~Monitoring() {
    if (pid_ > 0) {  // a driver may block it for long
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, WNOHANG);
    }
    if (roster_) munmap(roster_, sizeof *roster_);
}

void Monitoring::start(HostRegion& region, const std::vector<barcuda_device>& devices, const std::string& cuda,
                       std::string program) {
    region_ = &region;
    program_ = std::move(program);
    library_ = nvml_of(cuda);
    roster_file_ = File(memfd_create("barcuda-roster", MFD_CLOEXEC));
    void* at = MAP_FAILED;
    if (roster_file_ && ftruncate(roster_file_.fd(), sizeof(Roster)) == 0)
        at = mmap(nullptr, sizeof(Roster), PROT_READ | PROT_WRITE, MAP_SHARED, roster_file_.fd(), 0);
    if (at == MAP_FAILED) {
        log::error("no NVML in guests: {}", strerror(errno));
        return say(BARCUDA_SNAPSHOT_NONE);
    }
    roster_ = static_cast<Roster*>(at);
    roster_->bridge = getpid();
    std::ranges::fill(roster_->held, Busy::not_known);
    roster_->bytes = region.shape().extents_offset;
    roster_->channel_count = region.shape().channel_count;
    roster_->device_count = static_cast<barcuda_u32>(devices.size());
    std::ranges::copy(devices, roster_->devices);
    std::ranges::copy(workers_, roster_->workers);  // of an earlier bridge, whose clients this one has
}

void Monitoring::launch(Clock::time_point now) {
    launched_ = changed_ = now;
    begun_ = false;
    Spawn what;
    what.program = program_;
    what.command = {"barcuda-bridge", "--monitor", library_};
    what.files = {{region_->fd(), region_fd}, {roster_file_.fd(), roster_fd}};
    pid_ = spawn(what);
    if (pid_ < 0) log::error("cannot start the monitor: {}", strerror(errno));
}

void Monitoring::client(std::uint32_t slot, pid_t worker) {
    if (slot >= std::size(workers_)) return;
    workers_[slot] = static_cast<barcuda_u32>(worker);
    if (roster_) publish(roster_->workers[slot], workers_[slot]);
}

void Monitoring::show_memory(std::uint64_t limit) {
    if (roster_) publish(roster_->memory, limit);
}

void Monitoring::show_held(std::size_t device, std::uint64_t bytes) {
    if (roster_) publish(roster_->held[device], bytes);
}

void Monitoring::want(Clock::time_point now) {
    if (!roster_) return;
    if (now - wanted_ > wanted_for) {  // from now on an answer is due
        changed_ = now;
        say(BARCUDA_SNAPSHOT_TAKEN);
    }
    wanted_ = now;
    publish(roster_->wanted, roster_->wanted + 1);
    futex_wake(roster_->wanted, Among::processes);
    if (pid_ < 0 && now - launched_ > between_launches) launch(now);
}

void Monitoring::look(Clock::time_point now) {
    if (!roster_) return;
    int status = 0;
    if (pid_ > 0 && waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = -1;
        if (WIFEXITED(status) && WEXITSTATUS(status) == no_nvml) {  // it has logged why
            munmap(std::exchange(roster_, nullptr), sizeof(Roster));
            return say(BARCUDA_SNAPSHOT_NONE);
        }
        log::error("the monitor has ended ({})", WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "by itself");
    }
    if (const std::uint64_t sequence = observe(region_->snapshot()->sequence); sequence != sequence_) {
        sequence_ = sequence;
        changed_ = now;
        begun_ = true;
        say(BARCUDA_SNAPSHOT_TAKEN);
    } else if (now - wanted_ < wanted_for && now - changed_ > (begun_ ? silent_after : silent_at_first_after))
        say(BARCUDA_SNAPSHOT_SILENT);
}

const Busy* Monitoring::busy(std::chrono::system_clock::time_point now) const {
    constexpr std::chrono::seconds old{3};
    const auto taken =
        std::chrono::system_clock::time_point{} + std::chrono::microseconds(roster_ ? observe(roster_->busy.taken) : 0);
    return roster_ && taken + old > now ? &roster_->busy : nullptr;
}

void Monitoring::say(barcuda_snapshot_state state) {
    auto& word = const_cast<barcuda_snapshot*>(region_->snapshot())->state;
    if (state == BARCUDA_SNAPSHOT_SILENT && !std::exchange(told_, true)) log::warn("the host's NVML does not answer");
    state_ = state;
    if (observe(word) != static_cast<barcuda_u32>(state)) publish(word, static_cast<barcuda_u32>(state));
}

}  // namespace barcuda
