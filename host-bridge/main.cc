// SPDX-License-Identifier: Apache-2.0
// barcuda-bridge: lends this host's GPU to the guests of one region.
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "host-bridge/bridge/bridge.h"
#include "host-bridge/config.h"
#include "host-bridge/link.h"
#include "host-bridge/log.h"
#include "host-bridge/monitor/monitor.h"
#include "host-bridge/worker/worker.h"

namespace {
// A number that is read as an unsigned one would be a very large one.
std::string not_negative(const std::string& text) {
    return text.starts_with('-') ? throw CLI::ValidationError(text, "it cannot be negative") : text;
}
}  // namespace

int main(int argc, char** argv) {
    CLI::App app{
        "Lends this host's GPU to the guests of one region.\n"
        "The region is a file that QEMU maps: -object memory-backend-file,share=on,mem-path=REGION,size=SIZE,id=r\n"
        "                                     -device ivshmem-plain,memdev=r",
        "barcuda-bridge"};
    barcuda::BridgeOptions options;
    std::string worker, monitor, level = "warn";
    app.add_option("--region", options.region, "the shared file")->envname("BARCUDA_REGION")->capture_default_str();
    app.add_option("--size", options.size,
                   "bytes, a power of two; K, M, G are understood; of a new region, an old one has its own")
        ->transform(CLI::AsSizeValue(false))
        ->transform(not_negative)
        ->default_str("4G");
    app.add_option("--base", options.base, "virtual address of the region in every process")
        ->transform(not_negative)
        ->default_str("0x200000000000");
    app.add_flag("--overwrite", options.overwrite,
                 "format the file even if it is not a region, or a region of another build");
    app.add_option("--device", options.device,
                   "auto: the GPU, or else the software GPU; cuda: the GPU; soft: the software GPU")
        ->check(CLI::IsMember({"auto", "cuda", "soft"}))
        ->capture_default_str();
    app.add_option("--gpus", options.gpus,
                   "which GPUs the VM gets, in its order: numbers as CUDA counts them here, or UUIDs (0,2 or "
                   "GPU-8932f937,...; default: all)")
        ->check([](const std::string& list) { return std::string(list.empty() ? "it names no GPU" : ""); });
    app.add_option("--expected", options.expected)->group("");  // the first client's CUDA_VISIBLE_DEVICES
    barcuda::each_limit([&](barcuda::Limit limit, const barcuda::AboutLimit& its) {
        for (const auto whose : {barcuda::Of::client, barcuda::Of::guest}) {
            if (!its.is(whose)) continue;
            auto& all = whose == barcuda::Of::client ? options.limits.client : options.limits.guest;
            app.add_option("--" + its.option(whose), all[limit], its.help(whose))
                ->transform(CLI::AsSizeValue(false))
                ->transform(not_negative);
        }
    });
    app.add_option("--warm", options.warm, "workers that wait with a CUDA context ready")->capture_default_str();
    app.add_option(
        "--worker-wrapper", options.wrapper,
        "a profiler or a debugger around each worker, with its options, as a shell reads them: 'ncu --set basic'; "
        "no worker is started before its client comes then (docs/profiling.md)");
    app.add_option("--worker-user", options.cage.user,
                   "the user that workers run as, with its groups (root's bridge alone; default: the bridge's own)");
    app.add_option(
           "--no-cage", options.cage.without,
           "measures of the workers' cage to leave out, with commas between, or all; `barcuda doctor` names them")
        ->check(barcuda::cage::check_names);
    app.add_option("--cage", options.cage.with,
                   "the same: to take on though they are off by default, or left out by --no-cage")
        ->check(barcuda::cage::check_names);
    app.add_flag("--record-calls", options.cage.record,
                 "tell in the log which system calls the driver makes once it is open, those that the software GPU "
                 "makes left out");
    app.add_option(
           "--weight", options.weight,
           "this VM's part of the GPUs' time, beside those of other bridges with a weight, where all have work for "
           "them (default: none: the GPU divides its time as it does)")
        ->check(CLI::Range(1u, barcuda::turns::most_weight));
    app.add_option(
           "--turns", options.turns,
           "the file by which bridges with weights share GPUs (default: /dev/shm/barcuda-turns-UID; bridges of several "
           "users need one of root's, which their group may write to)")
        ->needs("--weight");
    app.add_option("--doorbell", options.doorbell,
                   "interrupts for a VM: a socket where QEMU asks for them\n"
                   "(-chardev socket,id=d,path=SOCKET -device ivshmem-doorbell,chardev=d,vectors=1)")
        ->envname("BARCUDA_DOORBELL");
    app.add_flag("--no-vm", options.no_vm,
                 "no VM will come: programs of this machine wake the bridge, it need not look for them");
    app.add_option("--ready-fd", options.ready_fd, "write a line to this descriptor once guests may come")
        ->configurable(false);
    app.add_option("--log-level", level, "trace, debug, info, warn, err, critical or off")
        ->envname("BARCUDA_LOG")
        ->check(CLI::IsMember({"trace", "debug", "info", "warn", "warning", "err", "error", "critical", "off"}))
        ->capture_default_str();
    app.add_option("--worker", worker)->group("");    // how the bridge starts its own workers
    app.add_option("--monitor", monitor)->group("");  // and its monitor
    app.set_version_flag("--version", BARCUDA_VERSION);
    barcuda::add_config(app);
    CLI11_PARSE(app, argc, argv);

    if (!worker.empty()) {  // its standard error is the driver's (link.h)
        dup2(STDERR_FILENO, barcuda::log_fd);
        dup2(barcuda::into_errors_fd, STDERR_FILENO);
        close(barcuda::into_errors_fd);
    }
    if (worker.empty()) barcuda::log::start(stderr, "barcuda-bridge", level);
    else barcuda::log::start(fdopen(barcuda::log_fd, "w"), "barcuda-worker", level);
    if (!worker.empty()) return barcuda::run_worker(worker, true);
    if (!monitor.empty()) return barcuda::run_monitor(monitor);
    return barcuda::Bridge(options).run();
}
