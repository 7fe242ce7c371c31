// SPDX-License-Identifier: Apache-2.0
// fork.h: what a child of a fork finds of its parent's blocks.
#pragma once

namespace barcuda::heap {

void watch_forks() noexcept;    // once, by the constructor in settings.cc
void forget(void* p) noexcept;  // a block that a child has kept of its parent is freed

}  // namespace barcuda::heap
