/* SPDX-License-Identifier: Apache-2.0
 * managed.c: managed memory is used by a kernel and by the program
 */
#include "check.h"

int main(void) {
    enum { n = 3000 };
    int *numbers, i;
    CUmodule module;
    CUdeviceptr p;
    begin();
    CHECK(cuMemAllocManaged(&p, n * sizeof(int), CU_MEM_ATTACH_GLOBAL));
    numbers = (int*)p;
    for (i = 0; i < n; ++i) numbers[i] = i;
    launch_add(function(&module, "add"), p, n, 100, NULL);
    CHECK(cuCtxSynchronize());
    for (i = 0; i < n; ++i) EXPECT(numbers[i] == i + 100);
    CHECK(cuMemsetD32(p, 5, n));
    CHECK(cuCtxSynchronize());
    for (i = 0; i < n; ++i) EXPECT(numbers[i] == 5);
    CHECK(cuMemFree(p));
    return passed();
}
