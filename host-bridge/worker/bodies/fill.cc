// SPDX-License-Identifier: Apache-2.0
// fill.cc: the synchronous fills, which guests of version 0.1.0 send. In its own a driver may wait for something that
// only the worker can bring about, so they become asynchronous fills of the default stream. (Later guests send those:
// guest-allocator/driver/fill.cc.)
#include "host-bridge/worker/bodies/body.h"

namespace barcuda::body {

BODY(cuMemsetD8_v2)(CUdeviceptr to, unsigned char value, std::size_t n) {
    return session().driver().cuMemsetD8Async(to, value, n, nullptr);
}
BODY(cuMemsetD16_v2)(CUdeviceptr to, unsigned short value, std::size_t n) {
    return session().driver().cuMemsetD16Async(to, value, n, nullptr);
}
BODY(cuMemsetD32_v2)(CUdeviceptr to, unsigned value, std::size_t n) {
    return session().driver().cuMemsetD32Async(to, value, n, nullptr);
}
BODY(cuMemsetD2D8_v2)(CUdeviceptr to, std::size_t pitch, unsigned char value, std::size_t width, std::size_t height) {
    return session().driver().cuMemsetD2D8Async(to, pitch, value, width, height, nullptr);
}
BODY(cuMemsetD2D16_v2)(CUdeviceptr to, std::size_t pitch, unsigned short value, std::size_t width, std::size_t height) {
    return session().driver().cuMemsetD2D16Async(to, pitch, value, width, height, nullptr);
}
BODY(cuMemsetD2D32_v2)(CUdeviceptr to, std::size_t pitch, unsigned value, std::size_t width, std::size_t height) {
    return session().driver().cuMemsetD2D32Async(to, pitch, value, width, height, nullptr);
}

}  // namespace barcuda::body
