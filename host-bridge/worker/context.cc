// context.cc: contexts that the client makes, retains and resets. (Which is current: session.cc. The guest's half: guest-allocator/driver/context.cc.)
#include "host-bridge/worker/body.h"

namespace barcuda::ext {
namespace {

const Driver& driver() { return session().driver(); }

}  // namespace

CUresult create_context(CUcontext* context, unsigned flags, CUdevice device) {
    if (!driver().cuCtxCreate_v4) return CUDA_ERROR_NOT_SUPPORTED;  // a driver before CUDA 12.5
    CUresult r = driver().cuCtxCreate_v4(context, nullptr, flags, device);
    return r == CUDA_SUCCESS ? session().context_ready(*context) : r;
}

}  // namespace barcuda::ext

namespace barcuda::body {
namespace {

const Driver& driver() { return session().driver(); }

}  // namespace

// The primary context, with the client's memory registered in it.
BODY(cuDevicePrimaryCtxRetain)(CUcontext* context, CUdevice device) {
    CUresult r = driver().cuDevicePrimaryCtxRetain(context, device);
    if (r == CUDA_SUCCESS) r = session().context_ready(*context);
    if (r == CUDA_SUCCESS) session().note_primary(device);
    return r;
}

// After this it has to be retained again.
BODY(cuDevicePrimaryCtxReset_v2)(CUdevice device) {
    session().tidy(true);
    session().extents().unregister_all(driver());
    CUresult r = driver().cuDevicePrimaryCtxReset_v2(device);
    session().primary_gone(device);
    return r;
}

}  // namespace barcuda::body
