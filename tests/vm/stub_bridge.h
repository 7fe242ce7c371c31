// SPDX-License-Identifier: Apache-2.0
// stub_bridge.h: what the module's tests know of the bridge that serves them.
#pragma once

constexpr unsigned stub_rows = 3;       // commands, of which it knows none
constexpr unsigned stub_granules = 2;   // slot i is granted granules [2 i, 2 i + 2)
constexpr unsigned stub_left_open = 5;  // this slot is open when the guest boots, and this granule is mapped
