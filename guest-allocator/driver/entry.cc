// entry.cc: how programs find driver functions (cuGetProcAddress), and the names of errors.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <initializer_list>

#include "guest-allocator/driver/export.h"
#include "shm-device/results.h"

namespace {

// Functions are exported under their newest names ("cuMemAlloc_v2"); a program asks for the plain one and a version.
void* find(const char* name) {
    char versioned[160];
    for (const char* suffix : {"_v4", "_v3", "_v2", ""}) {
        if (snprintf(versioned, sizeof versioned, "%s%s", name, suffix) >= static_cast<int>(sizeof versioned))
            return nullptr;
        Dl_info here, there;
        void* p = dlsym(RTLD_DEFAULT, versioned);
        if (p && dladdr(p, &there) && dladdr(reinterpret_cast<void*>(&find), &here) &&
            here.dli_fbase == there.dli_fbase)
            return p;
    }
    return nullptr;
}

}  // namespace

CU cuGetProcAddress_v2(const char* symbol, void** function, int, cuuint64_t, CUdriverProcAddressQueryResult* status) {
    if (!symbol || !function) return CUDA_ERROR_INVALID_VALUE;
    *function = find(symbol);
    if (status) *status = *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CU cuGetErrorName(CUresult error, const char** text) {
    const barcuda::ResultText* r = barcuda::find_result(error);
    if (!text) return CUDA_ERROR_INVALID_VALUE;
    *text = r ? r->name : nullptr;
    return r ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CU cuGetErrorString(CUresult error, const char** text) {
    const barcuda::ResultText* r = barcuda::find_result(error);
    if (!text) return CUDA_ERROR_INVALID_VALUE;
    *text = r ? r->text : nullptr;
    return r ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CU cuGetExportTable(const void** table, const CUuuid*) {  // private interfaces of NVIDIA's own libraries
    if (table) *table = nullptr;
    return CUDA_ERROR_NOT_FOUND;
}

// Marks this library, so that a bridge that is started in a guest's environment does not take it for the driver.
extern "C" [[gnu::visibility("default")]] const char barcuda_guest_library[] = BARCUDA_VERSION;
