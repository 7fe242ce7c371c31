// SPDX-License-Identifier: Apache-2.0
// bridge.cc: `barcuda bridge start`, `stop` and `list`: bridges by their names. Under systemd they are the units
// barcuda-bridge@NAME; elsewhere, and for users that are not root, they run in the background with a log of their own.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/cli/exit_status.h"
#include "base/cli/installation.h"
#include "base/message.h"
#include "host-bridge/cli/commands.h"
#include "host-bridge/cli/container.h"
#include "host-bridge/cli/notices.h"
#include "host-bridge/cli/vm_parts.h"
#include "host-bridge/watch/bridges.h"
#include "host-bridge/watch/text.h"

namespace barcuda {
namespace {

using parts::Words;

int complain(const std::string& what) { return barcuda::complain("bridge", what); }

Failure wrong_name(const std::string& name) {
    constexpr const char* letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    if (name.empty() || name.find_first_not_of(letters) != std::string::npos || name[0] == '-' || name[0] == '.')
        return fmt::format("'{}' is no name of a bridge: it has letters, digits, _, . and -", name);
    return {};
}

bool has_units() {
    return geteuid() == 0 && access("/run/systemd/system", F_OK) == 0 &&
           access("/usr/lib/systemd/system/barcuda-bridge@.service", F_OK) == 0;
}
std::string unit(const std::string& name) { return "barcuda-bridge@" + name; }

// The log of a bridge that is no unit.
std::filesystem::path log_of(const std::string& name) {
    const char *const state = getenv("XDG_STATE_HOME"), *const home = getenv("HOME");
    const std::filesystem::path folder = state && *state
                                             ? std::filesystem::path(state)
                                             : std::filesystem::path(home && *home ? home : "/root") / ".local/state";
    return folder / "barcuda" / (name + ".log");
}

// The bridge goes on when this process ends. `words`: its command line.
int start_in_background(const std::string& name, Words words) {
    const std::filesystem::path path = log_of(name);
    std::error_code error;
    std::filesystem::create_directories(path.parent_path(), error);
    const File log(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600));
    const File none(open("/dev/null", O_RDONLY | O_CLOEXEC));
    int ready[2];
    if (!log || !none || pipe2(ready, O_CLOEXEC) != 0)
        return complain(fmt::format("{}: {}", path.string(), strerror(errno)));
    const pid_t child = fork();
    if (child == 0) {
        setsid();
        words.insert(words.end(), {"--ready-fd", std::to_string(dup(ready[1]))});
        dup2(none.fd(), STDIN_FILENO);
        for (const int output : {STDOUT_FILENO, STDERR_FILENO}) dup2(log.fd(), output);
        _exit(become("bridge", words));
    }
    close(ready[1]);
    char line[64];
    const bool is_ready = child > 0 && read(ready[0], line, sizeof line) > 0;
    close(ready[0]);
    if (is_ready) {
        fmt::print("{} serves {}; its log: {}\n", name, container::usual_region(name), path.string());
        return 0;
    }
    if (child > 0) waitpid(child, nullptr, 0);
    return complain(fmt::format("{} did not start:\n{}", name, parts::last_lines(path.string(), 5)));
}

struct NamedBridge {
    std::string name;
    Words options;  // the bridge's
};

int start(const NamedBridge& o) {
    if (const Failure e = wrong_name(o.name)) return complain(e.text());
    const Installation here = installation();
    if (access(here.bridge.c_str(), X_OK) != 0) return complain(bridge_is_missing(here));
    if (has_units()) {
        if (!o.options.empty())
            return complain(
                fmt::format("{} is a unit of systemd: its options are in /etc/barcuda/{}.conf (`barcuda-bridge "
                            "--print-config` prints them all)",
                            unit(o.name), o.name));
        return parts::call({"systemctl", "start", unit(o.name)});
    }
    Words words = {here.bridge, "--region", container::usual_region(o.name), "--name", o.name, "--log-level", "info"};
    words.insert(words.end(), o.options.begin(), o.options.end());
    return start_in_background(o.name, words);
}

int stop(const NamedBridge& o) {
    if (const Failure e = wrong_name(o.name)) return complain(e.text());
    if (has_units() && parts::call({"systemctl", "is-active", "--quiet", unit(o.name)}) == 0)
        return parts::call({"systemctl", "stop", unit(o.name)});
    const watch::View view = watch::look(false);
    const auto one = std::ranges::find(view.bridges, o.name, &watch::Bridge::name);
    if (one == view.bridges.end()) return complain(fmt::format("no bridge {} runs: `barcuda bridge list`", o.name));
    const File process(static_cast<int>(syscall(SYS_pidfd_open, one->pid, 0)));
    if (kill(one->pid, SIGTERM) != 0) return complain(fmt::format("{}: {}", o.name, strerror(errno)));
    pollfd ended = {process.fd(), POLLIN, 0};
    while (process && poll(&ended, 1, -1) < 0 && errno == EINTR) {}
    return 0;
}

int list() {
    const watch::View view = watch::look(false);
    for (const std::string& complaint : view.complaints) fmt::print(stderr, "barcuda bridge: {}\n", complaint);
    if (view.bridges.empty()) {
        fmt::print("{}\n", with_hint(watch::nobody_serves(view)));
        return 0;
    }
    std::vector<Words> rows = {{"NAME", ">PID", ">CLIENTS", ">SIZE", "REGION"}};
    for (const watch::Bridge& b : view.bridges)
        rows.push_back(
            {b.name, std::to_string(b.pid), std::to_string(b.clients), watch::size(b.region_size), b.region});
    for (const std::string& line : watch::columns(rows)) fmt::print("{}\n", line);
    return 0;
}

}  // namespace

void add_bridge(App& app) {
    const Command bridge = app.add("bridge", "on a host: start, stop and list bridges by their names", list);
    bridge.may_have_subcommand();
    const auto options = std::make_shared<NamedBridge>();
    const Command starts = app.add_to(
        bridge, "start", "start a bridge: as a unit of systemd, or without systemd or root in the background",
        [options] { return start(*options); });
    starts.add_option("NAME", options->name, "of the VM, and of the region /dev/shm/barcuda-NAME").required();
    starts.add_option("OPTION", options->options, "options of barcuda-bridge, such as --size 8G; not for a unit");
    starts.positionals_at_end();
    app.add_to(bridge, "stop", "end a bridge, and with it what its VM has on the GPU",
               [options] { return stop(*options); })
        .add_option("NAME", options->name, "which")
        .required();
    app.add_to(bridge, "list", "the bridges that run (the default; `barcuda ps` shows their clients, too)", list);
}

}  // namespace barcuda
