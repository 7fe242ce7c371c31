/* SPDX-License-Identifier: Apache-2.0
 * registered.c: memory of the program's is registered, copied, and taken back
 */
#include "check.h"

int main(void) {
    enum { n = 100000 };
    int *numbers = malloc(n * sizeof(int)), i;
    CUdeviceptr p;
    begin();
    for (i = 0; i < n; ++i) numbers[i] = -i;
    CHECK(cuMemHostRegister(numbers, n * sizeof(int), 0));
    EXPECT(cuMemHostRegister(numbers, 16, 0) == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    CHECK(cuMemAlloc(&p, n * sizeof(int)));
    CHECK(cuMemcpyHtoD(p, numbers, n * sizeof(int)));
    memset(numbers, 0, n * sizeof(int));
    CHECK(cuMemcpyDtoH(numbers, p, n * sizeof(int)));
    for (i = 0; i < n; ++i) EXPECT(numbers[i] == -i);
    CHECK(cuMemHostUnregister(numbers));
    EXPECT(cuMemHostUnregister(numbers) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    return passed();
}
