/* SPDX-License-Identifier: Apache-2.0
 * host_function.c: functions of the program run in the stream's order
 */
#include "check.h"

static int *word, seen[10];
static void CUDA_CB note(void* to) { *(int*)to = *word; }

int main(void) {
    CUmodule module;
    CUdeviceptr p;
    CUstream stream;
    CUfunction add;
    int i;
    begin();
    add = function(&module, "add");
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemHostAlloc((void**)&word, 4, 0));
    *word = 0;
    p = (CUdeviceptr)word;
    for (i = 0; i < 10; ++i) {
        launch_add(add, p, 1, 1, stream);
        CHECK(cuLaunchHostFunc(stream, note, &seen[i]));
    }
    CHECK(cuStreamSynchronize(stream));
    for (i = 0; i < 10; ++i) EXPECT(seen[i] == i + 1);
    return passed();
}
