// SPDX-License-Identifier: Apache-2.0
// support.cc: `barcuda support`: the rows of the command table that this build was compiled with: which functions cross
// to the host, and how. docs/support.py makes docs/support.md of them.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/cli/options.h"
#include "host-bridge/cli/commands.h"
#include "shm-device/rows/commands.h"

namespace barcuda {
namespace {

struct {
    std::string_view name, how;
} constexpr rows[] = {
#define X(name, how, ...) {#name, #how},
    BARCUDA_ROWS(X)
#undef X
};

// By the name alone: CUDA's names begin with their library's, Barcuda's own commands with none.
std::string_view library_of(std::string_view name) {
    if (name.starts_with("cublas")) return "cuBLAS";
    if (name.starts_with("curand")) return "cuRAND";
    return name.starts_with("cu") && name.size() > 2 && name[2] >= 'A' && name[2] <= 'Z' ? "driver" : "Barcuda";
}

// Prints which functions cross to the host, and how.
int support(bool json) {
    if (json) {
        nlohmann::ordered_json all = nlohmann::ordered_json::array();
        for (const auto& [name, how] : rows)
            all.push_back({{"name", name}, {"how", how}, {"library", library_of(name)}});
        fmt::print("{}\n", all.dump(1));
        return 0;
    }
    for (const auto& [name, how] : rows) fmt::print("{:<8} {:<12} {}\n", library_of(name), how, name);
    return 0;
}

}  // namespace

void add_support(App& app) {
    const auto json = std::make_shared<bool>(false);
    const Command command =
        app.add("support",
                "the functions that cross to the host, and how: call, the program waits for the host; post, it goes "
                "on at once (docs/support.md has every function of CUDA, those that do not cross too)",
                [json] { return support(*json); });
    add_json(command, *json, "as JSON: an array of {name, how, library}");
}

}  // namespace barcuda
