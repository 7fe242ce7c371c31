// SPDX-License-Identifier: Apache-2.0
// Streams of the software GPU that share queues (BARCUDA_SOFT_QUEUES), as on hardware: work waits for everything before
// it in its queue.
#include "tests/unit/support/soft_fixture.h"

namespace {

struct SoftQueues : SoftGpu {
    static void SetUpTestSuite() {
        setenv("BARCUDA_SOFT_QUEUES", "2", 1);
        SoftGpu::SetUpTestSuite();
    }
    void SetUp() override {
        SoftGpu::SetUp();
        OK(cuMemHostAlloc(reinterpret_cast<void**>(&words), 64, 0));
        words[0] = words[1] = words[2] = 0;
        for (CUstream& s : streams) OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    }
    void TearDown() override {
        words[0] = 1;
        for (CUstream s : streams) {
            OK(cuStreamSynchronize(s));
            OK(cuStreamDestroy(s));
        }
        OK(cuMemFreeHost(words));
        SoftGpu::TearDown();
    }
    CUdeviceptr at(int i) const { return reinterpret_cast<CUdeviceptr>(words + i); }
    void hold(CUstream s) const { OK(cuStreamWaitValue32(s, at(0), 1, CU_STREAM_WAIT_VALUE_GEQ)); }
    static unsigned read(const unsigned& word) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }
    CUstream streams[4];  // of the queues 0, 1, 0, 1, or the other way round
    unsigned* words = nullptr;
};

TEST_F(SoftQueues, WhatStandsBehindAWaitInItsQueueWaits) {
    hold(streams[0]);
    OK(cuStreamWriteValue32(streams[2], at(2), 5, 0));
    OK(cuStreamWriteValue32(streams[1], at(1), 5, 0));
    OK(cuStreamSynchronize(streams[1]));  // the other queue continues
    EXPECT_EQ(5u, read(words[1]));
    SAYS(CUDA_ERROR_NOT_READY, cuStreamQuery(streams[2]));
    EXPECT_EQ(0u, read(words[2]));
    __atomic_store_n(words, 1u, __ATOMIC_RELEASE);
    OK(cuStreamSynchronize(streams[2]));
    EXPECT_EQ(5u, read(words[2]));
}

TEST_F(SoftQueues, CopiesHaveQueuesOfTheirOwn) {
    const CUdeviceptr p = device_memory(64);
    hold(streams[0]);
    OK(cuMemcpyHtoDAsync(p, words + 8, 4, streams[2]));
    OK(cuStreamSynchronize(streams[2]));
    OK(cuMemcpyHtoDAsync(p, words + 8, 4, streams[0]));  // waits for its stream's turn, in front of the queue of copies
    OK(cuMemcpyHtoDAsync(p, words + 8, 4, streams[2]));
    SAYS(CUDA_ERROR_NOT_READY, cuStreamQuery(streams[2]));
    __atomic_store_n(words, 1u, __ATOMIC_RELEASE);
    OK(cuStreamSynchronize(streams[2]));
    OK(cuMemFree(p));
}

TEST_F(SoftQueues, EachContextHasItsOwn) {
    for (CUstream s : streams) hold(s);
    CUcontext other = nullptr;
    CUstream s = nullptr;
    OK(cuCtxCreate(&other, nullptr, 0, device));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuStreamWriteValue32(s, at(1), 5, 0));
    OK(cuStreamSynchronize(s));
    EXPECT_EQ(5u, read(words[1]));
    OK(cuCtxDestroy(other));
}

// A program that never needs two streams at the same time finishes.
TEST_F(SoftQueues, AProgramInOrderComesToItsEnd) {
    CUevent events[2];
    for (CUevent& e : events) OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    const CUdeviceptr p = device_memory(4096);
    for (unsigned round = 0; round < 200; ++round) {
        const CUstream a = streams[round % 4], b = streams[(round + 1) % 4];
        OK(cuMemsetD32Async(p, round, 1024, a));
        OK(cuEventRecord(events[round % 2], a));
        OK(cuStreamWaitEvent(b, events[round % 2], 0));
        unsigned got = ~0u;
        OK(cuMemcpyDtoHAsync(&got, p + 4092, 4, b));
        OK(cuStreamSynchronize(b));
        EXPECT_EQ(round, got);
        OK(cuMemcpyDtoH(&got, p, 4));
        EXPECT_EQ(round, got);
    }
    for (CUevent e : events) OK(cuEventDestroy(e));
    OK(cuMemFree(p));
}

}  // namespace
