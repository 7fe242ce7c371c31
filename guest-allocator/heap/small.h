// SPDX-License-Identifier: Apache-2.0
// small.h: blocks of the region below 64 KiB: mimalloc's, in arenas over extents of their own. They exist only if the
// threshold is set below 64 KiB; until then libmimalloc is not even loaded.
#pragma once
#include <cstddef>

namespace barcuda::heap::small {

// Loads libmimalloc if the threshold asks for it. Called from a constructor or a CUDA call: not from inside malloc, and
// under no lock. False: another thread is loading it.
bool open() noexcept;
void* alloc(std::size_t bytes, std::size_t alignment, bool zero) noexcept;  // null: no room in the region
void free(void* p) noexcept;
std::size_t usable(const void* p) noexcept;
void forget_all() noexcept;  // in a forked child: the arenas are the parent's

}  // namespace barcuda::heap::small
