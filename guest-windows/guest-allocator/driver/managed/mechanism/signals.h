// SPDX-License-Identifier: Apache-2.0
// signals.h: on Windows no managed memory has a side on the device, so no fault of the CPU is awaited.
#pragma once

namespace barcuda::guest::managed {

inline void take_faults() noexcept {}

struct HandlersDeferred {
    HandlersDeferred() noexcept {}
    HandlersDeferred(const HandlersDeferred&) = delete;
};

}  // namespace barcuda::guest::managed
