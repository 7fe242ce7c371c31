// SPDX-License-Identifier: Apache-2.0
// texture_reference.cc: of texture references, what does not travel as programs write it.
#include <algorithm>

#include "guest-allocator/client/command.h"
#include "guest-allocator/driver/export.h"

using namespace barcuda;
using namespace barcuda::guest;

CU cuTexRefSetBorderColor(CUtexref reference, float* color) {
    if (!color) return CUDA_ERROR_INVALID_VALUE;
    ext::Color its{};
    std::copy_n(color, std::size(its.channel), its.channel);
    return command<Op::set_border_color>(reference, its);
}
CU cuTexRefGetBorderColor(float* color, CUtexref reference) {
    if (!color) return CUDA_ERROR_INVALID_VALUE;
    ext::Color its{};
    const CUresult r = command<Op::border_color>(reference, &its);
    if (r == CUDA_SUCCESS) std::ranges::copy(its.channel, color);
    return r;
}

// As it was named before CUDA 4.1.
extern "C" [[gnu::visibility("default")]] CUresult CUDAAPI cuTexRefSetAddress2D_v2(CUtexref reference,
                                                                                   const CUDA_ARRAY_DESCRIPTOR* shape,
                                                                                   CUdeviceptr address, size_t pitch) {
    return cuTexRefSetAddress2D(reference, shape, address, pitch);
}
