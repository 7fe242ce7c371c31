// SPDX-License-Identifier: Apache-2.0
// fat_binary.cc: from a fat binary to a CUlibrary. Ordinary code is handed to the driver as it stands in the program.
//
// Relocatable code (nvcc -rdc=true) was linked by nvcc for the GPUs that it was built for, and only for those: PTX
// cannot be linked beforehand. On another GPU the parts are linked now, by the driver.
#include "guest-allocator/runtime/fat_binary.h"

namespace barcuda::runtime {
namespace {

const fatbin::ContainerHead& head(const void* image) { return *static_cast<const fatbin::ContainerHead*>(image); }

// The image stands in the program's read-only data: the driver need not keep a copy.
CUresult load_preserved(const void* image, CUlibrary* library) {
    CUlibraryOption option = CU_LIBRARY_BINARY_IS_PRESERVED;
    unsigned long long yes = 1;
    void* value = &yes;
    return cuLibraryLoadData(library, image, nullptr, nullptr, 0, &option, &value, 1);
}

CUresult add_parts(const void* const* parts, CUlinkState link) {
    for (; *parts; parts++) {
        CUresult result =
            cuLinkAddData(link, CU_JIT_INPUT_FATBINARY, const_cast<void*>(*parts),
                          head(*parts).head_bytes + head(*parts).body_bytes, nullptr, 0, nullptr, nullptr);
        // A part without code for this GPU may be one that nothing needs (the device runtime is linked to everything);
        // if something does, completing the link says what is missing.
        if (result && result != CUDA_ERROR_NO_BINARY_FOR_GPU) return result;
    }
    return CUDA_SUCCESS;
}

CUresult link_and_load(const void* const* parts, CUlibrary* library) {
    CUlinkState link = nullptr;
    if (CUresult result = cuLinkCreate(0, nullptr, nullptr, &link)) return result;
    void* image = nullptr;
    std::size_t bytes = 0;
    CUresult result = add_parts(parts, link);
    if (result == CUDA_SUCCESS) result = cuLinkComplete(link, &image, &bytes);
    if (result == CUDA_SUCCESS) result = cuLibraryLoadData(library, image, nullptr, nullptr, 0, nullptr, nullptr, 0);
    cuLinkDestroy(link);  // takes the image with it: the driver has a copy
    return result;
}

}  // namespace

CUresult load_library(const fatbin::Wrapper& wrapper, CUlibrary* library) {
    if (wrapper.version < 2) return load_preserved(wrapper.container, library);
    if (head(wrapper.container).body_bytes == 0) return link_and_load(wrapper.parts, library);
    CUresult result = load_preserved(wrapper.container, library);
    if (result != CUDA_ERROR_NO_BINARY_FOR_GPU) return result;
    return link_and_load(wrapper.parts, library) == CUDA_SUCCESS ? CUDA_SUCCESS : result;
}

}  // namespace barcuda::runtime
