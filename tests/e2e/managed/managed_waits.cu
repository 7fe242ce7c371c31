// SPDX-License-Identifier: Apache-2.0
// managed_waits.cu: for test_managed_edges.py. A kernel waits for a word that the CPU is to write, in managed memory:
// where both may use it at once it goes on; else the CPU's touch waits for the kernel, and the library says so.
#include "../../programs/check.h"

__global__ void wait_for(volatile int* word) {
    while (*word == 0) {}
    *word = 2;
}

int main() {
    int* word;
    CHECK(cudaMallocManaged(&word, sizeof *word));
    *word = 0;
    wait_for<<<1, 1>>>(word);
    CHECK(cudaGetLastError());
    *reinterpret_cast<volatile int*>(word) = 1;
    CHECK(cudaDeviceSynchronize());
    return verdict(*word != 2);
}
