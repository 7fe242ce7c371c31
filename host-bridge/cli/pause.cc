// SPDX-License-Identifier: Apache-2.0
// pause.cc: `barcuda pause` and `barcuda resume`: the clients of a VM, or one of them, stop between two commands, and
// continue (host-bridge/between/pause_link.h). A pause of several clients succeeds for all of them, or the command
// resumes those that it has paused.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>

#include "base/cli/options.h"
#include "host-bridge/between/pause_link.h"
#include "host-bridge/cli/ask.h"
#include "host-bridge/cli/commands.h"
#include "host-bridge/cli/notices.h"
#include "host-bridge/cli/pausing.h"
#include "host-bridge/watch/bridges.h"
#include "host-bridge/watch/text.h"

namespace barcuda {
namespace {

struct PauseCommand {
    const char* name;  // of the subcommand
    PauseRequest::What what;
    std::string region = "/dev/shm/barcuda", vm{};
    std::optional<std::uint32_t> client{}, channel{};  // one of them, or neither: all clients
    bool all = false, keep_memory = false;
    double within = 10;  // seconds
};

// One of the bridges to ask.
struct Target {
    std::string name, region, door;  // door: where the bridge with this name listens; empty: use the region
    std::map<std::uint32_t, PauseRow> ordered{};  // by channel: what this command has ordered
    std::set<std::uint32_t> paused{};             // channels whose clients were already paused
};

class Operation {
  public:
    explicit Operation(const PauseCommand& command) : command_(command) {}

    int run() {
        if (const Failure e = find()) return complain(e.text());
        for (Target& target : targets_)
            if (const Failure e = order(target, command_.what)) fail(target, e.text());
        wait();
        for (const Target& target : targets_)
            for (const auto& [channel, row] : target.ordered)
                if (row.text[0]) fail(target, fmt::format("client {} (channel {}): {}", row.pid, channel, row.text));
        if (!failed_) return 0;
        if (command_.what == PauseRequest::pause) go_on();
        return 1;
    }

  private:
    int complain(const std::string& what) const { return barcuda::complain(command_.name, what); }
    void fail(const Target& target, const std::string& why) {
        failed_ = true;
        complain(targets_.size() > 1 ? target.name + ": " + why : why);
    }

    Failure find() {
        if (!command_.all && command_.vm.empty()) {
            targets_.push_back({command_.region, command_.region, ""});
            return {};
        }
        const watch::View view = watch::look(false);
        for (const watch::Bridge& b : view.bridges)
            if (command_.all || b.name == command_.vm) targets_.push_back({b.name, b.region, b.door});
        if (command_.all) return {};  // with --all, no bridge is not an error
        if (targets_.empty())
            return fmt::format("there is no VM with the name {}; `barcuda ps` shows the VMs", command_.vm);
        return {};
    }

    Failure tell(const Target& target, const PauseRequest& request, PauseReply& reply) const {
        if (target.door.empty()) return ask_region(target.region, request, reply);
        File to;
        if (Failure e = connect_to_door(target.door, to)) return e;
        return ask(to, request, reply);
    }

    Failure order(Target& target, PauseRequest::What what) const {
        PauseRequest request;
        request.what = what;
        if (command_.client) {
            request.by = PauseRequest::pid;
            request.client = *command_.client;
        }
        if (command_.channel) {
            request.by = PauseRequest::channel;
            request.client = *command_.channel;
        }
        request.within = static_cast<std::uint32_t>(std::clamp(command_.within, 0.0, 3600.0) * 1000);
        request.keep_memory = command_.keep_memory;
        const auto reply = std::make_unique<PauseReply>();
        if (Failure e = tell(target, {}, *reply)) return e;
        for (const PauseRow& row : std::span(reply->rows, reply->count))
            if (row.state != Paused::running) target.paused.insert(row.channel);
        if (Failure e = tell(target, request, *reply)) return e;
        note(target, *reply, true);
        return {};
    }
    static void note(Target& target, PauseReply& reply, bool all) {
        for (PauseRow& row : std::span(reply.rows, reply.count)) {
            row.text[sizeof row.text - 1] = 0;
            if (all || target.ordered.contains(row.channel)) target.ordered[row.channel] = row;
        }
    }

    // Waits until each client is in the state that was ordered, or the order was refused. The bridge limits that time.
    void wait() {
        constexpr unsigned between_looks = 20'000;  // us
        for (bool busy = true; busy;) {
            busy = false;
            for (Target& target : targets_) {
                const auto is_busy = [](const auto& row) { return row.second.busy != 0; };
                if (std::ranges::none_of(target.ordered, is_busy)) continue;
                const auto reply = std::make_unique<PauseReply>();
                if (const Failure e = tell(target, {}, *reply)) {
                    fail(target, e.text());
                    target.ordered.clear();
                    continue;
                }
                // A client that is no longer in the list has ended.
                std::erase_if(target.ordered, [&](const auto& row) {
                    return std::ranges::none_of(std::span(reply->rows, reply->count),
                                                [&](const PauseRow& its) { return its.channel == row.first; });
                });
                note(target, *reply, false);
                busy = busy || std::ranges::any_of(target.ordered, is_busy);
            }
            if (busy) usleep(between_looks);
        }
    }

    // Resumes the clients that this command has paused.
    void go_on() {
        for (Target& target : targets_) {
            std::erase_if(target.ordered, [&](const auto& row) {
                return row.second.text[0] != 0 || target.paused.contains(row.first);
            });
            for (const auto& [channel, row] : std::map(target.ordered)) {
                PauseRequest request;
                request.what = PauseRequest::resume;
                request.by = PauseRequest::channel;
                request.client = channel;
                const auto reply = std::make_unique<PauseReply>();
                if (const Failure e = tell(target, request, *reply)) fail(target, e.text());
                else note(target, *reply, true);
            }
        }
        wait();
        for (const Target& target : targets_)
            for (const auto& [channel, row] : target.ordered)
                if (row.text[0])
                    fail(target, fmt::format("client {} (channel {}) is still paused: {}", row.pid, channel, row.text));
    }

    const PauseCommand& command_;
    std::vector<Target> targets_;
    bool failed_ = false;
};

void add(App& app, const std::shared_ptr<PauseCommand>& options, const char* what) {
    const Command command = app.add(options->name, what, [options] { return Operation(*options).run(); });
    const Option region =
        command.add_option("--region", options->region, "the bridge's").envname("BARCUDA_REGION").capture_default_str();
    const Option pid = command.add_option(
        "--client", options->client,
        "only this client: its pid, as `barcuda smi` shows it in the guest, or its worker's on the host");
    const Option channel = command.add_option("--channel", options->channel, "the same, by its channel");
    channel.excludes(pid);
    command.add_flag("--all", options->all, "the clients of all VMs of this machine")
        .excludes(pid)
        .excludes(channel)
        .excludes(region);
    command.add_option("VM", options->vm, "its name, as `barcuda ps` shows it; default: the VM of --region");
    if (options->what != PauseRequest::pause) return;
    command.add_flag("--keep-memory", options->keep_memory, "the clients' memory stays on the GPU");
    command.add_option("--within", options->within, "how long the GPU's work may take to end")
        .as_seconds()
        .default_str("10s");
}

}  // namespace

bool hold_all(const char* command, const std::string& region, const std::string& vm, double within) {
    const PauseCommand pause{.name = command,
                             .what = PauseRequest::pause,
                             .region = region,
                             .vm = vm,
                             .keep_memory = true,
                             .within = within};
    return Operation(pause).run() == 0;
}

void add_pause(App& app) {
    add(app, std::make_shared<PauseCommand>(PauseCommand{.name = "pause", .what = PauseRequest::pause}),
        "on a host: stop the clients of a VM and free their GPU memory; for root and the bridge's user");
}
void add_resume(App& app) {
    add(app, std::make_shared<PauseCommand>(PauseCommand{.name = "resume", .what = PauseRequest::resume}),
        "on a host: resume paused clients; for root and the bridge's user");
}

}  // namespace barcuda
