/* SPDX-License-Identifier: Apache-2.0
 * handles.c: handles of memory and events: a process cannot open its own
 */
#include "runtime.h"

int main(void) {
    void *p, *q;
    cudaEvent_t event, other;
    cudaIpcMemHandle_t memory;
    cudaIpcEventHandle_t of_event;
    CHECK(cudaMalloc(&p, 1 << 20));
    CHECK(cudaIpcGetMemHandle(&memory, p));
    printf("%s\n", cudaGetErrorName(cudaIpcOpenMemHandle(&q, memory, cudaIpcMemLazyEnablePeerAccess)));
    CHECK(cudaEventCreate(&event));
    printf("%s\n", cudaGetErrorName(cudaIpcGetEventHandle(&of_event, event)));
    CHECK(cudaEventCreateWithFlags(&other, cudaEventInterprocess | cudaEventDisableTiming));
    printf("%s\n", cudaGetErrorName(cudaIpcGetEventHandle(&of_event, other)));
    EXPECT(cudaIpcCloseMemHandle(p) != cudaSuccess);
    CHECK(cudaFree(p));
    return passed();
}
