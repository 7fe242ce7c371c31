// SPDX-License-Identifier: Apache-2.0
// nvml_client.cu DEVICE: has memory on a device, says how much, and makes the device work from the first line that it
// reads on.
#include "../../programs/check.h"

__global__ void spin(unsigned rounds, unsigned* out) {
    for (unsigned i = 0; i < rounds; i++) atomicAdd(out, i);
}

int main(int, char** argv) {
    const size_t bytes = 96 << 20;
    void* memory;
    unsigned* out;
    CHECK(cudaSetDevice(atoi(argv[1])));
    CHECK(cudaMalloc(&memory, bytes));
    CHECK(cudaMalloc(&out, sizeof *out));
    printf("%zu\n", bytes);
    fflush(stdout);
    getchar();
    for (;;) {
        spin<<<1, 32>>>(1'000'000, out);
        CHECK(cudaDeviceSynchronize());
    }
}
