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
#include <filesystem>
#include <string_view>

#include "host-bridge/cli/commands.h"
#include "host-bridge/home.h"

namespace barcuda {
namespace {

constexpr int cannot_run = 125;  // as env(1) and others use it: the failure is not the program's

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

void exec(const char* file, const std::vector<std::string>& words) {
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    execvp(file, arguments.data());
}

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
        std::vector<std::string> words = {
            "barcuda-bridge", "--region", region,   "--size",     std::to_string(o.region_size),
            "--no-vm",        "--device", o.device, "--ready-fd", std::to_string(out)};
        if (!o.wrapper.empty()) words.insert(words.end(), {"--worker-wrapper", o.wrapper});
        if (!o.gpus.empty()) words.insert(words.end(), {"--gpus", o.gpus});
        // It is the program's, which chooses among what the bridge shows. (But only a driver knows the parts of a GPU, MIG.)
        if (const char* seen = getenv("CUDA_VISIBLE_DEVICES"); seen && strncmp(seen, "MIG-", 4) != 0) {
            if (*seen) words.push_back(fmt::format("--expected={}", seen));
            unsetenv("CUDA_VISIBLE_DEVICES");
        }
        exec(here.bridge.c_str(), words);
        fmt::print(stderr, "barcuda run: cannot start {}: {}\n", here.bridge, strerror(errno));
        _exit(127);
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

void prepend(const char* variable, const std::string& value, char separator) {
    const char* before = getenv(variable);
    setenv(variable, before && *before ? (value + separator + before).c_str() : value.c_str(), 1);
}

}  // namespace

Installation installation() {
    std::error_code ec;
    const auto bin = std::filesystem::read_symlink("/proc/self/exe", ec).parent_path();
    return {bin / "barcuda-bridge", installed("libbarcuda.so"), installed("barcuda"), installed("barcuda-libraries"),
            installed("barcuda-soft/libcuda.so.1")};
}

int run(const RunOptions& o) {
    const Installation here = installation();
    if (access(here.library.c_str(), R_OK) != 0)
        return complain(here.library + " is missing: run make, or make install");
    if (here.library.find_first_of(" :;") != std::string::npos)  // ld.so(8): LD_PRELOAD and LD_LIBRARY_PATH end there
        return complain(here.library + ": move Barcuda to a folder whose path has no space, colon or semicolon");
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
        if (o.host_libraries)  // programs that carry NVIDIA's name the folder themselves (DT_RPATH)
            for (const char* name : {"/libcurand.so.10", "/libcublasLt.so.13", "/libcublas.so.13"})
                prepend("LD_PRELOAD", here.libraries + name, ':');
        prepend("LD_PRELOAD", here.library, ':');
        // NVIDIA's libraries hold nothing that a software GPU could run.
        if (soft || o.host_libraries) prepend("LD_LIBRARY_PATH", here.libraries, ':');
        prepend("LD_LIBRARY_PATH", here.links, ':');
        exec(o.program[0].c_str(), o.program);
        const int error = errno;
        fmt::print(stderr, "barcuda run: cannot run {}: {}\n", o.program[0], strerror(error));
        _exit(error == ENOENT ? 127 : 126);
    }
    for (int s : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) signal(s, pass_on);
    int status = 0;
    while (waitpid(running_program, &status, 0) < 0 && errno == EINTR) {}
    kill(bridge, SIGTERM);
    waitpid(bridge, nullptr, 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace barcuda
