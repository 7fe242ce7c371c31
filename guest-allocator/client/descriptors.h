// SPDX-License-Identifier: Apache-2.0
// descriptors.h: the descriptor of the region, in a process that is a program's. Daemons close all that they have not
// opened.
#pragma once

namespace barcuda::guest {

// From here on this process's close(), closefrom() and close_range() pass it over. -1: none.
void keep_descriptor(int fd) noexcept;

}  // namespace barcuda::guest
