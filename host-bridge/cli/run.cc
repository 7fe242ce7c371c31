// SPDX-License-Identifier: Apache-2.0
// run.cc: `barcuda run`: a region in /dev/shm, in a folder that nobody else can enter, a bridge that serves it, the
// program under the library; then all of it is gone.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "host-bridge/cli/commands.h"

namespace barcuda {
namespace {

pid_t running_program = -1;
void pass_on(int signal) {
    if (running_program > 0) kill(running_program, signal);
}

// Where the region lies. Others see the folder's name, but can put nothing of that name or into it.
class Folder {
  public:
    Folder() : made_(mkdtemp(path_.data())) {}
    ~Folder() {
        if (!made_) return;
        unlink(region().c_str());
        rmdir(path_.c_str());
    }
    Folder(const Folder&) = delete;
    explicit operator bool() const { return made_; }
    std::string region() const { return path_ + "/region"; }

  private:
    std::string path_ = "/dev/shm/barcuda-run-XXXXXX";
    const bool made_;  // for this user alone: mode 0700
};

int complain(const std::string& what) { return fmt::print(stderr, "barcuda run: {}\n", what), cannot_run; }

// Starts the bridge and waits until guests may come. Returns its pid, or -1: it has said why. `soft`: it has taken the
// software GPU.
pid_t start_bridge(const Installation& here, const std::string& region, const RunOptions& o, bool& soft) {
    int ready[2];
    if (pipe2(ready, O_CLOEXEC) != 0) return -1;
    const pid_t bridge = fork();
    if (bridge == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        signal(SIGINT, SIG_IGN);  // Ctrl-C is the program's
        const int out = dup(ready[1]);
        std::vector<std::string> words = {"barcuda-bridge",
                                          "--region",
                                          region,
                                          "--size",
                                          std::to_string(o.region_size),
                                          "--no-vm",
                                          "--device",
                                          o.device,
                                          "--ready-fd",
                                          std::to_string(out),
                                          "--name",
                                          fmt::format("run-{}", getppid())};
        if (!o.wrapper.empty()) words.insert(words.end(), {"--worker-wrapper", o.wrapper});
        if (!o.no_cage.empty()) words.insert(words.end(), {"--no-cage", o.no_cage});
        if (!o.cage.empty()) words.insert(words.end(), {"--cage", o.cage});
        if (!o.gpus.empty()) words.insert(words.end(), {"--gpus", o.gpus});
        // It is the program's, which chooses among what the bridge shows. (But only a driver knows the parts of a GPU, MIG.)
        if (const char* seen = getenv("CUDA_VISIBLE_DEVICES")) {
            if (*seen) words.push_back(fmt::format("--expected={}", seen));
            if (strncmp(seen, "MIG-", 4) != 0) unsetenv("CUDA_VISIBLE_DEVICES");
        }
        words[0] = here.bridge;
        _exit(become("run", words));
    }
    close(ready[1]);
    char line[64];
    const ssize_t n = read(ready[0], line, sizeof line);
    close(ready[0]);
    soft = std::string_view(line, n > 0 ? n : 0).starts_with("ready soft");
    if (n > 0) return bridge;
    if (bridge > 0) waitpid(bridge, nullptr, 0);
    return -1;
}

}  // namespace

int run(const RunOptions& o) {
    const Installation here = installation();
    if (const std::string lacks = check(here); !lacks.empty()) return complain(lacks);
    const Folder folder;
    if (!folder) return complain(fmt::format("cannot make a folder in /dev/shm: {}", strerror(errno)));
    const std::string region = folder.region();

    bool soft = false;
    const pid_t bridge = start_bridge(here, region, o, soft);
    if (bridge < 0) return cannot_run;
    running_program = fork();
    if (running_program == 0) {
        setenv("BARCUDA_REGION", region.c_str(), 1);
        if (o.statistics) setenv("BARCUDA_STATS", "1", 1);
        // NVIDIA's libraries hold nothing that a software GPU could run.
        put_in_front(here, soft || o.host_libraries, o.host_libraries);
        _exit(become("run", o.program));
    }
    for (int s : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) signal(s, pass_on);
    int status = 0;
    while (waitpid(running_program, &status, 0) < 0 && errno == EINTR) {}
    kill(bridge, SIGTERM);
    waitpid(bridge, nullptr, 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace barcuda
