// SPDX-License-Identifier: Apache-2.0
// json.h: bridges and their clients as JSON, for programs: `barcuda ps --json`. With `before`, also what they did a
// second since then.
#pragma once
#include <nlohmann/json.hpp>

#include "host-bridge/watch/rates.h"

namespace barcuda::watch {

nlohmann::ordered_json json_of(const View& view, const Since* since = nullptr);

}  // namespace barcuda::watch
