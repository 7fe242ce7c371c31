/* SPDX-License-Identifier: Apache-2.0
 * before_init.c: nothing works before cuInit but what tells of the library
 */
#include "check.h"

int main(void) {
    int count, version;
    const char* text;
    CUdeviceptr p;
    EXPECT(cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED);
    EXPECT(cuMemAlloc(&p, 16) == CUDA_ERROR_NOT_INITIALIZED);
    CHECK(cuDriverGetVersion(&version));
    CHECK(cuGetErrorName(CUDA_ERROR_NOT_INITIALIZED, &text));
    EXPECT(!strcmp(text, "CUDA_ERROR_NOT_INITIALIZED"));
    EXPECT(cuInit(1) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuInit(0));
    CHECK(cuDeviceGetCount(&count));
    printf("%d\n", cuMemAlloc(&p, 16));
    return passed();
}
