// SPDX-License-Identifier: Apache-2.0
// barcuda: the command that people type. `run` runs a program with no VM, `exec` one in a guest; `doctor` says what is
// there and what is missing, `stats` runs a program and shows how its copies travelled, `support` names the functions that cross, `smi`
// shows how the GPUs are doing, `limit` what clients may have.
#include <CLI/CLI.hpp>

#include "host-bridge/cage/cage.h"
#include "host-bridge/cli/commands.h"

int main(int argc, char** argv) {
    CLI::App app{"CUDA for virtual machines over a shared-memory BAR.", "barcuda"};
    app.require_subcommand(1);
    app.set_help_all_flag("--help-all", "Print this, and the help of each subcommand");
    app.set_version_flag("--version", BARCUDA_VERSION);

    barcuda::RunOptions options;
    const auto program = [&](CLI::App* command) {
        command
            ->add_option("--device", options.device,
                         "auto: the GPU, or else the software GPU; cuda: the GPU; soft: the software GPU")
            ->check(CLI::IsMember({"auto", "cuda", "soft"}))
            ->capture_default_str();
        command
            ->add_option("--gpus", options.gpus,
                         "which GPUs the program gets, in its order: numbers as CUDA counts them, or UUIDs (0,2 or "
                         "GPU-8932f937,...; default: all). CUDA_VISIBLE_DEVICES chooses among these")
            ->check([](const std::string& list) { return std::string(list.empty() ? "it names no GPU" : ""); });
        command->add_option(
            "--worker-wrapper", options.wrapper,
            "a profiler or a debugger around the process that uses the GPU for the program, with its options, as "
            "a shell reads them: 'ncu --set basic', 'compute-sanitizer' (docs/profiling.md)");
        command
            ->add_option("--no-cage", options.no_cage,
                         "measures of the cage around that process to leave out, with commas between, or all; `barcuda "
                         "doctor` names them")
            ->check(barcuda::cage::check_names);
        command
            ->add_option(
                "--cage", options.cage,
                "the same: to take on though --no-cage leaves them out; the bridge ends where one cannot be had")
            ->check(barcuda::cage::check_names);
        command
            ->add_option("--region-size", options.region_size,
                         "bytes of shared memory, a power of two; K, M, G are understood")
            ->transform(CLI::AsSizeValue(false))
            ->default_str("4G");
        command->add_flag("--host-libraries", options.host_libraries,
                          "cuBLAS and cuRAND are the host's, even if NVIDIA's libraries are installed here (always so "
                          "with the software GPU)");
        command->add_option("PROGRAM", options.program, "the program and its arguments")->required();
        command->positionals_at_end();
    };
    CLI::App* run = app.add_subcommand("run", "run a program with a region of its own, no VM");
    program(run);
    CLI::App* stats = app.add_subcommand("stats", "the same, and show at exit how its memory and copies travelled");
    program(stats);
    CLI::App* exec =
        app.add_subcommand("exec", "in a guest: run a program with the VM's GPUs, as if they were this machine's");
    exec->add_flag("--host-libraries", options.host_libraries,
                   "cuBLAS and cuRAND are the host's, even if NVIDIA's libraries are installed here");
    exec->add_option("PROGRAM", options.program, "the program and its arguments")->required();
    exec->positionals_at_end();
    CLI::App* doctor = app.add_subcommand("doctor", "what is there, what is missing, and what to do");
    CLI::App* support = app.add_subcommand(
        "support",
        "the functions that cross to the host, and how: call, the program waits for the host; post, it goes "
        "on at once (docs/support.md has every function of CUDA, those that do not cross too)");
    bool json = false;
    support->add_flag("--json", json, "as JSON: an array of {name, how, library}");
    CLI::App* smi = app.add_subcommand(
        "smi",
        "how the GPUs are doing that this guest sees, and which of its processes use them; on a host, all of them");
    std::string machine;
    smi->add_option("--device", machine,
                    "this machine's own, whatever region there is: cuda: its GPUs; soft: the software GPU")
        ->check(CLI::IsMember({"cuda", "soft"}));
    smi->add_flag("--json", json, "as JSON");
    barcuda::LimitCommand limits;
    CLI::App* limit = app.add_subcommand("limit",
                                         "on a host: what the clients of a running bridge have and may have, and to "
                                         "change that; root's and the bridge's user's");
    limit->add_option("--region", limits.region, "the bridge's")->envname("BARCUDA_REGION")->capture_default_str();
    auto* pid = limit->add_option(
        "--client", limits.client,
        "one client's alone: its pid, as `barcuda smi` shows it in the guest, or its worker's on the host");
    limit->add_option("--channel", limits.channel, "the same, by its channel")->excludes(pid);
    limit->add_flag("--json", limits.json, "as JSON");
    limit->add_option(
        "NAME=VALUE", limits.changes,
        "a new limit, or none; K, M, G are understood: client-device-memory=2G (of each client), guest-channels=8, and "
        "with --client or --channel device-memory=2G. docs/limits.md has all");
    CLI11_PARSE(app, argc, argv);
    if (*limit) return barcuda::limit(limits);
    if (*exec) return barcuda::exec(options.program, options.host_libraries);
    if (*smi) return barcuda::smi(machine, json);
    if (*doctor) return barcuda::doctor();
    if (*support) return barcuda::support(json);
    options.statistics = stats->parsed();
    return barcuda::run(options);
}
