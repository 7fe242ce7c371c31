// SPDX-License-Identifier: Apache-2.0
// wake.cc: `barcuda wake`: a bridge that goes on with a VM that `barcuda suspend` has written to a folder
// (barcuda-bridge --wake). If the folder has the guest, another process gives it to QEMU when the bridge is awake: to
// the one behind --qmp, or to one that libvirt starts.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/cli/installation.h"
#include "base/cli/names.h"
#include "base/cli/options.h"
#include "base/message.h"
#include "host-bridge/cli/commands.h"
#include "host-bridge/cli/notices.h"
#include "host-bridge/cli/qemu.h"
#include "host-bridge/cli/saved_guest.h"
#include "host-bridge/suspended/description.h"

namespace barcuda {
namespace {

struct WakeCommand {
    std::string region, name, as, qmp;
    std::vector<std::string> words;  // DIR, and the bridge's options
};

constexpr int between_looks = 100, before_next_domain = 10'000;  // milliseconds

void tell(const std::string& what) { fmt::print(stderr, "barcuda wake: {}\n", what); }

struct Guest {
    std::string socket;        // QEMU's; empty: libvirt starts one
    std::string name, domain;  // libvirt's
    std::string state;
    File file{};
};

// Gives QEMU the guest, whose bytes the bridge has verified.
Failure load(const Guest& guest) {
    Qemu qemu;
    if (Failure e = guest.socket.empty() ? qemu.create(guest.name, guest.domain) : qemu.connect(guest.socket)) return e;
    if (Failure e = load_guest(guest.file, qemu)) {
        // The domain that libvirt has started in vain ends; another program's QEMU stays.
        if (guest.socket.empty()) qemu.quit();
        return e;
    }
    // It may run from now on, and no other QEMU gets it.
    if (const Failure silent = qemu.run(guest.state))
        tell(fmt::format("QEMU has the guest, and does not say that it runs: {}", silent.text()));
    return {};
}

// Waits a moment. True: the bridge has ended.
bool has_ended(int bridge, int milliseconds) {
    pollfd p{bridge, POLLIN, 0};
    return poll(&p, 1, milliseconds) != 0;
}

// Waits until the bridge is awake, and then for QEMU; one that does not take the guest may be started again.
void wake_guest(const Guest& guest, int bridge, int ready) {
    signal(SIGPIPE, SIG_IGN);
    char line;
    if (read(ready, &line, 1) <= 0) return;  // the bridge has said why
    const std::string& socket = guest.socket;
    if (!socket.empty())
        tell(
            fmt::format("the bridge is awake; QEMU can be started: with -incoming defer and -qmp "
                        "unix:{},server=on,wait=off",
                        socket));
    std::string said;
    do {
        if (!socket.empty() && access(socket.c_str(), F_OK) != 0) continue;
        const Failure e = load(guest);
        if (!e) return tell("the guest goes on");
        if (e.text() != said) tell(e.text());
        said = e.text();
    } while (!has_ended(bridge, socket.empty() ? before_next_domain : between_looks));
}

Failure open_guest(const WakeCommand& command, const Description& its, Guest& guest) {
    const std::string folder = command.words.front() + "/";
    guest.socket = command.qmp;
    guest.name = its.domain;
    guest.state = its.vm;
    guest.file = File(open((folder + part_of_vm).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!guest.file) return fmt::format("{}{}: {}", folder, part_of_vm, strerror(errno));
    if (its.domain.empty()) return {};
    std::ifstream domain(folder + part_of_domain);
    guest.domain.assign(std::istreambuf_iterator<char>(domain), {});
    return domain ? Failure() : fmt::format("{}{}: it cannot be read", folder, part_of_domain);
}

// Starts that process, which is not a child of the bridge's. `ready`: becomes the end that the bridge writes to.
Failure start_waking(const Guest& guest, int& ready) {
    const File bridge(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
    int ends[2];
    if (!bridge || pipe2(ends, O_CLOEXEC) != 0) return strerror(errno);
    const pid_t child = fork();
    if (child < 0) return strerror(errno);
    if (child == 0) {
        if (fork() == 0) {
            close(ends[1]);
            wake_guest(guest, bridge.fd(), ends[0]);
        }
        _exit(0);
    }
    close(ends[0]);
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {}
    ready = dup(ends[1]);  // which the bridge inherits
    return {};
}

int run(const WakeCommand& command) {
    if (command.words.empty()) return complain("wake", "name the folder of a suspended VM", wrong_usage);
    const std::string& folder = command.words.front();
    std::ifstream file(folder + "/set.json");
    Description its;
    // The bridge verifies it, and everything else.
    if (const Failure e = parse({std::istreambuf_iterator<char>(file), {}}, its))
        return complain("wake", fmt::format("{}/set.json: {}", folder, file ? e.text() : "it cannot be read"));
    std::string region = command.region.empty() ? its.region : command.region,
                name = command.name.empty() ? its.name : command.name;
    if (!command.as.empty()) {  // another VM, which goes on from the same point
        name = command.as;
        if (const std::string wrong = check_name(name); !wrong.empty())
            return complain("wake", "--as: " + wrong, wrong_usage);
        if (command.region.empty()) region = region_beside(its.region, name);
        its.domain.clear();  // the suspended VM's
        if (struct stat st{}; stat(region.c_str(), &st) == 0 && st.st_size != 0)
            return complain("wake", fmt::format("{}: it is there already, and a fork gets a region of its own: remove "
                                                "it, or name another file (--region)",
                                                region));
    }
    const Installation here = installation();
    if (access(here.bridge.c_str(), X_OK) != 0) return complain("wake", bridge_is_missing(here));
    std::vector<std::string> words{here.bridge, "--wake", folder, "--region", region, "--name", name};
    if (!its.clients.empty()) words.insert(words.end(), {"--device-memory", "blocks"});
    if (its.vm.empty() && !command.qmp.empty())
        return complain("wake",
                        fmt::format("{} has no guest: it was suspended without --qmp; leave --qmp out", folder));
    if (!its.vm.empty() && command.qmp.empty() && its.domain.empty())
        return complain(
            "wake",
            fmt::format("{} has the guest, too: name the monitor of the QEMU that will run it: --qmp SOCKET", folder));
    if (!its.vm.empty()) {
        Guest guest;
        int ready = -1;
        if (const Failure e = open_guest(command, its, guest)) return complain("wake", e.text());
        if (const Failure e = start_waking(guest, ready)) return complain("wake", e.text());
        words.insert(words.end(), {"--ready-fd", std::to_string(ready)});
    }
    words.insert(words.end(), command.words.begin() + 1, command.words.end());
    return become("wake", words);
}

}  // namespace

void add_wake(App& app) {
    const auto options = std::make_shared<WakeCommand>();
    const Command command = app.add("wake", "on a host: start the bridge of a VM that was suspended to a folder",
                                    [options] { return run(*options); });
    command.add_option("--region", options->region, "the region's file (default: where it was)");
    command.add_option("--qmp", options->qmp,
                       "the socket of the monitor of the QEMU that will run the guest: it gets the guest from the "
                       "folder when it is started (-incoming defer)");
    const Option name = command.add_option("--name", options->name, "the VM's name (default: the one that it had)");
    command
        .add_option("--as", options->as,
                    "another VM of this name goes on from the same point, in a region of its own (default: barcuda-AS "
                    "beside the one that was suspended); so a folder can be woken many times")
        .excludes(name);
    command.add_option("DIR", options->words,
                       "the folder, then more options of barcuda-bridge: barcuda wake DIR --gpus 0");
    command.positionals_at_end();
}

}  // namespace barcuda
