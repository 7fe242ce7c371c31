// SPDX-License-Identifier: Apache-2.0
// array.cc: the storage of arrays, in the device's heap but outside of the ranges that a kernel's pointers may access.
#include "soft-gpu/driver/array.h"

#include "soft-gpu/driver/context.h"
#include "soft-gpu/driver/driver.h"

namespace barcuda::soft::driver {

std::size_t channel_bytes(CUarray_format format) {
    switch (format) {
        case CU_AD_FORMAT_UNSIGNED_INT8:
        case CU_AD_FORMAT_SIGNED_INT8: return 1;
        case CU_AD_FORMAT_UNSIGNED_INT16:
        case CU_AD_FORMAT_SIGNED_INT16:
        case CU_AD_FORMAT_HALF: return 2;
        case CU_AD_FORMAT_UNSIGNED_INT32:
        case CU_AD_FORMAT_SIGNED_INT32:
        case CU_AD_FORMAT_FLOAT: return 4;
        default: return 0;
    }
}

// Formats of arrays that other devices have: normalized and compressed ones, of planes and of blocks.
static bool may_be_array(CUarray_format format) {
    return (format >= CU_AD_FORMAT_BC1_UNORM && format <= CU_AD_FORMAT_BC7_UNORM_SRGB) ||
           (format >= CU_AD_FORMAT_UNORM_INT8X1 && format <= CU_AD_FORMAT_SNORM_INT16X4);
}

Array::Array(const CUDA_ARRAY3D_DESCRIPTOR& wanted, const Context& owner)
    : shape(wanted), context(owner.handle()), device(owner.device) {
    const std::size_t channel = channel_bytes(shape.Format);
    require(channel != 0 || may_be_array(shape.Format));
    if (channel == 0) refuse("an array of format " + std::to_string(shape.Format));
    if (shape.Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) refuse("a sparse or deferred array");
    require(shape.NumChannels == 1 || shape.NumChannels == 2 || shape.NumChannels == 4);
    require(shape.Width > 0 && shape.Width <= 131072 && shape.Height <= 65536 && shape.Depth <= 16384);
    const bool layered = shape.Flags & CUDA_ARRAY3D_LAYERED, cube = shape.Flags & CUDA_ARRAY3D_CUBEMAP;
    require(!layered || (shape.Depth > 0 && shape.Depth <= 2048));
    require(!cube ||
            (shape.Width == shape.Height && shape.Depth % 6 == 0 && (layered ? shape.Depth > 0 : shape.Depth == 6)));
    require(layered || shape.Depth == 0 || shape.Height > 0);
    // Four texels at once are gathered of rectangles alone; colors are attached to arrays of other interfaces.
    const bool flat = shape.Height > 0 && shape.Depth == 0;
    require(!(shape.Flags & CUDA_ARRAY3D_TEXTURE_GATHER) || flat);
    require(!(shape.Flags & CUDA_ARRAY3D_COLOR_ATTACHMENT) || flat);
    element_bytes = channel * shape.NumChannels;
    rows = std::max<std::size_t>(shape.Height, 1);
    slices = std::max<std::size_t>(shape.Depth, 1);
    row_bytes = shape.Width * element_bytes;
    slice_bytes = row_bytes * rows;
    bytes = slice_bytes * slices;

    Memory& memory = Driver::get().memory;
    if (!memory.take(device, Heap::rounded(bytes))) fail(CUDA_ERROR_OUT_OF_MEMORY);
    base = reinterpret_cast<std::byte*>(memory.heap().allocate(bytes));
    if (!base) {
        memory.give(device, Heap::rounded(bytes));
        fail(CUDA_ERROR_OUT_OF_MEMORY);
    }
}

Array::~Array() {
    if (!base) return;
    Memory& memory = Driver::get().memory;
    memory.heap().release(reinterpret_cast<std::uintptr_t>(base), bytes);
    memory.give(device, Heap::rounded(bytes));
}

}  // namespace barcuda::soft::driver
