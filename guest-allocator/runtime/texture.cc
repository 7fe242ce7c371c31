// SPDX-License-Identifier: Apache-2.0
// texture.cc: texture and surface objects. The runtime describes a texture by fields where the driver has flags, and
// one default is reversed: a runtime texture of integers reads elements unchanged unless it asks for normalized floats,
// a driver texture normalizes unless told to read integers.
#include "guest-allocator/runtime/array.h"

using namespace barcuda::runtime;

static_assert(cudaResourceTypeArray == static_cast<int>(CU_RESOURCE_TYPE_ARRAY) &&
              cudaResourceTypeMipmappedArray == static_cast<int>(CU_RESOURCE_TYPE_MIPMAPPED_ARRAY) &&
              cudaResourceTypeLinear == static_cast<int>(CU_RESOURCE_TYPE_LINEAR) &&
              cudaResourceTypePitch2D == static_cast<int>(CU_RESOURCE_TYPE_PITCH2D));
static_assert(cudaAddressModeWrap == static_cast<int>(CU_TR_ADDRESS_MODE_WRAP) &&
              cudaAddressModeBorder == static_cast<int>(CU_TR_ADDRESS_MODE_BORDER));
static_assert(cudaFilterModePoint == static_cast<int>(CU_TR_FILTER_MODE_POINT) &&
              cudaFilterModeLinear == static_cast<int>(CU_TR_FILTER_MODE_LINEAR));

namespace {

cudaError_t driver_resource(const cudaResourceDesc& from, CUDA_RESOURCE_DESC* to) {
    *to = {};
    to->resType = static_cast<CUresourcetype>(from.resType);
    to->flags = from.flags;
    switch (from.resType) {
        case cudaResourceTypeArray: to->res.array.hArray = as<CUarray>(from.res.array.array); return cudaSuccess;
        case cudaResourceTypeMipmappedArray:
            to->res.mipmap.hMipmappedArray = as<CUmipmappedArray>(from.res.mipmap.mipmap);
            return cudaSuccess;
        case cudaResourceTypeLinear: {
            auto& linear = to->res.linear;
            linear.devPtr = as<CUdeviceptr>(from.res.linear.devPtr);
            linear.sizeInBytes = from.res.linear.sizeInBytes;
            return element_of(from.res.linear.desc, &linear.format, &linear.numChannels);
        }
        case cudaResourceTypePitch2D: {
            auto& pitch = to->res.pitch2D;
            pitch.devPtr = as<CUdeviceptr>(from.res.pitch2D.devPtr);
            pitch.width = from.res.pitch2D.width;
            pitch.height = from.res.pitch2D.height;
            pitch.pitchInBytes = from.res.pitch2D.pitchInBytes;
            return element_of(from.res.pitch2D.desc, &pitch.format, &pitch.numChannels);
        }
    }
    return cudaErrorInvalidValue;
}

cudaError_t runtime_resource(const CUDA_RESOURCE_DESC& from, cudaResourceDesc* to) {
    *to = {};
    to->resType = static_cast<cudaResourceType>(from.resType);
    to->flags = from.flags;
    bool known = true;
    switch (to->resType) {
        case cudaResourceTypeArray: to->res.array.array = reinterpret_cast<cudaArray_t>(from.res.array.hArray); break;
        case cudaResourceTypeMipmappedArray:
            to->res.mipmap.mipmap = reinterpret_cast<cudaMipmappedArray_t>(from.res.mipmap.hMipmappedArray);
            break;
        case cudaResourceTypeLinear:
            to->res.linear.devPtr = reinterpret_cast<void*>(from.res.linear.devPtr);
            to->res.linear.sizeInBytes = from.res.linear.sizeInBytes;
            known = desc_of(from.res.linear.format, from.res.linear.numChannels, &to->res.linear.desc);
            break;
        case cudaResourceTypePitch2D:
            to->res.pitch2D.devPtr = reinterpret_cast<void*>(from.res.pitch2D.devPtr);
            to->res.pitch2D.width = from.res.pitch2D.width;
            to->res.pitch2D.height = from.res.pitch2D.height;
            to->res.pitch2D.pitchInBytes = from.res.pitch2D.pitchInBytes;
            known = desc_of(from.res.pitch2D.format, from.res.pitch2D.numChannels, &to->res.pitch2D.desc);
            break;
    }
    return known ? cudaSuccess : cudaErrorInvalidChannelDescriptor;
}

struct Flag {
    unsigned bit;
    int cudaTextureDesc::*field;
};
constexpr Flag flag_rows[] = {
    {CU_TRSF_NORMALIZED_COORDINATES, &cudaTextureDesc::normalizedCoords},
    {CU_TRSF_SRGB, &cudaTextureDesc::sRGB},
    {CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION, &cudaTextureDesc::disableTrilinearOptimization},
    {CU_TRSF_SEAMLESS_CUBEMAP, &cudaTextureDesc::seamlessCubemap},
};

CUDA_TEXTURE_DESC driver_texture(const cudaTextureDesc& from) {
    CUDA_TEXTURE_DESC to = {};
    for (int axis = 0; axis < 3; axis++) to.addressMode[axis] = static_cast<CUaddress_mode>(from.addressMode[axis]);
    to.filterMode = static_cast<CUfilter_mode>(from.filterMode);
    to.flags = from.readMode == cudaReadModeElementType ? CU_TRSF_READ_AS_INTEGER : 0;
    for (const Flag& flag : flag_rows)
        if (from.*flag.field) to.flags |= flag.bit;
    to.maxAnisotropy = from.maxAnisotropy;
    to.mipmapFilterMode = static_cast<CUfilter_mode>(from.mipmapFilterMode);
    to.mipmapLevelBias = from.mipmapLevelBias;
    to.minMipmapLevelClamp = from.minMipmapLevelClamp;
    to.maxMipmapLevelClamp = from.maxMipmapLevelClamp;
    for (int channel = 0; channel < 4; channel++) to.borderColor[channel] = from.borderColor[channel];
    return to;
}

cudaTextureDesc runtime_texture(const CUDA_TEXTURE_DESC& from) {
    cudaTextureDesc to = {};
    for (int axis = 0; axis < 3; axis++)
        to.addressMode[axis] = static_cast<cudaTextureAddressMode>(from.addressMode[axis]);
    to.filterMode = static_cast<cudaTextureFilterMode>(from.filterMode);
    to.readMode = from.flags & CU_TRSF_READ_AS_INTEGER ? cudaReadModeElementType : cudaReadModeNormalizedFloat;
    for (const Flag& flag : flag_rows) to.*flag.field = (from.flags & flag.bit) != 0;
    to.maxAnisotropy = from.maxAnisotropy;
    to.mipmapFilterMode = static_cast<cudaTextureFilterMode>(from.mipmapFilterMode);
    to.mipmapLevelBias = from.mipmapLevelBias;
    to.minMipmapLevelClamp = from.minMipmapLevelClamp;
    to.maxMipmapLevelClamp = from.maxMipmapLevelClamp;
    for (int channel = 0; channel < 4; channel++) to.borderColor[channel] = from.borderColor[channel];
    return to;
}

// What the driver cannot refuse because its flags cannot say it.
cudaError_t sensible(const CUDA_RESOURCE_DESC& resource, const cudaTextureDesc& texture) {
    CUarray_format format = CU_AD_FORMAT_FLOAT;
    if (resource.resType == CU_RESOURCE_TYPE_LINEAR) format = resource.res.linear.format;
    if (resource.resType == CU_RESOURCE_TYPE_PITCH2D) format = resource.res.pitch2D.format;
    CUDA_ARRAY3D_DESCRIPTOR array{};
    if (resource.resType == CU_RESOURCE_TYPE_ARRAY &&
        cuArray3DGetDescriptor(&array, resource.res.array.hArray) == CUDA_SUCCESS)
        format = array.Format;
    const bool wide_integer = format == CU_AD_FORMAT_UNSIGNED_INT32 || format == CU_AD_FORMAT_SIGNED_INT32;
    if (wide_integer && texture.filterMode == cudaFilterModeLinear) return cudaErrorInvalidFilterSetting;
    const bool wide = wide_integer || format == CU_AD_FORMAT_FLOAT;
    const bool known = resource.resType != CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
    if (wide && known && texture.readMode == cudaReadModeNormalizedFloat) return cudaErrorInvalidNormSetting;
    return cudaSuccess;
}

}  // namespace

// ---- textures ------------------------------------------------------------------------------------------------------
API cudaCreateTextureObject(cudaTextureObject_t* object, const cudaResourceDesc* resource,
                            const cudaTextureDesc* texture, const cudaResourceViewDesc* view) {
    if (!object || !resource || !texture) return record(cudaErrorInvalidValue);
    CUDA_RESOURCE_DESC its;
    if (cudaError_t error = driver_resource(*resource, &its)) return record(error);
    if (cudaError_t error = sensible(its, *texture)) return record(error);
    CUDA_TEXTURE_DESC how = driver_texture(*texture);
    return call(cuTexObjectCreate, object, &its, &how, view);
}
API cudaDestroyTextureObject(cudaTextureObject_t object) {
    return object ? call(cuTexObjectDestroy, object) : record(ready());
}
API cudaGetTextureObjectResourceDesc(cudaResourceDesc* resource, cudaTextureObject_t object) {
    CUDA_RESOURCE_DESC its;
    if (!resource) return record(cudaErrorInvalidValue);
    if (cudaError_t error = call(cuTexObjectGetResourceDesc, &its, object)) return error;
    return record(runtime_resource(its, resource));
}
API cudaGetTextureObjectTextureDesc(cudaTextureDesc* texture, cudaTextureObject_t object) {
    CUDA_TEXTURE_DESC how;
    if (!texture) return record(cudaErrorInvalidValue);
    if (cudaError_t error = call(cuTexObjectGetTextureDesc, &how, object)) return error;
    *texture = runtime_texture(how);
    return cudaSuccess;
}
API cudaGetTextureObjectResourceViewDesc(cudaResourceViewDesc* view, cudaTextureObject_t object) {
    return call(cuTexObjectGetResourceViewDesc, view, object);
}

// ---- surfaces ------------------------------------------------------------------------------------------------------
API cudaCreateSurfaceObject(cudaSurfaceObject_t* object, const cudaResourceDesc* resource) {
    if (!object || !resource) return record(cudaErrorInvalidValue);
    CUDA_RESOURCE_DESC its;
    // As the runtime (13) has it, whatever the channels are.
    if (resource->resType == cudaResourceTypeLinear) return record(cudaErrorInvalidChannelDescriptor);
    if (resource->resType != cudaResourceTypeArray) return record(cudaErrorInvalidValue);
    if (cudaError_t error = driver_resource(*resource, &its)) return record(error);
    return call(cuSurfObjectCreate, object, &its);
}
API cudaDestroySurfaceObject(cudaSurfaceObject_t object) {
    return object ? call(cuSurfObjectDestroy, object) : record(ready());
}
API cudaGetSurfaceObjectResourceDesc(cudaResourceDesc* resource, cudaSurfaceObject_t object) {
    CUDA_RESOURCE_DESC its;
    if (!resource) return record(cudaErrorInvalidValue);
    if (cudaError_t error = call(cuSurfObjectGetResourceDesc, &its, object)) return error;
    return record(runtime_resource(its, resource));
}
