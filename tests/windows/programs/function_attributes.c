/* SPDX-License-Identifier: Apache-2.0
 * function_attributes.c: what a function says of itself
 */
#include "check.h"

int main(void) {
    int threads, shared;
    CUmodule module;
    CUfunction f, none;
    begin();
    f = function(&module, "scale");
    CHECK(cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f));
    CHECK(cuFuncGetAttribute(&shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f));
    CHECK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024));
    EXPECT(threads >= 32 && shared == 0);
    EXPECT(cuModuleGetFunction(&none, module, "nothing") == CUDA_ERROR_NOT_FOUND);
    printf("%d\n", threads);
    return passed();
}
