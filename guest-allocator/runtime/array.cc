// SPDX-License-Identifier: Apache-2.0
// array.cc: CUDA arrays and mipmapped arrays, and the two ways of saying what their elements are.
#include "guest-allocator/runtime/array.h"

using namespace barcuda::runtime;

static_assert(cudaArrayLayered == CUDA_ARRAY3D_LAYERED && cudaArraySurfaceLoadStore == CUDA_ARRAY3D_SURFACE_LDST &&
              cudaArrayCubemap == CUDA_ARRAY3D_CUBEMAP && cudaArrayTextureGather == CUDA_ARRAY3D_TEXTURE_GATHER &&
              cudaArraySparse == CUDA_ARRAY3D_SPARSE && cudaArrayDeferredMapping == CUDA_ARRAY3D_DEFERRED_MAPPING);

namespace {

// Formats whose channel kind alone says the number and width of channels.
struct Special {
    cudaChannelFormatKind kind;
    CUarray_format format;
    int x, y, z, w;
    unsigned channels;
};
constexpr Special special_formats[] = {
    {cudaChannelFormatKindUnsignedNormalized8X1, CU_AD_FORMAT_UNORM_INT8X1, 8, 0, 0, 0, 1},
    {cudaChannelFormatKindUnsignedNormalized8X2, CU_AD_FORMAT_UNORM_INT8X2, 8, 8, 0, 0, 2},
    {cudaChannelFormatKindUnsignedNormalized8X4, CU_AD_FORMAT_UNORM_INT8X4, 8, 8, 8, 8, 4},
    {cudaChannelFormatKindUnsignedNormalized16X1, CU_AD_FORMAT_UNORM_INT16X1, 16, 0, 0, 0, 1},
    {cudaChannelFormatKindUnsignedNormalized16X2, CU_AD_FORMAT_UNORM_INT16X2, 16, 16, 0, 0, 2},
    {cudaChannelFormatKindUnsignedNormalized16X4, CU_AD_FORMAT_UNORM_INT16X4, 16, 16, 16, 16, 4},
    {cudaChannelFormatKindSignedNormalized8X1, CU_AD_FORMAT_SNORM_INT8X1, 8, 0, 0, 0, 1},
    {cudaChannelFormatKindSignedNormalized8X2, CU_AD_FORMAT_SNORM_INT8X2, 8, 8, 0, 0, 2},
    {cudaChannelFormatKindSignedNormalized8X4, CU_AD_FORMAT_SNORM_INT8X4, 8, 8, 8, 8, 4},
    {cudaChannelFormatKindSignedNormalized16X1, CU_AD_FORMAT_SNORM_INT16X1, 16, 0, 0, 0, 1},
    {cudaChannelFormatKindSignedNormalized16X2, CU_AD_FORMAT_SNORM_INT16X2, 16, 16, 0, 0, 2},
    {cudaChannelFormatKindSignedNormalized16X4, CU_AD_FORMAT_SNORM_INT16X4, 16, 16, 16, 16, 4},
    {cudaChannelFormatKindUnsignedBlockCompressed1, CU_AD_FORMAT_BC1_UNORM, 8, 8, 8, 8, 4},
    {cudaChannelFormatKindUnsignedBlockCompressed1SRGB, CU_AD_FORMAT_BC1_UNORM_SRGB, 8, 8, 8, 8, 4},
    {cudaChannelFormatKindUnsignedBlockCompressed2, CU_AD_FORMAT_BC2_UNORM, 8, 8, 8, 8, 4},
    {cudaChannelFormatKindUnsignedBlockCompressed2SRGB, CU_AD_FORMAT_BC2_UNORM_SRGB, 8, 8, 8, 8, 4},
    {cudaChannelFormatKindUnsignedBlockCompressed3, CU_AD_FORMAT_BC3_UNORM, 8, 8, 8, 8, 4},
    {cudaChannelFormatKindUnsignedBlockCompressed3SRGB, CU_AD_FORMAT_BC3_UNORM_SRGB, 8, 8, 8, 8, 4},
    {cudaChannelFormatKindUnsignedBlockCompressed4, CU_AD_FORMAT_BC4_UNORM, 8, 0, 0, 0, 1},
    {cudaChannelFormatKindSignedBlockCompressed4, CU_AD_FORMAT_BC4_SNORM, 8, 0, 0, 0, 1},
    {cudaChannelFormatKindUnsignedBlockCompressed5, CU_AD_FORMAT_BC5_UNORM, 8, 8, 0, 0, 2},
    {cudaChannelFormatKindSignedBlockCompressed5, CU_AD_FORMAT_BC5_SNORM, 8, 8, 0, 0, 2},
    {cudaChannelFormatKindUnsignedBlockCompressed6H, CU_AD_FORMAT_BC6H_UF16, 16, 16, 16, 0, 3},
    {cudaChannelFormatKindSignedBlockCompressed6H, CU_AD_FORMAT_BC6H_SF16, 16, 16, 16, 0, 3},
    {cudaChannelFormatKindUnsignedBlockCompressed7, CU_AD_FORMAT_BC7_UNORM, 8, 8, 8, 8, 4},
    {cudaChannelFormatKindUnsignedBlockCompressed7SRGB, CU_AD_FORMAT_BC7_UNORM_SRGB, 8, 8, 8, 8, 4},
    {cudaChannelFormatKindNV12, CU_AD_FORMAT_NV12, 8, 8, 8, 0, 3},
    {cudaChannelFormatKindUnsignedNormalized1010102, CU_AD_FORMAT_UNORM_INT_101010_2, 10, 10, 10, 2, 4},
};

struct Plain {
    cudaChannelFormatKind kind;
    int bits;
    CUarray_format format;
};
constexpr Plain plain_formats[] = {
    {cudaChannelFormatKindUnsigned, 8, CU_AD_FORMAT_UNSIGNED_INT8},
    {cudaChannelFormatKindUnsigned, 16, CU_AD_FORMAT_UNSIGNED_INT16},
    {cudaChannelFormatKindUnsigned, 32, CU_AD_FORMAT_UNSIGNED_INT32},
    {cudaChannelFormatKindSigned, 8, CU_AD_FORMAT_SIGNED_INT8},
    {cudaChannelFormatKindSigned, 16, CU_AD_FORMAT_SIGNED_INT16},
    {cudaChannelFormatKindSigned, 32, CU_AD_FORMAT_SIGNED_INT32},
    {cudaChannelFormatKindFloat, 16, CU_AD_FORMAT_HALF},
    {cudaChannelFormatKindFloat, 32, CU_AD_FORMAT_FLOAT},
};

}  // namespace

namespace barcuda::runtime {

cudaError_t element_of(const cudaChannelFormatDesc& desc, CUarray_format* format, unsigned* channels) {
    for (const Special& special : special_formats) {
        if (special.kind != desc.f) continue;
        *format = special.format;
        *channels = special.channels;
        return cudaSuccess;
    }
    const int bits[] = {desc.x, desc.y, desc.z, desc.w};
    *channels = 0;
    for (int width : bits) {
        if (width == 0) break;
        if (width != desc.x) return cudaErrorInvalidChannelDescriptor;
        ++*channels;
    }
    if (*channels != 1 && *channels != 2 && *channels != 4) return cudaErrorInvalidChannelDescriptor;
    for (const Plain& plain : plain_formats) {
        if (plain.kind != desc.f || plain.bits != desc.x) continue;
        *format = plain.format;
        return cudaSuccess;
    }
    return cudaErrorInvalidChannelDescriptor;
}

bool desc_of(CUarray_format format, unsigned channels, cudaChannelFormatDesc* desc) {
    for (const Special& special : special_formats) {
        if (special.format != format) continue;
        *desc = {special.x, special.y, special.z, special.w, special.kind};
        return true;
    }
    for (const Plain& plain : plain_formats) {
        if (plain.format != format) continue;
        auto bits = [&](unsigned channel) { return channels > channel ? plain.bits : 0; };
        *desc = {bits(0), bits(1), bits(2), bits(3), plain.kind};
        return true;
    }
    return false;
}

std::size_t element_bytes(CUarray_format format, unsigned channels) {
    bool compressed = format >= CU_AD_FORMAT_BC1_UNORM && format <= CU_AD_FORMAT_BC7_UNORM_SRGB;
    cudaChannelFormatDesc desc;
    if (compressed || format == CU_AD_FORMAT_NV12 || !desc_of(format, channels, &desc)) return 0;
    return (desc.x + desc.y + desc.z + desc.w) / 8;
}

}  // namespace barcuda::runtime

namespace {

cudaError_t describe(const cudaChannelFormatDesc* desc, cudaExtent extent, unsigned flags,
                     CUDA_ARRAY3D_DESCRIPTOR* its) {
    if (!desc) return cudaErrorInvalidValue;
    *its = {extent.width, extent.height, extent.depth, {}, 0, flags};
    return element_of(*desc, &its->Format, &its->NumChannels);
}

}  // namespace

// ---- making and destroying -----------------------------------------------------------------------------------------
API cudaMalloc3DArray(cudaArray_t* array, const cudaChannelFormatDesc* desc, cudaExtent extent, unsigned flags) {
    CUDA_ARRAY3D_DESCRIPTOR its;
    if (cudaError_t error = describe(desc, extent, flags, &its)) return record(error);
    return call(cuArray3DCreate, array, &its);
}
API cudaMallocArray(cudaArray_t* array, const cudaChannelFormatDesc* desc, size_t width, size_t height,
                    unsigned flags) {
    return cudaMalloc3DArray(array, desc, {width, height, 0}, flags);
}
API cudaFreeArray(cudaArray_t array) { return array ? call(cuArrayDestroy, array) : record(ready()); }

API cudaMallocMipmappedArray(cudaMipmappedArray_t* array, const cudaChannelFormatDesc* desc, cudaExtent extent,
                             unsigned levels, unsigned flags) {
    CUDA_ARRAY3D_DESCRIPTOR its;
    if (cudaError_t error = describe(desc, extent, flags, &its)) return record(error);
    return call(cuMipmappedArrayCreate, array, &its, levels);
}
API cudaFreeMipmappedArray(cudaMipmappedArray_t array) {
    return array ? call(cuMipmappedArrayDestroy, array) : record(ready());
}
API cudaGetMipmappedArrayLevel(cudaArray_t* level, cudaMipmappedArray_const_t array, unsigned number) {
    return call(cuMipmappedArrayGetLevel, level, const_cast<cudaMipmappedArray_t>(array), number);
}

// ---- what an array is ----------------------------------------------------------------------------------------------
API cudaArrayGetInfo(cudaChannelFormatDesc* desc, cudaExtent* extent, unsigned* flags, cudaArray_t array) {
    CUDA_ARRAY3D_DESCRIPTOR its;
    if (cudaError_t error = call(cuArray3DGetDescriptor, &its, array)) return error;
    if (desc && !desc_of(its.Format, its.NumChannels, desc)) return record(cudaErrorInvalidChannelDescriptor);
    if (extent) *extent = {its.Width, its.Height, its.Depth};
    if (flags) *flags = its.Flags;
    return cudaSuccess;
}
API cudaGetChannelDesc(cudaChannelFormatDesc* desc, cudaArray_const_t array) {
    if (!desc) return record(cudaErrorInvalidValue);
    return cudaArrayGetInfo(desc, nullptr, nullptr, const_cast<cudaArray_t>(array));
}
API cudaArrayGetPlane(cudaArray_t* plane, cudaArray_t array, unsigned index) {
    return call(cuArrayGetPlane, plane, array, index);
}
API cudaArrayGetMemoryRequirements(cudaArrayMemoryRequirements* needs, cudaArray_t array, int device) {
    return call(cuArrayGetMemoryRequirements, needs, array, device);
}
API cudaMipmappedArrayGetMemoryRequirements(cudaArrayMemoryRequirements* needs, cudaMipmappedArray_t array,
                                            int device) {
    return call(cuMipmappedArrayGetMemoryRequirements, needs, array, device);
}
API cudaArrayGetSparseProperties(cudaArraySparseProperties* properties, cudaArray_t array) {
    return call(cuArrayGetSparseProperties, properties, array);
}
API cudaMipmappedArrayGetSparseProperties(cudaArraySparseProperties* properties, cudaMipmappedArray_t array) {
    return call(cuMipmappedArrayGetSparseProperties, properties, array);
}

extern "C" __attribute__((visibility("default"))) cudaChannelFormatDesc cudaCreateChannelDesc(
    int x, int y, int z, int w, cudaChannelFormatKind kind) {
    return {x, y, z, w, kind};
}
