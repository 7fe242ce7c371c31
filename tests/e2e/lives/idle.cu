// SPDX-License-Identifier: Apache-2.0
// idle.cu FILE [gpu]: uses the GPU, says "running", and sleeps until a line can be read from FILE (a fifo); uses it
// once more, says "PASSED", and ends at the next line. With "gpu" its sleep is cudaDeviceSynchronize, behind a function
// of its own that ends when the line comes.
#include <cuda_runtime.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

__global__ void add(int* x, int n) { atomicAdd(x, n); }

static int file;
static void await_line(void*) {
    char c = 0;
    while (read(file, &c, 1) == 1 && c != '\n') {}
}

int main(int argc, char** argv) {
    if (argc < 2 || (file = open(argv[1], O_RDWR)) < 0) return perror("idle"), 2;
    int *device = nullptr, host = 0;
    cudaMalloc((void**)&device, sizeof *device);
    cudaMemset(device, 0, sizeof *device);
    add<<<1, 1>>>(device, 1);
    cudaError_t error = cudaDeviceSynchronize();
    if (error != cudaSuccess) return printf("%s\n", cudaGetErrorName(error)), 1;
    if (argc > 2) cudaLaunchHostFunc(nullptr, await_line, nullptr);
    printf("running\n"), fflush(stdout);
    if (argc > 2) error = cudaDeviceSynchronize();
    else await_line(nullptr);
    add<<<1, 1>>>(device, 1);
    cudaMemcpy(&host, device, sizeof host, cudaMemcpyDeviceToHost);
    printf(error == cudaSuccess && host == 2 ? "PASSED\n" : "FAILED: %s, %d\n", cudaGetErrorName(error), host);
    fflush(stdout);
    await_line(nullptr);
    return error == cudaSuccess && host == 2 ? 0 : 1;
}
