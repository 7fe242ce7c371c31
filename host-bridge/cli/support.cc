// SPDX-License-Identifier: Apache-2.0
// support.cc: `barcuda support`: the rows of this build's command table: which functions cross to the host, and how.
// docs/support.py makes docs/support.md from them.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/cli/options.h"
#include "host-bridge/cli/commands.h"
#include "shm-device/rows/listing.h"

namespace barcuda {
namespace {

// From the name alone: CUDA's names begin with the name of their library, Barcuda's own commands do not.
std::string_view library_of(std::string_view name) {
    if (name.starts_with("cublas")) return "cuBLAS";
    if (name.starts_with("curand")) return "cuRAND";
    return name.starts_with("cu") && name.size() > 2 && name[2] >= 'A' && name[2] <= 'Z' ? "driver" : "Barcuda";
}

// Prints which functions cross to the host, and how.
// Whether the guest's function is written by hand (inner_call, inner_post) is the source's business.
std::string_view way_of(std::string_view how) {
    constexpr std::string_view inner = "inner_";
    return how.starts_with(inner) ? how.substr(inner.size()) : how;
}

int support(bool json) {
    if (json) {
        nlohmann::ordered_json all = nlohmann::ordered_json::array();
        for (const auto& [name, how] : row_texts())
            all.push_back({{"name", name}, {"how", way_of(how)}, {"library", library_of(name)}});
        fmt::print("{}\n", all.dump(1));
        return 0;
    }
    for (const auto& [name, how] : row_texts()) fmt::print("{:<8} {:<6} {}\n", library_of(name), way_of(how), name);
    return 0;
}

}  // namespace

void add_support(App& app) {
    const auto json = std::make_shared<bool>(false);
    const Command command = app.add(
        "support",
        "the functions that cross to the host, and how: call, the program waits for the host; post, it continues "
        "at once (docs/support.md lists all functions of CUDA, also those that do not cross)",
        [json] { return support(*json); });
    add_json(command, *json, "as JSON: an array of {name, how, library}");
}

}  // namespace barcuda
