/* SPDX-License-Identifier: Apache-2.0
 * modules.c: many modules are loaded and unloaded
 */
#include "check.h"

int main(void) {
    int number = 0, i;
    CUdeviceptr p;
    begin();
    CHECK(cuMemAlloc(&p, 4));
    CHECK(cuMemsetD32(p, 0, 1));
    for (i = 0; i < 30; ++i) {
        CUmodule module;
        launch_add(function(&module, "add"), p, 1, 1, NULL);
        CHECK(cuModuleUnload(module));
    }
    CHECK(cuMemcpyDtoH(&number, p, 4));
    EXPECT(number == 30);
    return passed();
}
