// SPDX-License-Identifier: Apache-2.0
// luid.h: the identifier that Windows gives a device, among its properties. Elsewhere there is none, as natively.
#pragma once
#include <driver_types.h>

namespace barcuda::runtime {

inline void set_luid(cudaDeviceProp&, int /*device*/) noexcept {}

}  // namespace barcuda::runtime
