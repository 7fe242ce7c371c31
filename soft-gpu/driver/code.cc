// SPDX-License-Identifier: Apache-2.0
// code.cc: after a worker's cage closes, the worker can open no library and make no new memory executable. So the
// compiler of kernels is opened before that, and the cage gets the place of its code.
#include "soft-gpu/ptx/arena.h"
#include "soft-gpu/ptx/native.h"

// Returns the size of the code's memory at *base, a power of two to which it is aligned; 0: kernels are interpreted.
extern "C" [[gnu::visibility("default")]] std::size_t barcuda_soft_code(std::uintptr_t* base) {
    if (!barcuda::soft::prepare_compiler()) return 0;
    *base = barcuda::soft::reserve_arena();
    return *base == 0 ? 0 : barcuda::soft::arena_bytes;
}
