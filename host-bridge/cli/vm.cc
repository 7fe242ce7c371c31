// SPDX-License-Identifier: Apache-2.0
// vm.cc: `barcuda vm`: starts a bridge with its own region, and QEMU with a disk that keeps no changes, the guest's
// packages on a second disk, and ssh with a key for this run only. At the end it removes everything, except for the
// disk of a VM that has a name (vm_kept.h).
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>

#include "base/cli/exit_status.h"
#include "base/cli/options.h"
#include "host-bridge/cli/commands.h"
#include "host-bridge/cli/own_bridge.h"
#include "host-bridge/cli/vm_config.h"
#include "host-bridge/cli/vm_kept.h"
#include "host-bridge/cli/vm_parts.h"

namespace barcuda {
namespace {

using namespace parts;
using Clock = std::chrono::steady_clock;

void tell(const std::string& what) { fmt::print(stderr, "barcuda vm: {}\n", what); }

// Uses KVM only if the processor has virtualization: otherwise /dev/kvm may open and not work.
bool has_kvm() {
    std::ifstream cpu("/proc/cpuinfo");
    for (std::string line; std::getline(cpu, line);)
        if (line.starts_with("flags"))
            return (line.find(" vmx") != std::string::npos || line.find(" svm") != std::string::npos) &&
                   access("/dev/kvm", R_OK | W_OK) == 0;
    return false;
}

// A free port of this machine; 0 if there is none.
std::uint16_t free_port() {
    const int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    const bool ok = bind(s, reinterpret_cast<sockaddr*>(&at), size) == 0 &&
                    getsockname(s, reinterpret_cast<sockaddr*>(&at), &size) == 0;
    close(s);
    return ok ? ntohs(at.sin_port) : 0;
}

std::string escaped(const std::string& path) {  // in QEMU's options a comma ends a value
    std::string text;
    for (const char c : path) text += c == ',' ? std::string(",,") : std::string(1, c);
    return text;
}

// x86-64-v2, the level that distributions and numpy require; a higher one would slow an emulated processor down.
// tests/vm/guest.py reads this line.
constexpr const char* emulated_processor = "qemu64,+rdrand,+ssse3,+sse4.1,+sse4.2,+popcnt";

// Does the disk keep what the guest writes?
bool keeps(const VmOptions& c) { return c.write || !c.name.empty(); }

struct Machine {
    Disk disk;
    VmConfig device;
    std::string folder;
    std::uint16_t port;
    bool kvm;
};

// `said`: the file for the guest's second serial port.
Words qemu_words(const VmOptions& c, const Machine& m, const std::string& said) {
    Words words = {"qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-machine", "q35"};
    const auto add = [&](Words more) { words.insert(words.end(), more.begin(), more.end()); };
    if (m.kvm) add({"-accel", "kvm", "-cpu", "host"});
    else add({"-accel", "tcg,thread=multi", "-cpu", emulated_processor});
    add({"-smp", std::to_string(c.cpus)});
    if (!m.device.pmem) add({"-m", fmt::format("{}M", c.memory >> 20)});
    add(qemu_options(m.device));
    add({"-drive",
         fmt::format("if=none,id=root,file={},format={},snapshot={}", escaped(m.disk.file), m.disk.format,
                     keeps(c) ? "off" : "on"),
         "-device", m.disk.kernel.empty() ? "virtio-blk-pci,drive=root,bootindex=0" : "virtio-blk-pci,drive=root"});
    add({"-blockdev", fmt::format("driver=vvfat,node-name=seed,dir={}/seed,label=CIDATA,read-only=on", m.folder),
         "-device", "virtio-blk-pci,drive=seed"});
    add({"-netdev", fmt::format("user,id=net,hostfwd=tcp:127.0.0.1:{}-:22", m.port), "-device",
         "virtio-net-pci,netdev=net,romfile=", "-device", "virtio-rng-pci"});
    add({"-serial", "file:" + m.folder + "/console", "-serial", "file:" + said});
    if (!m.disk.kernel.empty())  // no_timer_check: on a busy host the emulated timer fails the kernel's test
        add({"-kernel", m.disk.kernel, "-initrd", m.disk.initrd, "-append",
             fmt::format("root=/dev/vda rw console=ttyS0 quiet{}", m.kvm ? "" : " no_timer_check")});
    return words;
}

std::string ssh_configuration(const std::string& host, const VmOptions& c, const Machine& m) {
    return fmt::format(
        "Host {}\n  HostName 127.0.0.1\n  Port {}\n  User {}\n  IdentityFile {}/key\n  IdentitiesOnly yes\n"
        "  UserKnownHostsFile /dev/null\n  StrictHostKeyChecking no\n  LogLevel ERROR\n  BatchMode yes\n",
        host, m.port, c.user, m.folder);
}

Words key_words(const Machine& m) {
    return {"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "barcuda-vm", "-f", m.folder + "/key"};
}
Words put_words(const VmOptions& c, const Machine& m) {
    Words words = {"scp", "-q", "-r", "-F", m.folder + "/ssh"};
    words.insert(words.end(), c.put.begin(), c.put.end());
    words.emplace_back("vm:");
    return words;
}

// Finds the region's size.
Failure look_at_region(const VmOptions& c, VmConfig& device) {
    device.size = c.bridge.region_size;
    if (c.region.empty()) return {};
    struct stat status = {};
    if (stat(c.region.c_str(), &status) != 0)
        return fmt::format("--region {}: {}; a bridge makes it", c.region, strerror(errno));
    if (!S_ISREG(status.st_mode)) return fmt::format("--region {}: it is not a regular file", c.region);
    device.size = status.st_size;
    return {};
}

// What is wrong with the options or missing here, before anything is made. `goes_on`: with the disk of a kept VM.
Failure wrong(const VmOptions& c, bool goes_on) {
    if (c.user.empty() || c.user.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-") != std::string::npos)
        return fmt::format("--user {}: a user's name has lower-case letters, digits, _ and -", c.user);
    for (const std::string& file : c.put)
        if (access(file.c_str(), R_OK) != 0) return fmt::format("--put {}: {}", file, strerror(errno));
    if (goes_on && (!c.image.empty() || !c.debian.empty()))
        return fmt::format("{0} has a disk already, so leave out --image and --debian; `barcuda vm rm {0}` removes it",
                           c.name);
    VmConfig device;
    if (Failure failure = look_at_region(c, device)) return failure;
    if (c.dry_run) return {};
    std::vector<Tool> tools = {{"qemu-system-x86_64", "qemu-system-x86"},
                               {"ssh", "openssh-client"},
                               {"ssh-keygen", "openssh-client"},
                               {"scp", "openssh-client"}};
    add_system_folders_to_path();
    if (c.image.empty() && !goes_on)
        for (const Tool& tool : tools_for_debian(c.release())) tools.push_back(tool);
    return missing(tools);
}

// Waits until the guest says that it is ready.
Failure await(int said, const VmOptions& c, const Machine& m) {
    const auto patience = std::chrono::seconds(c.timeout);
    auto end = Clock::now() + patience;
    const auto console = [&] { return last_lines(m.folder + "/console", 20); };
    for (std::string line;;) {
        if (caught()) return "interrupted";
        if (Clock::now() > end)
            return fmt::format("the guest has said nothing for {} s and is not ready (--timeout){}; its console:\n{}",
                               c.timeout, c.image.empty() ? "" : "; an image needs cloud-init, and systemd", console());
        pollfd p = {said, POLLIN, 0};
        if (poll(&p, 1, 500) <= 0) continue;
        char letter;
        if (read(said, &letter, 1) <= 0) {  // only QEMU can write there
            return fmt::format("QEMU has ended:\n{}{}", last_lines(m.folder + "/qemu", 10), console());
        }
        if (letter == '\r') continue;
        if (letter != '\n') {
            line += letter;
            continue;
        }
        if (line == "ready") return {};
        if (line.starts_with("failed: ")) return "in the guest: " + line.substr(8);
        tell(fmt::format("the guest: {} ...", line));
        line.clear();
        end = Clock::now() + patience;
    }
}

// Lets the guest write to its disk what the disk must keep. A failure: it has not powered off in time.
Failure power_off(pid_t qemu, const VmOptions& c, const Machine& m) {
    constexpr unsigned patience = 120;  // seconds; an emulated guest may take one of two minutes
    const unsigned seconds = std::min(c.timeout, patience);
    call({"ssh", "-F", m.folder + "/ssh", "vm", "sudo -n systemctl poweroff || sync"}, m.folder + "/poweroff");
    const auto end = Clock::now() + std::chrono::seconds(seconds);
    do {
        siginfo_t ended = {};  // the status is collected later
        if (waitid(P_PID, qemu, &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid != 0) return {};
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
    } while (Clock::now() < end);
    return fmt::format("the guest has not powered off within {} s, and was killed", seconds);
}

// In the background: until the guest has powered itself off, or `barcuda vm stop` asks.
void stay(pid_t qemu) {
    for (;;) {
        siginfo_t ended = {};
        if (caught() || waitid(P_PID, qemu, &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid != 0) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
}

// `ready`: is called when programs can run. `lost`: why the disk may lack what the guest has written.
int serve_vm(const VmOptions& c, const Machine& m, const std::function<void()>& ready, Failure& lost) {
    int said[2];
    if (pipe(said) != 0) return complain("vm", strerror(errno), cannot_run);
    fcntl(said[0], F_SETFD, FD_CLOEXEC);
    const pid_t qemu = start(qemu_words(c, m, fmt::format("/dev/fd/{}", said[1])), m.folder + "/qemu", true);
    close(said[1]);
    if (qemu < 0) return complain("vm", strerror(errno), cannot_run);
    const Failure why = await(said[0], c, m);
    int status = cannot_run;
    if (why) status = caught() ? 128 + caught() : complain("vm", why.text(), cannot_run);
    else if (!c.put.empty() && call(put_words(c, m)) != 0)
        complain("vm", "cannot copy the files of --put into the guest", cannot_run);
    else if (c.detach) {
        ready();
        stay(qemu);
        status = 0;
    } else {
        tell(fmt::format("ready; from another terminal: ssh -F {}/ssh vm", m.folder));
        ready();
        status = call(ssh_words(c.program, m.folder));
    }
    if (keeps(c) && !why) lost = power_off(qemu, c, m);
    else if (why) lost = "the guest was still starting, and was killed";
    if (lost && !why) tell(lost.text());
    kill(qemu, SIGKILL);
    while (waitpid(qemu, nullptr, 0) < 0 && errno == EINTR) {}
    close(said[0]);
    return status;
}

// Starts a VM and runs the program, or a shell, in it by ssh. Returns its status: 128 + signal, as in a shell; 255 if
// ssh failed; 125 if there is no VM.
int run_vm(const VmOptions& c, const std::function<void()>& detach) {
    const Installation here = installation();
    Machine m = {};
    m.kvm = has_kvm();
    Seed seed = {c.user, "", {}, c.module};
    const bool goes_on = !c.name.empty() && !c.dry_run && KeptVm(c.name).has_disk();
    if (const Failure e = wrong(c, goes_on)) return complain("vm", e.text(), cannot_run);
    catch_signals();
    std::optional<KeptVm> kept;
    if (!c.name.empty() && !c.dry_run)
        if (const Failure e = kept.emplace(c.name).take()) return complain("vm", e.text(), cannot_run);
    if (const Failure e = look_at_region(c, m.device)) return complain("vm", e.text(), cannot_run);
    if (!c.image.empty())
        if (const Failure e = image_disk(c.image, m.disk)) return complain("vm", e.text(), cannot_run);
    if (const Failure e = find_packages(c, kept ? kept->packages() : "", seed.packages); e && !c.dry_run)
        return complain("vm", e.text(), cannot_run);
    if (c.image.empty() && !goes_on)
        if (const Failure e = debian_disk(c.release(), c.dry_run, m.disk))
            return caught() ? 128 + caught() : complain("vm", e.text(), cannot_run);
    if (kept) {
        if (const Failure e = kept->keep(m.disk)) return complain("vm", e.text(), cannot_run);
        if (const Failure e = kept->keep_packages(seed.packages)) return complain("vm", e.text(), cannot_run);
    }

    std::optional<OwnFolder> folder;
    if (!c.dry_run && !folder.emplace("vm"))
        return complain("vm", fmt::format("cannot make a folder in /dev/shm: {}", strerror(errno)), cannot_run);
    m.folder = folder ? folder->path() : "/dev/shm/barcuda-vm-XXXXXX";
    m.port = c.port ? c.port : free_port();
    m.device.region = c.region.empty() ? m.folder + "/region" : c.region;
    m.device.memory = c.memory;
    m.device.pmem = !c.module;
    m.device.interrupts = c.module && c.region.empty();
    m.device.socket = m.folder + "/doorbell";
    Words bridge =
        bridge_words(here, m.device.region, c.name.empty() ? fmt::format("vm-{}", getpid()) : c.name, c.bridge);
    if (m.device.interrupts) bridge.insert(bridge.end(), {"--doorbell", m.device.socket});
    if (c.dry_run) {
        if (c.region.empty()) fmt::print("{} &\n", quoted(bridge));
        fmt::print("{}\n{} &\n", quoted(key_words(m)), quoted(qemu_words(c, m, m.folder + "/said")));
        if (!c.put.empty()) fmt::print("{}\n", quoted(put_words(c, m)));
        fmt::print("{}\n", quoted(ssh_words(c.program, m.folder)));
        return 0;
    }

    if (const int status = call(key_words(m)); status != 0)
        return complain("vm", "ssh-keygen has made no key", cannot_run);
    std::ifstream key(m.folder + "/key.pub");
    std::getline(key, seed.key);
    std::ofstream(m.folder + "/ssh") << ssh_configuration("vm", c, m);
    if (const Failure e = make_seed(m.folder + "/seed", seed)) return complain("vm", e.text(), cannot_run);
    bool soft = false;
    OwnBridge own;
    if (c.region.empty() && (own = start_bridge("vm", bridge, false, soft)).pid < 0) return cannot_run;
    tell(fmt::format("starting {} with {} ...",
                     goes_on           ? c.name
                     : c.image.empty() ? "Debian " + c.release()
                                       : c.image,
                     m.kvm ? "KVM" : "no KVM: QEMU emulates the processor, which takes minutes"));
    if (kept) kept->begin();
    Failure lost;
    const auto ready = [&] {
        if (kept) {
            if (const Failure e = kept->finish()) tell(e.text());
            kept->record(m.folder, ssh_configuration(c.name, c, m));
        }
        if (c.detach) detach();
    };
    const int status = serve_vm(c, m, ready, lost);
    if (own.pid > 0) end_bridge(own);
    if (kept) {
        kept->record_end(kept->has_disk() ? lost : Failure());  // of a first start nothing is kept
        kept->discard();
    }
    return status;
}

// What has been added to the file goes to standard error.
void print_rest(std::ifstream& file) {
    for (char text[4096]; file.read(text, sizeof text), file.gcount() > 0;)
        fmt::print(stderr, "{}", std::string_view(text, static_cast<std::size_t>(file.gcount())));
    file.clear();
}

// The VM's own process goes on when this one, which waits until the VM is ready, has ended. What that process and those
// that it starts say goes to a log, and from there to this one's terminal.
int run_detached(const VmOptions& c) {
    const KeptVm kept(c.name);
    if (kept.runs()) return complain("vm", kept.runs_already(), cannot_run);
    if (const Failure e = kept.make()) return complain("vm", e.text(), cannot_run);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return complain("vm", strerror(errno), cannot_run);
    const File log(open(kept.log().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600));
    const File none(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!log || !none) return complain("vm", fmt::format("{}: {}", kept.log(), strerror(errno)), cannot_run);
    const pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        setsid();
        dup2(none.fd(), STDIN_FILENO);
        for (const int output : {STDOUT_FILENO, STDERR_FILENO}) dup2(log.fd(), output);
        _exit(run_vm(c, [&] {
            [[maybe_unused]] const ssize_t told = write(ends[1], "r", 1);
            close(ends[1]);
        }));
    }
    close(ends[1]);
    if (child < 0) return complain("vm", strerror(errno), cannot_run);
    catch_signals();
    std::ifstream said(kept.log());
    for (;;) {
        if (caught()) kill(child, SIGTERM);
        pollfd ready = {ends[0], POLLIN, 0};
        const bool decided = poll(&ready, 1, 200) > 0;
        print_rest(said);
        if (!decided) continue;
        char letter;
        if (read(ends[0], &letter, 1) == 1) {
            tell(fmt::format("{0} is ready: `barcuda vm ssh {0}`, and `barcuda vm stop {0}` to end it", c.name));
            return 0;
        }
        int status = 0;
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
        print_rest(said);
        return exit_status(status);
    }
}

int vm(const VmOptions& c) {
    if (!c.name.empty())
        if (const Failure e = KeptVm::check_name(c.name)) return complain("vm", "--name: " + e.text(), cannot_run);
    if (!c.detach || c.dry_run) return run_vm(c, [] {});
    if (c.name.empty())
        return complain("vm", "--detach needs --name, by which `barcuda vm ssh` and `stop` find the VM", cannot_run);
    if (!c.program.empty())
        return complain("vm", "--detach runs no program: start the VM, then `barcuda vm ssh NAME PROGRAM`", cannot_run);
    return run_detached(c);
}

}  // namespace

void add_vm(App& app) {
    const auto options = std::make_shared<VmOptions>();
    VmOptions& o = *options;
    const Command command = app.add(
        "vm",
        "start a VM with the GPUs and run a program in it, or a shell; everything is "
        "removed afterwards, unless the VM has a name",
        [options] { return vm(*options); }, cannot_run);
    const Option image = command.add_option(
        "--image", o.image, "its disk, a Debian or Ubuntu with cloud-init: qcow2 or raw. Changes are not kept");
    command
        .add_option("--debian", o.debian,
                    "without an image: a Debian of this release, made from the archive's packages the first time "
                    "(default: bookworm)")
        .is_member({"bookworm", "trixie"})
        .excludes(image);
    command.add_flag("--write", o.write, "what the guest writes stays on the disk");
    command
        .add_option("--packages", o.packages,
                    "the folder with the guest's packages (default: the VM's own, which it has from its first start, "
                    "that of `make deb`, or the current one)")
        .existing_directory();
    command.add_option("--put", o.put, "a file or a folder of this machine to copy into the guest's home; repeatable")
        .type_name("PATH")
        .take_all();
    command.add_option("--user", o.user, "in the guest; created if missing").capture_default_str();
    const Option served = command.add_option(
        "--region", o.region, "the region of a running bridge (default: a new one, with its own bridge)");
    add_bridge_options(command, o.bridge);
    for (const char* name : {"--device", "--gpus", "--device-memory", "--cards", "--store", "--store-ready", "--wait",
                             "--card-reserve", "--context-idle", "--region-size"})
        command.option(name).excludes(served);
    command.add_flag("--module", o.module,
                     "with the kernel module, which DKMS builds in the guest, and interrupts, in place of virtio-pmem");
    add_size(command, "--memory", o.memory, "the VM's memory; with K, M or G");
    command.add_option("--cpus", o.cpus, "the VM's").range(1, 255).capture_default_str();
    command.add_option("--port", o.port, "of this machine, for ssh (default: a free one)");
    command.add_option("--timeout", o.timeout, "seconds that the guest may be silent before it is ready")
        .capture_default_str();
    command.add_option("--name", o.name, "keep the VM's disk under this name: the next start goes on with it");
    command.add_flag("--detach", o.detach, "let the VM run in the background when it is ready (--name)");
    command.add_flag("--dry-run", o.dry_run, "print the commands, and do nothing");
    command.add_option("PROGRAM", o.program, "the program and its arguments, in the guest (default: a shell)");
    command.positionals_at_end();
    add_kept_vms(app, command);
}

}  // namespace barcuda
