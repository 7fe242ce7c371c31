/* SPDX-License-Identifier: Apache-2.0
 * events.c: events are recorded, waited for, and tell the time between them
 */
#include "check.h"

int main(void) {
    float milliseconds = -1;
    CUmodule module;
    CUdeviceptr p;
    CUevent before, after, untimed;
    CUstream a, b;
    CUfunction add;
    int number = 0;
    begin();
    add = function(&module, "add");
    CHECK(cuEventCreate(&before, CU_EVENT_DEFAULT));
    CHECK(cuEventCreate(&after, CU_EVENT_BLOCKING_SYNC));
    CHECK(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
    CHECK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc(&p, 4));
    CHECK(cuMemsetD32(p, 0, 1));
    CHECK(cuCtxSynchronize());
    CHECK(cuEventRecord(before, a));
    launch_add(add, p, 1, 40, a);
    CHECK(cuEventRecord(untimed, a));
    CHECK(cuStreamWaitEvent(b, untimed, 0));
    launch_add(add, p, 1, 2, b);
    CHECK(cuEventRecord(after, b));
    CHECK(cuEventSynchronize(after));
    CHECK(cuEventQuery(after));
    CHECK(cuEventElapsedTime(&milliseconds, before, after));
    EXPECT(milliseconds >= 0);
    EXPECT(cuEventElapsedTime(&milliseconds, before, untimed) != CUDA_SUCCESS);
    CHECK(cuMemcpyDtoH(&number, p, 4));
    EXPECT(number == 42);
    CHECK(cuEventDestroy(before));
    CHECK(cuEventDestroy(after));
    return passed();
}
