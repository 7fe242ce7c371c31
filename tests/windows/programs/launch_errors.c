/* SPDX-License-Identifier: Apache-2.0
 * launch_errors.c: launches that cannot be are refused, and the next one works
 */
#include "check.h"

int main(void) {
    int number = 0;
    unsigned n = 1;
    int value = 3;
    CUmodule module;
    CUfunction f;
    CUdeviceptr p;
    void* arguments[] = {&p, &n, &value};
    begin();
    f = function(&module, "add");
    CHECK(cuMemAlloc(&p, 4));
    CHECK(cuMemsetD32(p, 0, 1));
    EXPECT(cuLaunchKernel(f, 0, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuLaunchKernel(f, 1, 1, 1, 100000, 1, 1, 0, NULL, arguments, NULL) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
    CHECK(cuMemcpyDtoH(&number, p, 4));
    EXPECT(number == 3);
    return passed();
}
