// SPDX-License-Identifier: Apache-2.0
// bridge.cc: `barcuda bridge start`, `stop` and `list`: bridges by their names. Under systemd they are the units
// barcuda-bridge@NAME; elsewhere, and for users that are not root, they run in the background with a log of their own.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/cli/exit_status.h"
#include "base/cli/installation.h"
#include "base/cli/names.h"
#include "base/cli/user_folders.h"
#include "base/message.h"
#include "host-bridge/cli/commands.h"
#include "host-bridge/cli/container.h"
#include "host-bridge/cli/notices.h"
#include "host-bridge/cli/own_bridge.h"
#include "host-bridge/cli/vm_parts.h"
#include "host-bridge/watch/bridges.h"
#include "host-bridge/watch/text.h"

namespace barcuda {
namespace {

using parts::Words;

std::string unit(const std::string& name) { return "barcuda-bridge@" + name; }

// Would systemd run this bridge? Its unit may lie in any of systemd's folders.
bool has_unit(const std::string& name) {
    return geteuid() == 0 && access("/run/systemd/system", F_OK) == 0 && parts::found("systemctl") &&
           parts::call({"systemctl", "cat", unit(name)}, "/dev/null") == 0;
}

// The bridge goes on when this process ends. `words`: its command line. Its log goes on after the earlier ones.
int start_in_background(const std::string& name, const Words& words) {
    const std::filesystem::path folder = user_folder(UserFolder::state);
    if (folder.empty()) return complain("bridge", no_user_folder(UserFolder::state, "for the log").text());
    const std::filesystem::path path = folder / (name + ".log");
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    const File log(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    const File none(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!log || !none) return complain("bridge", fmt::format("{}: {}", path.string(), strerror(errno)));
    const off_t before = lseek(log.fd(), 0, SEEK_END);
    const StartedBridge bridge = start_until_ready("bridge", words, [&](Words&) {
        setsid();
        dup2(none.fd(), STDIN_FILENO);
        for (const int output : {STDOUT_FILENO, STDERR_FILENO}) dup2(log.fd(), output);
    });
    if (bridge.pid < 0)
        return complain("bridge",
                        fmt::format("{} did not start:\n{}", name, parts::last_lines(path.string(), 5, before)));
    fmt::print("{} serves {}; its log: {}\n", name, container::usual_region(name), path.string());
    return 0;
}

struct NamedBridge {
    std::string name;
    Words options;  // the bridge's
};

int start(const NamedBridge& o) {
    const Installation here = installation();
    if (access(here.bridge.c_str(), X_OK) != 0) return complain("bridge", bridge_is_missing(here));
    if (has_unit(o.name)) {
        if (!o.options.empty())
            return complain(
                "bridge",
                fmt::format("{} is a unit of systemd: its options are in /etc/barcuda/{}.conf (`barcuda-bridge "
                            "--print-config` prints them all)",
                            unit(o.name), o.name));
        return parts::call({"systemctl", "start", unit(o.name)});
    }
    Words words = {here.bridge, "--region", container::usual_region(o.name), "--name", o.name, "--log-level", "info"};
    words.insert(words.end(), o.options.begin(), o.options.end());
    return start_in_background(o.name, words);
}

// The bridge of this name: NAME, or NAME/PID where several bridges have that name (watch::look).
Failure find(const std::string& name, const watch::View& view, const watch::Bridge*& found) {
    const auto one = std::ranges::find_if(view.bridges, [&](const watch::Bridge& b) {
        return name == b.name || name == fmt::format("{}/{}", b.name, b.pid);
    });
    if (one != view.bridges.end()) {
        found = &*one;
        return {};
    }
    Words namesakes;
    for (const watch::Bridge& b : view.bridges)
        if (b.name.starts_with(name + "/")) namesakes.push_back(b.name);
    if (namesakes.empty()) return fmt::format("no bridge {} runs: `barcuda bridge list`", name);
    return fmt::format("several bridges have the name {}: {}", name, fmt::join(namesakes, ", "));
}

int stop(const std::string& name) {
    if (is_name(name) && has_unit(name) && parts::call({"systemctl", "is-active", "--quiet", unit(name)}) == 0)
        return parts::call({"systemctl", "stop", unit(name)});
    const watch::View view = watch::look(false);
    const watch::Bridge* one = nullptr;
    if (const Failure e = find(name, view, one)) return complain("bridge", e.text());
    const File process(static_cast<int>(syscall(SYS_pidfd_open, one->pid, 0)));
    if (kill(one->pid, SIGTERM) != 0) return complain("bridge", fmt::format("{}: {}", name, strerror(errno)));
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
    starts.add_option("NAME", options->name, "of the VM, and of the region /dev/shm/barcuda-NAME")
        .required()
        .check(check_name);
    starts.add_option("OPTION", options->options, "options of barcuda-bridge, such as --size 8G; not for a unit");
    starts.positionals_at_end();
    app.add_to(bridge, "stop", "end a bridge, and with it what its VM has on the GPU",
               [options] { return stop(options->name); })
        .add_option("NAME", options->name, "which; NAME/PID, where several have the name")
        .required();
    app.add_to(bridge, "list", "the bridges that run (the default; `barcuda ps` shows their clients, too)", list);
}

}  // namespace barcuda
