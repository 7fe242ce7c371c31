/* SPDX-License-Identifier: Apache-2.0
 * streams.c: streams have flags and priorities, and finish what they are given
 */
#include "check.h"

int main(void) {
    int least, greatest, priority, numbers[1000], i;
    unsigned flags;
    CUmodule module;
    CUdeviceptr p;
    CUstream stream;
    CUfunction add;
    begin();
    add = function(&module, "add");
    CHECK(cuCtxGetStreamPriorityRange(&least, &greatest));
    CHECK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest));
    CHECK(cuStreamGetPriority(stream, &priority));
    CHECK(cuStreamGetFlags(stream, &flags));
    EXPECT(priority == greatest && flags == CU_STREAM_NON_BLOCKING);
    CHECK(cuMemAlloc(&p, sizeof numbers));
    CHECK(cuMemsetD32Async(p, 1, 1000, stream));
    for (i = 0; i < 50; ++i) launch_add(add, p, 1000, i, stream);
    CHECK(cuMemcpyDtoHAsync(numbers, p, sizeof numbers, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuStreamQuery(stream));
    for (i = 0; i < 1000; ++i) EXPECT(numbers[i] == 1 + 49 * 50 / 2);
    CHECK(cuStreamDestroy(stream));
    return passed();
}
