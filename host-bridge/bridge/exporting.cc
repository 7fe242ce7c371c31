// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/exporting.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/listen.h"
#include "base/log.h"
#include "host-bridge/bridge/spawn.h"

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

Failure Exporting::open(const MetricsOptions& options, const std::string& region, const Kept& kept,
                        std::string program) {
    if (options.address.empty()) return {};
    options_ = options;
    std::error_code ec;
    region_ = std::filesystem::absolute(region, ec);
    program_ = std::move(program);
    if (program_.empty())
        program_ = std::filesystem::read_symlink("/proc/self/exe", ec).parent_path() / "barcuda-exporter";
    std::string error;
    listener_ = kept.take("metrics");  // an earlier bridge's
    if (listener_) return {};
    listener_ = listen_at(options.address, error);
    if (listener_) kept.keep("metrics", listener_.fd());
    if (!listener_) return "--metrics " + error;
    return {};
}

void Exporting::launch(Clock::time_point now) {
    launched_ = now;
    Spawn what;
    what.program = program_;
    what.command = {"barcuda-exporter",
                    "--bridge",
                    std::to_string(getpid()),
                    "--listener",
                    std::to_string(listener_fd),
                    "--region",
                    region_,
                    options_.clients ? "--clients" : "--clients=false",
                    options_.gpus ? "--gpus" : "--gpus=false"};
    what.files = {{listener_.fd(), listener_fd}};
    pid_ = spawn(what);
    if (pid_ < 0) log::error("cannot start the exporter: {}", strerror(errno));
}

void Exporting::look(Clock::time_point now) {
    if (!listener_) return;
    int status = 0;
    if (pid_ > 0 && waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = -1;
        if (WIFEXITED(status) && WEXITSTATUS(status) == no_command)
            log::error("cannot start {}: it is not there, or may not be executed", program_);
        else if (WIFSIGNALED(status)) log::error("the exporter has ended: {}", strsignal(WTERMSIG(status)));
        else log::error("the exporter has ended with status {}", WEXITSTATUS(status));
    }
    if (pid_ < 0 && now - launched_ > between_launches) launch(now);
}

}  // namespace barcuda
