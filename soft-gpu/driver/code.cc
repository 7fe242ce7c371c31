// SPDX-License-Identifier: Apache-2.0
// code.cc: a worker that is about to be caged opens no library later and makes no memory executable. So the compiler of
// kernels is opened before that, and the cage is told where its code will lie.
#include "soft-gpu/ptx/arena.h"
#include "soft-gpu/ptx/native.h"

// The bytes at *base, which are a power of two, aligned to themselves; 0: kernels are interpreted.
extern "C" [[gnu::visibility("default")]] std::size_t barcuda_soft_code(std::uintptr_t* base) {
    if (!barcuda::soft::prepare_compiler()) return 0;
    *base = barcuda::soft::reserve_arena();
    return *base == 0 ? 0 : barcuda::soft::arena_bytes;
}
