// SPDX-License-Identifier: Apache-2.0
// context.cc: contexts that the client makes, retains and ends. (Which one is current: contexts.h. The guest's half:
// guest-allocator/driver/context.cc.)
#include "host-bridge/worker/bodies/body.h"

namespace barcuda::ext {

CUresult create_context(CUcontext* context, unsigned flags, CUdevice device) {
    const Driver& driver = session().driver();
    if (!driver.cuCtxCreate_v4) return CUDA_ERROR_NOT_SUPPORTED;  // a driver before CUDA 12.5
    const CUresult r = driver.cuCtxCreate_v4(context, nullptr, flags, device);
    return r == CUDA_SUCCESS ? session().contexts().ready(*context, device) : r;
}

}  // namespace barcuda::ext

namespace barcuda::body {

// The primary context, with the client's memory registered for it.
BODY(cuDevicePrimaryCtxRetain)(CUcontext* context, CUdevice device) {
    return session().contexts().retain(*context, device);
}
// After this the client must retain it again.
BODY(cuDevicePrimaryCtxReset_v2)(CUdevice device) {
    const Contexts::Living* primary = device >= 0 ? session().contexts().primary(device) : nullptr;
    return primary ? session().end(Contexts::Living(*primary)) : CUDA_SUCCESS;  // the client has nothing there
}
BODY(cuCtxDestroy_v2)(CUcontext context) {
    const Contexts::Living* known = session().contexts().find(context);
    if (!known || known->primary_of != Contexts::not_primary) return CUDA_ERROR_INVALID_CONTEXT;
    return session().end(Contexts::Living(*known));
}

}  // namespace barcuda::body
