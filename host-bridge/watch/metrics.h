// SPDX-License-Identifier: Apache-2.0
// metrics.h: bridges for Prometheus, in its text format (version 0.0.4). Of every bridge, so many series as it has GPUs and directions of
// copies; of each client, by its channel, only where that is asked for: there are at most 256, however many come and go.
#pragma once
#include <string>

#include "host-bridge/watch/bridges.h"

namespace barcuda::watch {

constexpr const char metrics_type[] = "text/plain; version=0.0.4; charset=utf-8";
std::string metrics(const View& view, bool clients);

}  // namespace barcuda::watch
