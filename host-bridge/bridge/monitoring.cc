// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/monitoring.h"

#include <fcntl.h>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <utility>

#include "host-bridge/link.h"
#include "host-bridge/log.h"
#include "shm-device/sync.h"

namespace barcuda {
namespace {

// A sweep takes some milliseconds. A driver that resets a GPU, or has lost one, may keep its callers for long.
constexpr std::chrono::seconds silent_after{5};
// A monitor that dies again and again costs a start of NVML each time.
constexpr std::chrono::seconds between_launches{5};

}  // namespace

Monitoring::~Monitoring() {
    if (pid_ > 0) kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0);
    if (roster_) munmap(roster_, sizeof *roster_);
    if (roster_file_ >= 0) close(roster_file_);
}

void Monitoring::start(Region& region, const std::string& cuda) {
    region_ = &region;
    library_ = std::filesystem::path(cuda).replace_filename("libnvidia-ml.so.1");
    roster_file_ = memfd_create("barcuda-roster", MFD_CLOEXEC);
    void* at = MAP_FAILED;
    if (roster_file_ >= 0 && ftruncate(roster_file_, sizeof(Roster)) == 0)
        at = mmap(nullptr, sizeof(Roster), PROT_READ | PROT_WRITE, MAP_SHARED, roster_file_, 0);
    if (at == MAP_FAILED) return log::error("no NVML in guests: {}", strerror(errno)), say(BARCUDA_SNAPSHOT_NONE);
    roster_ = static_cast<Roster*>(at);
    launch();
}

void Monitoring::launch() {
    launched_ = changed_ = Clock::now();
    pid_ = fork();
    if (pid_ < 0) return log::error("cannot start the monitor: {}", strerror(errno));
    if (pid_ > 0) return;
    // By way of descriptors that are nobody's, as for a worker.
    const int region = fcntl(region_->fd(), F_DUPFD, 16), roster = fcntl(roster_file_, F_DUPFD, 16);
    dup2(region, region_fd), dup2(roster, roster_fd);
    close_range(roster_fd + 1, ~0u, 0);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    execl("/proc/self/exe", "barcuda-bridge", "--monitor", library_.c_str(), nullptr);
    _exit(127);
}

void Monitoring::client(std::uint32_t slot, pid_t worker) {
    if (roster_) publish(roster_->workers[slot], static_cast<barcuda_u32>(worker));
}

void Monitoring::look(Clock::time_point now) {
    if (!roster_) return;
    int status = 0;
    if (pid_ > 0 && waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = -1;
        if (WIFEXITED(status) && WEXITSTATUS(status) == no_nvml) {  // it has said why
            munmap(std::exchange(roster_, nullptr), sizeof(Roster));
            return say(BARCUDA_SNAPSHOT_NONE);
        }
        log::error("the monitor has ended ({})", WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "by itself");
    }
    if (pid_ < 0 && now - launched_ > between_launches) launch();
    if (const std::uint64_t sequence = observe(region_->snapshot()->sequence); sequence != sequence_)
        sequence_ = sequence, changed_ = now, say(BARCUDA_SNAPSHOT_TAKEN);
    else if (now - changed_ > silent_after) say(BARCUDA_SNAPSHOT_SILENT);
}

void Monitoring::say(barcuda_snapshot_state state) {
    auto& word = const_cast<barcuda_snapshot*>(region_->snapshot())->state;
    if (observe(word) == static_cast<barcuda_u32>(state)) return;
    if (state == BARCUDA_SNAPSHOT_SILENT) log::warn("the host's NVML does not answer");
    publish(word, static_cast<barcuda_u32>(state));
}

}  // namespace barcuda
