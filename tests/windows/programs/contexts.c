/* SPDX-License-Identifier: Apache-2.0
 * contexts.c: contexts of the program's own, and the stack of them
 */
#include "check.h"

int main(void) {
    CUdevice device, its;
    CUcontext a, b, popped, current;
    CUdeviceptr p;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuCtxCreate(&a, NULL, 0, device));
    CHECK(cuCtxCreate(&b, NULL, CU_CTX_SCHED_YIELD, device));
    CHECK(cuCtxGetCurrent(&current));
    EXPECT(current == b);
    CHECK(cuCtxPopCurrent(&popped));
    EXPECT(popped == b);
    CHECK(cuCtxGetCurrent(&current));
    EXPECT(current == a);
    CHECK(cuCtxPushCurrent(b));
    CHECK(cuCtxGetDevice(&its));
    EXPECT(its == device);
    CHECK(cuMemAlloc(&p, 100));
    CHECK(cuCtxDestroy(b));
    CHECK(cuCtxGetCurrent(&current));
    EXPECT(current == a);
    CHECK(cuCtxDestroy(a));
    printf("%d\n", cuMemAlloc(&p, 100));
    return passed();
}
