/* SPDX-License-Identifier: Apache-2.0
 * broken_ptx.c: code that is none is refused, and the log says why
 */
#include "check.h"

int main(void) {
    char log[4096] = "";
    CUmodule module;
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {log, (void*)sizeof log};
    begin();
    EXPECT(cuModuleLoadDataEx(&module, ".version 6.4\n.target sm_50\n.address_size 64\nnonsense", 2, options, values) ==
           CUDA_ERROR_INVALID_PTX);
    EXPECT(log[0]);
    EXPECT(cuModuleLoadData(&module, "nothing of the kind") != CUDA_SUCCESS);
    return passed();
}
