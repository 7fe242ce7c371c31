// SPDX-License-Identifier: Apache-2.0
// results.h: the name and the text of every CUresult of CUDA 13, once: cuGetErrorName and cuGetErrorString answer from
// here, in the guest and in the software GPU alike, and so does cudaGetErrorString where the runtime's error has the
// same words.
#pragma once
#include <cuda.h>

#include <cstring>

namespace barcuda {

struct ResultText {
    CUresult code;
    const char *name, *text;
};

// clang-format off
#define BARCUDA_RESULT(code, text) ResultText{code, #code, text}
inline constexpr ResultText result_texts[] = {
    BARCUDA_RESULT(CUDA_SUCCESS, "no error"),
    BARCUDA_RESULT(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    BARCUDA_RESULT(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    BARCUDA_RESULT(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    BARCUDA_RESULT(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    BARCUDA_RESULT(CUDA_ERROR_PROFILER_DISABLED, "profiler disabled while using external profiling tool"),
    BARCUDA_RESULT(CUDA_ERROR_PROFILER_NOT_INITIALIZED, "profiler not initialized: call cudaProfilerInitialize()"),
    BARCUDA_RESULT(CUDA_ERROR_PROFILER_ALREADY_STARTED, "profiler already started"),
    BARCUDA_RESULT(CUDA_ERROR_PROFILER_ALREADY_STOPPED, "profiler already stopped"),
    BARCUDA_RESULT(CUDA_ERROR_STUB_LIBRARY, "CUDA driver is a stub library"),
    BARCUDA_RESULT(CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, "API call is not supported in the installed CUDA driver"),
    BARCUDA_RESULT(CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA-capable device(s) is/are busy or unavailable"),
    BARCUDA_RESULT(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    BARCUDA_RESULT(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    BARCUDA_RESULT(CUDA_ERROR_DEVICE_NOT_LICENSED, "device doesn't have valid Grid license"),
    BARCUDA_RESULT(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    BARCUDA_RESULT(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    BARCUDA_RESULT(CUDA_ERROR_CONTEXT_ALREADY_CURRENT, "context already current"),
    BARCUDA_RESULT(CUDA_ERROR_MAP_FAILED, "mapping of buffer object failed"),
    BARCUDA_RESULT(CUDA_ERROR_UNMAP_FAILED, "unmapping of buffer object failed"),
    BARCUDA_RESULT(CUDA_ERROR_ARRAY_IS_MAPPED, "array is mapped"),
    BARCUDA_RESULT(CUDA_ERROR_ALREADY_MAPPED, "resource already mapped"),
    BARCUDA_RESULT(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
    BARCUDA_RESULT(CUDA_ERROR_ALREADY_ACQUIRED, "resource already acquired"),
    BARCUDA_RESULT(CUDA_ERROR_NOT_MAPPED, "resource not mapped"),
    BARCUDA_RESULT(CUDA_ERROR_NOT_MAPPED_AS_ARRAY, "resource not mapped as array"),
    BARCUDA_RESULT(CUDA_ERROR_NOT_MAPPED_AS_POINTER, "resource not mapped as pointer"),
    BARCUDA_RESULT(CUDA_ERROR_ECC_UNCORRECTABLE, "uncorrectable ECC error encountered"),
    BARCUDA_RESULT(CUDA_ERROR_UNSUPPORTED_LIMIT, "limit is not supported on this architecture"),
    BARCUDA_RESULT(CUDA_ERROR_CONTEXT_ALREADY_IN_USE, "exclusive-thread device already in use by a different thread"),
    BARCUDA_RESULT(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "peer access is not supported between these two devices"),
    BARCUDA_RESULT(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
    BARCUDA_RESULT(CUDA_ERROR_INVALID_GRAPHICS_CONTEXT, "invalid OpenGL or DirectX context"),
    BARCUDA_RESULT(CUDA_ERROR_NVLINK_UNCORRECTABLE, "uncorrectable NVLink error detected during the execution"),
    BARCUDA_RESULT(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, "PTX JIT compiler library not found"),
    BARCUDA_RESULT(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "the provided PTX was compiled with an unsupported toolchain."),
    BARCUDA_RESULT(CUDA_ERROR_JIT_COMPILATION_DISABLED, "PTX JIT compilation was disabled"),
    BARCUDA_RESULT(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, "the provided execution affinity is not supported"),
    BARCUDA_RESULT(CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC, "the provided PTX contains unsupported call to cudaDeviceSynchronize"),
    BARCUDA_RESULT(CUDA_ERROR_CONTAINED, "Invalid access of peer GPU memory over nvlink or a hardware error"),
    BARCUDA_RESULT(CUDA_ERROR_INVALID_SOURCE, "device kernel image is invalid"),
    BARCUDA_RESULT(CUDA_ERROR_FILE_NOT_FOUND, "file not found"),
    BARCUDA_RESULT(CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, "shared object symbol not found"),
    BARCUDA_RESULT(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, "shared object initialization failed"),
    BARCUDA_RESULT(CUDA_ERROR_OPERATING_SYSTEM, "OS call failed or operation not supported on this OS"),
    BARCUDA_RESULT(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    BARCUDA_RESULT(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"),
    BARCUDA_RESULT(CUDA_ERROR_LOSSY_QUERY, "attempted introspection would be semantically lossy"),
    BARCUDA_RESULT(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    BARCUDA_RESULT(CUDA_ERROR_NOT_READY, "device not ready"),
    BARCUDA_RESULT(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    BARCUDA_RESULT(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
    BARCUDA_RESULT(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated"),
    BARCUDA_RESULT(CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING, "launch uses incompatible texturing mode"),
    BARCUDA_RESULT(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled"),
    BARCUDA_RESULT(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled"),
    BARCUDA_RESULT(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "cannot set while device is active in this process"),
    BARCUDA_RESULT(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
    BARCUDA_RESULT(CUDA_ERROR_ASSERT, "device-side assert triggered"),
    BARCUDA_RESULT(CUDA_ERROR_TOO_MANY_PEERS, "peer mapping resources exhausted"),
    BARCUDA_RESULT(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "part or all of the requested memory range is already mapped"),
    BARCUDA_RESULT(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "pointer does not correspond to a registered memory region"),
    BARCUDA_RESULT(CUDA_ERROR_HARDWARE_STACK_ERROR, "hardware stack error"),
    BARCUDA_RESULT(CUDA_ERROR_ILLEGAL_INSTRUCTION, "an illegal instruction was encountered"),
    BARCUDA_RESULT(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address"),
    BARCUDA_RESULT(CUDA_ERROR_INVALID_ADDRESS_SPACE, "operation not supported on global/shared address space"),
    BARCUDA_RESULT(CUDA_ERROR_INVALID_PC, "invalid program counter"),
    BARCUDA_RESULT(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    BARCUDA_RESULT(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "too many blocks in cooperative launch"),
    BARCUDA_RESULT(CUDA_ERROR_TENSOR_MEMORY_LEAK, "tensor memory not completely freed"),
    BARCUDA_RESULT(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    BARCUDA_RESULT(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    BARCUDA_RESULT(CUDA_ERROR_SYSTEM_NOT_READY, "system not yet initialized"),
    BARCUDA_RESULT(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "system has unsupported display driver / cuda driver combination"),
    BARCUDA_RESULT(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, "forward compatibility was attempted on non supported HW"),
    BARCUDA_RESULT(CUDA_ERROR_MPS_CONNECTION_FAILED, "MPS client failed to connect to the MPS control daemon or the MPS server"),
    BARCUDA_RESULT(CUDA_ERROR_MPS_RPC_FAILURE, "the remote procedural call between the MPS server and the MPS client failed"),
    BARCUDA_RESULT(CUDA_ERROR_MPS_SERVER_NOT_READY, "MPS server is not ready to accept new MPS client requests"),
    BARCUDA_RESULT(CUDA_ERROR_MPS_MAX_CLIENTS_REACHED, "the hardware resources required to create MPS client have been exhausted"),
    BARCUDA_RESULT(CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED, "the hardware resources required to support device connections have been exhausted"),
    BARCUDA_RESULT(CUDA_ERROR_MPS_CLIENT_TERMINATED, "the MPS client has been terminated by the server"),
    BARCUDA_RESULT(CUDA_ERROR_CDP_NOT_SUPPORTED, "is using CUDA Dynamic Parallelism, but the current configuration, like MPS, does not support it"),
    BARCUDA_RESULT(CUDA_ERROR_CDP_VERSION_MISMATCH, "unsupported interaction between different versions of CUDA Dynamic Parallelism"),
    BARCUDA_RESULT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"),
    BARCUDA_RESULT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture"),
    BARCUDA_RESULT(CUDA_ERROR_STREAM_CAPTURE_MERGE, "operation would result in a merge of separate capture sequences"),
    BARCUDA_RESULT(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "capture was not ended in the same stream as it began"),
    BARCUDA_RESULT(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work"),
    BARCUDA_RESULT(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "dependency created on uncaptured work in another stream"),
    BARCUDA_RESULT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "operation would make the legacy stream depend on a capturing blocking stream"),
    BARCUDA_RESULT(CUDA_ERROR_CAPTURED_EVENT, "operation not permitted on an event last recorded in a capturing stream"),
    BARCUDA_RESULT(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "attempt to terminate a thread-local capture sequence from another thread"),
    BARCUDA_RESULT(CUDA_ERROR_TIMEOUT, "wait operation timed out"),
    BARCUDA_RESULT(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update"),
    BARCUDA_RESULT(CUDA_ERROR_EXTERNAL_DEVICE, "an async error has occured in external entity outside of CUDA"),
    BARCUDA_RESULT(CUDA_ERROR_INVALID_CLUSTER_SIZE, "a kernel launch error has occurred due to cluster misconfiguration"),
    BARCUDA_RESULT(CUDA_ERROR_FUNCTION_NOT_LOADED, "the function handle is not loaded when calling an API that requires a loaded function"),
    BARCUDA_RESULT(CUDA_ERROR_INVALID_RESOURCE_TYPE, "one or more resources passed in are not valid resource types for the operation"),
    BARCUDA_RESULT(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, "one or more resources are insufficient or non-applicable for the operation"),
    BARCUDA_RESULT(CUDA_ERROR_KEY_ROTATION, "an error happened during the key rotation sequence"),
    BARCUDA_RESULT(CUDA_ERROR_UNKNOWN, "unknown error"),
};
#undef BARCUDA_RESULT
// clang-format on

// Null: no such result. By value's bytes: a program may ask about any number, and an enumeration that holds one is not
// to be read as such.
inline const ResultText* find_result(const CUresult& code) {
    int number;
    std::memcpy(&number, &code, sizeof number);
    for (const ResultText& r : result_texts)
        if (r.code == number) return &r;
    return nullptr;
}

}  // namespace barcuda
