// SPDX-License-Identifier: Apache-2.0
// ipc.cc: what a process shows to others of its region (cuIpc*). The driver's own handle stays with the bridge; programs pass
// on a token for it, which nobody can guess.
#include <cstring>

#include "host-bridge/worker/body.h"

namespace barcuda::body {
namespace {

// A driver's handle for the bridge's token, or the other way round.
template <class Outer> CUresult exchange(Outer& outer, CUresult (Granter::*how)(Shared::Kind, Shared::Handle&)) {
    constexpr auto kind = std::is_same_v<Outer, CUipcMemHandle> ? Shared::Kind::memory : Shared::Kind::event;
    Shared::Handle inner;
    static_assert(sizeof inner == sizeof outer.reserved);
    std::memcpy(inner.data(), outer.reserved, sizeof inner);
    const CUresult r = (session().granter().*how)(kind, inner);
    if (r == CUDA_SUCCESS) std::memcpy(outer.reserved, inner.data(), sizeof inner);
    return r;
}

}  // namespace

BODY(cuIpcGetMemHandle)(CUipcMemHandle* token, CUdeviceptr address) {
    if (!driver().cuIpcGetMemHandle) return CUDA_ERROR_NOT_SUPPORTED;
    if (CUresult r = driver().cuIpcGetMemHandle(token, address); r != CUDA_SUCCESS) return r;
    session().addresses().note_shared(address);
    return exchange(*token, &Granter::share);
}
BODY(cuIpcOpenMemHandle_v2)(CUdeviceptr* address, CUipcMemHandle token, unsigned flags) {
    if (!driver().cuIpcOpenMemHandle_v2) return CUDA_ERROR_NOT_SUPPORTED;
    CUresult r = exchange(token, &Granter::find_shared);
    if (r == CUDA_SUCCESS) r = driver().cuIpcOpenMemHandle_v2(address, token, flags);
    if (r == CUDA_SUCCESS) session().addresses().note_opened(*address);
    return r;
}
BODY(cuIpcCloseMemHandle)(CUdeviceptr address) { return session().deferred().close(address); }
BODY(cuIpcGetEventHandle)(CUipcEventHandle* token, CUevent event) {
    if (!driver().cuIpcGetEventHandle) return CUDA_ERROR_NOT_SUPPORTED;
    const CUresult r = driver().cuIpcGetEventHandle(token, event);
    return r == CUDA_SUCCESS ? exchange(*token, &Granter::share) : r;
}
BODY(cuIpcOpenEventHandle)(CUevent* event, CUipcEventHandle token) {
    if (!driver().cuIpcOpenEventHandle) return CUDA_ERROR_NOT_SUPPORTED;
    const CUresult r = exchange(token, &Granter::find_shared);
    return r == CUDA_SUCCESS ? driver().cuIpcOpenEventHandle(event, token) : r;
}

}  // namespace barcuda::body
