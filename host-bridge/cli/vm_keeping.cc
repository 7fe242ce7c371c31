// SPDX-License-Identifier: Apache-2.0
// vm_keeping.cc: `barcuda vm list`, `ssh`, `stop` and `rm`, for VMs that are kept.
#include <fmt/format.h>
#include <signal.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "base/cli/app.h"
#include "base/cli/exit_status.h"
#include "base/cli/installation.h"
#include "host-bridge/cli/vm_kept.h"
#include "host-bridge/watch/text.h"

namespace barcuda {
namespace {

using namespace parts;

int list() {
    std::vector<Words> rows = {{"NAME", "STATE", "PID"}};
    for (const KeptVm& one : KeptVm::all())
        rows.push_back({one.name(),
                        one.runs()       ? "running"
                        : one.has_disk() ? "stopped"
                                         : "unfinished",
                        one.runs() ? std::to_string(one.process()) : "-"});
    if (rows.size() == 1) fmt::print("No VM is kept here: `barcuda vm --name NAME --detach` makes one.\n");
    else
        for (const std::string& line : watch::columns(rows)) fmt::print("{}\n", line);
    return 0;
}

// A VM of this name that is there, and runs if it must. (A name that is a path would lead elsewhere.)
Failure find(const KeptVm& one, bool must_run) {
    if (Failure e = KeptVm::check_name(one.name())) return e;
    if (!one.exists()) return fmt::format("there is no VM {}: `barcuda vm list`", one.name());
    if (must_run && !one.runs())
        return fmt::format("{0} does not run: `barcuda vm --name {0} --detach` starts it", one.name());
    return {};
}

int ssh(const std::string& name, const Words& program) {
    const KeptVm one(name);
    if (const Failure e = find(one, true)) return complain("vm", e.text(), cannot_run);
    if (one.run_folder().empty()) return complain("vm", name + " is still starting", cannot_run);
    return become("vm", ssh_words(program, one.run_folder()));
}

int stop(const std::string& name) {
    const KeptVm one(name);
    if (const Failure e = find(one, true)) return complain("vm", e.text(), cannot_run);
    const pid_t process = one.process();
    if (process <= 0)
        return complain("vm", name + ": the file that names its process is damaged",
                        cannot_run);  // 0 would be this command
    if (kill(process, SIGTERM) != 0) return complain("vm", fmt::format("{}: {}", name, strerror(errno)), cannot_run);
    if (const Failure e = one.await_end()) return complain("vm", e.text(), cannot_run);
    if (const Failure lost = one.end(); lost && one.has_disk())
        return complain("vm", fmt::format("{}: {}", name, lost.text()));
    return 0;
}

int remove(const std::string& name) {
    const KeptVm one(name);
    if (const Failure e = find(one, false)) return complain("vm", e.text(), cannot_run);
    if (one.runs()) return complain("vm", fmt::format("{0} runs: `barcuda vm stop {0}` first", name), cannot_run);
    if (const Failure e = one.remove()) return complain("vm", e.text(), cannot_run);
    return 0;
}

}  // namespace

void parts::add_kept_vms(App& app, Command vm) {
    app.add_to(vm, "list", "the VMs that are kept (--name), and which of them run", list, cannot_run);
    struct Of {
        std::string name;
        Words program;
    };
    const auto of = std::make_shared<Of>();
    const auto add = [&](const char* command, const char* help, int (*body)(const std::string&)) {
        app.add_to(
               vm, command, help, [of, body] { return body(of->name); }, cannot_run)
            .add_option("NAME", of->name, "the VM")
            .required();
    };
    const Command by_ssh = app.add_to(
        vm, "ssh", "run a program in a VM that is kept, or a shell", [of] { return ssh(of->name, of->program); },
        cannot_run);
    by_ssh.add_option("NAME", of->name, "the VM").required();
    by_ssh.add_option("PROGRAM", of->program, "the program and its arguments (default: a shell)");
    by_ssh.positionals_at_end();
    add("stop", "power a VM off; its disk stays", stop);
    add("rm", "remove a VM that does not run, with its disk", remove);
    vm.may_have_subcommand();
}

}  // namespace barcuda
