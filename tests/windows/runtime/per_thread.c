/* SPDX-License-Identifier: Apache-2.0
 * per_thread.c: the default stream of a thread
 */
#define CUDA_API_PER_THREAD_DEFAULT_STREAM
#include "runtime.h"

int main(void) {
    int numbers[512], *p, i;
    cudaLibrary_t library;
    cudaEvent_t event;
    const void* add = kernel_of(&library, "add");
    CHECK(cudaMalloc((void**)&p, sizeof numbers));
    CHECK(cudaMemsetAsync(p, 0, sizeof numbers, cudaStreamPerThread));
    for (i = 0; i < 30; ++i) launch_kernel(add, p, 512, 2, 0);
    CHECK(cudaEventCreate(&event));
    CHECK(cudaEventRecord(event, 0));
    CHECK(cudaEventSynchronize(event));
    CHECK(cudaStreamSynchronize(0));
    CHECK(cudaMemcpy(numbers, p, sizeof numbers, cudaMemcpyDeviceToHost));
    for (i = 0; i < 512; ++i) EXPECT(numbers[i] == 60);
    CHECK(cudaStreamQuery(cudaStreamPerThread));
    CHECK(cudaStreamQuery(cudaStreamLegacy));
    return passed();
}
