/* SPDX-License-Identifier: Apache-2.0
 * streams.c: streams with priorities, and one that waits for another
 */
#include "runtime.h"

int main(void) {
    int least, greatest, priority, numbers[256], i;
    unsigned flags;
    int* p;
    cudaLibrary_t library;
    cudaStream_t first, second;
    cudaEvent_t event;
    const void* add = kernel_of(&library, "add");
    CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    printf("priorities %d to %d\n", least, greatest);
    CHECK(cudaStreamCreateWithPriority(&first, cudaStreamNonBlocking, greatest));
    CHECK(cudaStreamCreate(&second));
    CHECK(cudaStreamGetPriority(first, &priority));
    EXPECT(priority == greatest);
    CHECK(cudaStreamGetFlags(first, &flags));
    EXPECT(flags == cudaStreamNonBlocking);
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK(cudaMalloc((void**)&p, sizeof numbers));
    CHECK(cudaMemsetAsync(p, 0, sizeof numbers, first));
    for (i = 0; i < 50; ++i) launch_kernel(add, p, 256, 1, first);
    CHECK(cudaEventRecord(event, first));
    CHECK(cudaStreamWaitEvent(second, event, 0));
    launch_kernel(add, p, 256, 100, second);
    CHECK(cudaMemcpyAsync(numbers, p, sizeof numbers, cudaMemcpyDeviceToHost, second));
    CHECK(cudaStreamSynchronize(second));
    CHECK(cudaStreamQuery(second));
    for (i = 0; i < 256; ++i) EXPECT(numbers[i] == 150);
    CHECK(cudaStreamDestroy(first));
    CHECK(cudaStreamDestroy(second));
    CHECK(cudaDeviceSynchronize());
    return passed();
}
