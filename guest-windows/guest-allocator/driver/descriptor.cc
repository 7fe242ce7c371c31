// SPDX-License-Identifier: Apache-2.0
// descriptor.cc: memory as handles for other processes. A process of Windows would pass a handle of the system's, which
// this library does not make.
#include "guest-allocator/driver/descriptor.h"

#include "guest-allocator/driver/export.h"

namespace barcuda::guest::descriptors {

bool there_are() noexcept { return false; }
void collect() noexcept {}

}  // namespace barcuda::guest::descriptors

CU cuMemExportToShareableHandle(void*, CUmemGenericAllocationHandle, CUmemAllocationHandleType, unsigned long long) {
    return CUDA_ERROR_NOT_SUPPORTED;
}
CU cuMemImportFromShareableHandle(CUmemGenericAllocationHandle*, void*, CUmemAllocationHandleType) {
    return CUDA_ERROR_NOT_SUPPORTED;
}
CU cuMemPoolExportToShareableHandle(void*, CUmemoryPool, CUmemAllocationHandleType, unsigned long long) {
    return CUDA_ERROR_NOT_SUPPORTED;
}
CU cuMemPoolImportFromShareableHandle(CUmemoryPool*, void*, CUmemAllocationHandleType, unsigned long long) {
    return CUDA_ERROR_NOT_SUPPORTED;
}
