// SPDX-License-Identifier: Apache-2.0
// green_contexts: parts of a device's multiprocessors, and contexts that work there: what a split gives, whose the
// streams, the memory and the events are, and what ends with such a context.
#include <cstring>
#include <set>
#include <vector>

#include "driver.h"

#define FUNCTION(name, version) static const auto p_##name = entry<decltype(&name)>(#name, version)

// Some of these run side by side.
__global__ void add(int* to, int value) { atomicAdd(to + threadIdx.x, value); }
__global__ void where(unsigned* at) {
    unsigned place;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(place));
    if (threadIdx.x == 0) at[blockIdx.x] = place;
    for (int i = 0; i < 1000; ++i) __nanosleep(20);  // so that each multiprocessor gets some
}

int main() {
    FUNCTION(cuDeviceGetDevResource, 12040);
    FUNCTION(cuCtxGetDevResource, 12040);
    FUNCTION(cuGreenCtxGetDevResource, 12040);
    FUNCTION(cuDevSmResourceSplitByCount, 12040);
    FUNCTION(cuDevResourceGenerateDesc, 12040);
    FUNCTION(cuGreenCtxCreate, 12040);
    FUNCTION(cuGreenCtxDestroy, 12040);
    FUNCTION(cuCtxFromGreenCtx, 12040);
    FUNCTION(cuGreenCtxGetId, 12090);
    FUNCTION(cuGreenCtxStreamCreate, 12050);
    FUNCTION(cuGreenCtxRecordEvent, 12040);
    FUNCTION(cuGreenCtxWaitEvent, 12040);
    FUNCTION(cuStreamGetGreenCtx, 12040);
    static const auto stream_context = entry<CUresult (*)(CUstream, CUcontext*)>("cuStreamGetCtx", 9020);
    static const auto stream_contexts = entry<CUresult (*)(CUstream, CUcontext*, CUgreenCtx*)>("cuStreamGetCtx", 12050);
    FUNCTION(cuCtxGetCurrent, 4000);
    FUNCTION(cuCtxSetCurrent, 4000);
    FUNCTION(cuCtxSynchronize, 2000);
    FUNCTION(cuCtxGetId, 12000);
    static const auto destroy_context = entry<CUresult (*)(CUcontext)>("cuCtxDestroy", 4000);

    // ---- resources
    CHECK(cudaFree(nullptr));
    CUcontext primary = nullptr;
    DRIVER(p_cuCtxGetCurrent(&primary));
    int processors = 0;
    CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
    CUdevResource all{}, same{}, rest{}, none{};
    DRIVER(p_cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    REQUIRE(all.type == CU_DEV_RESOURCE_TYPE_SM && all.sm.smCount == (unsigned)processors);
    DRIVER(p_cuCtxGetDevResource(primary, &same, CU_DEV_RESOURCE_TYPE_SM));
    REQUIRE(same.sm.smCount == all.sm.smCount);
    REQUIRE(p_cuDeviceGetDevResource(0, &same, CU_DEV_RESOURCE_TYPE_INVALID) == CUDA_ERROR_INVALID_RESOURCE_TYPE);
    REQUIRE(p_cuDeviceGetDevResource(99, &same, CU_DEV_RESOURCE_TYPE_SM) == CUDA_ERROR_INVALID_DEVICE);
    REQUIRE(p_cuCtxGetDevResource(nullptr, &same, CU_DEV_RESOURCE_TYPE_SM) == CUDA_ERROR_INVALID_CONTEXT);
    const unsigned least = all.sm.minSmPartitionSize;
    unsigned count = 0;
    DRIVER(p_cuDevSmResourceSplitByCount(nullptr, &count, &all, nullptr, 0, least));
    REQUIRE(count >= 1 && count <= all.sm.smCount / least);
    std::vector<CUdevResource> groups(count);
    const unsigned there = count;
    count = 1;
    DRIVER(p_cuDevSmResourceSplitByCount(groups.data(), &count, &all, &rest, 0, least));
    REQUIRE(count == 1 && groups[0].sm.smCount == least);
    REQUIRE(groups[0].sm.smCount + (rest.type == CU_DEV_RESOURCE_TYPE_SM ? rest.sm.smCount : 0) == all.sm.smCount);
    count = there;
    DRIVER(p_cuDevSmResourceSplitByCount(groups.data(), &count, &all, nullptr, 0, least));
    REQUIRE(count == there);
    count = 1;
    REQUIRE(p_cuDevSmResourceSplitByCount(&same, &count, &all, nullptr, 0, 100000) ==
            CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    REQUIRE(p_cuDevSmResourceSplitByCount(&same, &count, &none, nullptr, 0, least) == CUDA_ERROR_INVALID_RESOURCE_TYPE);
    REQUIRE(p_cuDevSmResourceSplitByCount(&same, &count, &groups[0], nullptr, 0, least) ==
            CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);

    // ---- a context of one group
    CUdevResourceDesc description = nullptr;
    CUgreenCtx green = nullptr;
    REQUIRE(p_cuDevResourceGenerateDesc(&description, &none, 1) == CUDA_ERROR_INVALID_RESOURCE_TYPE);
    DRIVER(p_cuDevResourceGenerateDesc(&description, groups.data(), 1));
    REQUIRE(p_cuGreenCtxCreate(&green, description, 0, 0) == CUDA_ERROR_INVALID_VALUE);
    REQUIRE(p_cuGreenCtxCreate(&green, description, 99, CU_GREEN_CTX_DEFAULT_STREAM) == CUDA_ERROR_INVALID_DEVICE);
    DRIVER(p_cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    CUcontext context = nullptr, found = nullptr;
    CUgreenCtx its = nullptr;
    DRIVER(p_cuCtxFromGreenCtx(&context, green));
    REQUIRE(context != primary);
    REQUIRE(p_cuCtxFromGreenCtx(&found, nullptr) == CUDA_ERROR_INVALID_CONTEXT);
    REQUIRE(destroy_context(context) == CUDA_ERROR_INVALID_CONTEXT);
    unsigned long long id = 0, green_id = 1;
    DRIVER(p_cuCtxGetId(context, &id));
    DRIVER(p_cuGreenCtxGetId(green, &green_id));
    REQUIRE(id == green_id);
    DRIVER(p_cuGreenCtxGetDevResource(green, &same, CU_DEV_RESOURCE_TYPE_SM));
    REQUIRE(same.sm.smCount == least);

    // ---- its streams, and no other ones, are its
    cudaStream_t own, other;
    CHECK(cudaStreamCreate(&other));
    REQUIRE(p_cuGreenCtxStreamCreate((CUstream*)&own, green, 0, 0) == CUDA_ERROR_INVALID_VALUE);
    DRIVER(p_cuGreenCtxStreamCreate((CUstream*)&own, green, CU_STREAM_NON_BLOCKING, 0));
    DRIVER(stream_context((CUstream)own, &found));
    REQUIRE(found == context);
    DRIVER(stream_contexts((CUstream)own, &found, &its));
    REQUIRE(found == primary && its == green);
    DRIVER(p_cuStreamGetGreenCtx((CUstream)other, &its));
    REQUIRE(its == nullptr);

    // ---- work in it, whichever context is current; memory, code and events are the whole's
    int *memory, host[32];
    cudaEvent_t event;
    CHECK(cudaMalloc(&memory, sizeof host));
    CHECK(cudaMemset(memory, 0, sizeof host));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    add<<<1, 32, 0, own>>>(memory, 1);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(event, own));
    CHECK(cudaStreamWaitEvent(other, event, 0));
    add<<<1, 32, 0, other>>>(memory, 10);
    DRIVER(p_cuCtxSetCurrent(context));
    add<<<1, 32, 0, own>>>(memory, 100);
    add<<<1, 32>>>(memory, 1000);  // its default stream
    DRIVER(p_cuGreenCtxRecordEvent(green, (CUevent)event));
    CHECK(cudaEventSynchronize(event));
    DRIVER(p_cuGreenCtxWaitEvent(green, (CUevent)event));
    int* more;
    cudaEvent_t made_here;
    CHECK(cudaMalloc(&more, sizeof host));
    CHECK(cudaMemset(more, 0, sizeof host));
    CHECK(cudaEventCreateWithFlags(&made_here, cudaEventDisableTiming));
    cudaStream_t third;
    CHECK(cudaStreamCreateWithFlags(&third, cudaStreamNonBlocking));
    DRIVER(p_cuStreamGetGreenCtx((CUstream)third, &its));
    REQUIRE(its == green);
    DRIVER(p_cuCtxSynchronize());
    add<<<1, 32, 0, third>>>(more, 7);
    CHECK(cudaEventRecord(made_here, third));
    DRIVER(p_cuCtxSynchronize());
    CHECK(cudaStreamSynchronize(third));
    // Its kernels run on its multiprocessors alone.
    constexpr unsigned blocks = 4096;
    unsigned* places;
    CHECK(cudaMallocHost(&places, blocks * sizeof *places));
    where<<<blocks, 32, 0, third>>>(places);
    CHECK(cudaStreamSynchronize(third));
    REQUIRE(std::set<unsigned>(places, places + blocks).size() <= least);
    CHECK(cudaFreeHost(places));
    CHECK(cudaStreamDestroy(third));
    DRIVER(p_cuCtxSetCurrent(primary));
    CHECK(cudaDeviceSynchronize());

    DRIVER(p_cuGreenCtxDestroy(green));
    REQUIRE(p_cuGreenCtxDestroy(green) != CUDA_SUCCESS);
    CHECK(cudaEventQuery(made_here));
    CHECK(cudaEventRecord(made_here, other));
    add<<<1, 32, 0, other>>>(more, 70);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(host, memory, sizeof host, cudaMemcpyDeviceToHost));
    for (int value : host) REQUIRE(value == 1111);
    CHECK(cudaMemcpy(host, more, sizeof host, cudaMemcpyDeviceToHost));
    for (int value : host) REQUIRE(value == 77);
    CHECK(cudaFree(more));
    CHECK(cudaFree(memory));

    // ---- a context of several groups, current when it ends
    if (there > 1) {
        DRIVER(p_cuDevResourceGenerateDesc(&description, groups.data(), 2));
        DRIVER(p_cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
        DRIVER(p_cuGreenCtxGetDevResource(green, &same, CU_DEV_RESOURCE_TYPE_SM));
        REQUIRE(same.sm.smCount == 2 * least);
        DRIVER(p_cuCtxFromGreenCtx(&context, green));
        DRIVER(p_cuCtxSetCurrent(context));
        DRIVER(p_cuGreenCtxDestroy(green));
        REQUIRE(p_cuCtxSynchronize() != CUDA_SUCCESS);
        DRIVER(p_cuCtxSetCurrent(primary));
    }
    printf("PASSED\n");
    return 0;
}
