// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/suspended/description.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>

#include "host-bridge/suspended/digest.h"
#include "shm-device/layout.h"

namespace barcuda {
namespace {

using Json = nlohmann::ordered_json;

std::string hash_of(const std::string& text) {
    Digest digest;
    digest.add(std::as_bytes(std::span(text)));
    return digest.text();
}

Failure check(const Description& d) {
    std::set<std::uint32_t> seen;
    for (const std::uint32_t channel : d.clients)
        if (channel >= BARCUDA_MAX_CHANNELS || !seen.insert(channel).second)
            return fmt::format("channel {} is named twice, or is none", channel);
    if (!d.vm.empty() && d.vm != "running" && d.vm != "paused") return "its guest is neither running nor paused";
    std::vector<std::string> parts, names = d.names();
    parts.reserve(d.parts.size());
    for (const Description::Part& part : d.parts) parts.push_back(part.name);
    std::ranges::sort(parts);
    std::ranges::sort(names);
    return parts == names ? Failure() : Failure("its parts are not those of its clients");
}

}  // namespace

std::string births_of(std::uint32_t channel) { return fmt::format("client-{}/births", channel); }
std::string memory_of(std::uint32_t channel) { return fmt::format("client-{}/memory.zst", channel); }
std::string code_of(std::uint32_t channel) { return fmt::format("client-{}/code.zst", channel); }

std::string this_boot() {
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::string id;
    std::getline(file, id);
    return id;
}

std::vector<std::string> Description::names() const {
    std::vector<std::string> all{"books.zst", "region.zst"};
    for (const std::uint32_t channel : clients)
        for (const auto& of : {births_of, memory_of, code_of}) all.push_back(of(channel));
    if (!vm.empty()) all.emplace_back(part_of_vm);
    if (!domain.empty()) all.emplace_back(part_of_domain);
    return all;
}

// Whether a set that moves can have a part of that name.
bool is_part(const std::string& name) {
    Description any;
    any.vm = "running";
    unsigned channel = 0;
    if (std::sscanf(name.c_str(), "client-%u/", &channel) == 1 && channel < BARCUDA_MAX_CHANNELS)
        any.clients.push_back(channel);
    return std::ranges::count(any.names(), name) == 1;
}

std::string text_of(const Description& d) {
    Json json{{"format", Description::right_format},
              {"build", d.build},
              {"name", d.name},
              {"region", d.region},
              {"when", d.when},
              {"layout", d.layout},
              {"packets", d.packets},
              {"books", d.books},
              {"driver", d.driver},
              {"gpus", d.gpus},
              {"base", d.base},
              {"size", d.size},
              {"boot", d.boot},
              {"device", d.device},
              {"inode", d.inode},
              {"epoch", d.epoch},
              {"clients", d.clients},
              {"vm", d.vm},
              {"domain", d.domain},
              {"parts", Json::array()}};
    for (const Description::Part& part : d.parts)
        json["parts"].push_back({{"name", part.name}, {"bytes", part.bytes}, {"hash", part.hash}});
    // A name that is not UTF-8 is written with the replacement character.
    const auto text = [&] { return json.dump(1, ' ', false, Json::error_handler_t::replace); };
    json["hash"] = hash_of(text());
    return text() + "\n";
}

Failure parse(const std::string& text, Description& description, bool draft) {
    try {
        Json json = Json::parse(text);
        const auto format = json.at("format").get<std::uint32_t>();
        if (format != Description::right_format)
            return fmt::format("its format has number {}, this build's {}: use a build of barcuda {}", format,
                               Description::right_format, json.value("build", "of that time"));
        const std::string hash = json.at("hash");
        json.erase("hash");
        if (hash != hash_of(json.dump(1))) return "it is damaged: its text does not fit its hash";
        Description d{.build = json.at("build"),
                      .name = json.at("name"),
                      .region = json.at("region"),
                      .when = json.at("when"),
                      .layout = json.at("layout"),
                      .packets = json.at("packets"),
                      .books = json.at("books"),
                      .driver = json.at("driver"),
                      .gpus = json.at("gpus"),
                      .base = json.at("base"),
                      .size = json.at("size"),
                      .boot = json.at("boot"),
                      .device = json.at("device"),
                      .inode = json.at("inode"),
                      .epoch = json.at("epoch"),
                      .clients = json.at("clients"),
                      .vm = json.at("vm"),
                      .domain = json.at("domain")};
        for (const Json& part : json.at("parts"))
            d.parts.push_back({part.at("name"), part.at("bytes"), part.at("hash")});
        if (Failure failure = draft ? Failure() : check(d)) return failure;
        description = std::move(d);
        return {};
    } catch (const Json::exception& e) { return fmt::format("it is damaged, or was cut short: {}", e.what()); }
}

}  // namespace barcuda
