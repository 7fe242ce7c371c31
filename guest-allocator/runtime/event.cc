// SPDX-License-Identifier: Apache-2.0
// event.cc: the manual's "Event Management", and IPC, where events and memory meet those of another process.
#include "guest-allocator/runtime/runtime.h"

using namespace barcuda::runtime;

static_assert(cudaEventBlockingSync == static_cast<int>(CU_EVENT_BLOCKING_SYNC) &&
              cudaEventDisableTiming == static_cast<int>(CU_EVENT_DISABLE_TIMING) &&
              cudaEventInterprocess == static_cast<int>(CU_EVENT_INTERPROCESS));

API cudaEventCreate(cudaEvent_t* event) { return call(cuEventCreate, event, CU_EVENT_DEFAULT); }
API cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) { return call(cuEventCreate, event, flags); }
API cudaEventDestroy(cudaEvent_t event) { return call(cuEventDestroy, event); }

API cudaEventRecord(cudaEvent_t event, cudaStream_t stream) { return call(cuEventRecord, event, stream); }
API cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
    return call(cuEventRecordWithFlags, event, stream, flags);
}
API cudaEventSynchronize(cudaEvent_t event) {  // it looks at the event alone
    return event ? record(cuEventSynchronize(event)) : call(cuEventSynchronize, event);
}
API cudaEventQuery(cudaEvent_t event) { return call(cuEventQuery, event); }
API cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
    return call(cuEventElapsedTime, milliseconds, start, end);
}

// ---- IPC -----------------------------------------------------------------------------------------------------------
API cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event) {
    return call(cuIpcGetEventHandle, handle, event);
}
API cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle) {
    return call(cuIpcOpenEventHandle, event, handle);
}
API cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory) { return call(cuIpcGetMemHandle, handle, memory); }
API cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle, unsigned flags) {
    return call(cuIpcOpenMemHandle, memory, handle, flags);
}
API cudaIpcCloseMemHandle(void* memory) { return call(cuIpcCloseMemHandle, memory); }
