// SPDX-License-Identifier: Apache-2.0
// barcuda: the command that people type. `run` runs a program with no VM, `exec` one in a guest; `doctor` says what is
// there and what is missing, `stats` runs a program and shows how its copies travelled, `support` names the functions
// that cross, `smi` shows how the GPUs are doing, `ps`, `top` and `metrics` who uses the bridges of a host, `limit` what
// clients may have, `guest` serves a guest's programs unasked, `vm` starts a VM, `vm-config` prints what to add to one.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>

#include "guest-allocator/pmem/service.h"
#include "host-bridge/cage/cage.h"
#include "host-bridge/cli/commands.h"
#include "host-bridge/exit_status.h"
#include "host-bridge/log.h"
#include "host-bridge/usage.h"

int main(int argc, char** argv) {
    CLI::App app{"CUDA for virtual machines over a shared-memory BAR.", "barcuda"};
    app.require_subcommand(1);
    app.set_help_all_flag("--help-all", "Print this, and the help of each subcommand");
    app.set_version_flag("--version", barcuda::version_text());

    barcuda::RunOptions options;
    const auto bridge = [&](CLI::App* command) {
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
        command
            ->add_option("--region-size", options.region_size,
                         "bytes of shared memory, a power of two; K, M, G are understood")
            ->transform(CLI::AsSizeValue(false))
            ->default_str("4G");
    };
    const auto program = [&](CLI::App* command) {
        bridge(command);
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
    bool json = false;
    doctor->add_flag("--json", json, "as JSON");
    doctor->add_option_function<std::string>(
        "--region", [](const std::string& file) { setenv("BARCUDA_REGION", file.c_str(), 1); },
        "of this bridge's file (default: BARCUDA_REGION, or this guest's device)");
    CLI::App* support = app.add_subcommand(
        "support",
        "the functions that cross to the host, and how: call, the program waits for the host; post, it goes "
        "on at once (docs/support.md has every function of CUDA, those that do not cross too)");
    support->add_flag("--json", json, "as JSON: an array of {name, how, library}");
    CLI::App* smi = app.add_subcommand(
        "smi",
        "how the GPUs are doing that this guest sees, and which of its processes use them; on a host, all of them");
    std::string machine;
    smi->add_option("--device", machine,
                    "this machine's own, whatever region there is: cuda: its GPUs; soft: the software GPU")
        ->check(CLI::IsMember({"cuda", "soft"}));
    smi->add_flag("--json", json, "as JSON");
    CLI::App* ps = app.add_subcommand(
        "ps", "on a host: the bridges that run, their VMs, and who uses them: one's own, or, as root, everybody's");
    ps->add_flag("--json", json, "as JSON");
    CLI::App* top = app.add_subcommand("top",
                                       "the same, and what they do: launches, copies, queues, how busy the GPUs are; "
                                       "on the whole terminal, until q is typed");
    bool once = false;
    double interval = 1;
    top->add_flag("--once", once, "one look, as text; so it is where the output is no terminal");
    top->add_flag("--json", json, "the same, as JSON");
    top->add_option("--interval", interval, "seconds between two looks")
        ->check([](const std::string& text) {  // CLI11's Range lets in what is no number
            double seconds = 0;
            const bool within = CLI::detail::lexical_cast(text, seconds) && seconds >= 0.1 && seconds <= 3600;
            return std::string(within ? "" : text + ": a number of seconds from 0.1 to 3600 is expected");
        })
        ->capture_default_str();
    CLI::App* metrics = app.add_subcommand(
        "metrics",
        "the same as metrics for Prometheus, for the textfile collector of node-exporter (docs/operating.md)");
    bool clients = false, gpus = false;
    metrics->add_flag("--clients", clients, "series of each client, too");
    metrics->add_flag("--gpus", gpus, "how busy the GPUs are, too, for which NVML is asked");
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
        "LIMIT", limits.changes,
        "NAME=VALUE: a new limit, or none; K, M, G are understood: client-device-memory=2G (of each client), "
        "guest-channels=8, and "
        "with --client or --channel device-memory=2G; of the guest also weight=300, priority=high. docs/limits.md has "
        "all");
    barcuda::GuestCommand in_guest;
    CLI::App* guest = app.add_subcommand(
        "guest",
        "in a guest: whether programs find its GPUs by themselves, and to change that; the service of virtio-pmem");
    guest->require_subcommand(0, 1);
    guest->add_subcommand("status", "which GPUs, through which device, and which programs find them (the default)");
    CLI::App* enable =
        guest->add_subcommand("enable", "from now on they do, with no `barcuda exec` and no variable set");
    enable->add_flag(
        "--every-program", in_guest.every_program,
        "by the loader's /etc/ld.so.preload: also programs that sudo starts, and that nobody's environment reaches");
    CLI::App* disable = guest->add_subcommand("disable", "no more; files are as they were");
    for (CLI::App* each : {enable, disable}) {
        auto* own = each->add_flag("--user", in_guest.user, "your own programs alone");
        each->add_flag("--system", in_guest.system, "all programs (the default)")->excludes(own);
        each->add_option("--root", in_guest.root, "of the guest that lies in this folder: an image that is being made")
            ->check(CLI::ExistingDirectory)
            ->excludes(own);
    }
    barcuda::pmem::ServiceOptions door;
    CLI::App* serve = guest->add_subcommand(
        "serve",
        "where the region is a virtio-pmem device: give clients their parts of it, with no module of ours; for root");
    serve->add_option("--device", door.device, "/dev/pmemN (default: the one that has a region)");
    serve->add_option("--socket", door.socket, "where clients ask")->capture_default_str();
    serve->add_option("--group", door.group, "whose members may use CUDA")->capture_default_str();
    enable->get_option("--every-program")->excludes(enable->get_option("--user"));
    barcuda::VmCommand machine_wanted;
    CLI::App* vm = app.add_subcommand("vm",
                                      "start a VM that has the GPUs and run a program in it, or a shell; all of it is "
                                      "gone afterwards");
    auto* image = vm->add_option("--image", machine_wanted.image,
                                 "its disk, a Debian or Ubuntu with cloud-init: qcow2 or raw. It is not written to");
    vm->add_option("--debian", machine_wanted.debian,
                   "without an image: a Debian of this release, made of the archive's packages the first time")
        ->check(CLI::IsMember({"bookworm", "trixie"}))
        ->capture_default_str()
        ->excludes(image);
    vm->add_flag("--write", machine_wanted.write, "what the guest writes stays on the disk");
    vm->add_option("--packages", machine_wanted.packages,
                   "the folder with the guest's packages (default: that of `make deb`, or the current one)")
        ->check(CLI::ExistingDirectory);
    vm->add_option("--put", machine_wanted.put,
                   "a file or a folder of this machine, copied into the guest's home; may be said again")
        ->type_name("PATH")
        ->expected(1)
        ->take_all();
    vm->add_option("--user", machine_wanted.user, "in the guest; made if it is not there")->capture_default_str();
    auto* served = vm->add_option("--region", machine_wanted.region,
                                  "one that a bridge serves already (default: a new one, with a bridge of its own)");
    bridge(vm);
    for (const char* name : {"--device", "--gpus", "--region-size"}) vm->get_option(name)->excludes(served);
    vm->add_flag("--module", machine_wanted.module,
                 "with the kernel module, which DKMS builds in the guest, and interrupts, in place of virtio-pmem");
    vm->add_option("--memory", machine_wanted.memory, "the VM's own; K, M, G are understood")
        ->transform(CLI::AsSizeValue(false))
        ->default_str("2G");
    vm->add_option("--cpus", machine_wanted.cpus, "the VM's")->check(CLI::Range(1, 255))->capture_default_str();
    vm->add_option("--port", machine_wanted.port, "of this machine, for ssh (default: one that is free)");
    vm->add_option("--timeout", machine_wanted.timeout, "seconds that the guest may say nothing before it is ready")
        ->capture_default_str();
    vm->add_flag("--dry-run", machine_wanted.dry_run, "print the commands, and do nothing");
    vm->add_option("PROGRAM", options.program, "the program and its arguments, in the guest (default: a shell)");
    vm->positionals_at_end();
    barcuda::VmConfig config;
    CLI::App* vm_config = app.add_subcommand("vm-config", "on a host: what to add to a VM, for who manages it");
    auto* managers = vm_config->add_option_group("manager", "who manages the VM");
    for (const char* name : {"libvirt", "qemu", "proxmox", "incus", "kubevirt"})
        managers->add_flag_callback(
            std::string("--") + name, [&config, name] { config.manager = name; }, std::string("for ") + name);
    managers->require_option(1);
    vm_config->add_option("NAME", config.name, "of the VM, and of its unit barcuda-bridge@NAME")->required();
    vm_config->add_option("--region", config.region, "the file (default: /dev/shm/barcuda-NAME)");
    vm_config->add_option("--size", config.size, "of the region, as the bridge has it; K, M, G are understood")
        ->transform(CLI::AsSizeValue(false))
        ->default_str("4G");
    auto* doorbell = vm_config->add_flag("--doorbell", config.interrupts, "with interrupts, by the bridge's socket");
    vm_config
        ->add_flag("--virtio-pmem", config.pmem,
                   "as memory, which a service gives out (`barcuda guest serve`): the guest needs no module of ours")
        ->excludes(doorbell);
    vm_config->add_option("--memory", config.memory, "the VM's own, with --virtio-pmem; K, M, G are understood")
        ->transform(CLI::AsSizeValue(false))
        ->default_str("4G");
    vm_config->add_option("--socket", config.socket, "which (default: /run/barcuda/NAME/doorbell)");
    std::vector<std::string> traces;
    std::string together = "-";
    CLI::App* trace = app.add_subcommand(
        "trace", "put what BARCUDA_TRACE wrote in a guest and on its host together, on one clock (docs/profiling.md)");
    trace->add_option("FILE", traces, "the first one's clock is everybody's; the host's, if there are several guests")
        ->required();
    trace->add_option("-o,--output", together, "the new file; -: it is printed")->capture_default_str();
    std::vector<std::string> bridges;
    std::string region;
    CLI::App* cdi = app.add_subcommand(
        "cdi", "for containers: a CDI specification of this guest's GPUs, or of bridges of this host");
    cdi->add_option("NAME", bridges, "of bridges, as in barcuda-bridge@NAME (default: this guest's devices)");
    cdi->add_option("--region", region, "the bridge's file (default: /dev/shm/barcuda-NAME)");
    std::vector<std::string> helped;
    app.add_subcommand("help", "the help of a command, as its --help")
        ->add_option("COMMAND", helped, "which (default: all that there is)");
    if (argc == 1) return std::cout << app.help(), 0;
    const barcuda::Elsewhere elsewhere = {
        {"list", "`barcuda ps` lists bridges and their clients"},
        {"ls", "`barcuda ps` lists bridges and their clients"},
        {"info", "`barcuda doctor` says what is there, `barcuda ps` what runs"},
        {"status", "`barcuda ps` says what runs, `barcuda doctor` whether all is well"},
        {"start", "`systemctl start barcuda-bridge@NAME` starts a bridge, `barcuda run` one for a program"},
        {"stop",
         "`systemctl stop barcuda-bridge@NAME` ends a bridge, and so does kill with the pid that `barcuda ps` shows"},
        {"logs", "`journalctl -u barcuda-bridge@NAME` shows a bridge's log"},
    };
    const auto status_of =
        [&](const CLI::App& meant) {  // a status of the program's that was to run says something else
            return &meant == run || &meant == stats || &meant == exec || &meant == vm ? barcuda::cannot_run
                                                                                      : barcuda::wrong_usage;
        };
    int status = 0;
    if (barcuda::helped(app, argc, argv, status, elsewhere)) return status;
    if (!barcuda::understood(app, argc, argv, status, status_of, elsewhere)) return status;
    in_guest.disable = disable->parsed();
    if (*serve) {
        const char* const level = std::getenv("BARCUDA_LOG");
        barcuda::log::start(stderr, "barcuda-guest", level ? level : "info");
        return barcuda::pmem::serve(door);
    }
    if (*guest && !*enable && !*disable) return barcuda::guest_status();
    if (*guest) return barcuda::guest(in_guest);
    if (*vm) {
        machine_wanted.run = options;
        return barcuda::vm(machine_wanted);
    }
    if (*vm_config) return barcuda::vm_config(config);
    if (*cdi && bridges.size() != 1 && !region.empty())
        return std::cerr << "barcuda cdi: --region: of one bridge that is named\n", barcuda::wrong_usage;
    if (*cdi) return barcuda::cdi(bridges, region);
    if (*trace) return barcuda::merge_traces(traces, together);
    if (*ps) return barcuda::ps(json);
    if (*metrics) return barcuda::metrics(clients, gpus);
    if (*top) return barcuda::top(json, once, interval);
    if (*limit) return barcuda::limit(limits);
    if (*exec) return barcuda::exec(options.program, options.host_libraries);
    if (*smi) return barcuda::smi(machine, json);
    if (*doctor) return barcuda::doctor(json);
    if (*support) return barcuda::support(json);
    options.statistics = stats->parsed();
    return barcuda::run(options);
}
