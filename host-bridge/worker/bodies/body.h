// SPDX-License-Identifier: Apache-2.0
// body.h: what the worker does itself for a row whose traits say "hosted", instead of the driver's function of that name. The
// prototypes are CUDA's. A body whose row does not say so does not compile; a row without its body does not link.
#pragma once
#include "host-bridge/worker/session/session.h"
#include "shm-device/rows/commands.h"

namespace barcuda::body {
#define X(name, ...) extern decltype(::name) name;
BARCUDA_DRIVER_ROWS(X)
#undef X
}  // namespace barcuda::body

#define BODY(name)                                                                     \
    static_assert(has(Op::name, trait::hosted), "the row of " #name " is not hosted"); \
    CUresult name
