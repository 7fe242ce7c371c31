// entry.cc: how programs find driver functions (cuGetProcAddress), and the names of errors.
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <atomic>
#include <initializer_list>

#include "guest-allocator/driver/export.h"
#include "shm-device/results.h"

namespace {

// Functions that only say that they are not there (unsupported.sh): a program that asks learns it here.
extern "C" [[gnu::weak, gnu::visibility("hidden")]] const char __start_barcuda_unsupported[],
    __stop_barcuda_unsupported[];

void* look_up(const char* name) {
    Dl_info here, there;
    void* p = dlsym(RTLD_DEFAULT, name);
    if (!p || !dladdr(p, &there) || !dladdr(reinterpret_cast<void*>(&look_up), &here)) return nullptr;
    if (here.dli_fbase != there.dli_fbase) return nullptr;
    const char* code = static_cast<const char*>(p);
    return code >= __start_barcuda_unsupported && code < __stop_barcuda_unsupported ? nullptr : p;
}

// Functions are exported under their newest names ("cuMemAlloc_v2"); a program asks for the plain one and a version.
void* find(const char* name, bool per_thread) {
    char full[160];
    for (const char* twin : {"_ptsz", "_ptds", ""}) {
        if (!per_thread && *twin) continue;
        for (const char* version : {"_v4", "_v3", "_v2", ""}) {
            const int n = snprintf(full, sizeof full, "%s%s%s", name, version, twin);
            if (n >= static_cast<int>(sizeof full)) return nullptr;
            if (void* p = look_up(full)) return p;
        }
    }
    return nullptr;
}

}  // namespace

CU cuGetProcAddress_v2(const char* symbol, void** function, int, cuuint64_t flags,
                       CUdriverProcAddressQueryResult* status) {
    if (!symbol || !function) return CUDA_ERROR_INVALID_VALUE;
    *function = find(symbol, flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
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

// Private interfaces between NVIDIA's runtime and NVIDIA's driver. Only a copy of that runtime asks, and it cannot do
// without; what it reports then (cudaErrorSymbolNotFound) would help nobody.
CU cuGetExportTable(const void** table, const CUuuid*) {
    static std::atomic_flag told;
    if (!told.test_and_set())
        fprintf(stderr,
                "barcuda: %s has a CUDA runtime of its own inside (nvcc's default, -cudart=static, or a library such as "
                "cuBLAS), which works with NVIDIA's driver alone: link with -cudart=shared\n",
                program_invocation_short_name);
    if (table) *table = nullptr;
    return CUDA_ERROR_NOT_FOUND;
}

// Marks this library, so that a bridge that is started in a guest's environment does not take it for the driver.
extern "C" [[gnu::visibility("default")]] const char barcuda_guest_library[] = BARCUDA_VERSION;
