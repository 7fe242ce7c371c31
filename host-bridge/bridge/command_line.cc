// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <map>
#include <string_view>
#include <vector>

#include "base/cli/app.h"
#include "base/cli/config.h"
#include "base/cli/names.h"
#include "shm-device/version_text.h"

namespace barcuda {
namespace {

// CLI11 would read a negative number as a very large unsigned one.
std::string not_negative(const std::string& text) {
    return text.starts_with('-') ? throw CLI::ValidationError(text, "it cannot be negative") : text;
}

// Its own description lists all units that it knows.
CLI::Validator a_size() { return CLI::AsSizeValue(false).description(""); }

std::string on_or_off(const std::string& text) {
    if (text == "on" || text == "1") return "1";
    return text == "off" || text == "0" ? "0" : throw CLI::ValidationError(text, "it is on or off");
}

// The default name: vm1, of /etc/barcuda/vm1.conf or /dev/shm/barcuda-vm1.
std::string name_of(const std::string& config, const std::string& region) {
    std::string name = config.empty() ? std::filesystem::path(region).filename() : std::filesystem::path(config).stem();
    if (constexpr std::string_view ours = "barcuda-"; name.starts_with(ours)) name.erase(0, ours.size());
    for (char& c : name)
        if (in_names.find(c) == in_names.npos) c = '_';
    if (!name.empty() && !is_name(name.substr(0, 1))) name[0] = '_';
    return name.empty() ? "_" : name.substr(0, longest_name);
}

// "on", "off", or a path, which a missing value would not look like.
std::string check_cards(const std::string& text) {
    return text == "on" || text == "off" || text.find('/') != text.npos ? "" : "it is on, off, or the path of a file";
}

CLI::Option* add_size(CLI::App& app, const char* name, std::uint64_t& bytes, const char* help) {
    return app.add_option(name, bytes, help)->type_name("SIZE")->transform(a_size())->transform(not_negative);
}

// The region: its file, and which users may use it.
void add_region(CLI::App& app, CommandLine& line) {
    BridgeOptions& options = line.options;
    app.add_option("--region", options.region, "the shared file")->envname("BARCUDA_REGION")->capture_default_str();
    app.add_option("--name", options.name,
                   "the VM's name in the log, in `barcuda ps` and in metrics (default: the name of the file of "
                   "--config, or the region's)")
        ->envname("BARCUDA_NAME")
        ->check(check_name);
    add_size(app, "--size", options.size,
             "bytes of a new region, a power of two; with K, M or G; an existing region keeps its size")
        ->default_str("4G");
    app.add_option("--base", options.base, "virtual address of the region in every process")
        ->transform(not_negative)
        ->default_str("0x200000000000");
    app.add_flag("--overwrite", options.overwrite,
                 "format the file even if it is not a region, or a region of another build");
    app.add_option_function<std::string>(
        "--group",
        [&options](const std::string& text) {
            if (const Failure e = read_group(text, options.access.group))
                throw CLI::ValidationError("--group", e.text());
        },
        "the group of the region's file and of the doorbell, by name or number: QEMU's, kvm for instance (default: "
        "this process's)");
    app.add_option_function<std::string>(
        "--mode",
        [&options](const std::string& text) {
            if (const Failure e = read_mode(text, options.access.mode)) throw CLI::ValidationError("--mode", e.text());
        },
        "their mode: 0600, 0640 or 0660 (default: 0660 with --group; without: 0660 less the umask)");
}

// The driver, and what of it the VM gets.
void add_gpus(CLI::App& app, CommandLine& line) {
    BridgeOptions& options = line.options;
    app.add_option("--device", options.device,
                   "auto: the GPU, otherwise the software GPU; cuda: the GPU; soft: the software GPU")
        ->check(CLI::IsMember({"auto", "cuda", "soft"}))
        ->capture_default_str();
    app.add_option("--device-memory", options.device_memory,
                   "driver: cuMemAlloc is the driver's; blocks: the workers map device memory themselves, at addresses "
                   "that depend only on what the program has allocated")
        ->check(CLI::IsMember({"driver", "blocks"}))
        ->capture_default_str();
    app.add_option("--gpus", options.gpus,
                   "which GPUs the VM gets, in its order: numbers as CUDA counts them here, or UUIDs (0,2 or "
                   "GPU-8932f937,...; default: all)")
        ->check([](const std::string& list) { return std::string(list.empty() ? "it names no GPU" : ""); });
    app.add_option("--expected", options.expected)->group("");  // the first client's CUDA_VISIBLE_DEVICES
}

// What clients, and the guest as a whole, may have (between/limits.h).
void add_limits(CLI::App& app, CommandLine& line) {
    BridgeOptions& options = line.options;
    each_limit([&](Limit limit, const AboutLimit& its) {
        for (const auto whose : {Of::client, Of::guest}) {
            if (!its.is(whose)) continue;
            auto& all = whose == Of::client ? options.limits.client : options.limits.guest;
            CLI::Option* const option = app.add_option("--" + its.option(whose), all[limit], its.help(whose));
            if (its.unit == Unit::on_or_off) option->transform(on_or_off);
            else
                option->type_name(its.unit == Unit::bytes ? "SIZE" : "NUMBER")
                    ->transform(a_size())
                    ->transform(not_negative);
        }
    });
}

// Workers that wait for a client, and what runs around each worker.
void add_workers(CLI::App& app, CommandLine& line) {
    BridgeOptions& options = line.options;
    app.add_option("--warm", options.warm.least, "number of workers that wait with a CUDA context ready")
        ->capture_default_str();
    app.add_option("--warm-most", options.warm.most,
                   "the most of them if clients connect faster: one more for each client that finds none (default: as "
                   "many as --warm)");
    app.add_option("--warm-first", options.warm.first,
                   "at least this many until a client has connected (--warm 0 --warm-first 1: one worker waits for "
                   "the first client, and none for others until a second one has connected)")
        ->capture_default_str();
    add_size(app, "--warm-memory", options.warm.memory,
             "host memory that all waiting workers may hold if there are more than --warm, including the part of "
             "the region that each keeps (default: no limit; the GPU memory of their contexts is not included)");
    app.add_option("--warm-idle", line.warm_idle, "seconds without a new client after which workers beyond --warm end")
        ->capture_default_str();
    app.add_option(
        "--worker-wrapper", options.wrapper,
        "a profiler or a debugger around each worker, with its options, as a shell reads them: 'ncu --set basic'; "
        "each worker is then started when its client connects (docs/profiling.md)");
}

// Users, and the workers' cage.
void add_cage(CLI::App& app, CommandLine& line) {
    BridgeOptions& options = line.options;
    app.add_option(
           "--user", options.user,
           "the user that root's bridge becomes after it has taken another one for its workers: NAME, or NAME:GROUP "
           "with the group of the region's file (default: it stays root)")
        ->envname("BARCUDA_USER");
    app.add_option(
        "--worker-user", options.cage.user,
        "the user that workers run as, with its groups (only root's bridge; default: an unused user number)");
    app.add_option(
           "--no-cage", options.cage.without,
           "measures of the workers' cage to leave out, separated by commas, or all; `barcuda doctor` names them")
        ->check([](const std::string& names) { return cage::check_names(names).text(); });
    app.add_option("--cage", options.cage.with,
                   "measures to take even if they are off by default, or left out by --no-cage")
        ->check([](const std::string& names) { return cage::check_names(names).text(); });
    app.add_option(
           "--allow-call", options.cage.calls,
           "system calls that workers may make although their driver's list lacks them, separated by commas: the "
           "log names those that were refused")
        ->check([](const std::string& names) {
            cage::Order order;
            return cage::allow_calls(names, order).text();
        });
    app.add_option(
           "--allow-path", line.more_files,
           "files and folders that workers may read in addition to what drivers usually need, separated by colons")
        ->envname(cage::more_files);
    app.add_flag("--record-calls", options.cage.record,
                 "log the system calls that the driver makes after it is open, except those that the software GPU "
                 "makes");
}

// How bridges share the GPUs' time.
void add_turns(CLI::App& app, CommandLine& line) {
    BridgeOptions& options = line.options;
    app.add_option("--weight", options.share.weight,
                   "this VM's part of the GPUs' time, relative to other bridges with a weight, when all have work for "
                   "them (default: none: the GPU itself divides its time)")
        ->check(CLI::Range(1u, turns::most_weight));
    app.add_option(
           "--priority", line.priority,
           "of this VM among those bridges: low, normal or high. A higher one has the next turn whatever the "
           "weights, which apply among equals; a lower one still gets a sixteenth of the time (default: normal, "
           "with a weight of 100 if none is given)")
        ->check(CLI::IsMember(std::vector<std::string>(std::begin(turns::priorities), std::end(turns::priorities))));
    app.add_option(
        "--turns", options.turns,
        "the file with which bridges with weights share GPUs (default: /dev/shm/barcuda-turns-UID; bridges of several "
        "users need one of root's, which their group may write to). Without --weight: `barcuda limit` can set a weight "
        "later");
}

// How bridges share the GPUs' memory.
void add_cards(CLI::App& app, CommandLine& line) {
    BridgeOptions& options = line.options;
    app.add_option(
           "--cards", options.cards,
           "share the memory of GPUs with other bridges, so that guests together may need more than there is: "
           "on, off, or the file of the book that the bridges share (on: /dev/shm/barcuda-cards-UID; bridges of "
           "several users need one of root's, which their group may write to). Needs --device-memory blocks "
           "(docs/oversubscription.md)")
        ->check(check_cards)
        ->default_str("off");
    add_size(app, "--store", options.store,
             "host memory for what leaves a shared GPU, of all clients; without it, this VM's memory stays there");
    add_size(app, "--store-ready", options.store_ready,
             "how much of the store is prepared ahead, because fresh pages take most of a second for a GiB; in "
             "steps of 256M");
    app.add_option("--wait", options.wait,
                   "seconds that a program waits for memory of a shared GPU before it hears that there is none")
        ->check(CLI::Range(1u, longest_wait_for_memory))
        ->capture_default_str();
    add_size(app, "--card-reserve", options.card_reserve,
             "bytes of each shared GPU that are promised to no client; the largest of all bridges holds")
        ->default_str("768M");
    app.add_option("--context-idle", options.context_idle,
                   "the time after which also the context of an idle client leaves a shared GPU, while another client "
                   "waits for memory there; it comes back at the client's next command: 300s, 5m, 1h (0: never)")
        ->transform(CLI::AsNumberWithUnit(std::map<std::string, std::uint32_t>{{"s", 1}, {"m", 60}, {"h", 3600}},
                                          CLI::AsNumberWithUnit::CASE_SENSITIVE, "TIME"))
        ->capture_default_str();
}

// What is outside of the bridge: the VM, readers of metrics, and the process that has started it.
void add_outside(CLI::App& app, CommandLine& line) {
    BridgeOptions& options = line.options;
    app.add_option("--doorbell", options.doorbell,
                   "interrupts for a VM: the socket to which QEMU connects\n"
                   "(-chardev socket,id=d,path=SOCKET -device ivshmem-doorbell,chardev=d,vectors=1)")
        ->envname("BARCUDA_DOORBELL");
    app.add_option(
        "--metrics", options.metrics.address,
        "address of metrics for Prometheus by HTTP: numeric HOST:PORT (127.0.0.1:9788), or the path of a socket");
    app.add_flag("--metrics-clients", options.metrics.clients, "also series of each client");
    app.add_flag("--metrics-gpus", options.metrics.gpus,
                 "also how busy the GPUs are; each request makes NVML work for some seconds");
    app.add_option("--wake", options.wake,
                   "go on with the VM that `barcuda suspend` has written to this folder; a bridge that cannot says why "
                   "and leaves the folder as it is (docs/state.md)")
        ->configurable(false);
    app.add_flag("--no-vm", options.no_vm,
                 "no VM will connect: programs of this machine wake the bridge, so it need not poll");
    app.add_option("--ready-fd", options.ready_fd, "write a line to this descriptor once guests may connect")
        ->configurable(false);
    app.add_option("--go-fd", options.go_fd)->group("")->configurable(false);          // (cli/receive.cc)
    app.add_option("--served-fd", options.served_fd)->group("")->configurable(false);  // (cli/own_bridge.cc)
    app.add_option("--log-level", line.level, "trace, debug, info, warn, err, critical or off")
        ->envname("BARCUDA_LOG")
        ->check(CLI::IsMember({"trace", "debug", "info", "warn", "warning", "err", "error", "critical", "off"}))
        ->capture_default_str();
}

// What else this program is, and what the bridge and its keeper say to another file of it.
void add_roles(CLI::App& app, CommandLine& line) {
    BridgeOptions& options = line.options;
    app.add_option("--worker", line.worker)->group("");    // how the bridge starts its own workers
    app.add_option("--monitor", line.monitor)->group("");  // and its monitor
    app.add_option("--keeper", line.keeper)->group("");    // how a keeper starts the bridge of another file (keeper.cc)
    app.add_option("--trial", options.trial)->group("");
    app.add_option("--could-follow", line.words)->group("");  // and asks it whether its build understands these numbers
    app.add_flag("--numbers", line.numbers,
                 "print the numbers that decide whether this build can go on with another one's clients, as JSON "
                 "(docs/versions.md)")
        ->configurable(false);
}

// What options together say. Returns what is wrong with them.
Failure settle(CommandLine& line) {
    BridgeOptions& options = line.options;
    if (options.metrics.address.empty() && (options.metrics.clients || options.metrics.gpus))
        return "--metrics-clients and --metrics-gpus need --metrics ADDRESS, which is missing";
    if (Failure e = settle_cards(options)) return e;
    options.warm.idle = std::chrono::seconds(line.warm_idle);
    if (line.priority.empty()) return {};
    options.share.priority = *turns::priority_named(line.priority);
    if (options.share.weight == 0) options.share.weight = turns::usual_weight;
    return {};
}

}  // namespace

std::optional<int> CommandLine::read(int argc, char** argv) {
    CLI::App app{
        "Lends this host's GPU to the guests of one region.\n"
        "The region is a file that QEMU maps: -object memory-backend-file,share=on,mem-path=REGION,size=SIZE,id=r\n"
        "                                     -device ivshmem-plain,memdev=r",
        "barcuda-bridge"};
    for (const auto add :
         {add_region, add_gpus, add_limits, add_workers, add_cage, add_turns, add_cards, add_outside, add_roles})
        add(app, *this);
    app.set_version_flag("--version", version_text());
    add_config(app);
    int status = 0;
    if (!understood(app, argc, argv, status)) return status;
    if (const Failure e = settle(*this)) {
        fmt::print(stderr, "barcuda-bridge: {}\n", e.text());
        return wrong_usage;
    }
    if (options.name.empty()) options.name = name_of(app.get_config_ptr()->as<std::string>(), options.region);
    return {};
}

}  // namespace barcuda
