// SPDX-License-Identifier: Apache-2.0
// array.h: CUDA arrays: device memory that has a shape and no address that a program sees. Here they are plain rows,
// one after the other; layers and cube faces are slices.
#pragma once
#include <memory>
#include <vector>

#include "soft-gpu/driver/api.h"

namespace barcuda::soft::driver {

class Context;

struct Array {
    // Throws CUDA_ERROR_INVALID_VALUE for a shape that hardware refuses, CUDA_ERROR_OUT_OF_MEMORY.
    Array(const CUDA_ARRAY3D_DESCRIPTOR& shape, const Context& context);
    ~Array();

    const CUDA_ARRAY3D_DESCRIPTOR shape;
    const CUcontext context;
    const int device;
    std::size_t element_bytes = 0;     // all channels
    std::size_t rows = 1, slices = 1;  // never 0, as shape's may be
    std::size_t row_bytes = 0, slice_bytes = 0, bytes = 0;
    std::byte* base = nullptr;
    bool in_mipmap = false;  // a level: destroyed with its mipmap
};

struct Mipmap {
    CUDA_ARRAY3D_DESCRIPTOR shape{};
    CUcontext context = nullptr;
    std::vector<std::shared_ptr<Array>> levels;  // each half as large as the previous one
};

std::size_t channel_bytes(CUarray_format format);  // 0 for formats that are not implemented

}  // namespace barcuda::soft::driver
