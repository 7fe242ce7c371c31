// SPDX-License-Identifier: Apache-2.0
// run.cc: `barcuda run`: makes a region in /dev/shm, in a folder that no other user can enter, starts a bridge that
// serves it, and runs the program with the library. Afterwards it removes everything.
#include "host-bridge/cli/run.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/cli/exit_status.h"
#include "base/cli/installation.h"
#include "base/cli/options.h"
#include "host-bridge/cli/commands.h"
#include "host-bridge/cli/notices.h"
#include "host-bridge/cli/windows_program.h"

namespace barcuda {
namespace {

pid_t running_program = -1;
void pass_on(int signal) {
    if (running_program > 0) kill(running_program, signal);
}

}  // namespace

void add_options(Command command, RunOptions& options) {
    add_bridge_options(command, options.bridge);
    add_worker_options(command, options.bridge);
    add_host_libraries(command, options.host_libraries, " (always so with the software GPU)");
    add_program(command, options.program);
}

void add_run(App& app) {
    const auto options = std::make_shared<RunOptions>();
    const Command command = app.add(
        "run", "run a program with its own region, without a VM", [options] { return run(*options); }, cannot_run);
    add_options(command, *options);
    command
        .add_flag("--windows", options->windows,
                  "the program is one for Windows: Wine runs it, with the DLLs of `make windows`, which have neither "
                  "cuBLAS nor cuRAND (docs/windows.md)")
        .excludes(command.option("--host-libraries"));
}

int run(const RunOptions& o) {
    const Installation here = installation();
    if (const std::string lacks = check(here); !lacks.empty()) return complain("run", lacks, cannot_run);
    if (access(here.bridge.c_str(), X_OK) != 0) return complain("run", bridge_is_missing(here), cannot_run);
    if (const std::string lacks = o.windows ? windows::check(here) : ""; !lacks.empty())
        return complain("run", lacks, cannot_run);
    const OwnFolder folder("run");
    if (!folder)
        return complain("run", fmt::format("cannot make a folder in /dev/shm: {}", strerror(errno)), cannot_run);
    const std::string region = folder.path() + "/region";

    bool soft = false;
    auto words = bridge_words(here, region, fmt::format("run-{}", getpid()), o.bridge);
    // A second driver start while the program runs would take time from the program, and may be for nothing.
    for (const char* const word : {"--no-vm", "--warm=0", "--warm-first=1", "--warm-most=1"}) words.emplace_back(word);
    const OwnBridge bridge = start_bridge("run", words, true, soft);
    if (bridge.pid < 0) return cannot_run;
    running_program = fork();
    if (running_program == 0) {
        setenv("BARCUDA_REGION", region.c_str(), 1);
        if (o.statistics) setenv("BARCUDA_STATS", "1", 1);
        std::vector<std::string> program = o.program;
        if (o.windows) {
            windows::put_in_front(here, region);
            program.insert(program.begin(), "wine");
        } else {
            // NVIDIA's libraries contain nothing that a software GPU could run.
            put_in_front(here, soft || o.host_libraries, o.host_libraries);
        }
        _exit(become("run", program));
    }
    for (int s : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) signal(s, pass_on);
    int status = 0;
    while (waitpid(running_program, &status, 0) < 0 && errno == EINTR) {}
    end_bridge(bridge);
    return exit_status(status);
}

}  // namespace barcuda
