// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/carriable.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

namespace barcuda {

std::vector<Hindrance> hindrances(Session& session) {
    Births& births = session.births();
    std::vector<Hindrance> all;
    if (const CUresult fault = session.fences().lasting_error(); fault != CUDA_SUCCESS)
        all.push_back({"the GPU has failed under it: " + session.driver().error_name(fault), "start it again"});
    if (!births.on()) {
        all.push_back(births.lost()
                          ? Hindrance{births.lost(), "it runs on, and stays where it is"}
                          : Hindrance{"nothing was recorded of it", "start it again, with --device-memory blocks"});
        return all;
    }
    if (births.captures())
        all.push_back(
            {"a capture of a stream that has not ended (cudaStreamBeginCapture)", "try again when it has ended"});
    std::vector<std::pair<const Refusal*, std::string>> refused;
    for (const Op op : births.obstacles()) {
        const Refusal* const why = rule_of(op).why;
        const std::string row(op_names[static_cast<std::size_t>(op)]);
        const auto its = std::ranges::find(refused, why, &std::pair<const Refusal*, std::string>::first);
        if (its == refused.end()) refused.emplace_back(why, row);
        else its->second += ", " + row;
    }
    for (const auto& [why, rows] : refused)
        all.push_back({fmt::format("{}, by {}", why->what, rows), std::string(why->cure)});
    return all;
}

}  // namespace barcuda
