// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/watch/json.h"

namespace barcuda::watch {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Percent& busy) { return busy ? Json(*busy) : Json(); }

Json json_of(const Counts& c) {
    const auto ways = [](const std::uint64_t(&of)[Counts::ways]) {
        return Json{{"to_device", of[Counts::to_device]},
                    {"to_host", of[Counts::to_host]},
                    {"on_device", of[Counts::on_device]}};
    };
    return {{"commands", c.commands}, {"launches", c.launches},   {"graph_launches", c.graph_launches},
            {"waits", c.waits},       {"copies", ways(c.copies)}, {"copied_bytes", ways(c.copied)}};
}

Json json_of(const Rates& r) {
    return {{"commands", r.commands},
            {"launches", r.launches},
            {"waits", r.waits},
            {"copies", r.copies},
            {"copied_bytes",
             {{"to_device", r.copied[Counts::to_device]},
              {"to_host", r.copied[Counts::to_host]},
              {"on_device", r.copied[Counts::on_device]}}}};
}

Json json_of(const SharedMemory& its) {
    return {{"promised", its.promised},     {"out", its.out},
            {"lacks", its.lacks},           {"moved_out", its.moved_out},
            {"moved_back", its.moved_back}, {"waits", its.waits},
            {"refusals", its.refusals},     {"waited_seconds", double(its.waited) / 1e9}};
}

Json json_of(const Client& c) {
    Json json = {{"channel", c.channel}, {"pid", c.pid}, {"user", c.user}, {"program", c.program}};
    json["worker"] = c.worker ? Json(c.worker) : Json();
    json["age_seconds"] = c.age;
    json["state"] = c.state;
    json["paused_seconds"] = c.paused_for;
    json["device_memory"] = c.device_memory;
    json["most_device_memory"] = c.most_device_memory;
    json["region_memory"] = c.region_memory;
    json["most_region_memory"] = c.most_region_memory;
    json["queued"] = c.queued;
    json["busy_percent"] = Json::array();
    for (const Percent& busy : c.busy) json["busy_percent"].push_back(json_of(busy));
    json["shared_memory"] = json_of(c.shared);
    json["counts"] = json_of(c.counts);
    return json;
}

}  // namespace

Json json_of(const View& view, const Since* since) {
    Json all = {{"bridges", Json::array()}};
    for (const Bridge& b : view.bridges) {
        Json json = {{"name", b.name}, {"region", b.region}, {"pid", b.pid}, {"user", b.user}, {"version", b.build}};
        json["software"] = b.software;
        json["interrupts"] = b.interrupts;
        json["vm"] = !b.no_vm;
        json["age_seconds"] = b.age;
        json["region_memory"] = {{"size", b.region_size}, {"heap", b.region_heap}, {"held", b.region_held}};
        json["channels"] = {{"all", b.channels}, {"in_use", b.clients}};
        json["waiting_workers"] = b.warm;
        json["queued"] = b.queued;
        json["clients_came"] = b.came;
        json["clients_went"] = {{"left", b.went[0]}, {"refused", b.went[1]}, {"died", b.went[2]}};
        json["gpus"] = Json::array();
        for (const Gpu& gpu : b.gpus)
            json["gpus"].push_back({{"name", gpu.name},
                                    {"uuid", gpu.uuid},
                                    {"memory", gpu.memory},
                                    {"held", gpu.held},
                                    {"busy_percent", json_of(gpu.busy)}});
        json["shares_cards"] = b.shares_cards;
        json["store"] = {{"size", b.store}, {"held", b.store_held}};
        json["shared_memory"] = json_of(b.shared);
        json["counts"] = json_of(b.counts);
        if (since) json["a_second"] = json_of(since->of(b));
        json["clients"] = Json::array();
        for (const Client& c : b.rows) {
            Json client = json_of(c);
            if (since) client["a_second"] = json_of(since->of(b, c));
            json["clients"].push_back(client);
        }
        all["bridges"].push_back(json);
    }
    all["silent_bridges"] = Json::array();
    for (const SilentBridge& b : view.silent) all["silent_bridges"].push_back({{"pid", b.pid}, {"user", b.user}});
    all["complaints"] = view.complaints;
    all["bridges_of_others"] = view.others;
    return all;
}

}  // namespace barcuda::watch
