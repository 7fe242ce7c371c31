// entry.cc: how programs find driver functions (cuGetProcAddress), and the names of errors.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <initializer_list>

#include "guest-allocator/driver/export.h"
#include "guest-allocator/client/log.h"
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

// Names that mean functions with other parameters from some version on: each with the suffix of the symbol that it
// means from there. Other names mean their newest symbol, which takes what the older ones took.
constexpr struct {
    const char* name;
    int since;
    const char* suffix;
} forms[] = {
    {"cuCtxCreate", 3020, "_v2"},
    {"cuCtxCreate", 11040, "_v3"},
    {"cuCtxCreate", 12050, "_v4"},
    {"cuCtxGetDevice", 2000, ""},
    {"cuCtxGetDevice", 13000, "_v2"},
    {"cuCtxSynchronize", 2000, ""},
    {"cuCtxSynchronize", 13000, "_v2"},
    {"cuGetProcAddress", 11030, ""},
    {"cuGetProcAddress", 12000, "_v2"},
    {"cuGraphAddDependencies", 10000, ""},
    {"cuGraphAddDependencies", 12030, "_v2"},
    {"cuGraphAddKernelNode", 10000, ""},
    {"cuGraphAddKernelNode", 12000, "_v2"},
    {"cuGraphAddNode", 12020, ""},
    {"cuGraphAddNode", 12030, "_v2"},
    {"cuGraphExecKernelNodeSetParams", 10010, ""},
    {"cuGraphExecKernelNodeSetParams", 12000, "_v2"},
    {"cuGraphExecUpdate", 10020, ""},
    {"cuGraphExecUpdate", 12000, "_v2"},
    {"cuGraphGetEdges", 10000, ""},
    {"cuGraphGetEdges", 12030, "_v2"},
    {"cuGraphInstantiate", 10000, ""},
    {"cuGraphInstantiate", 11000, "_v2"},
    {"cuGraphInstantiate", 12000, "WithFlags"},
    {"cuGraphKernelNodeGetParams", 10000, ""},
    {"cuGraphKernelNodeGetParams", 12000, "_v2"},
    {"cuGraphKernelNodeSetParams", 10000, ""},
    {"cuGraphKernelNodeSetParams", 12000, "_v2"},
    {"cuGraphNodeGetDependencies", 10000, ""},
    {"cuGraphNodeGetDependencies", 12030, "_v2"},
    {"cuGraphNodeGetDependentNodes", 10000, ""},
    {"cuGraphNodeGetDependentNodes", 12030, "_v2"},
    {"cuGraphRemoveDependencies", 10000, ""},
    {"cuGraphRemoveDependencies", 12030, "_v2"},
    {"cuMemAdvise", 8000, ""},
    {"cuMemAdvise", 12020, "_v2"},
    {"cuMemPrefetchAsync", 8000, ""},
    {"cuMemPrefetchAsync", 12020, "_v2"},
    {"cuMemcpy3DBatchAsync", 13000, "_v2"},
    {"cuMemcpyBatchAsync", 12080, ""},
    {"cuMemcpyBatchAsync", 13000, "_v2"},
    {"cuStreamBeginCapture", 10000, ""},
    {"cuStreamBeginCapture", 10010, "_v2"},
    {"cuStreamGetCaptureInfo", 10010, ""},
    {"cuStreamGetCaptureInfo", 11030, "_v2"},
    {"cuStreamGetCaptureInfo", 12030, "_v3"},
    {"cuStreamGetCtx", 9020, ""},
    {"cuStreamGetCtx", 12050, "_v2"},
    {"cuStreamUpdateCaptureDependencies", 11030, ""},
    {"cuStreamUpdateCaptureDependencies", 12030, "_v2"},
};

void* look_up(const char* name, const char* suffix, bool per_thread) {
    char full[160];
    for (const char* twin : {"_ptsz", "_ptds", ""}) {
        if (!per_thread && *twin) continue;
        if (snprintf(full, sizeof full, "%s%s%s", name, suffix, twin) >= static_cast<int>(sizeof full)) return nullptr;
        if (void* p = look_up(full)) return p;
    }
    return nullptr;
}

// Functions are exported under their newest names ("cuMemAlloc_v2"); a program asks for the plain one and a version.
void* find(const char* name, int version, bool per_thread, CUdriverProcAddressQueryResult& status) {
    const char* suffix = nullptr;
    status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    for (const auto& form : forms) {
        if (strcmp(form.name, name)) continue;
        if (form.since <= version) suffix = form.suffix;
        else if (!suffix) status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    }
    void* found = suffix ? look_up(name, suffix, per_thread) : nullptr;
    if (!suffix && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND)
        for (const char* newest : {"_v4", "_v3", "_v2", ""})
            if (!found) found = look_up(name, newest, per_thread);
    if (found) status = CU_GET_PROC_ADDRESS_SUCCESS;
    return found;
}

}  // namespace

CU cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags,
                       CUdriverProcAddressQueryResult* status) {
    if (!symbol || !function) return CUDA_ERROR_INVALID_VALUE;
    CUdriverProcAddressQueryResult found;
    *function = find(symbol, version, flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, found);
    if (!*function && barcuda::logs_debug())
        barcuda::log_line("cuGetProcAddress: %s of CUDA %d.%d is not there", symbol, version / 1000,
                          version % 1000 / 10);
    if (status) *status = found;
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

// Marks this library, so that a bridge that is started in a guest's environment does not take it for the driver.
extern "C" [[gnu::visibility("default")]] const char barcuda_guest_library[] = BARCUDA_VERSION;
