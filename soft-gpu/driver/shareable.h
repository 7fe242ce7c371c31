// SPDX-License-Identifier: Apache-2.0
// shareable.h: device memory that other processes may have: a file in memory, of a fixed size, whose last page
// describes it. Other processes get its descriptor.
#pragma once
#include <cstddef>
#include <cstdint>

#include "soft-gpu/driver/api.h"

namespace barcuda::soft::driver {

struct Label {
    enum class What : std::uint64_t { memory = 0x79726f6d656d, pool = 0x6c6f6f70 } what;  // as text
    std::uint64_t size;                                                                   // of the memory before it
    CUmemAllocationProp properties;
};

// Throw CUDA_ERROR_OUT_OF_MEMORY.
int make_shareable(const Label& label);
int duplicate(int file);
// The label of a file that a program has passed in. Throws CUDA_ERROR_INVALID_VALUE if it is not such a file.
Label label_of(int file, Label::What what);
// Identifies a file.
std::uint64_t inode_of(int file);  // throws CUDA_ERROR_INVALID_HANDLE

}  // namespace barcuda::soft::driver
