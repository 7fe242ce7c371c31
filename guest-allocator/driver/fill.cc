// SPDX-License-Identifier: Apache-2.0
// fill.cc: the synchronous fills. Fills of the GPU's own memory are posted, as natively; fills of memory that the CPU
// sees wait until it may look, as CUDA documents it for pinned memory. The worker is asked for asynchronous fills only:
// in the others its driver would wait, and so would a function in a stream whose migrations of managed memory are
// behind them in the queue.
#include "guest-allocator/client/command.h"
#include "guest-allocator/driver/copy.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/fence.h"

namespace barcuda::guest {
namespace {

template <Op op, class... Rest> CUresult fill(CUdeviceptr to, Rest... rest) {
    if (!current_context()) return CUDA_ERROR_INVALID_CONTEXT;
    const CUresult r = command<op>(to, rest..., CUstream{});
    return r == CUDA_SUCCESS && !is_device(to) ? wait_for(nullptr) : r;
}

}  // namespace
}  // namespace barcuda::guest

using namespace barcuda::guest;

CU cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t n) { return fill<Op::cuMemsetD8Async>(to, value, n); }
CU cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t n) { return fill<Op::cuMemsetD16Async>(to, value, n); }
CU cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t n) { return fill<Op::cuMemsetD32Async>(to, value, n); }
CU cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height) {
    return fill<Op::cuMemsetD2D8Async>(to, pitch, value, width, height);
}
CU cuMemsetD2D16_v2(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height) {
    return fill<Op::cuMemsetD2D16Async>(to, pitch, value, width, height);
}
CU cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height) {
    return fill<Op::cuMemsetD2D32Async>(to, pitch, value, width, height);
}
