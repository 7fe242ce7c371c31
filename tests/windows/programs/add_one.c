/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

int main(void) {
    enum { n = 1000 };
    int numbers[n], i;
    char name[256];
    size_t total;
    CUmodule module;
    CUdeviceptr p;
    const CUdevice device = begin();
    CHECK(cuDeviceGetName(name, sizeof name, device));
    CHECK(cuDeviceTotalMem(&total, device));
    EXPECT(name[0] && total > 1 << 20);
    for (i = 0; i < n; ++i) numbers[i] = i;
    CHECK(cuMemAlloc(&p, sizeof numbers));
    CHECK(cuMemcpyHtoD(p, numbers, sizeof numbers));
    launch_add(function(&module, "add"), p, n, 1, NULL);
    CHECK(cuMemcpyDtoH(numbers, p, sizeof numbers));
    for (i = 0; i < n; ++i) EXPECT(numbers[i] == i + 1);
    CHECK(cuMemFree(p));
    CHECK(cuModuleUnload(module));
    return passed();
}
