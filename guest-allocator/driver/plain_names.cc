// plain_names.cc: the names without a version, for programs that look functions up by themselves (dlsym). Only those
// whose first version took the same parameters as today's: a plain cuMemAlloc is another function, with 32-bit sizes.
#include "guest-allocator/driver/export.h"

CU cuCtxCreate_v2(CUcontext*, unsigned, CUdevice);  // cuda.h declares the newest alone

#define BARCUDA_PLAIN_NAMES(X)                                     \
    X("cuCtxCreate", cuCtxCreate_v2)                               \
    X("cuCtxDestroy", cuCtxDestroy_v2)                             \
    X("cuCtxPushCurrent", cuCtxPushCurrent_v2)                     \
    X("cuCtxPopCurrent", cuCtxPopCurrent_v2)                       \
    X("cuDevicePrimaryCtxRelease", cuDevicePrimaryCtxRelease_v2)   \
    X("cuDevicePrimaryCtxReset", cuDevicePrimaryCtxReset_v2)       \
    X("cuDevicePrimaryCtxSetFlags", cuDevicePrimaryCtxSetFlags_v2) \
    X("cuStreamDestroy", cuStreamDestroy_v2)                       \
    X("cuEventDestroy", cuEventDestroy_v2)                         \
    X("cuEventElapsedTime", cuEventElapsedTime_v2)                 \
    X("cuMemHostRegister", cuMemHostRegister_v2)                   \
    X("cuDeviceGetUuid", cuDeviceGetUuid_v2)                       \
    X("cuLinkCreate", cuLinkCreate_v2)                             \
    X("cuLinkAddData", cuLinkAddData_v2)                           \
    X("cuLinkAddFile", cuLinkAddFile_v2)                           \
    X("cuIpcOpenMemHandle", cuIpcOpenMemHandle_v2)                 \
    X("cuStreamWaitValue32", cuStreamWaitValue32_v2)               \
    X("cuStreamWaitValue64", cuStreamWaitValue64_v2)               \
    X("cuStreamWriteValue32", cuStreamWriteValue32_v2)             \
    X("cuStreamWriteValue64", cuStreamWriteValue64_v2)             \
    X("cuStreamBatchMemOp", cuStreamBatchMemOp_v2)

#define X(plain, name)                                                               \
    CU_RESOLVER decltype(&::name) barcuda_resolve_plain_##name() { return &::name; } \
    extern "C" [[gnu::ifunc("barcuda_resolve_plain_" #name),                         \
                 gnu::visibility("default")]] decltype(name) barcuda_plain_##name __asm__(plain);
BARCUDA_PLAIN_NAMES(X)
#undef X

// Its first version did not say why.
extern "C" [[gnu::visibility("default")]] CUresult barcuda_first_get_proc_address(
    const char*, void**, int, cuuint64_t) __asm__("cuGetProcAddress");
CUresult barcuda_first_get_proc_address(const char* symbol, void** function, int version, cuuint64_t flags) {
    return cuGetProcAddress_v2(symbol, function, version, flags, nullptr);
}

// Programs that load the whole driver by name ask for this one too; addresses had 32 bits when it was made.
extern "C" [[gnu::visibility("default")]] CUresult barcuda_first_copy(unsigned, unsigned, unsigned,
                                                                      CUstream) __asm__("cuMemcpyDtoDAsync");
CUresult barcuda_first_copy(unsigned to, unsigned from, unsigned bytes, CUstream stream) {
    return cuMemcpyDtoDAsync_v2(to, from, bytes, stream);
}
