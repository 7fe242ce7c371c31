// driver.h: the host's CUDA driver, opened at run time: NVIDIA's libcuda.so.1, or the software GPU's. One member for
// each function that the command table names, and for those that the worker itself needs; a driver that lacks one
// leaves it null.
#pragma once
#include <string>

#include "shm-device/commands.h"

// What the worker calls beside the rows of the command table.
// clang-format off
#define BARCUDA_DRIVER_EXTRAS(X)                                                                          \
    X(cuInit) X(cuModuleUnload) X(cuLibraryUnload) X(cuDriverGetVersion) X(cuGetErrorName)                \
    X(cuDeviceGet) X(cuDeviceGetCount) X(cuDeviceGetName) X(cuDeviceGetUuid_v2) X(cuDeviceGetPCIBusId)    \
    X(cuDeviceTotalMem_v2) X(cuDeviceGetAttribute) X(cuCtxCreate_v4) X(cuCtxSetCurrent)                   \
    X(cuMemHostRegister_v2) X(cuMemHostUnregister) X(cuLaunchKernel) X(cuLaunchCooperativeKernel)         \
    X(cuModuleLoadDataEx) X(cuLibraryLoadData) X(cuFuncGetParamInfo) X(cuKernelGetParamInfo)              \
    X(cuPointerGetAttributes) X(cuLaunchHostFunc) X(cuStreamAddCallback) X(cuGraphAddHostNode)            \
    X(cuGraphHostNodeSetParams) X(cuGraphExecHostNodeSetParams) X(cuGraphHostNodeGetParams)               \
    X(cuGraphAddKernelNode_v2) X(cuGraphKernelNodeSetParams_v2) X(cuGraphExecKernelNodeSetParams_v2)      \
    X(cuGraphKernelNodeGetParams_v2) X(cuGraphKernelNodeGetAttribute) X(cuGraphKernelNodeSetAttribute)    \
    X(cuStreamGetAttribute) X(cuStreamSetAttribute) X(cuStreamGetCaptureInfo_v3)                          \
    X(cuThreadExchangeStreamCaptureMode) X(cuGraphExecUpdate_v2) X(cuModuleEnumerateFunctions)            \
    X(cuLibraryEnumerateKernels) X(cuMemPoolGetAttribute) X(cuMemPoolSetAttribute)                        \
    X(cuDeviceGetGraphMemAttribute) X(cuDeviceSetGraphMemAttribute) X(cuLinkCreate_v2)                    \
    X(cuLinkAddData_v2) X(cuLinkComplete) X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxReset_v2)       \
    X(cuFuncGetName) X(cuKernelGetName) X(cuMemAlloc_v2) X(cuMemFree_v2) X(cuMemPoolDestroy) X(cuCtxGetDevice)\
    X(cuStreamSynchronize) X(cuEventSynchronize) X(cuLaunchKernelEx) X(cuOccupancyMaxActiveClusters)    \
    X(cuOccupancyMaxPotentialClusterSize) X(cuTensorMapEncodeTiled) X(cuTensorMapEncodeIm2col) X(cuTensorMapReplaceAddress)     \
    X(cuIpcGetMemHandle) X(cuIpcOpenMemHandle_v2) X(cuIpcCloseMemHandle) X(cuIpcGetEventHandle)           \
    X(cuIpcOpenEventHandle)
// clang-format on

namespace barcuda {

struct Driver {
#define X(name, ...) decltype(&::name) name = nullptr;
    BARCUDA_DRIVER_ROWS(X)
    BARCUDA_DRIVER_EXTRAS(X)
#undef X
    std::string library;  // where it was found; empty: it has not been opened

    // Opens the library of this name and fills the table. Returns what went wrong and what to do about it; empty: all
    // is well.
    std::string open(const std::string& name);
    std::string error_name(CUresult result) const;
};

// Which driver `--device auto|cuda|soft` means here.
struct DeviceChoice {
    std::string library;  // for Driver::open
    bool software = false;
    std::string error;  // not empty: there is no such device, and why
};
DeviceChoice choose_device(const std::string& device);
std::string software_library();  // where the software GPU's libcuda.so.1 lies, beside this program

}  // namespace barcuda
