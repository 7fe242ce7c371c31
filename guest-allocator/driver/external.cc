// SPDX-License-Identifier: Apache-2.0
// external.cc: memory and semaphores of other interfaces, which are refused (shm-device/cuda/refused.h), behind a look
// at what is asked for: programs probe by failing calls, and hear of a mistake what NVIDIA's driver (580) says of it.
// A guest's descriptors never come from the host's driver: the answer is that driver's for a foreign descriptor.
#include "guest-allocator/driver/export.h"

extern "C" void barcuda_refuse(const char* name, int* told);  // client/refused.cc

namespace {

enum class Handle { none, descriptor, dma_buf, dedicated, of_another_system };

Handle kind_of(CUexternalMemoryHandleType type) {
    switch (type) {
        case CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD: return Handle::descriptor;
        case CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD: return Handle::dma_buf;
        case CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_RESOURCE:
        case CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D11_RESOURCE:
        case CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D11_RESOURCE_KMT: return Handle::dedicated;
        case CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32:
        case CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32_KMT:
        case CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_HEAP:
        case CU_EXTERNAL_MEMORY_HANDLE_TYPE_NVSCIBUF: return Handle::of_another_system;
        default: return Handle::none;
    }
}

Handle kind_of(CUexternalSemaphoreHandleType type) {
    if (type < CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD ||
        type > CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_WIN32)
        return Handle::none;
    const bool descriptor = type == CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD ||
                            type == CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD;
    return descriptor ? Handle::descriptor : Handle::of_another_system;
}

CUresult refuse(Handle handle, unsigned flags, const char* function, int* told) {
    if (handle == Handle::none) return CUDA_ERROR_INVALID_VALUE;
    if (handle == Handle::dedicated && !(flags & CUDA_EXTERNAL_MEMORY_DEDICATED)) return CUDA_ERROR_INVALID_VALUE;
    barcuda_refuse(function, told);
    return handle == Handle::descriptor ? CUDA_ERROR_UNKNOWN
           : handle == Handle::dma_buf  ? CUDA_ERROR_INVALID_VALUE
                                        : CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

CU cuImportExternalMemory(CUexternalMemory* memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC* desc) {
    static constinit int told = 0;
    if (!memory || !desc) return CUDA_ERROR_INVALID_VALUE;
    return refuse(kind_of(desc->type), desc->flags, "cuImportExternalMemory", &told);
}
CU cuImportExternalSemaphore(CUexternalSemaphore* semaphore, const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC* desc) {
    static constinit int told = 0;
    if (!semaphore || !desc) return CUDA_ERROR_INVALID_VALUE;
    return refuse(kind_of(desc->type), desc->flags, "cuImportExternalSemaphore", &told);
}
