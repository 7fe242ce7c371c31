/* SPDX-License-Identifier: Apache-2.0
 * module_variable.c: a variable of a module is found, read and written
 */
#include "check.h"

int main(void) {
    int value = 0;
    size_t bytes;
    CUmodule module;
    CUdeviceptr p;
    begin();
    CHECK(cuModuleLoadData(&module, ptx));
    CHECK(cuModuleGetGlobal(&p, &bytes, module, "counter"));
    EXPECT(bytes == 4);
    CHECK(cuMemcpyDtoH(&value, p, 4));
    EXPECT(value == 5);
    value = 77;
    CHECK(cuMemcpyHtoD(p, &value, 4));
    value = 0;
    CHECK(cuMemcpyDtoH(&value, p, 4));
    EXPECT(value == 77);
    EXPECT(cuModuleGetGlobal(&p, &bytes, module, "nothing") == CUDA_ERROR_NOT_FOUND);
    CHECK(cuModuleUnload(module));
    return passed();
}
