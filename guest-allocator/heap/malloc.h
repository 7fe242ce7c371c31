// SPDX-License-Identifier: Apache-2.0
// malloc.h: whether the malloc family of this library is the one that the program gets.
#pragma once

namespace barcuda::heap {

// False: another malloc or free comes before ours, in the executable or preloaded. The program would pass blocks from
// the rest of our family to that one, so none of them may be in the region.
bool is_in_front() noexcept;

}  // namespace barcuda::heap
