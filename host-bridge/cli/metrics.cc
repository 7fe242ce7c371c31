// SPDX-License-Identifier: Apache-2.0
// metrics.cc: `barcuda metrics`: the data of `barcuda top`, once, for Prometheus.
#include "host-bridge/watch/metrics.h"

#include <fmt/format.h>

#include <memory>

#include "host-bridge/cli/commands.h"
#include "host-bridge/watch/bridges.h"

namespace barcuda {
namespace {

struct MetricsQuery {
    bool clients = false, gpus = false;
};

int metrics(const MetricsQuery& options) {
    const watch::View view = options.gpus ? watch::look_at_gpus() : watch::look(false);
    for (const std::string& complaint : view.complaints) fmt::print(stderr, "barcuda metrics: {}\n", complaint);
    fmt::print("{}", watch::metrics(view, options.clients));
    return 0;
}

}  // namespace

void add_metrics(App& app) {
    const auto options = std::make_shared<MetricsQuery>();
    const Command command =
        app.add("metrics",
                "the same as metrics for Prometheus, for the textfile collector of node-exporter (docs/operating.md)",
                [options] { return metrics(*options); });
    command.add_flag("--clients", options->clients, "also series of each client");
    command.add_flag("--gpus", options->gpus, "also how busy the GPUs are; asks NVML");
}

}  // namespace barcuda
