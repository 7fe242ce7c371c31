// SPDX-License-Identifier: Apache-2.0
// trace.cc: `barcuda trace`: joins the traces of a guest and of its host. Each uses the clock of its own kernel. But a
// worker takes a command after its client has sent it, and before the client continues (the worker's slice may end
// later). So each call gives a lower and an upper bound for the difference of the two clocks, and from thousands of
// calls the narrowest bounds remain. A worker's trace contains its client's pid, and commands of one name come in the
// same order on both sides.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "host-bridge/cli/commands.h"
#include "shm-device/rows/listing.h"

namespace barcuda {
namespace {

using Json = nlohmann::ordered_json;

struct Call {
    double begin, end;  // microseconds
};

struct TracedProcess {
    std::optional<std::int64_t> client;              // a worker's: the client that it serves
    std::map<std::string, std::vector<Call>> calls;  // by name, in order
};

struct Trace {
    std::string file, error;
    Json events = Json::array();
    std::map<std::int64_t, TracedProcess> processes;
    double shift = 0;  // to the common clock
    bool placed = false;
};

std::int64_t pid_of(const Json& event) { return event.value("pid", std::int64_t{0}); }

// Commands for which a client waits.
const std::set<std::string>& waited_for() {
    static const std::set<std::string> names = [] {
        std::set<std::string> all;
        for (const auto& [name, how] : row_texts())
            if (how.ends_with("call")) all.emplace(name);
        return all;
    }();
    return names;
}

void look(Trace& trace) {
    for (const Json& e : trace.events) {
        const std::string phase = e.value("ph", ""), name = e.value("name", "");
        TracedProcess& process = trace.processes[pid_of(e)];
        if (phase == "M" && name == "process_name" && e.contains("args") && e["args"].contains("client"))
            process.client = e["args"].value("client", std::int64_t{0});
        if (phase == "X" && !e.contains("cat") && waited_for().contains(name))
            process.calls[name].push_back({e.value("ts", 0.0), e.value("ts", 0.0) + e.value("dur", 0.0)});
    }
    for (auto& [pid, process] : trace.processes)
        for (auto& [name, calls] : process.calls)
            std::ranges::sort(calls, {}, process.client ? &Call::begin : &Call::end);
}

Trace read_trace(const std::string& file) {
    Trace trace;
    trace.file = file;
    std::ifstream in(file);
    std::stringstream all;
    if (!in || !(all << in.rdbuf())) {
        trace.error = "cannot be read";
        return trace;
    }
    std::string text = std::move(all).str();
    trace.events = Json::parse(text, nullptr, false);
    // the process that wrote it was killed: use everything up to the last whole line
    if (trace.events.is_discarded())
        if (const auto end = text.rfind("}\n", text.size() - std::min<std::size_t>(text.size(), 2)); end != text.npos)
            trace.events = Json::parse(text.substr(0, end) + "}]", nullptr, false);
    const auto is_event = [](const Json& e) { return e.is_object(); };
    if (!trace.events.is_array() || !std::ranges::all_of(trace.events, is_event)) {
        trace.error = "is not a trace written by BARCUDA_TRACE";
        return trace;
    }
    try {
        look(trace);
    } catch (const Json::exception& e) {
        trace.error = fmt::format("is not a trace written by BARCUDA_TRACE: {}", e.what());
    }
    return trace;
}

// How far a worker's clock is behind its client's, at least and at most.
struct Bounds {
    double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();
    bool any() const { return std::isfinite(least) && std::isfinite(most); }
    double middle() const { return (least + most) / 2; }
    double doubt() const { return std::abs(most - least) / 2; }  // clocks that drift may leave no valid interval
};

void narrow(Bounds& bounds, const TracedProcess& client, const TracedProcess& worker, double client_shift,
            double worker_shift) {
    for (const auto& [name, sent] : client.calls) {
        const auto served = worker.calls.find(name);
        if (served == worker.calls.end()) continue;
        for (std::size_t i = 0; i < std::min(sent.size(), served->second.size()); ++i) {
            bounds.least =
                std::max(bounds.least, sent[i].begin + client_shift - served->second[i].begin - worker_shift);
            bounds.most = std::min(bounds.most, sent[i].end + client_shift - served->second[i].begin - worker_shift);
        }
    }
}

// How far `trace` must be moved to match `other`, if a process of one serves a process of the other.
Bounds apart(const Trace& trace, const Trace& other) {
    Bounds to_client, to_worker;
    for (const auto& [pid, worker] : trace.processes)
        if (const auto c = worker.client ? other.processes.find(*worker.client) : other.processes.end();
            c != other.processes.end())
            narrow(to_client, c->second, worker, other.shift, 0);
    for (const auto& [pid, worker] : other.processes)
        if (const auto c = worker.client ? trace.processes.find(*worker.client) : trace.processes.end();
            c != trace.processes.end())
            narrow(to_worker, c->second, worker, 0, other.shift);
    if (to_client.any()) return to_client;
    return to_worker.any() ? Bounds{-to_worker.most, -to_worker.least} : Bounds{};
}

// Aligns each trace with one that is already in place.
void place(std::vector<Trace>& traces) {
    traces[0].placed = true;
    for (bool moved = true; moved;) {
        moved = false;
        for (Trace& trace : traces)
            for (const Trace& other : traces) {
                if (trace.placed || !other.placed) continue;
                const Bounds bounds = apart(trace, other);
                if (!bounds.any()) continue;
                trace.shift = bounds.middle();
                trace.placed = moved = true;
                fmt::print(stderr, "{}: {:+.6f} s to the clock of {}, to within {:.1f} us\n", trace.file,
                           trace.shift / 1e6, traces[0].file, bounds.doubt());
            }
    }
}

// Renumbers processes: two machines may use the same number.
std::map<std::int64_t, std::int64_t> numbers(const Trace& trace, std::set<std::int64_t>& taken) {
    std::map<std::int64_t, std::int64_t> all;
    for (const auto& [pid, process] : trace.processes) {
        std::int64_t number = pid;
        while (!taken.insert(number).second) number += 10'000'000;  // more than a kernel uses
        all[pid] = number;
    }
    return all;
}

// Joins traces (BARCUDA_TRACE) of guests and hosts, on the first one's clock, into the file `output`; "-": prints them.
// Returns 1, after a message, if it cannot.
int merge_traces(const std::vector<std::string>& files, const std::string& output) {
    std::vector<Trace> traces;
    for (const std::string& file : files) {
        traces.push_back(read_trace(file));
        if (const std::string& e = traces.back().error; !e.empty())
            return complain("trace", fmt::format("{} {}", file, e));
    }
    place(traces);
    std::ofstream out;
    if (output != "-") out.open(output);
    std::ostream& to = output == "-" ? std::cout : out;
    std::set<std::int64_t> taken;
    const char* between = "[\n";
    for (const Trace& trace : traces) {
        if (!trace.placed)
            fmt::print(stderr,
                       "barcuda trace: {}: none of its processes serves a process of the others, or is served by one: "
                       "its clock is left as it is\n",
                       trace.file);
        const auto number = numbers(trace, taken);
        for (Json event : trace.events) {
            if (event.contains("pid")) event["pid"] = number.at(pid_of(event));
            if (event.contains("ts")) event["ts"] = event["ts"].get<double>() + trace.shift;
            to << between << event.dump(-1, ' ', false, Json::error_handler_t::replace);
            between = ",\n";
        }
    }
    to << (*between == '[' ? "[\n]\n" : "\n]\n") << std::flush;
    if (!to) return complain("trace", output + " cannot be written");
    const bool alone = std::ranges::any_of(traces, [](const Trace& t) { return !t.placed; });
    return alone ? 1 : 0;
}

struct TraceOptions {
    std::vector<std::string> files;
    std::string output = "-";
};

}  // namespace

void add_trace(App& app) {
    const auto options = std::make_shared<TraceOptions>();
    const Command command =
        app.add("trace", "join what BARCUDA_TRACE wrote in a guest and on its host, on one clock (docs/profiling.md)",
                [options] { return merge_traces(options->files, options->output); });
    command
        .add_option("FILE", options->files, "all get the first one's clock; with several guests, name the host's first")
        .required();
    command.add_option("-o,--output", options->output, "the new file; -: standard output").capture_default_str();
}

}  // namespace barcuda
