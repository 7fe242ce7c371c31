// SPDX-License-Identifier: Apache-2.0
// asserts: a kernel's assert fails. With "look" the program asks what came of it; else it waits to be killed.
#include <unistd.h>

#include <cassert>
#include <cstdio>
#include <cstring>

__global__ void asserts(int n, volatile int* begun) {
    *begun = 1;
    __threadfence_system();
    assert(threadIdx.x != n && "as asked");
}

int main(int argc, char** argv) {
    volatile int* begun;
    if (cudaHostAlloc((void**)&begun, sizeof *begun, cudaHostAllocMapped) != cudaSuccess) return 1;
    *begun = 0;
    asserts<<<1, 64>>>(40, begun);
    if (argc > 1 && strcmp(argv[1], "look") == 0) {
        const cudaError_t first = cudaDeviceSynchronize();
        printf("%s\n", cudaGetErrorName(first));
        return first != cudaErrorAssert || cudaDeviceSynchronize() != first;
    }
    while (!*begun) usleep(1000);
    printf("running\n");
    fflush(stdout);
    pause();
}
