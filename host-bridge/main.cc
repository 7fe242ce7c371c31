// SPDX-License-Identifier: Apache-2.0
// barcuda-bridge: lends this host's GPU to the guests of one region.
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/log.h"
#include "host-bridge/between/link.h"
#include "host-bridge/bridge/bridge.h"
#include "host-bridge/bridge/command_line.h"
#include "host-bridge/bridge/numbers.h"
#include "host-bridge/keeper/keeper.h"
#include "host-bridge/monitor/monitor.h"
#include "host-bridge/worker/worker.h"

namespace barcuda {
namespace {

bool is_pipe(int fd) {
    struct stat st {};
    return fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode);
}

// For this process, and by the environment for its workers and its monitor: they use the same name and level.
void start_log(const CommandLine& line) {
    const std::string& name = line.options.name;
    if (!line.more_files.empty()) setenv(cage::more_files, line.more_files.c_str(), 1);  // workers read it, too
    setenv("BARCUDA_NAME", name.c_str(), 1);
    setenv("BARCUDA_LOG", line.level.c_str(), 1);
    if (line.worker.empty()) log::start(stderr, "barcuda-bridge", line.level, name);
    else if (is_pipe(log_fd)) log::start_worker(fdopen(log_fd, "w"), line.level);
    else log::start(stderr, "barcuda-worker", line.level, name);  // its wrapper passed no log on
    if (!line.worker.empty() && is_pipe(into_errors_fd)) {        // the driver uses its standard error (link.h)
        dup2(into_errors_fd, STDERR_FILENO);
        close(into_errors_fd);
    }
}

int serve(BridgeOptions options, File keeper, int argc, char** argv) {
    if (keeper) {  // which is a process of another file
        prctl(PR_SET_NAME, "barcuda-bridge");
        close_range(STDERR_FILENO + 1, ~0u, CLOSE_RANGE_CLOEXEC);
        options.ready_fd = -1;  // it was told long ago
    } else {
        Keeper own(options.ready_fd, options.served_fd, {argv, argv + argc});
        if (const int status = own.run(keeper); !keeper) return status;
        if (own.has_served()) options.ready_fd = -1;
    }
    const int ended = Bridge(options, std::move(keeper)).run();
    // Everything that the bridge has made is gone. No process needs to wait for what the kernel still does for this
    // one.
    if (options.served_fd >= 0) close(options.served_fd);
    return ended;
}

int run(int argc, char** argv) {
    CommandLine line;
    if (const auto status = line.read(argc, argv)) return *status;
    if (line.numbers) return puts(Numbers::of_this_build().json().c_str()) < 0;
    if (!line.words.empty()) return could_follow(line.words);
    start_log(line);
    if (!line.worker.empty()) return run_worker(line.worker, true, line.options.device_memory == "blocks");
    if (!line.monitor.empty()) return run_monitor(line.monitor);
    return serve(line.options, File(line.keeper), argc, argv);
}

}  // namespace
}  // namespace barcuda

int main(int argc, char** argv) { return barcuda::run(argc, argv); }
