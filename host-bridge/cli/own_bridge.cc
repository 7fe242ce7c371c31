// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/cli/own_bridge.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "base/cli/options.h"
#include "base/message.h"
#include "host-bridge/cage/cage.h"

namespace barcuda {

void add_bridge_options(Command command, OwnBridgeOptions& options) {
    command
        .add_option("--device", options.device,
                    "auto: the GPU, otherwise the software GPU; cuda: the GPU; soft: the software GPU")
        .is_member({"auto", "cuda", "soft"})
        .capture_default_str();
    command
        .add_option("--gpus", options.gpus,
                    "which GPUs the program gets, in its order: numbers as CUDA counts them, or UUIDs (0,2 or "
                    "GPU-8932f937,...; default: all). CUDA_VISIBLE_DEVICES chooses among these")
        .check([](const std::string& list) { return std::string(list.empty() ? "it names no GPU" : ""); });
    command
        .add_option("--device-memory", options.device_memory,
                    "driver: cuMemAlloc is the driver's (the default); blocks: the host's side maps device memory "
                    "itself (docs/using-your-own-vm.md)")
        .is_member({"driver", "blocks"});
    command.add_option("--cards", options.cards,
                       "share the GPU's memory with other bridges that do: on, off, or the file that they share; needs "
                       "--device-memory blocks (docs/oversubscription.md)");
    command.add_option("--store", options.store, "host memory for what leaves a shared GPU; with K, M or G");
    command.add_option("--store-ready", options.store_ready, "how much of it is prepared ahead");
    command.add_option("--wait", options.wait, "seconds that a program waits for memory of a shared GPU, at most");
    command.add_option("--card-reserve", options.card_reserve, "bytes of a shared GPU that no program gets");
    command.add_option("--context-idle", options.context_idle,
                       "the time after which also an idle program's context leaves a shared GPU that is full: 5m");
    add_size(command, "--region-size", options.region_size,
             "bytes of shared memory, a power of two; K, M, G are understood");
}

void add_worker_options(Command command, OwnBridgeOptions& options) {
    command.add_option(
        "--worker-wrapper", options.wrapper,
        "a profiler or a debugger around the process that uses the GPU for the program, with its options, as "
        "a shell reads them: 'ncu --set basic', 'compute-sanitizer' (docs/profiling.md)");
    command
        .add_option("--no-cage", options.no_cage,
                    "measures of that process's cage to leave out, separated by commas, or all; `barcuda "
                    "doctor` names them")
        .check([](const std::string& names) { return cage::check_names(names).text(); });
    command
        .add_option("--cage", options.cage,
                    "measures to take even if --no-cage leaves them out; the bridge ends if one is not available")
        .check([](const std::string& names) { return cage::check_names(names).text(); });
}

OwnFolder::OwnFolder(const char* command)
    : path_(fmt::format("/dev/shm/barcuda-{}-XXXXXX", command)), made_(mkdtemp(path_.data())) {}

OwnFolder::~OwnFolder() {
    std::error_code error;
    if (made_) std::filesystem::remove_all(path_, error);
}

std::vector<std::string> bridge_words(const Installation& here, const std::string& region, const std::string& name,
                                      const OwnBridgeOptions& o) {
    std::vector<std::string> words = {here.bridge, "--region", region,   "--size", std::to_string(o.region_size),
                                      "--device",  o.device,   "--name", name};
    if (!o.wrapper.empty()) words.insert(words.end(), {"--worker-wrapper", o.wrapper});
    if (!o.no_cage.empty()) words.insert(words.end(), {"--no-cage", o.no_cage});
    if (!o.cage.empty()) words.insert(words.end(), {"--cage", o.cage});
    if (!o.device_memory.empty()) words.insert(words.end(), {"--device-memory", o.device_memory});
    const std::pair<const char*, const std::string&> shared[] = {{"--cards", o.cards},
                                                                 {"--store", o.store},
                                                                 {"--store-ready", o.store_ready},
                                                                 {"--wait", o.wait},
                                                                 {"--card-reserve", o.card_reserve},
                                                                 {"--context-idle", o.context_idle}};
    for (const auto& [option, value] : shared)
        if (!value.empty()) words.insert(words.end(), {option, value});
    if (!o.gpus.empty()) words.insert(words.end(), {"--gpus", o.gpus});
    return words;
}

StartedBridge start_until_ready(const char* command, std::vector<std::string> words,
                                const std::function<void(std::vector<std::string>&)>& prepare) {
    int ready[2];
    if (pipe2(ready, O_CLOEXEC) != 0) return {};
    const File reads(ready[0]);
    File writes(ready[1]);
    const pid_t bridge = fork();
    if (bridge == 0) {
        words.insert(words.end(), {"--ready-fd", std::to_string(dup(writes.fd()))});
        prepare(words);
        _exit(become(command, words));
    }
    writes = File();
    char line[64];
    const ssize_t n = bridge > 0 ? read(reads.fd(), line, sizeof line) : -1;
    if (n > 0) return {bridge, std::string_view(line, static_cast<std::size_t>(n)).starts_with("ready soft")};
    if (bridge > 0) {
        if (n < 0) kill(bridge, SIGTERM);
        while (waitpid(bridge, nullptr, 0) < 0 && errno == EINTR) {}
    }
    return {};
}

OwnBridge start_bridge(const char* command, const std::vector<std::string>& words, bool chooses, bool& soft) {
    int served[2];
    if (pipe2(served, O_CLOEXEC) != 0) return {};
    File reads(served[0]);
    File writes(served[1]);
    const StartedBridge bridge = start_until_ready(command, words, [&](std::vector<std::string>& its) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        signal(SIGINT, SIG_IGN);  // Ctrl-C is for the program
        its.insert(its.end(), {"--served-fd", std::to_string(dup(writes.fd()))});
        // Only the driver knows parts of a GPU (MIG), so the bridge handles the list in that case, too.
        if (const char* seen = chooses ? getenv("CUDA_VISIBLE_DEVICES") : nullptr) {
            if (*seen) its.push_back(fmt::format("--expected={}", seen));
            if (strncmp(seen, "MIG-", 4) != 0) unsetenv("CUDA_VISIBLE_DEVICES");
        }
    });
    soft = bridge.soft;
    if (bridge.pid < 0) return {};
    return {bridge.pid, reads.release()};
}

void end_bridge(OwnBridge bridge) {
    kill(bridge.pid, SIGTERM);
    char nothing;
    while (read(bridge.served, &nothing, 1) < 0 && errno == EINTR) {}
    close(bridge.served);
}

}  // namespace barcuda
