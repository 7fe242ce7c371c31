// SPDX-License-Identifier: Apache-2.0
// about.cc: numbers by which records name contexts, streams and graphs, and what CUPTI says of itself and of its
// errors.
#include <iterator>

#include "guest-allocator/client/command.h"
#include "guest-allocator/cupti/export.h"

using namespace barcuda::guest;
using barcuda::Op;

namespace {

CUptiResult result_of(CUresult r, CUptiResult otherwise) {
    switch (r) {
        case CUDA_SUCCESS: return CUPTI_SUCCESS;
        case CUDA_ERROR_NOT_INITIALIZED:
        case CUDA_ERROR_SHARED_OBJECT_INIT_FAILED: return CUPTI_ERROR_NOT_INITIALIZED;
        case CUDA_ERROR_NOT_SUPPORTED: return CUPTI_ERROR_NOT_SUPPORTED;
        default: return otherwise;
    }
}

CUptiResult number_of(CUcontext context, CUstream stream, std::uint32_t* number) {
    if (!context) context = current_context();
    if (!number) return CUPTI_ERROR_INVALID_PARAMETER;
    if (!context) return CUPTI_ERROR_INVALID_CONTEXT;
    const InContext in(context);
    return result_of(command<Op::activity_stream>(context, stream, number), CUPTI_ERROR_INVALID_STREAM);
}

struct ResultName {
    CUptiResult result;
    const char *name, *text;
};
#define R(name, text) \
    { name, #name, text }
constexpr ResultName results[] = {
    R(CUPTI_SUCCESS, "no error"),
    R(CUPTI_ERROR_INVALID_PARAMETER, "a parameter is invalid"),
    R(CUPTI_ERROR_INVALID_DEVICE, "there is no such device"),
    R(CUPTI_ERROR_INVALID_CONTEXT, "there is no such context"),
    R(CUPTI_ERROR_INVALID_EVENT_DOMAIN_ID, "there is no such event domain"),
    R(CUPTI_ERROR_INVALID_EVENT_ID, "there is no such event"),
    R(CUPTI_ERROR_INVALID_EVENT_NAME, "no event has this name"),
    R(CUPTI_ERROR_INVALID_OPERATION, "it cannot be done now"),
    R(CUPTI_ERROR_OUT_OF_MEMORY, "there is not enough memory"),
    R(CUPTI_ERROR_HARDWARE, "the hardware reports an error"),
    R(CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT, "the place for the result is too small"),
    R(CUPTI_ERROR_API_NOT_IMPLEMENTED, "the function is not implemented"),
    R(CUPTI_ERROR_MAX_LIMIT_REACHED, "there are no more"),
    R(CUPTI_ERROR_NOT_READY, "it is not ready"),
    R(CUPTI_ERROR_NOT_COMPATIBLE, "it is not compatible with what is in use"),
    R(CUPTI_ERROR_NOT_INITIALIZED, "the host's CUPTI does not start"),
    R(CUPTI_ERROR_INVALID_METRIC_ID, "there is no such metric"),
    R(CUPTI_ERROR_INVALID_METRIC_NAME, "no metric has this name"),
    R(CUPTI_ERROR_QUEUE_EMPTY, "there is none"),
    R(CUPTI_ERROR_INVALID_HANDLE, "there is no such handle"),
    R(CUPTI_ERROR_INVALID_STREAM, "there is no such stream"),
    R(CUPTI_ERROR_INVALID_KIND, "there is no such kind"),
    R(CUPTI_ERROR_INVALID_EVENT_VALUE, "an event's value is invalid"),
    R(CUPTI_ERROR_DISABLED, "CUPTI is disabled"),
    R(CUPTI_ERROR_INVALID_MODULE, "there is no such module"),
    R(CUPTI_ERROR_INVALID_METRIC_VALUE, "a metric's value is invalid"),
    R(CUPTI_ERROR_HARDWARE_BUSY, "another client uses the hardware"),
    R(CUPTI_ERROR_NOT_SUPPORTED, "it is not supported in a guest"),
    R(CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED, "unified memory is not counted in a guest"),
    R(CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_ON_DEVICE, "unified memory is not counted on this device"),
    R(CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_ON_NON_P2P_DEVICES, "unified memory is not counted without peer access"),
    R(CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_WITH_MPS, "unified memory is not counted with MPS"),
    R(CUPTI_ERROR_CDP_TRACING_NOT_SUPPORTED, "launches by kernels are not recorded"),
    R(CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED, "it is not supported on a virtual GPU"),
    R(CUPTI_ERROR_CUDA_COMPILER_NOT_COMPATIBLE, "the compiler's version does not go together with CUPTI's"),
    R(CUPTI_ERROR_INSUFFICIENT_PRIVILEGES, "the user may not do it"),
    R(CUPTI_ERROR_OLD_PROFILER_API_INITIALIZED, "the older interface is in use"),
    R(CUPTI_ERROR_OPENACC_UNDEFINED_ROUTINE, "OpenACC's runtime has no such function"),
    R(CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED, "the older interface does not support this device"),
    R(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, "there is a subscriber already"),
    R(CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES, "the virtual GPU does not allow it"),
    R(CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED, "it is not supported with confidential computing"),
    R(CUPTI_ERROR_CMP_DEVICE_NOT_SUPPORTED, "it is not supported on this product"),
    R(CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED, "it is not supported on a part of a GPU"),
    R(CUPTI_ERROR_SLI_DEVICE_NOT_SUPPORTED, "it is not supported on linked GPUs"),
    R(CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED, "it is not supported under WSL"),
    R(CUPTI_ERROR_INVALID_CHIP_NAME, "there is no such chip"),
    R(CUPTI_ERROR_UNKNOWN, "the error is unknown"),
};
#undef R

CUptiResult about(CUptiResult result, const char** to, const char* ResultName::*what) {
    if (!to) return CUPTI_ERROR_INVALID_PARAMETER;
    for (const ResultName& r : results)
        if (r.result == result) {
            *to = r.*what;
            return CUPTI_SUCCESS;
        }
    return CUPTI_ERROR_INVALID_PARAMETER;
}

}  // namespace

CUPTI cuptiGetContextId(CUcontext context, std::uint32_t* number) {
    if (!number) return CUPTI_ERROR_INVALID_PARAMETER;
    if (!context) return CUPTI_ERROR_INVALID_CONTEXT;
    return result_of(command<Op::activity_context>(context, number), CUPTI_ERROR_INVALID_CONTEXT);
}
CUPTI cuptiGetStreamId(CUcontext context, CUstream stream, std::uint32_t* number) {
    return number_of(context, stream, number);
}
CUPTI cuptiGetStreamIdEx(CUcontext context, CUstream stream, std::uint8_t per_thread, std::uint32_t* number) {
    return number_of(context, !stream && per_thread ? CU_STREAM_PER_THREAD : stream, number);
}
CUPTI cuptiGetDeviceId(CUcontext context, std::uint32_t* number) {
    if (!number) return CUPTI_ERROR_INVALID_PARAMETER;
    if (!context) context = current_context();
    if (!context) return CUPTI_ERROR_INVALID_CONTEXT;
    const InContext in(context);
    CUdevice device = 0;
    if (cuCtxGetDevice(&device) != CUDA_SUCCESS) return CUPTI_ERROR_INVALID_CONTEXT;
    *number = static_cast<std::uint32_t>(device);
    return CUPTI_SUCCESS;
}
CUPTI cuptiGetGraphId(CUgraph graph, std::uint32_t* number) {
    if (!number) return CUPTI_ERROR_INVALID_PARAMETER;
    return result_of(command<Op::activity_graph>(graph, number), CUPTI_ERROR_INVALID_PARAMETER);
}
CUPTI cuptiGetGraphExecId(CUgraphExec exec, std::uint32_t* number) {
    if (!number) return CUPTI_ERROR_INVALID_PARAMETER;
    return result_of(command<Op::activity_exec>(exec, number), CUPTI_ERROR_INVALID_PARAMETER);
}
CUPTI cuptiGetGraphNodeId(CUgraphNode node, std::uint64_t* number) {
    if (!number) return CUPTI_ERROR_INVALID_PARAMETER;
    return result_of(command<Op::activity_node>(node, number), CUPTI_ERROR_INVALID_PARAMETER);
}

CUPTI cuptiGetVersion(std::uint32_t* version) {
    if (!version) return CUPTI_ERROR_INVALID_PARAMETER;
    *version = CUPTI_API_VERSION;
    return CUPTI_SUCCESS;
}
CUPTI cuptiGetResultString(CUptiResult result, const char** text) { return about(result, text, &ResultName::name); }
CUPTI cuptiGetErrorMessage(CUptiResult result, const char** text) { return about(result, text, &ResultName::text); }
CUPTI cuptiGetLastError() { return CUPTI_SUCCESS; }

CUPTI cuptiDeviceSupported(CUdevice, int* supported) {
    if (!supported) return CUPTI_ERROR_INVALID_PARAMETER;
    *supported = 1;
    return CUPTI_SUCCESS;
}
CUPTI cuptiComputeCapabilitySupported(int, int, int* supported) { return cuptiDeviceSupported(0, supported); }
