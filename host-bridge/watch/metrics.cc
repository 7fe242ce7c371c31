// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/watch/metrics.h"

#include <fmt/format.h>

#include <functional>
#include <utility>

namespace barcuda::watch {
namespace {

using Labels = std::vector<std::pair<const char*, std::string>>;

std::string escaped(const std::string& value) {
    std::string text;
    for (const char c : value) {
        if (c == '\\' || c == '"') text += '\\';
        text += c;
    }
    return text;
}

// A family of series; the format wants them together.
class Family {
  public:
    Family(std::string& text, const char* type, const char* name, const char* help) : text_(text), name_(name) {
        text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
    }
    void series(const Labels& labels, auto value) {
        text_ += name_;
        const char* before = "{";
        for (const auto& [label, is] : labels)
            text_ += fmt::format("{}{}=\"{}\"", std::exchange(before, ","), label, escaped(is));
        text_ += fmt::format("{}{}\n", labels.empty() ? " " : "} ", value);
    }

  private:
    std::string& text_;
    const char* name_;
};

constexpr const char* ways[Counts::ways] = {"to_device", "to_host", "on_device"};
constexpr const char* ends[all_ends] = {"left", "refused", "died"};

// A counter that both bridges and clients have.
struct Counter {
    const char *of_bridge, *of_client, *help;
    std::uint64_t Counts::*value;
};
constexpr Counter counters[] = {
    {"barcuda_commands_total", "barcuda_client_commands_total", "Commands that clients have sent.", &Counts::commands},
    {"barcuda_launches_total", "barcuda_client_launches_total",
     "Kernels that clients have launched, without those of graphs.", &Counts::launches},
    {"barcuda_graph_launches_total", "barcuda_client_graph_launches_total", "Graphs that clients have launched.",
     &Counts::graph_launches},
    {"barcuda_waits_total", "barcuda_client_waits_total", "Times that clients have waited for their GPU.",
     &Counts::waits},
};
struct CopyCounter {
    const char *of_bridge, *of_client, *help;
    std::uint64_t (Counts::*values)[Counts::ways];
};
constexpr CopyCounter copy_counters[] = {
    {"barcuda_copies_total", "barcuda_client_copies_total", "Copies, by direction, without those of graphs.",
     &Counts::copies},
    {"barcuda_copy_bytes_total", "barcuda_client_copy_bytes_total",
     "Bytes copied, by direction, without those of graphs.", &Counts::copied},
};

// What bridges and clients have of shared cards.
struct SharedRow {
    const char *type, *of_bridge, *of_client, *help;
    std::uint64_t SharedMemory::*value;
    double unit = 1;
};
constexpr SharedRow shared_rows[] = {
    {"gauge", "barcuda_promised_bytes", "barcuda_client_promised_bytes",
     "Memory of shared GPUs that clients have there, or may take.", &SharedMemory::promised},
    {"gauge", "barcuda_out_bytes", "barcuda_client_out_bytes", "Device memory that is in the store.",
     &SharedMemory::out},
    {"gauge", "barcuda_lacking_bytes", "barcuda_client_lacking_bytes", "Memory of shared GPUs that clients wait for.",
     &SharedMemory::lacks},
    {"counter", "barcuda_moved_out_bytes_total", "barcuda_client_moved_out_bytes_total",
     "Device memory that has left shared GPUs.", &SharedMemory::moved_out},
    {"counter", "barcuda_moved_back_bytes_total", "barcuda_client_moved_back_bytes_total",
     "Device memory that has come back to them.", &SharedMemory::moved_back},
    {"counter", "barcuda_memory_waits_total", "barcuda_client_memory_waits_total",
     "Times that clients have waited for memory of shared GPUs.", &SharedMemory::waits},
    {"counter", "barcuda_memory_refusals_total", "barcuda_client_memory_refusals_total",
     "Times that they were refused it.", &SharedMemory::refusals},
    {"counter", "barcuda_memory_waited_seconds_total", "barcuda_client_memory_waited_seconds_total",
     "For how long they have waited for it.", &SharedMemory::waited, 1e9},
};

class Text {
  public:
    explicit Text(const View& view) : view_(view) {}

    void bridges() {
        const auto gauge = [&](const char* name, const char* help, auto value) {
            Family family(text_, "gauge", name, help);
            for (const Bridge& b : view_.bridges) family.series({{"vm", b.name}}, value(b));
        };
        Family(text_, "gauge", "barcuda_bridges", "Bridges of this machine that have answered.")
            .series({}, view_.bridges.size());
        Family(text_, "gauge", "barcuda_silent_bridges", "Bridges of this machine that could not be asked.")
            .series({}, view_.complaints.size());
        {
            Family family(text_, "gauge", "barcuda_bridge_info", "A bridge: always 1.");
            for (const Bridge& b : view_.bridges)
                family.series({{"vm", b.name},
                               {"version", b.build},
                               {"region", b.region},
                               {"device", b.software ? "soft" : "cuda"}},
                              1);
        }
        gauge("barcuda_bridge_start_time_seconds", "When the bridge started, in seconds since 1970.",
              [](const Bridge& b) { return fmt::format("{:.3f}", b.began); });
        gauge("barcuda_channels", "The most clients at a time.", [](const Bridge& b) { return b.channels; });
        gauge("barcuda_clients", "Clients that have a worker.", [](const Bridge& b) { return b.clients; });
        gauge("barcuda_waiting_workers", "Workers that wait for a client.", [](const Bridge& b) { return b.warm; });
        gauge("barcuda_region_bytes", "Memory of the region for clients.",
              [](const Bridge& b) { return b.region_heap; });
        gauge("barcuda_region_held_bytes", "Memory of the region that clients have.",
              [](const Bridge& b) { return b.region_held; });
        gauge("barcuda_queued_work", "Work that GPUs have received and not finished, as far as known.",
              [](const Bridge& b) { return b.queued; });
        gpus();
        {
            Family family(text_, "counter", "barcuda_clients_admitted_total", "Clients that got a worker.");
            for (const Bridge& b : view_.bridges) family.series({{"vm", b.name}}, b.came);
        }
        {
            Family family(
                text_, "counter", "barcuda_clients_ended_total",
                "Clients that have ended: they left; were refused for what they sent, or by a limit; died with "
                "their worker.");
            for (const Bridge& b : view_.bridges)
                for (unsigned end = 0; end < all_ends; ++end)
                    family.series({{"vm", b.name}, {"how", ends[end]}}, b.went[end]);
        }
        gauge("barcuda_store_bytes", "Host memory for what leaves shared GPUs.",
              [](const Bridge& b) { return b.store; });
        gauge("barcuda_store_held_bytes", "Host memory of the store that clients have.",
              [](const Bridge& b) { return b.store_held; });
        for (const SharedRow& r : shared_rows) {
            Family family(text_, r.type, r.of_bridge, r.help);
            for (const Bridge& b : view_.bridges)
                if (b.shares_cards) family.series({{"vm", b.name}}, shown(r, b.shared));
        }
        for (const Counter& c : counters) {
            Family family(text_, "counter", c.of_bridge, c.help);
            for (const Bridge& b : view_.bridges) family.series({{"vm", b.name}}, b.counts.*c.value);
        }
        for (const CopyCounter& c : copy_counters) {
            Family family(text_, "counter", c.of_bridge, c.help);
            for (const Bridge& b : view_.bridges)
                for (unsigned way = 0; way < Counts::ways; ++way)
                    family.series({{"vm", b.name}, {"direction", ways[way]}}, (b.counts.*c.values)[way]);
        }
    }

    void clients() {
        const auto each = [&](const char* type, const char* name, const char* help, auto of) {
            Family family(text_, type, name, help);
            for (const Bridge& b : view_.bridges)
                for (const Client& c : b.rows)
                    of(family, Labels{{"vm", b.name}, {"client", std::to_string(c.channel)}}, b, c);
        };
        const auto with = [](Labels labels, const char* name, const std::string& value) {
            labels.emplace_back(name, value);
            return labels;
        };
        each("gauge", "barcuda_client_info",
             "A client, by its channel: pid, program and user as the guest says. Always 1.",
             [&](Family& f, const Labels& l, const Bridge&, const Client& c) {
                 f.series(with(with(with(l, "pid", std::to_string(c.pid)), "program", c.program), "user", c.user), 1);
             });
        each("gauge", "barcuda_client_age_seconds", "Since the client connected.",
             [](Family& f, const Labels& l, const Bridge&, const Client& c) {
                 f.series(l, fmt::format("{:.3f}", c.age));
             });
        each("gauge", "barcuda_paused_seconds", "Since the client was paused; 0: it runs.",
             [](Family& f, const Labels& l, const Bridge&, const Client& c) {
                 f.series(l, fmt::format("{:.3f}", c.paused_for));
             });
        each("gauge", "barcuda_client_device_memory_bytes", "Device memory that the client has.",
             [&](Family& f, const Labels& l, const Bridge&, const Client& c) {
                 for (std::size_t d = 0; d < c.device_memory.size(); ++d)
                     f.series(with(l, "gpu", std::to_string(d)), c.device_memory[d]);
             });
        each("gauge", "barcuda_client_region_held_bytes", "Memory of the region that the client has.",
             [](Family& f, const Labels& l, const Bridge&, const Client& c) { f.series(l, c.region_memory); });
        each("gauge", "barcuda_client_queued_work", "Work that the GPU has received and not finished, as far as known.",
             [](Family& f, const Labels& l, const Bridge&, const Client& c) { f.series(l, c.queued); });
        each("gauge", "barcuda_client_gpu_busy_ratio",
             "Part of the GPU's time that the client uses; only if NVML knows it and is asked.",
             [&](Family& f, const Labels& l, const Bridge&, const Client& c) {
                 for (std::size_t d = 0; d < c.busy.size(); ++d)
                     if (c.busy[d]) f.series(with(l, "gpu", std::to_string(d)), *c.busy[d] / 100.0);
             });
        for (const SharedRow& r : shared_rows)
            each(r.type, r.of_client, r.help, [&](Family& f, const Labels& l, const Bridge& b, const Client& c) {
                if (b.shares_cards) f.series(l, shown(r, c.shared));
            });
        for (const Counter& counter : counters)
            each("counter", counter.of_client, counter.help,
                 [&](Family& f, const Labels& l, const Bridge&, const Client& c) {
                     f.series(l, c.counts.*counter.value);
                 });
        for (const CopyCounter& counter : copy_counters)
            each("counter", counter.of_client, counter.help,
                 [&](Family& f, const Labels& l, const Bridge&, const Client& c) {
                     for (unsigned way = 0; way < Counts::ways; ++way)
                         f.series(with(l, "direction", ways[way]), (c.counts.*counter.values)[way]);
                 });
    }

    std::string take() { return std::move(text_); }

  private:
    static std::string shown(const SharedRow& row, const SharedMemory& its) {
        return row.unit == 1 ? std::to_string(its.*row.value)
                             : fmt::format("{:.3f}", static_cast<double>(its.*row.value) / row.unit);
    }
    void gpus() {
        const auto each = [&](const char* name, const char* help, auto value) {
            Family family(text_, "gauge", name, help);
            for (const Bridge& b : view_.bridges)
                for (std::size_t d = 0; d < b.gpus.size(); ++d)
                    if (const auto is = value(b.gpus[d]))
                        family.series({{"vm", b.name}, {"gpu", std::to_string(d)}, {"uuid", b.gpus[d].uuid}}, *is);
        };
        each("barcuda_gpu_memory_bytes", "Memory of the GPU.", [](const Gpu& g) { return std::optional(g.memory); });
        each("barcuda_device_memory_bytes", "Device memory that the VM's clients have.",
             [](const Gpu& g) { return std::optional(g.held); });
        each("barcuda_gpu_busy_ratio", "Part of the time in which the GPU works, for any user; only if NVML is asked.",
             [](const Gpu& g) { return g.busy ? std::optional(*g.busy / 100.0) : std::nullopt; });
    }

    const View& view_;
    std::string text_;
};

}  // namespace

std::string metrics(const View& view, bool clients) {
    Text text(view);
    text.bridges();
    if (clients) text.clients();
    return text.take();
}

}  // namespace barcuda::watch
