// SPDX-License-Identifier: Apache-2.0
// probe.h: what the host's GPUs are, written into the region once, so that guests ask the region instead of the host.
#pragma once
#include <string>

#include "shm-device/region.h"

namespace barcuda {

// Opens the driver in a child process (which then ends: nothing of the driver stays in the bridge), fills the region's
// device table, device_count and driver_version. Returns an error text; empty: done.
std::string publish_devices(Region& region, const std::string& library);

}  // namespace barcuda
