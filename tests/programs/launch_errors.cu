// SPDX-License-Identifier: Apache-2.0
// launch_errors: a launch that cannot work is refused by the call itself, with CUDA's error, and does no harm.
#include <cooperative_groups.h>

#include "driver.h"

__device__ int launches;
__global__ void plain(int n) { atomicAdd(&launches, n); }
__global__ void with_shared(int n) {
    extern __shared__ int words[];
    if (threadIdx.x == 0) words[0] = n;
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(&launches, words[0]);
}
__global__ void together(int n) {
    cooperative_groups::this_grid().sync();
    if (blockIdx.x == 0 && threadIdx.x == 0) atomicAdd(&launches, n);
}
__global__ void __launch_bounds__(64) bounded(int n) { atomicAdd(&launches, n); }

static int expected;
#define REFUSED(error, ...)                                                            \
    do {                                                                               \
        __VA_ARGS__;                                                                   \
        cudaError_t got_ = cudaGetLastError();                                         \
        if (got_ != (error)) printf("%s: %s\n", #__VA_ARGS__, cudaGetErrorName(got_)); \
        REQUIRE(got_ == (error));                                                      \
    } while (0)
#define RUNS(...) REFUSED(cudaSuccess, __VA_ARGS__; ++expected)

int main() {
    int device = 0, most_shared, processors;
    CHECK(cudaSetDevice(device));
    CHECK(cudaDeviceGetAttribute(&most_shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
    const int usual = 48 << 10, more = 56 << 10;
    REQUIRE(most_shared >= more);

    // shapes
    RUNS(plain<<<1, 1>>>(1));
    REFUSED(cudaErrorInvalidValue, plain<<<1, 5000>>>(1));
    REFUSED(cudaErrorInvalidValue, plain<<<1, dim3(1, 2000)>>>(1));
    REFUSED(cudaErrorInvalidValue, plain<<<1, dim3(1, 1, 100)>>>(1));
    REFUSED(cudaErrorInvalidValue, plain<<<1, dim3(0x10001, 0x10001, 0xffffffff)>>>(1));
    REFUSED(cudaErrorInvalidValue, plain<<<1, 0>>>(1));
    REFUSED(cudaErrorInvalidValue, plain<<<0, 1>>>(1));
    REFUSED(cudaErrorInvalidValue, plain<<<dim3(1, 70000), 1>>>(1));
    REFUSED(cudaErrorInvalidValue, plain<<<dim3(1, 1, 70000), 1>>>(1));
    bounded<<<1, 128>>>(1);
    const cudaError_t beyond = cudaGetLastError();
    printf("twice as many threads as __launch_bounds__ says: %s\n", cudaGetErrorName(beyond));
    REQUIRE(beyond == cudaErrorInvalidValue || beyond == cudaErrorLaunchOutOfResources);

    // shared memory: what a function may have, what it is given, what it has to give back
    RUNS(with_shared<<<1, 1, usual>>>(1));
    REFUSED(cudaErrorInvalidValue, with_shared<<<1, 1, usual + 4>>>(1));
    REFUSED(cudaErrorInvalidValue, with_shared<<<1, 1, 1 << 20>>>(1));
    CHECK(cudaFuncSetAttribute(with_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, more));
    RUNS(with_shared<<<1, 1, more>>>(1));
    REFUSED(cudaErrorInvalidValue, with_shared<<<1, 1, more + 4>>>(1));
    CHECK(cudaFuncSetAttribute(with_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, usual));
    REFUSED(cudaErrorInvalidValue, with_shared<<<1, 1, more>>>(1));
    REFUSED(cudaErrorInvalidValue,
            cudaFuncSetAttribute(with_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, most_shared + 1));
    REFUSED(cudaErrorInvalidValue, with_shared<<<1, 1, most_shared + 1>>>(1));

    // a kernel's attribute is its functions', too
    REFUSED(cudaErrorInvalidValue, plain<<<1, 1, more>>>(1));
    cudaKernel_t kernel;
    CHECK(cudaGetKernel(&kernel, plain));
    CHECK(cudaKernelSetAttributeForDevice(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, more, device));
    RUNS(plain<<<1, 1, more>>>(1));
    CHECK(cudaKernelSetAttributeForDevice(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, usual, device));
    REFUSED(cudaErrorInvalidValue, plain<<<1, 1, more>>>(1));

    // blocks that have to run together
    int n = 1, fit;
    void* arguments[] = {&n};
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit, together, 1024, 0));
    const auto launch = [&](int blocks) {
        return cudaLaunchCooperativeKernel((void*)together, blocks, 1024, arguments, 0, nullptr);
    };
    RUNS(launch(fit * processors));
    REFUSED(cudaErrorCooperativeLaunchTooLarge, launch(fit * processors + 1));
    REFUSED(cudaErrorInvalidValue, launch(0));

    // the driver says the same
    const auto driver = entry<decltype(&cuLaunchKernel)>("cuLaunchKernel");
    const auto set = entry<decltype(&cuFuncSetAttribute)>("cuFuncSetAttribute");
    const auto all = entry<decltype(&cuLaunchCooperativeKernel)>("cuLaunchCooperativeKernel");
    cudaFunction_t f, g;
    CHECK(cudaGetFuncBySymbol(&f, (const void*)with_shared));
    CHECK(cudaGetFuncBySymbol(&g, (const void*)together));
    const auto run = [&](dim3 grid, dim3 block, unsigned shared) {
        return driver(f, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared, nullptr, arguments, nullptr);
    };
    REQUIRE(run(1, 5000, 0) == CUDA_ERROR_INVALID_VALUE);
    REQUIRE(run(dim3(1, 70000), 1, 0) == CUDA_ERROR_INVALID_VALUE);
    REQUIRE(run(0, 1, 0) == CUDA_ERROR_INVALID_VALUE);
    REQUIRE(run(1, 1, more) == CUDA_ERROR_INVALID_VALUE);
    DRIVER(set(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, more));
    REQUIRE(run(1, 1, more) == CUDA_SUCCESS && ++expected);
    REQUIRE(all(g, fit * processors + 1, 1, 1, 1024, 1, 1, 0, nullptr, arguments) ==
            CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);

    CHECK(cudaDeviceSynchronize());
    int ran;
    CHECK(cudaMemcpyFromSymbol(&ran, launches, sizeof ran));
    printf("%d launches ran\n", ran);
    return verdict(ran != expected);
}
