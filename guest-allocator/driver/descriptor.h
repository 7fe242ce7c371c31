// SPDX-License-Identifier: Apache-2.0
// descriptor.h: memory and pools as file descriptors (cuMem*ShareableHandle), for processes of this guest.
#pragma once

namespace barcuda::guest::descriptors {

// Whether this bridge can serve them.
bool there_are() noexcept;
// Lets the host release what only descriptors kept that are closed by now. For who releases memory, or asks for some: nobody is
// told when a descriptor is closed, but whoever looks can see it.
void collect() noexcept;

}  // namespace barcuda::guest::descriptors
