// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/exporting.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "base/listen.h"
#include "base/log.h"

namespace barcuda {
namespace {
constexpr std::chrono::seconds between_launches{5};  // an exporter that cannot run must not keep the bridge busy
constexpr int listener_fd = 3;
}  // namespace

Exporting::~Exporting() {
    if (pid_ > 0) {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
    if (listener_ && options_.address.starts_with('/')) unlink(options_.address.c_str());
}

Failure Exporting::open(const MetricsOptions& options, const std::string& region, const Kept& kept) {
    if (options.address.empty()) return {};
    options_ = options;
    std::error_code ec;
    region_ = std::filesystem::absolute(region, ec);
    std::string error;
    listener_ = kept.take("metrics");  // an earlier bridge's
    if (listener_) return {};
    listener_ = listen_at(options.address, error);
    if (listener_) kept.keep("metrics", listener_.fd());
    if (!listener_) return "--metrics " + error;
    return {};
}

void Exporting::launch() {
    launched_ = Clock::now();
    const pid_t bridge = getpid();
    pid_ = fork();
    if (pid_ < 0) return log::error("cannot start the exporter: {}", strerror(errno));
    if (pid_ > 0) return;
    const int moved = fcntl(listener_.fd(), F_DUPFD, 16);  // through an unused descriptor number, as for a worker
    dup2(moved, listener_fd);
    close_range(listener_fd + 1, ~0u, 0);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    std::error_code ec;
    const std::string exporter = std::filesystem::read_symlink("/proc/self/exe", ec).parent_path() / "barcuda-exporter";
    execl(exporter.c_str(), "barcuda-exporter", "--bridge", std::to_string(bridge).c_str(), "--listener",
          std::to_string(listener_fd).c_str(), "--region", region_.c_str(),
          options_.clients ? "--clients" : "--clients=false", options_.gpus ? "--gpus" : "--gpus=false", nullptr);
    log::error("cannot start {}: {}", exporter, strerror(errno));
    _exit(127);
}

void Exporting::look(Clock::time_point now) {
    if (!listener_) return;
    int status = 0;
    if (pid_ > 0 && waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = -1;
        if (WIFSIGNALED(status)) log::error("the exporter has ended: {}", strsignal(WTERMSIG(status)));
        else log::error("the exporter has ended with status {}", WEXITSTATUS(status));
    }
    if (pid_ < 0 && now - launched_ > between_launches) launch();
}

}  // namespace barcuda
