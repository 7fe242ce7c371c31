// SPDX-License-Identifier: Apache-2.0
// requests.h: what workers ask the bridge (link.h). A message is checked once, here; behind that there are requests of known forms only.
#pragma once
#include <cstddef>
#include <optional>
#include <span>

#include "host-bridge/between/link.h"

namespace barcuda {

// The longest request. A message that is longer is none.
constexpr std::size_t longest_request = sizeof(Message<request::Share>);

// Null: the message has no form that there is, or another length than its form, or names a kind that there is not.
std::optional<BridgeRequest> read_request(std::span<const char> message);

}  // namespace barcuda
