// SPDX-License-Identifier: Apache-2.0
// body.h: bodies of rows with the trait "hosted": the worker calls its own function, not the driver's of that name. The
// prototypes are CUDA's. A body whose row lacks the trait does not compile; a row without its body does not link.
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
