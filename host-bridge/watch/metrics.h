// SPDX-License-Identifier: Apache-2.0
// metrics.h: bridges for Prometheus, in its text format (version 0.0.4). The number of a bridge's series depends only
// on its GPUs and the directions of copies. Series of single clients, by channel, exist only on request: at most 256,
// however many clients start and end.
#pragma once
#include <string>

#include "host-bridge/watch/bridges.h"

namespace barcuda::watch {

constexpr const char metrics_type[] = "text/plain; version=0.0.4; charset=utf-8";
std::string metrics(const View& view, bool clients);

}  // namespace barcuda::watch
