// SPDX-License-Identifier: Apache-2.0
// array_calls.cc: cuArray* and cuMipmappedArray*.
#include <algorithm>

#include "soft-gpu/driver/array.h"
#include "soft-gpu/driver/context.h"
#include "soft-gpu/driver/driver.h"

namespace barcuda::soft::driver {
namespace {

// A level's shape: sizes are halved, layers and faces stay.
CUDA_ARRAY3D_DESCRIPTOR level_shape(CUDA_ARRAY3D_DESCRIPTOR shape, unsigned level) {
    shape.Width = std::max<std::size_t>(shape.Width >> level, 1);
    if (shape.Height != 0) shape.Height = std::max<std::size_t>(shape.Height >> level, 1);
    if (shape.Depth != 0 && !(shape.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)))
        shape.Depth = std::max<std::size_t>(shape.Depth >> level, 1);
    return shape;
}

CUarray make(const CUDA_ARRAY3D_DESCRIPTOR& shape) {
    return Driver::get().arrays.add(std::make_shared<Array>(shape, *current_context()));
}

void require_own(const Array& array) { require(!array.in_mipmap, CUDA_ERROR_INVALID_HANDLE); }

}  // namespace
}  // namespace barcuda::soft::driver

using namespace barcuda::soft::driver;

CUresult cuArrayCreate_v2(CUarray* pHandle, const CUDA_ARRAY_DESCRIPTOR* pAllocateArray) {
    return api([&] {
        require(pHandle && pAllocateArray);
        *pHandle = make(
            {pAllocateArray->Width, pAllocateArray->Height, 0, pAllocateArray->Format, pAllocateArray->NumChannels, 0});
    });
}
CUresult cuArray3DCreate_v2(CUarray* pHandle, const CUDA_ARRAY3D_DESCRIPTOR* pAllocateArray) {
    return api([&] {
        require(pHandle && pAllocateArray);
        *pHandle = make(*pAllocateArray);
    });
}
CUresult cuArrayDestroy(CUarray hArray) {
    return api([&] {
        const auto context = current_context();
        require_own(*Driver::get().arrays.find(hArray));
        context->synchronize();  // work in flight may use it, as with cuMemFree
        Driver::get().arrays.take(hArray);
    });
}
CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR* pArrayDescriptor, CUarray hArray) {
    return api([&] {
        require(pArrayDescriptor);
        const CUDA_ARRAY3D_DESCRIPTOR& shape = Driver::get().arrays.find(hArray)->shape;
        *pArrayDescriptor = {shape.Width, shape.Height, shape.Format, shape.NumChannels};
    });
}
CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* pArrayDescriptor, CUarray hArray) {
    return api([&] {
        require(pArrayDescriptor);
        *pArrayDescriptor = Driver::get().arrays.find(hArray)->shape;
    });
}
CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* memoryRequirements, CUarray array,
                                      CUdevice device) {
    return api([&] {
        require(memoryRequirements);
        require_device(device);
        Driver::get().arrays.find(array);
        fail(CUDA_ERROR_INVALID_VALUE);  // documented for arrays whose memory is not mapped later: none is here
    });
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray* pHandle, const CUDA_ARRAY3D_DESCRIPTOR* pMipmappedArrayDesc,
                                unsigned int numMipmapLevels) {
    return api([&] {
        require(pHandle && pMipmappedArrayDesc && numMipmapLevels != 0);
        auto mipmap = std::make_shared<Mipmap>();
        mipmap->shape = *pMipmappedArrayDesc;
        const auto context = current_context();
        mipmap->context = context->handle();
        const std::size_t longest = std::max({mipmap->shape.Width, mipmap->shape.Height,
                                              mipmap->shape.Flags & CUDA_ARRAY3D_LAYERED ? 0 : mipmap->shape.Depth});
        unsigned most = 1;  // down to a single texel
        for (std::size_t size = longest; size > 1; size /= 2) ++most;
        for (unsigned level = 0; level < std::min(numMipmapLevels, most); ++level) {
            auto array = std::make_shared<Array>(level_shape(mipmap->shape, level), *context);
            array->in_mipmap = true;
            mipmap->levels.push_back(std::move(array));
        }
        for (const auto& level : mipmap->levels) Driver::get().arrays.add(level);
        *pHandle = Driver::get().mipmaps.add(std::move(mipmap));
    });
}
CUresult cuMipmappedArrayGetLevel(CUarray* pLevelArray, CUmipmappedArray hMipmappedArray, unsigned int level) {
    return api([&] {
        require(pLevelArray);
        const auto mipmap = Driver::get().mipmaps.find(hMipmappedArray);
        require(level < mipmap->levels.size());
        *pLevelArray = Handles<CUarray, Array>::handle_of(*mipmap->levels[level]);
    });
}
CUresult cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray) {
    return api([&] {
        const auto context = current_context();
        Driver::get().mipmaps.find(hMipmappedArray);
        context->synchronize();
        const auto mipmap = Driver::get().mipmaps.take(hMipmappedArray);
        for (const auto& level : mipmap->levels) Driver::get().arrays.take(Handles<CUarray, Array>::handle_of(*level));
    });
}
CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* memoryRequirements,
                                               CUmipmappedArray mipmap, CUdevice device) {
    return api([&] {
        require(memoryRequirements);
        require_device(device);
        Driver::get().mipmaps.find(mipmap);
        fail(CUDA_ERROR_INVALID_VALUE);
    });
}

// Planes belong to video formats, and tiles to sparse arrays: neither exists here.
CUresult cuArrayGetPlane(CUarray*, CUarray hArray, unsigned int) {
    return api([&] {
        Driver::get().arrays.find(hArray);
        fail(CUDA_ERROR_INVALID_VALUE);
    });
}
CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES*, CUarray array) {
    return api([&] {
        Driver::get().arrays.find(array);
        fail(CUDA_ERROR_INVALID_VALUE);
    });
}
CUresult cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES*, CUmipmappedArray mipmap) {
    return api([&] {
        Driver::get().mipmaps.find(mipmap);
        fail(CUDA_ERROR_INVALID_VALUE);
    });
}
