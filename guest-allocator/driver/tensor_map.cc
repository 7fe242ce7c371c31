// SPDX-License-Identifier: Apache-2.0
// tensor_map.cc: descriptions of tensors for the copy units of GPUs from Hopper on ("Tensor Map Object Management").
// The host's driver writes them; to the program they are 128 bytes that it hands to a kernel.
#include <algorithm>
#include <cstring>

#include "guest-allocator/client/command.h"
#include "guest-allocator/driver/export.h"

using namespace barcuda::guest;

namespace {

// The type says that a map begins at a multiple of 128 bytes (in CUDA 12: of 64). The H200's driver does not insist.
template <Op op> CUresult encode(CUtensorMap* to, const ext::TensorMap& tensor) {
    CUtensorMap map;
    const CUresult r = command<op>(&map, tensor);
    if (r == CUDA_SUCCESS) memcpy(static_cast<void*>(to), &map, sizeof map);
    return r;
}

// False: something is missing, or there are more dimensions than a map has.
bool describe(const CUtensorMap* map, ext::TensorMap& t, const cuuint64_t* dimensions, const cuuint64_t* strides,
              const cuuint32_t* element_strides) {
    if (!map || !dimensions || !element_strides || t.rank < 1 || t.rank > 5 || (t.rank > 1 && !strides)) return false;
    std::copy_n(dimensions, t.rank, t.dimensions);
    std::copy_n(strides, t.rank - 1, t.strides);
    std::copy_n(element_strides, t.rank, t.element_strides);
    return true;
}

}  // namespace

CU cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                          const cuuint64_t* dimensions, const cuuint64_t* strides, const cuuint32_t* box,
                          const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                          CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
    ext::TensorMap t{.type = type,
                     .rank = rank,
                     .address = reinterpret_cast<CUdeviceptr>(address),
                     .interleave = interleave,
                     .swizzle = swizzle,
                     .promotion = promotion,
                     .fill = fill};
    if (!box || !describe(map, t, dimensions, strides, element_strides)) return CUDA_ERROR_INVALID_VALUE;
    std::copy_n(box, rank, t.box);
    return encode<Op::encode_tiled>(map, t);
}

CU cuTensorMapEncodeIm2col(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                           const cuuint64_t* dimensions, const cuuint64_t* strides, const int* lower, const int* upper,
                           cuuint32_t channels, cuuint32_t pixels, const cuuint32_t* element_strides,
                           CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                           CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
    ext::TensorMap t{.type = type,
                     .rank = rank,
                     .address = reinterpret_cast<CUdeviceptr>(address),
                     .channels = channels,
                     .pixels = pixels,
                     .interleave = interleave,
                     .swizzle = swizzle,
                     .promotion = promotion,
                     .fill = fill};
    if (!lower || !upper || rank < 3 || !describe(map, t, dimensions, strides, element_strides))
        return CUDA_ERROR_INVALID_VALUE;
    std::copy_n(lower, rank - 2, t.lower);
    std::copy_n(upper, rank - 2, t.upper);
    return encode<Op::encode_im2col>(map, t);
}

CU cuTensorMapReplaceAddress(CUtensorMap* map, void* address) {
    if (!map) return CUDA_ERROR_INVALID_VALUE;
    CUtensorMap changed;
    memcpy(static_cast<void*>(&changed), map, sizeof changed);
    const CUresult r = command<Op::replace_address>(&changed, reinterpret_cast<CUdeviceptr>(address));
    if (r == CUDA_SUCCESS) memcpy(static_cast<void*>(map), &changed, sizeof changed);
    return r;
}
