/* SPDX-License-Identifier: Apache-2.0
 * primary_context.c: the primary context is made at its first use, and ends by a reset
 */
#include "check.h"

int main(void) {
    unsigned flags;
    int active;
    CUcontext context;
    CUdeviceptr p;
    const CUdevice device = begin();
    CHECK(cuDevicePrimaryCtxGetState(device, &flags, &active));
    EXPECT(active == 1);
    CHECK(cuMemAlloc(&p, 1000));
    CHECK(cuDevicePrimaryCtxReset(device));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemAlloc(&p, 1000));
    CHECK(cuMemFree(p));
    CHECK(cuDevicePrimaryCtxRelease(device));
    return passed();
}
