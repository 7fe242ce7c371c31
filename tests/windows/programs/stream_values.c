/* SPDX-License-Identifier: Apache-2.0
 * stream_values.c: a stream writes a word, and another waits for it
 */
#include "check.h"

int main(void) {
    cuuint32_t* word;
    CUmodule module;
    CUdeviceptr p;
    CUstream a, b;
    CUfunction add;
    begin();
    add = function(&module, "add");
    CHECK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemHostAlloc((void**)&word, 8, 0));
    word[0] = word[1] = 0;
    CHECK(cuMemAlloc(&p, 4));
    CHECK(cuMemsetD32(p, 1, 1));
    CHECK(cuCtxSynchronize());
    CHECK(cuStreamWaitValue32(b, (CUdeviceptr)word, 1, CU_STREAM_WAIT_VALUE_GEQ));
    CHECK(cuMemcpyDtoHAsync(&word[1], p, 4, b));
    launch_add(add, p, 1, 10, a);
    CHECK(cuStreamWriteValue32(a, (CUdeviceptr)word, 1, 0));
    CHECK(cuStreamSynchronize(a));
    CHECK(cuStreamSynchronize(b));
    EXPECT(word[0] == 1 && word[1] == 11);
    return passed();
}
