// SPDX-License-Identifier: Apache-2.0
// upgrade.cc: `barcuda upgrade`: the bridge of another file, usually of a newly installed package, takes the place of a
// running one, whose clients go on (host-bridge/between/upgrade_link.h, docs/versions.md).
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/cli/options.h"
#include "base/failure.h"
#include "base/field.h"
#include "host-bridge/between/upgrade_link.h"
#include "host-bridge/cli/ask.h"
#include "host-bridge/cli/commands.h"
#include "host-bridge/cli/notices.h"
#include "host-bridge/watch/bridges.h"

namespace barcuda {
namespace {

using Clock = std::chrono::steady_clock;
using keeping::Step;

struct UpgradeCommand {
    std::string region, vm, binary;
    bool check = false;
    double within = 30;  // seconds
};

bool is_busy(Step step) { return step == Step::checking || step == Step::replacing || step == Step::trying; }

// What the file said: lines of a process of the bridge's user.
std::string text_of(const UpgradeReply& reply, std::string_view between) {
    std::string all, line;
    for (const char c : std::string_view(reply.rows, reply.count)) {
        if (c != '\n') {
            line += c;
            continue;
        }
        all += watch::printable(std::exchange(line, {})) + '\n';
    }
    all += watch::printable(line);
    while (all.ends_with('\n')) all.pop_back();
    for (std::size_t at = 0; (at = all.find('\n', at)) != all.npos; at += between.size()) all.replace(at, 1, between);
    return all;
}

class Upgrading {
  public:
    Upgrading(const UpgradeCommand& command, std::string name, std::string region, watch::Bridge bridge)
        : command_(command), name_(std::move(name)), region_(std::move(region)), bridge_(std::move(bridge)) {}

    bool run() {
        const Failure why = order();
        if (!why) return true;
        complain("upgrade", fmt::format("{}: {}", name_, why.text()));
        return false;
    }

  private:
    Failure order() {
        const auto reply = std::make_unique<UpgradeReply>();
        UpgradeRequest request;
        if (Failure e = tell(request, *reply)) return e;
        const std::string before = watch::printable(reply->build);
        std::string program = reply->program;
        request.what = command_.check ? UpgradeRequest::check : UpgradeRequest::upgrade;
        request.within =
            static_cast<std::uint32_t>(std::clamp(command_.within * 1000, 1.0, 1.0 * keeping::longest_wait));
        if (!command_.binary.empty()) {
            std::error_code ec;
            program = std::filesystem::absolute(command_.binary, ec).lexically_normal();
            if (program.size() >= sizeof request.program) return program + ": the path is too long";
            put(request.program, program);
        }
        const std::uint32_t attempt = reply->attempt + 1;
        if (Failure e = tell(request, *reply)) {
            if (*reply->error) return e;
            // The bridge may have been replaced before it answered.
            if (!tell({}, *reply) && reply->attempt < attempt) return e;
            reply->attempt = attempt;
            reply->step = Step::trying;
        }
        if (Failure e = wait(attempt, *reply)) return e;
        return report(*reply, before, watch::printable(program));
    }

    // The keeper limits the time of each step. In between no bridge answers.
    Failure wait(std::uint32_t attempt, UpgradeReply& reply) {
        constexpr unsigned between_looks = 20'000;  // us
        constexpr double until_it_answers = 30;     // s, beyond the two steps that have a time limit
        const auto end = Clock::now() + std::chrono::duration<double>(2 * command_.within + until_it_answers);
        while (is_busy(reply.step)) {
            usleep(between_looks);
            const Failure e = tell({}, reply);
            if (!e && reply.attempt != attempt) return "another command has ordered an upgrade meanwhile";
            if (e) reply.step = Step::trying;
            if (Clock::now() > end) return e ? "no bridge answers: " + e.text() : "its keeper takes longer than it may";
        }
        if (reply.attempt == attempt) return {};
        return "another command has ordered an upgrade meanwhile";
    }

    Failure report(const UpgradeReply& reply, const std::string& before, const std::string& program) const {
        const std::string said = text_of(reply, "; ");
        switch (reply.step) {
            case Step::fits:
                fmt::print("{}: the bridge of {} can go on with the clients of the one that serves ({}): {}\n", name_,
                           program, before, said);
                return {};
            case Step::replaced:
                fmt::print("{}: the bridge {} of {} serves in place of {} (pid {}); it goes on with {} client{}\n",
                           name_, watch::printable(reply.build), program, before, reply.pid, reply.clients,
                           reply.clients == 1 ? "" : "s");
                return {};
            case Step::refused:
                return fmt::format(
                    "the bridge of {} cannot go on with the clients of the one that serves ({}): {}. Nothing was "
                    "changed. A restart of the bridge needs none of that, and ends its clients",
                    program, before, said);
            case Step::failed:
                return fmt::format(
                    "the bridge of {} did not come to serve: {}. The earlier one goes on with its clients", program,
                    said);
            default: return "the bridge knows nothing of the order";
        }
    }

    Failure tell(const UpgradeRequest& request, UpgradeReply& reply) const {
        Failure error;
        if (bridge_.door.empty()) {
            error = ask_region(region_, request, reply);
        } else {
            File to;
            error = connect_to_doors_of(bridge_.door, bridge_.user, to);
            if (!error) error = ask(to, request, reply);
        }
        reply.build[sizeof reply.build - 1] = reply.program[sizeof reply.program - 1] = 0;
        return error;
    }

    const UpgradeCommand& command_;
    const std::string name_, region_;
    const watch::Bridge bridge_;  // without a door: the one of the region
};

int run(const UpgradeCommand& command) {
    if (command.vm.empty() && !command.region.empty())
        return Upgrading(command, command.region, command.region, {}).run() ? 0 : 1;
    const watch::View view = watch::look(false);
    unsigned found = 0;
    bool all_well = true;
    for (const watch::Bridge& bridge : view.bridges) found += command.vm.empty() || bridge.name == command.vm;
    if (found == 0)
        return complain("upgrade",
                        command.vm.empty()
                            ? with_hint("no bridge of yours serves on this machine")
                            : fmt::format("there is no VM with the name {}; `barcuda ps` shows the VMs", command.vm));
    for (const watch::Bridge& bridge : view.bridges)
        if (command.vm.empty() || bridge.name == command.vm)
            all_well = Upgrading(command, bridge.name, bridge.region, bridge).run() && all_well;
    for (const std::string& complaint : view.complaints) {
        if (!command.vm.empty()) break;
        complain("upgrade", complaint);
        all_well = false;
    }
    return all_well ? 0 : 1;
}

}  // namespace

void add_upgrade(App& app) {
    const auto options = std::make_shared<UpgradeCommand>();
    const Command command = app.add("upgrade", "on a host: replace a running bridge by a newer one; its clients go on",
                                    [options] { return run(*options); });
    command.add_option("--region", options->region, "the bridge that serves this region").envname("BARCUDA_REGION");
    command.add_flag("--check", options->check, "only say whether the new bridge could go on with the clients");
    command.add_option("--binary", options->binary,
                       "the file of the new bridge; it belongs to root or to the user that runs the bridge (default: "
                       "what is installed now where the running bridge was)");
    command
        .add_option("--within", options->within,
                    "how long the new bridge may take until it serves; then the earlier one goes on")
        .as_seconds()
        .default_str("30s");
    command.add_option("VM", options->vm,
                       "its name, as `barcuda ps` shows it; default: without --region, all of this user's bridges, "
                       "root's command: all bridges");
}

}  // namespace barcuda
