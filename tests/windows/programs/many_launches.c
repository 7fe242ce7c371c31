/* SPDX-License-Identifier: Apache-2.0
 * many_launches.c: thousands of launches, more than the queue holds
 */
#include "check.h"

int main(void) {
    int number = 0, i;
    CUmodule module;
    CUdeviceptr p;
    CUfunction add;
    begin();
    add = function(&module, "add");
    CHECK(cuMemAlloc(&p, 4));
    CHECK(cuMemsetD32(p, 0, 1));
    for (i = 0; i < 5000; ++i) launch_add(add, p, 1, i & 3, NULL);
    CHECK(cuMemcpyDtoH(&number, p, 4));
    EXPECT(number == 5000 / 4 * 6);
    return passed();
}
