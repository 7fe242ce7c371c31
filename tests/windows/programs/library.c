/* SPDX-License-Identifier: Apache-2.0
 * library.c: code is loaded as a library, and its kernel launched
 */
#include "check.h"

int main(void) {
    unsigned count, n = 64;
    int numbers[64], i, value = 9;
    CUlibrary library;
    CUkernel kernel;
    CUfunction f;
    CUdeviceptr p;
    void* arguments[] = {&p, &n, &value};
    begin();
    CHECK(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryGetKernelCount(&count, library));
    EXPECT(count == 2);
    CHECK(cuLibraryGetKernel(&kernel, library, "add"));
    CHECK(cuKernelGetFunction(&f, kernel));
    CHECK(cuMemAlloc(&p, sizeof numbers));
    CHECK(cuMemsetD32(p, 1, 64));
    CHECK(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 64, 1, 1, 0, NULL, arguments, NULL));
    CHECK(cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, NULL, arguments, NULL));
    CHECK(cuMemcpyDtoH(numbers, p, sizeof numbers));
    for (i = 0; i < 64; ++i) EXPECT(numbers[i] == 19);
    CHECK(cuLibraryUnload(library));
    return passed();
}
