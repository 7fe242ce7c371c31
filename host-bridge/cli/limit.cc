// SPDX-License-Identifier: Apache-2.0
// limit.cc: `barcuda limit`: shows and changes the limits of a running bridge's clients, and the guest's part of the
// GPUs' time (host-bridge/between/limits.h has the table of limits, limits_link.h the messages).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>

#include "base/cli/options.h"
#include "base/size.h"
#include "host-bridge/between/limits_link.h"
#include "host-bridge/cli/ask.h"
#include "host-bridge/cli/commands.h"
#include "host-bridge/cli/notices.h"

namespace barcuda {
namespace {

using Json = nlohmann::ordered_json;

struct LimitCommand {
    std::string region = "/dev/shm/barcuda";
    std::optional<std::uint32_t> client, channel;  // one of them for a single client, or neither
    std::vector<std::string> changes;              // NAME=VALUE
    bool json = false;
};

// Reads a number with a unit, or "none", which the bridge receives as 0. Returns an error, or nothing. A typed 0 is an
// error, because the operator would mean the opposite of what it means to the bridge.
std::string parse_value(const std::string& value, std::uint64_t& number) {
    if (value == "none") {
        number = 0;
        return {};
    }
    if (std::string e = read_size(value, number); !e.empty()) return e;
    return number == 0 ? "0 is not accepted: the least is 1, and none removes the limit" : "";
}

std::string parse_value(const AboutLimit& its, const std::string& value, std::uint64_t& number) {
    if (its.unit != Unit::on_or_off) return parse_value(value, number);
    number = value == "on";
    return value == "on" || value == "off" ? "" : "it is on or off";
}

// Reads the guest's weight or priority.
std::string read_share(const std::string& name, const std::string& value, LimitRequest& request) {
    if (name == "priority") {
        const auto priority = turns::priority_named(value);
        if (!priority) return fmt::format("a priority is {}", fmt::join(turns::priorities, ", "));
        request.priority_given = true;
        request.share.priority = *priority;
        return {};
    }
    std::uint64_t weight = 0;
    std::string e = parse_value(value, weight);
    if (e.empty() && weight > turns::most_weight) e = fmt::format("a weight is at most {}", turns::most_weight);
    request.weight_given = true;
    request.share.weight = static_cast<std::uint32_t>(weight);
    return e;
}

// Reads one word NAME=VALUE. Returns an error, or nothing.
Failure parse(const std::string& word, bool of_one, LimitRequest& request) {
    const std::size_t sign = word.find('=');
    const std::string name = word.substr(0, sign);
    const std::string value = sign == word.npos ? "" : word.substr(sign + 1);
    std::string error = name + ": there is no such limit; the limits are", names = of_one ? "" : " weight priority";
    if (value.empty()) return word + ": to change a limit, write NAME=VALUE";
    bool found = false;
    const auto change = [&](LimitRequest::Whose whose, const std::string& wrong) {
        found = true;
        error = request.whose != LimitRequest::nobodys && request.whose != whose
                    ? "change the limits of the guest and of each client with separate commands"
                : wrong.empty() ? ""
                                : fmt::format("{}: {}", word, wrong);
        request.whose = whose;
    };
    if (!of_one && (name == "weight" || name == "priority"))
        change(LimitRequest::the_guests, read_share(name, value, request));
    each_limit([&](Limit limit, const AboutLimit& its) {
        for (const Of whose : {Of::client, Of::guest}) {
            if (!its.is(whose) || (of_one && whose == Of::guest)) continue;
            const std::string own = of_one ? its.name() : its.option(whose);
            names += " " + own;
            if (own != name) continue;
            const auto i = static_cast<unsigned>(limit);
            request.given[i] = true;
            const auto of = of_one               ? LimitRequest::one_clients
                            : whose == Of::guest ? LimitRequest::the_guests
                                                 : LimitRequest::each_clients;
            change(of, parse_value(its, value, request.values[i]));
        }
    });
    return found ? error : error + names;
}

Json json_of(std::uint64_t limit) { return limit ? Json(limit) : Json(); }
Json json_of(const AboutLimit& its, std::uint64_t limit) {
    return its.unit == Unit::on_or_off ? Json(limit != 0) : json_of(limit);
}

// Empty: the VM takes no turns.
std::string_view priority_of(const LimitReply& reply) {
    const auto i = static_cast<std::size_t>(reply.share.priority);
    return reply.share.weight && i < std::size(turns::priorities) ? turns::priorities[i] : "";
}

void print_json(const LimitReply& reply) {
    Json all;
    each_limit([&](Limit limit, const AboutLimit& its) {
        const auto i = static_cast<unsigned>(limit);
        if (its.is(Of::guest))
            all["guest"][its.name()] = {{"limit", json_of(its, reply.guest[i])}, {"use", reply.use[i]}};
        if (its.is(Of::client)) all["each_client"][its.name()] = json_of(its, reply.client[i]);
    });
    const std::string_view priority = priority_of(reply);
    all["time"] = {{"weight", json_of(reply.share.weight)}, {"priority", priority.empty() ? Json() : Json(priority)}};
    all["clients"] = Json::array();
    for (const LimitRow& row : std::span(reply.rows, reply.count)) {
        Json client = {{"channel", row.channel}, {"pid", row.pid}, {"worker", row.worker}};
        each_limit([&](Limit limit, const AboutLimit& its) {
            const auto i = static_cast<unsigned>(limit);
            if (its.is(Of::client))
                client["limits"][its.name()] = {
                    {"limit", json_of(its, row.limits[i])}, {"own", row.own[i]}, {"use", row.use[i]}};
        });
        all["clients"].push_back(client);
    }
    fmt::print("{}\n", all.dump(1));
}

void print_table(const LimitReply& reply) {
    const auto line = [](const std::string& whose, const AboutLimit& its, std::uint64_t use, std::uint64_t limit,
                         bool own) {
        fmt::print("{:<28} {:<15} {:>10} {:>10}{}\n", whose, its.name(),
                   its.is_rate() || its.unit == Unit::on_or_off ? "-" : its.text(use), limit ? its.text(limit) : "-",
                   own ? " *" : "");
    };
    fmt::print("{:<28} {:<15} {:>10} {:>10}\n", "", "", "in use", "limit");
    each_limit([&](Limit limit, const AboutLimit& its) {
        const auto i = static_cast<unsigned>(limit);
        if (its.is(Of::guest)) line("guest", its, reply.use[i], reply.guest[i], false);
    });
    const auto of_time = [](const char* what, const std::string& value) {
        fmt::print("{:<28} {:<15} {:>10} {:>10}\n", "guest", what, "", value);
    };
    const std::string_view priority = priority_of(reply);
    of_time("weight", reply.share.weight ? std::to_string(reply.share.weight) : "-");
    of_time("priority", std::string(priority.empty() ? "-" : priority));
    for (const LimitRow& row : std::span(reply.rows, reply.count))
        each_limit([&](Limit limit, const AboutLimit& its) {
            const auto i = static_cast<unsigned>(limit);
            if (its.is(Of::client))
                line(fmt::format("client {} (channel {})", row.pid, row.channel), its, row.use[i], row.limits[i],
                     row.own[i]);
        });
    if (reply.count == 0)
        each_limit([&](Limit limit, const AboutLimit& its) {
            const auto i = static_cast<unsigned>(limit);
            if (its.is(Of::client))
                fmt::print("{:<28} {:<15} {:>10} {:>10}\n", "each client", its.name(), "-",
                           reply.client[i] ? its.text(reply.client[i]) : "-");
        });
}

// Shows or changes the limits of a running bridge's clients. Returns 1, after a message, if it cannot.
int limit(const LimitCommand& command) {
    LimitRequest request;
    const bool of_one = command.client || command.channel;
    if (of_one) {
        request.by = command.channel ? LimitRequest::channel : LimitRequest::pid;
        request.client = command.channel ? *command.channel : *command.client;
    }
    for (const std::string& word : command.changes)
        if (const Failure e = parse(word, of_one, request)) return complain("limit", e.text());
    const auto reply = std::make_unique<LimitReply>();
    if (const Failure e = ask_region(command.region, request, *reply)) return complain("limit", e.text());
    if (of_one && request.whose == LimitRequest::nobodys) {
        const auto others = std::remove_if(reply->rows, reply->rows + reply->count, [&](const LimitRow& row) {
            return command.channel
                       ? row.channel != *command.channel
                       : row.pid != *command.client && row.worker != static_cast<std::int32_t>(*command.client);
        });
        reply->count = static_cast<std::uint32_t>(others - reply->rows);
        if (reply->count == 0) return complain("limit", "there is no such client");
    }
    if (!command.changes.empty() && !command.json) return 0;
    command.json ? print_json(*reply) : print_table(*reply);
    return 0;
}

}  // namespace

void add_limit(App& app) {
    const auto options = std::make_shared<LimitCommand>();
    const Command command = app.add("limit",
                                    "on a host: show or change the limits of a running bridge's clients; "
                                    "for root and the bridge's user",
                                    [options] { return limit(*options); });
    command.add_option("--region", options->region, "the bridge's").envname("BARCUDA_REGION").capture_default_str();
    const Option pid = command.add_option(
        "--client", options->client,
        "only this client's: its pid, as `barcuda smi` shows it in the guest, or its worker's on the host");
    command.add_option("--channel", options->channel, "the same, by its channel").excludes(pid);
    add_json(command, options->json);
    command.add_option(
        "LIMIT", options->changes,
        "NAME=VALUE: a new limit, or none; K, M, G are understood: client-device-memory=2G (of each client), "
        "guest-channels=8, guest-memory-pinned=on, and "
        "with --client or --channel device-memory=2G; of the guest also weight=300, priority=high. docs/limits.md has "
        "all");
}

}  // namespace barcuda
