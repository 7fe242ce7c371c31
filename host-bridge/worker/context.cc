// context.cc: contexts that the client makes, retains and ends. (Which is current: session.cc. The guest's half: guest-allocator/driver/context.cc.)
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

// The primary context, with the client's memory registered for it.
BODY(cuDevicePrimaryCtxRetain)(CUcontext* context, CUdevice device) { return session().retain(*context, device); }
// After this it has to be retained again.
BODY(cuDevicePrimaryCtxReset_v2)(CUdevice device) { return session().reset(device); }
BODY(cuCtxDestroy_v2)(CUcontext context) { return session().destroy(context); }

}  // namespace barcuda::body
