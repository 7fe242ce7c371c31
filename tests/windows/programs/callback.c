/* SPDX-License-Identifier: Apache-2.0
 * callback.c: a callback hears how its stream's work has ended
 */
#include "check.h"

static volatile int heard;
static void CUDA_CB done(CUstream stream, CUresult result, void* data) {
    CUdeviceptr p;
    heard = stream && data && result == CUDA_SUCCESS && cuMemAlloc(&p, 4) == CUDA_ERROR_NOT_PERMITTED;
}

int main(void) {
    CUstream stream;
    CUdeviceptr p;
    begin();
    CHECK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    CHECK(cuMemAlloc(&p, 1 << 20));
    CHECK(cuMemsetD8Async(p, 1, 1 << 20, stream));
    CHECK(cuStreamAddCallback(stream, done, &p, 0));
    CHECK(cuStreamSynchronize(stream));
    EXPECT(heard == 1);
    return passed();
}
