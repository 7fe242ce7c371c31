// SPDX-License-Identifier: Apache-2.0
// sync.h: lanes of a warp that meet: every *.sync instruction begins here.
#pragma once
#include "soft-gpu/ptx/machine.h"

namespace barcuda::soft {

// The lanes of `mask` whose whole group (`members`, by lane) has arrived: they continue. The others wait at this
// instruction. `anywhere`: lanes may meet at different instructions of this kind (bar.warp.sync).
Mask meet(Warp& w, Mask mask, const std::uint32_t* members, bool anywhere = false);

}  // namespace barcuda::soft
