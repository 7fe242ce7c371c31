/* SPDX-License-Identifier: Apache-2.0
 * default_streams.c: each thread's default stream, by the names that the compiler gives
 */
#define CUDA_API_PER_THREAD_DEFAULT_STREAM
#include "check.h"

int main(void) {
    int number = 0;
    CUdeviceptr p;
    begin();
    CHECK(cuMemAlloc(&p, 4));
    CHECK(cuMemsetD32Async(p, 6, 1, CU_STREAM_PER_THREAD));
    CHECK(cuMemcpyDtoHAsync(&number, p, 4, NULL));
    CHECK(cuStreamSynchronize(NULL));
    EXPECT(number == 6);
    CHECK(cuStreamSynchronize(CU_STREAM_LEGACY));
    return passed();
}
