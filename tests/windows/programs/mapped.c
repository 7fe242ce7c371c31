/* SPDX-License-Identifier: Apache-2.0
 * mapped.c: a kernel reads and writes pinned memory where the program has it
 */
#include "check.h"

int main(void) {
    enum { n = 5000 };
    int *numbers, i;
    CUmodule module;
    CUdeviceptr p;
    begin();
    CHECK(cuMemHostAlloc((void**)&numbers, n * sizeof *numbers, CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(cuMemHostGetDevicePointer(&p, numbers, 0));
    EXPECT(p == (CUdeviceptr)numbers);
    for (i = 0; i < n; ++i) numbers[i] = i * 3;
    launch_add(function(&module, "add"), p, n, 7, NULL);
    CHECK(cuCtxSynchronize());
    for (i = 0; i < n; ++i) EXPECT(numbers[i] == i * 3 + 7);
    CHECK(cuMemFreeHost(numbers));
    return passed();
}
