// SPDX-License-Identifier: Apache-2.0
// array.h: the elements of arrays and textures: the runtime's channel descriptor and the driver's format.
#pragma once
#include "guest-allocator/runtime/runtime.h"

namespace barcuda::runtime {

cudaError_t element_of(const cudaChannelFormatDesc& desc, CUarray_format* format, unsigned* channels);
bool desc_of(CUarray_format format, unsigned channels, cudaChannelFormatDesc* desc);  // false: no runtime name for it
std::size_t element_bytes(CUarray_format format, unsigned channels);                  // 0: block-compressed, planar

}  // namespace barcuda::runtime
