// SPDX-License-Identifier: Apache-2.0
// error.cc: the error that a thread remembers, and what errors are called.
//
// CUDA's rules: a failing call returns its error and leaves it for cudaGetLastError, which clears it; a later success
// does not clear it. Errors that killed the context (a kernel's illegal address, an assert) cannot be cleared: they
// stay until cudaDeviceReset.

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "guest-allocator/client/mutex.h"
#include "guest-allocator/runtime/runtime.h"
#include "guest-allocator/runtime/symbol.h"
#include "shm-device/cuda/results.h"

namespace barcuda::guest {
[[gnu::weak]] bool logs_debug() noexcept;  // log.h; absent where the runtime layer stands alone (its tests)
[[gnu::weak]] void log_line(const char* format, ...) noexcept;
}  // namespace barcuda::guest

namespace barcuda::runtime {
namespace {

struct ErrorText {
    cudaError_t error;
    const char* name;
    const char* text;
};
// The runtime's errors have the driver's numbers, where the driver has them too, and mostly its words. In a
// constant expression, `throw` is a compile error.
constexpr const char* drivers_text(cudaError_t error) {
    for (const ResultText& result : result_texts)
        if (static_cast<int>(result.code) == static_cast<int>(error)) return result.text;
    throw "the driver has no such error";
}
constexpr const char* own_text(cudaError_t error, const char* text) {
    for (const ResultText& result : result_texts)
        if (static_cast<int>(result.code) == static_cast<int>(error) && std::string_view(result.text) == text)
            throw "it is the driver's text";
    return text;
}
#define SAME(error) \
    { error, #error, drivers_text(error) }
#define OWN(error, text) \
    { error, #error, own_text(error, text) }
constexpr ErrorText error_texts[] = {
    // in ascending order
    SAME(cudaSuccess),
    SAME(cudaErrorInvalidValue),
    SAME(cudaErrorMemoryAllocation),
    SAME(cudaErrorInitializationError),
    SAME(cudaErrorCudartUnloading),
    SAME(cudaErrorProfilerDisabled),
    SAME(cudaErrorProfilerNotInitialized),
    SAME(cudaErrorProfilerAlreadyStarted),
    SAME(cudaErrorProfilerAlreadyStopped),
    OWN(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    OWN(cudaErrorInvalidPitchValue, "invalid pitch argument"),
    OWN(cudaErrorInvalidSymbol, "invalid device symbol"),
    OWN(cudaErrorInvalidHostPointer, "invalid host pointer"),
    OWN(cudaErrorInvalidDevicePointer, "invalid device pointer"),
    OWN(cudaErrorInvalidTexture, "invalid texture reference"),
    OWN(cudaErrorInvalidTextureBinding, "texture is not bound to a pointer"),
    OWN(cudaErrorInvalidChannelDescriptor, "invalid channel descriptor"),
    OWN(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    OWN(cudaErrorAddressOfConstant, "invalid address of constant"),
    OWN(cudaErrorTextureFetchFailed, "fetch from texture failed"),
    OWN(cudaErrorTextureNotBound, "cannot fetch from a texture that is not bound"),
    OWN(cudaErrorSynchronizationError, "incorrect use of __syncthreads()"),
    OWN(cudaErrorInvalidFilterSetting, "linear filtering not supported for non-float type"),
    OWN(cudaErrorInvalidNormSetting, "read as normalized float not supported for data type"),
    OWN(cudaErrorMixedDeviceExecution, "device emulation mode and device execution mode cannot be mixed"),
    OWN(cudaErrorNotYetImplemented, "feature not yet implemented"),
    OWN(cudaErrorMemoryValueTooLarge, "memory size or pointer value too large to fit in 32 bit"),
    SAME(cudaErrorStubLibrary),
    OWN(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version"),
    SAME(cudaErrorCallRequiresNewerDriver),
    OWN(cudaErrorInvalidSurface, "invalid surface reference"),
    OWN(cudaErrorDuplicateVariableName, "duplicate global variable looked up by string name"),
    OWN(cudaErrorDuplicateTextureName, "duplicate texture looked up by string name"),
    OWN(cudaErrorDuplicateSurfaceName, "duplicate surface looked up by string name"),
    SAME(cudaErrorDevicesUnavailable),
    OWN(cudaErrorIncompatibleDriverContext, "incompatible driver context"),
    OWN(cudaErrorMissingConfiguration, "__global__ function call is not configured"),
    OWN(cudaErrorPriorLaunchFailure, "unspecified launch failure in prior launch"),
    OWN(cudaErrorLaunchMaxDepthExceeded, "launch would exceed maximum depth of nested launches"),
    OWN(cudaErrorLaunchFileScopedTex,
        "launch failed because kernel uses unsupported, file-scoped textures (texture objects are supported)"),
    OWN(cudaErrorLaunchFileScopedSurf,
        "launch failed because kernel uses unsupported, file-scoped surfaces (surface objects are supported)"),
    OWN(cudaErrorSyncDepthExceeded,
        "cudaDeviceSynchronize failed because caller's grid depth exceeds cudaLimitDevRuntimeSyncDepth"),
    OWN(cudaErrorLaunchPendingCountExceeded,
        "launch failed because launch would exceed cudaLimitDevRuntimePendingLaunchCount"),
    OWN(cudaErrorInvalidDeviceFunction, "invalid device function"),
    SAME(cudaErrorNoDevice),
    SAME(cudaErrorInvalidDevice),
    SAME(cudaErrorDeviceNotLicensed),
    OWN(cudaErrorSoftwareValidityNotEstablished, "integrity checks failed"),
    OWN(cudaErrorStartupFailure, "startup failure in cuda runtime"),
    SAME(cudaErrorInvalidKernelImage),
    SAME(cudaErrorDeviceUninitialized),
    SAME(cudaErrorMapBufferObjectFailed),
    SAME(cudaErrorUnmapBufferObjectFailed),
    SAME(cudaErrorArrayIsMapped),
    SAME(cudaErrorAlreadyMapped),
    SAME(cudaErrorNoKernelImageForDevice),
    SAME(cudaErrorAlreadyAcquired),
    SAME(cudaErrorNotMapped),
    SAME(cudaErrorNotMappedAsArray),
    SAME(cudaErrorNotMappedAsPointer),
    SAME(cudaErrorECCUncorrectable),
    SAME(cudaErrorUnsupportedLimit),
    SAME(cudaErrorDeviceAlreadyInUse),
    SAME(cudaErrorPeerAccessUnsupported),
    SAME(cudaErrorInvalidPtx),
    SAME(cudaErrorInvalidGraphicsContext),
    SAME(cudaErrorNvlinkUncorrectable),
    SAME(cudaErrorJitCompilerNotFound),
    SAME(cudaErrorUnsupportedPtxVersion),
    SAME(cudaErrorJitCompilationDisabled),
    SAME(cudaErrorUnsupportedExecAffinity),
    SAME(cudaErrorUnsupportedDevSideSync),
    SAME(cudaErrorContained),
    SAME(cudaErrorInvalidSource),
    SAME(cudaErrorFileNotFound),
    SAME(cudaErrorSharedObjectSymbolNotFound),
    SAME(cudaErrorSharedObjectInitFailed),
    SAME(cudaErrorOperatingSystem),
    SAME(cudaErrorInvalidResourceHandle),
    SAME(cudaErrorIllegalState),
    SAME(cudaErrorLossyQuery),
    SAME(cudaErrorSymbolNotFound),
    SAME(cudaErrorNotReady),
    SAME(cudaErrorIllegalAddress),
    SAME(cudaErrorLaunchOutOfResources),
    SAME(cudaErrorLaunchTimeout),
    SAME(cudaErrorLaunchIncompatibleTexturing),
    SAME(cudaErrorPeerAccessAlreadyEnabled),
    SAME(cudaErrorPeerAccessNotEnabled),
    SAME(cudaErrorSetOnActiveProcess),
    SAME(cudaErrorContextIsDestroyed),
    SAME(cudaErrorAssert),
    SAME(cudaErrorTooManyPeers),
    SAME(cudaErrorHostMemoryAlreadyRegistered),
    SAME(cudaErrorHostMemoryNotRegistered),
    SAME(cudaErrorHardwareStackError),
    SAME(cudaErrorIllegalInstruction),
    SAME(cudaErrorMisalignedAddress),
    SAME(cudaErrorInvalidAddressSpace),
    SAME(cudaErrorInvalidPc),
    SAME(cudaErrorLaunchFailure),
    SAME(cudaErrorCooperativeLaunchTooLarge),
    SAME(cudaErrorTensorMemoryLeak),
    SAME(cudaErrorNotPermitted),
    SAME(cudaErrorNotSupported),
    SAME(cudaErrorSystemNotReady),
    SAME(cudaErrorSystemDriverMismatch),
    SAME(cudaErrorCompatNotSupportedOnDevice),
    SAME(cudaErrorMpsConnectionFailed),
    SAME(cudaErrorMpsRpcFailure),
    SAME(cudaErrorMpsServerNotReady),
    SAME(cudaErrorMpsMaxClientsReached),
    SAME(cudaErrorMpsMaxConnectionsReached),
    SAME(cudaErrorMpsClientTerminated),
    SAME(cudaErrorCdpNotSupported),
    SAME(cudaErrorCdpVersionMismatch),
    SAME(cudaErrorStreamCaptureUnsupported),
    SAME(cudaErrorStreamCaptureInvalidated),
    SAME(cudaErrorStreamCaptureMerge),
    SAME(cudaErrorStreamCaptureUnmatched),
    SAME(cudaErrorStreamCaptureUnjoined),
    SAME(cudaErrorStreamCaptureIsolation),
    SAME(cudaErrorStreamCaptureImplicit),
    SAME(cudaErrorCapturedEvent),
    SAME(cudaErrorStreamCaptureWrongThread),
    SAME(cudaErrorTimeout),
    SAME(cudaErrorGraphExecUpdateFailure),
    SAME(cudaErrorExternalDevice),
    SAME(cudaErrorInvalidClusterSize),
    SAME(cudaErrorFunctionNotLoaded),
    SAME(cudaErrorInvalidResourceType),
    SAME(cudaErrorInvalidResourceConfiguration),
    SAME(cudaErrorUnknown),
    OWN(cudaErrorApiFailureBase, "api failure base"),
};
#undef SAME
#undef OWN

const ErrorText* find(cudaError_t error) {
    auto row = std::lower_bound(std::begin(error_texts), std::end(error_texts), error,
                                [](const ErrorText& text, cudaError_t key) { return text.error < key; });
    return row != std::end(error_texts) && row->error == error ? row : nullptr;
}

}  // namespace

cudaError_t translate(CUresult result) {
    if (result == CUDA_ERROR_CONTEXT_IS_DESTROYED) {
        // After a fault the driver makes no other primary context in the place of one that was reset.
        unsigned flags = 0;
        int active = 1;
        if (cuDevicePrimaryCtxGetState(thread.device, &flags, &active) == CUDA_SUCCESS && !active)
            return cudaErrorDevicesUnavailable;
    }
    auto error = static_cast<cudaError_t>(result);
    return find(error) ? error : cudaErrorUnknown;
}

static bool logs() { return guest::logs_debug && guest::logs_debug(); }

cudaError_t fail(cudaError_t error, const char* function) {
    if (logs()) barcuda::guest::log_line("%s: %s (%d)", function, cudaGetErrorName(error), static_cast<int>(error));
    return thread.error = error;
}

cudaError_t fail(CUresult result, const void* function) {
    const cudaError_t error = translate(result);
    if (error == cudaErrorNotReady) return error;
    const char* const name = logs() ? symbol_at(function) : nullptr;
    return fail(error, name ? name : "a function of the driver");
}

cudaError_t record_unsupported();  // for unsupported.cc, which cannot include the runtime's header
cudaError_t record_unsupported() { return record(cudaErrorNotSupported); }

}  // namespace barcuda::runtime

using namespace barcuda::runtime;

// Asked for before anything else, the error is that of CUDA's beginning, which a forked child may not have.
static bool cannot_begin() { return barcuda::guest::forked_after_init() && !known_device_count(); }

// An error that stays is the context's: the next call brings it back.
API cudaGetLastError() {
    return cannot_begin() ? cudaErrorInitializationError : std::exchange(thread.error, cudaSuccess);
}

API cudaPeekAtLastError() { return cannot_begin() ? cudaErrorInitializationError : thread.error; }

extern "C" __attribute__((visibility("default"))) const char* cudaGetErrorName(cudaError_t error) {
    const ErrorText* row = find(error);
    return row ? row->name : "unrecognized error code";
}

extern "C" __attribute__((visibility("default"))) const char* cudaGetErrorString(cudaError_t error) {
    const ErrorText* row = find(error);
    return row ? row->text : "unrecognized error code";
}
