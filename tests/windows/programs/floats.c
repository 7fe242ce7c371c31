/* SPDX-License-Identifier: Apache-2.0
 * floats.c: a kernel gets a float, and arguments come as one buffer
 */
#include "check.h"

int main(void) {
    float numbers[32], by = 2.5f;
    int i;
    CUmodule module;
    CUfunction f;
    CUdeviceptr p;
    char buffer[12];
    size_t bytes = sizeof buffer;
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    void* arguments[] = {&p, &by};
    begin();
    f = function(&module, "scale");
    for (i = 0; i < 32; ++i) numbers[i] = (float)i;
    CHECK(cuMemAlloc(&p, sizeof numbers));
    CHECK(cuMemcpyHtoD(p, numbers, sizeof numbers));
    CHECK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL));
    memcpy(buffer, &p, 8);
    memcpy(buffer + 8, &by, 4);
    CHECK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, extra));
    CHECK(cuMemcpyDtoH(numbers, p, sizeof numbers));
    for (i = 0; i < 32; ++i) EXPECT(numbers[i] == (float)i * 6.25f);
    return passed();
}
