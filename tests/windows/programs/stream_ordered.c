/* SPDX-License-Identifier: Apache-2.0
 * stream_ordered.c: memory of the stream's order is allocated, used and freed
 */
#include "check.h"

int main(void) {
    int number = 0, i;
    CUmodule module;
    CUdeviceptr p;
    CUstream stream;
    CUfunction add;
    begin();
    add = function(&module, "add");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (i = 0; i < 20; ++i) {
        CHECK(cuMemAllocAsync(&p, 1 << 16, stream));
        CHECK(cuMemsetD32Async(p, i, 1 << 14, stream));
        launch_add(add, p, 1 << 14, 5, stream);
        CHECK(cuMemcpyDtoHAsync(&number, p + 4000, 4, stream));
        CHECK(cuMemFreeAsync(p, stream));
        CHECK(cuStreamSynchronize(stream));
        EXPECT(number == i + 5);
    }
    return passed();
}
