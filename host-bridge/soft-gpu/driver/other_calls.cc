// other_calls.cc: the profiler's switches, which have nothing to switch, and the sharing of memory between processes by
// cuIpc*, which is refused by name: cuMemExportToShareableHandle does it.
#include "host-bridge/soft-gpu/driver/context.h"
#include "host-bridge/soft-gpu/driver/driver.h"

using namespace barcuda::soft::driver;

CUresult cuProfilerStart() {
    return api([] { current_context(); });
}
CUresult cuProfilerStop() {
    return api([] { current_context(); });
}

CUresult cuIpcGetMemHandle(CUipcMemHandle*, CUdeviceptr) {
    return api([] { refuse("cuIpcGetMemHandle"); });
}
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr*, CUipcMemHandle, unsigned int) {
    return api([] { refuse("cuIpcOpenMemHandle"); });
}
CUresult cuIpcCloseMemHandle(CUdeviceptr) {
    return api([] { refuse("cuIpcCloseMemHandle"); });
}
CUresult cuIpcGetEventHandle(CUipcEventHandle*, CUevent) {
    return api([] { refuse("cuIpcGetEventHandle"); });
}
CUresult cuIpcOpenEventHandle(CUevent*, CUipcEventHandle) {
    return api([] { refuse("cuIpcOpenEventHandle"); });
}
