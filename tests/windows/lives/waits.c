/* SPDX-License-Identifier: Apache-2.0
 * waits.c: a program that has memory and work of the GPU, says that it runs, and ends when its input does, or is ended.
 */
#include "../programs/check.h"

int main(void) {
    CUmodule module;
    CUdeviceptr p;
    void* pinned;
    CUfunction add;
    begin();
    add = function(&module, "add");
    CHECK(cuMemAlloc(&p, 1 << 20));
    CHECK(cuMemHostAlloc(&pinned, 1 << 20, 0));
    CHECK(cuMemsetD32(p, 0, 1 << 18));
    launch_add(add, p, 1 << 18, 1, NULL);
    CHECK(cuCtxSynchronize());
    printf("running\n");
    fflush(stdout);
    while (getchar() != EOF) launch_add(add, p, 1 << 18, 1, NULL);
    return passed();
}
