/* SPDX-License-Identifier: Apache-2.0
 * host_functions.c: functions of the program, in the order of a stream
 */
#include "runtime.h"

static void CUDART_CB count(void* number) { ++*(int*)number; }
static void CUDART_CB called(cudaStream_t stream, cudaError_t error, void* number) {
    EXPECT(stream && error == cudaSuccess);
    ++*(int*)number;
}

int main(void) {
    int counts[2] = {0, 0}, *p, i;
    cudaLibrary_t library;
    cudaStream_t stream;
    const void* add = kernel_of(&library, "add");
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc((void**)&p, 4096));
    for (i = 0; i < 20; ++i) {
        launch_kernel(add, p, 1024, 1, stream);
        CHECK(cudaLaunchHostFunc(stream, count, &counts[0]));
    }
    CHECK(cudaStreamAddCallback(stream, called, &counts[1], 0));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(counts[0] == 20 && counts[1] == 1);
    return passed();
}
