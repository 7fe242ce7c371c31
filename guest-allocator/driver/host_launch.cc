// SPDX-License-Identifier: Apache-2.0
// host_launch.cc: cuLaunchHostFunc and cuStreamAddCallback: a function of the program is given to a stream.
#include "guest-allocator/client/command.h"
#include "guest-allocator/driver/capture.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/host_function.h"
#include "guest-allocator/driver/managed.h"

namespace barcuda::guest {
namespace {

// `number`: of a function that is kept; 0: there was no memory.
CUresult launch(CUstream stream, std::uint64_t number, bool with_status) {
    if (number == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    const managed::Exclusive exclusive(stream);
    const CUresult r = command<Op::launch_host>(stream, number, unsigned{with_status});
    if (r != CUDA_SUCCESS) forget_function(number);
    return r;
}

}  // namespace
}  // namespace barcuda::guest

using namespace barcuda::guest;

CU cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
    if (!function) return CUDA_ERROR_INVALID_VALUE;
    const InStreamsContext in{stream};
    if (in.error) return in.error;
    return launch(stream, capturing(stream) ? keep_function(function, data) : await_function(function, data), false);
}

CU cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void* data, unsigned flags) {
    if (!callback || flags) return CUDA_ERROR_INVALID_VALUE;
    if (capturing(stream)) return spoil_capture(stream);
    const InStreamsContext in{stream};
    if (in.error) return in.error;
    return launch(stream, await_callback(callback, data, stream), true);
}
