// SPDX-License-Identifier: Apache-2.0
// descriptor.h: memory and pools as file descriptors (cuMem*ShareableHandle), for processes of this guest.
#pragma once

namespace barcuda::guest::descriptors {

// Whether this bridge can serve them.
bool there_are() noexcept;
// Lets the host release what only closed descriptors have kept. Called by threads that release memory or ask for some:
// a process is not told when a descriptor is closed, but can find out.
void collect() noexcept;

}  // namespace barcuda::guest::descriptors
