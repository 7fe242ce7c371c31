// SPDX-License-Identifier: Apache-2.0
// describing.h: what a bridge says of itself in a set (suspended/description.h), and whether a bridge can be that one.
#pragma once
#include "base/failure.h"
#include "host-bridge/bridge/startup.h"
#include "host-bridge/suspended/description.h"

namespace barcuda {

// Without its clients.
Description describe(const Ground& ground);
// What in that set keeps this bridge from waking it; nothing: it can.
Failure refuse(const Description& set, const BridgeOptions& options);
// The same, once the GPUs are known.
Failure refuse(const Description& set, const HostDevices& devices);

}  // namespace barcuda
