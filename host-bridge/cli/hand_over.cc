// SPDX-License-Identifier: Apache-2.0
// hand_over.cc: `barcuda hand-over`: a guest that runs goes from one QEMU to another one of this machine, for instance
// of a newer version. Region, bridge and workers stay what they are: QEMU's stream has nothing of them, and the clients
// notice no more than that their guest is stopped for a moment.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/cli/options.h"
#include "base/message.h"
#include "host-bridge/cli/commands.h"
#include "host-bridge/cli/qemu.h"
#include "host-bridge/cli/vm_parts.h"

namespace barcuda {
namespace {

struct HandOver {
    std::string region = "/dev/shm/barcuda", from, to;
};

// Both QEMUs are connected. Each byte that the one writes goes to the other one at once.
Failure pass(Qemu& from, Qemu& to) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return strerror(errno);
    File writes(ends[1]);
    {
        const File reads(ends[0]);
        if (Failure e = to.load(reads)) return e;
    }
    Failure e = from.save([&writes](std::span<const std::byte> piece) -> Failure {
        if (parts::caught()) return "interrupted";
        while (!piece.empty()) {
            const ssize_t n = write(writes.fd(), piece.data(), piece.size());
            if (n < 0 && errno == EINTR) continue;
            if (n <= 0) return "the other QEMU has not taken the guest, and says why";
            piece = piece.subspan(static_cast<std::size_t>(n));
        }
        return {};
    });
    if (e) return e;
    writes = File();  // all of it has been said
    return to.loaded();
}

int run(const HandOver& command) {
    if (command.from.empty() || command.to.empty())
        return complain("hand-over", "name both monitors: --qmp SOCKET --to SOCKET", wrong_usage);
    signal(SIGPIPE, SIG_IGN);
    parts::catch_signals();
    Qemu from, to;
    for (const auto& [qemu, socket] : {std::pair(&from, &command.from), std::pair(&to, &command.to)})
        if (const Failure e = qemu->connect(*socket)) return complain("hand-over", e.text());
    if (const Failure e = from.check(command.region)) return complain("hand-over", e.text());
    if (const Failure e = from.stop_late()) return complain("hand-over", e.text());
    const std::string state = from.state();
    if (const Failure why = pass(from, to)) {
        to.quit();  // before the guest goes on here
        if (const Failure stays = from.go_on())
            complain("hand-over", fmt::format("the guest is still stopped: {}", stays.text()));
        return complain("hand-over", why.text());
    }
    // Where it has gone on, the region has, too: there is no way back to the first QEMU.
    if (const Failure e = to.run(state))
        return complain("hand-over",
                        fmt::format("the guest may have gone on in the other QEMU: {}; the first one has it, "
                                    "stopped",
                                    e.text()));
    from.quit();
    if (state == "running")
        fmt::print("the guest stood still for {} ms\n", (to.went_on_at() - from.stopped_at()) / 1000);
    return 0;
}

}  // namespace

void add_hand_over(App& app) {
    const auto options = std::make_shared<HandOver>();
    const Command command =
        app.add("hand-over", "on a host: move a running guest to another QEMU here; its region and its bridge stay",
                [options] { return run(*options); });
    command.add_option("--region", options->region, "of the VM").envname("BARCUDA_REGION").capture_default_str();
    command.add_option("--qmp", options->from, "the socket of its QEMU's monitor");
    command.add_option("--to", options->to,
                       "the socket of the monitor of a QEMU that was started with -incoming defer");
}

}  // namespace barcuda
