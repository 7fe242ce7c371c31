// SPDX-License-Identifier: Apache-2.0
// Streams, events, values in memory and host functions of the software GPU: what waits for what.
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "tests/unit/support/soft_fixture.h"

namespace {

// A word that streams wait for: they wait until open().
struct Gate {
    Gate() {
        EXPECT_EQ(CUDA_SUCCESS, cuMemHostAlloc(&memory, 64, 0));
        *word() = 0;
    }
    ~Gate() { EXPECT_EQ(CUDA_SUCCESS, cuMemFreeHost(memory)); }
    std::atomic<std::uint32_t>* word() const { return static_cast<std::atomic<std::uint32_t>*>(memory); }
    CUdeviceptr address() const { return reinterpret_cast<CUdeviceptr>(memory); }
    void hold(CUstream stream) const {
        EXPECT_EQ(CUDA_SUCCESS, cuStreamWaitValue32(stream, address(), 1, CU_STREAM_WAIT_VALUE_GEQ));
    }
    void open() const { *word() = 1; }
    void* memory = nullptr;
};

struct SoftStream : SoftGpu {
    static CUstream stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
        CUstream made = nullptr;
        EXPECT_EQ(CUDA_SUCCESS, cuStreamCreate(&made, flags));
        return made;
    }
    static CUevent event(unsigned flags = CU_EVENT_DEFAULT) {
        CUevent made = nullptr;
        EXPECT_EQ(CUDA_SUCCESS, cuEventCreate(&made, flags));
        return made;
    }
    // Appends its number to `order` when it runs.
    static inline std::vector<int> order;
    static inline std::mutex order_mutex;
    static void note(CUstream where, int number) {
        EXPECT_EQ(CUDA_SUCCESS, cuLaunchHostFunc(
                                    where,
                                    [](void* data) {
                                        std::lock_guard lock(order_mutex);
                                        order.push_back(static_cast<int>(reinterpret_cast<std::intptr_t>(data)));
                                    },
                                    reinterpret_cast<void*>(static_cast<std::intptr_t>(number))));
    }
    void SetUp() override {
        SoftGpu::SetUp();
        order.clear();
    }
};

TEST_F(SoftStream, RunsItsWorkInOrder) {
    const CUstream s = stream();
    for (int i = 0; i < 100; ++i) note(s, i);
    OK(cuStreamSynchronize(s));
    ASSERT_EQ(100u, order.size());
    for (int i = 0; i < 100; ++i) EXPECT_EQ(i, order[static_cast<std::size_t>(i)]);
    OK(cuStreamDestroy(s));
}

TEST_F(SoftStream, DoesNotHoldUpTheCaller) {
    const Gate gate;
    const CUstream s = stream();
    gate.hold(s);
    note(s, 1);
    SAYS(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
    gate.open();
    OK(cuStreamSynchronize(s));
    OK(cuStreamQuery(s));
    OK(cuStreamDestroy(s));
}

TEST_F(SoftStream, TwoStreamsRunAtTheSameTime) {
    const Gate gate;
    const CUstream held = stream(), free = stream();
    gate.hold(held);
    note(free, 1);
    OK(cuStreamSynchronize(free));  // would hang if they shared a queue
    SAYS(CUDA_ERROR_NOT_READY, cuStreamQuery(held));
    gate.open();
    OK(cuStreamSynchronize(held));
    OK(cuStreamDestroy(held));
    OK(cuStreamDestroy(free));
}

TEST_F(SoftStream, TheDefaultStreamWaitsForBlockingStreamsAndTheyForIt) {
    const Gate gate;
    const CUstream blocking = stream(CU_STREAM_DEFAULT), other = stream(CU_STREAM_DEFAULT);
    gate.hold(blocking);
    note(blocking, 1);
    note(nullptr, 2);
    note(other, 3);
    SAYS(CUDA_ERROR_NOT_READY, cuStreamQuery(other));
    gate.open();
    OK(cuStreamSynchronize(other));
    EXPECT_EQ((std::vector<int>{1, 2, 3}), order);
    OK(cuStreamDestroy(blocking));
    OK(cuStreamDestroy(other));
}

TEST_F(SoftStream, WaitingForTheDefaultStreamWaitsForBlockingStreamsToo) {
    const Gate gate;
    const CUstream blocking = stream(CU_STREAM_DEFAULT);
    gate.hold(blocking);
    SAYS(CUDA_ERROR_NOT_READY, cuStreamQuery(nullptr));
    gate.open();
    OK(cuStreamSynchronize(nullptr));
    OK(cuStreamQuery(blocking));
    OK(cuStreamDestroy(blocking));
}

TEST_F(SoftStream, ANonBlockingStreamPaysNoHeedToTheDefaultStream) {
    const Gate gate;
    const CUstream own = stream(CU_STREAM_NON_BLOCKING);
    gate.hold(nullptr);
    note(own, 1);
    OK(cuStreamSynchronize(own));
    gate.open();
    OK(cuStreamSynchronize(nullptr));
    OK(cuStreamDestroy(own));
}

TEST_F(SoftStream, EachThreadHasADefaultStreamOfItsOwn) {
    unsigned long long mine = 0, others = 0, legacy = 0;
    OK(cuStreamGetId(CU_STREAM_PER_THREAD, &mine));
    OK(cuStreamGetId(CU_STREAM_LEGACY, &legacy));
    std::thread([&] {
        cuCtxSetCurrent(context);
        EXPECT_EQ(CUDA_SUCCESS, cuStreamGetId(CU_STREAM_PER_THREAD, &others));
    }).join();
    EXPECT_NE(mine, others);
    EXPECT_NE(mine, legacy);
}

// As on hardware: a thread that posts endlessly waits for the device, and the process does not grow.
TEST_F(SoftStream, WhoseQueueIsFullMakesTheCallerWait) {
    constexpr int many = 3000;
    const Gate gate;
    const CUstream s = stream(), free = stream();
    gate.hold(s);
    std::atomic<int> posted{0};
    std::thread poster([&] {
        OK(cuCtxSetCurrent(context));
        for (int i = 0; i < many; ++i) {
            note(s, i);
            ++posted;
        }
    });
    while (posted < 1000) std::this_thread::yield();
    for (int i = 0; i < 200; ++i) {  // another stream has room
        note(free, -1);
        OK(cuStreamSynchronize(free));
    }
    EXPECT_LT(posted, 1100);
    gate.open();
    poster.join();
    OK(cuStreamSynchronize(s));
    EXPECT_EQ(static_cast<std::size_t>(many + 200), order.size());
    EXPECT_EQ(many - 1, order.back());
    OK(cuStreamDestroy(s));
    OK(cuStreamDestroy(free));
}

TEST_F(SoftStream, AnUnknownHandleIsRefused) {
    int here;
    SAYS(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(reinterpret_cast<CUstream>(&here)));
    const CUstream s = stream();
    OK(cuStreamDestroy(s));
    SAYS(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery(s));
}

TEST_F(SoftStream, ADestroyedStreamFinishesItsWork) {
    const Gate gate;
    const CUstream s = stream();
    gate.hold(s);
    note(s, 1);
    OK(cuStreamDestroy(s));
    gate.open();
    OK(cuCtxSynchronize());
    EXPECT_EQ(1u, order.size());
}

// ---- events ---------------------------------------------------------------------------------------------------------

TEST_F(SoftStream, AnEventIsReachedWithTheWorkBeforeIt) {
    const Gate gate;
    const CUstream s = stream();
    const CUevent e = event();
    OK(cuEventQuery(e));  // never recorded
    gate.hold(s);
    OK(cuEventRecord(e, s));
    SAYS(CUDA_ERROR_NOT_READY, cuEventQuery(e));
    gate.open();
    OK(cuEventSynchronize(e));
    OK(cuEventQuery(e));
    OK(cuEventDestroy(e));
    OK(cuStreamDestroy(s));
}

TEST_F(SoftStream, AStreamWaitsForTheRecordThatWasTheLastWhenItWasTold) {
    const Gate first, second;
    const CUstream recorder = stream(), waiter = stream();
    const CUevent e = event(CU_EVENT_DISABLE_TIMING);
    first.hold(recorder);
    OK(cuEventRecord(e, recorder));
    OK(cuStreamWaitEvent(waiter, e, 0));
    second.hold(recorder);
    OK(cuEventRecord(e, recorder));  // not what waiter waits for
    SAYS(CUDA_ERROR_NOT_READY, cuStreamQuery(waiter));
    first.open();
    OK(cuStreamSynchronize(waiter));
    SAYS(CUDA_ERROR_NOT_READY, cuEventQuery(e));
    second.open();
    OK(cuEventSynchronize(e));
    OK(cuEventDestroy(e));
    OK(cuStreamDestroy(recorder));
    OK(cuStreamDestroy(waiter));
}

TEST_F(SoftStream, ElapsedTimeIsThatBetweenTwoRecords) {
    const CUstream s = stream();
    const CUevent start = event(), end = event();
    float milliseconds = -1;
    SAYS(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&milliseconds, start, end));
    OK(cuEventRecord(start, s));
    OK(cuLaunchHostFunc(
        s, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }, nullptr));
    OK(cuEventRecord(end, s));
    OK(cuEventSynchronize(end));
    OK(cuEventElapsedTime(&milliseconds, start, end));
    EXPECT_GE(milliseconds, 5.0f);
    OK(cuEventDestroy(start));
    OK(cuEventDestroy(end));
    OK(cuStreamDestroy(s));
}

TEST_F(SoftStream, AnEventWithoutTimingHasNoElapsedTime) {
    const CUevent timed = event(), untimed = event(CU_EVENT_DISABLE_TIMING);
    OK(cuEventRecord(timed, nullptr));
    OK(cuEventRecord(untimed, nullptr));
    OK(cuStreamSynchronize(nullptr));
    float milliseconds;
    SAYS(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&milliseconds, timed, untimed));
    OK(cuEventDestroy(timed));
    OK(cuEventDestroy(untimed));
}

// ---- values in memory -----------------------------------------------------------------------------------------------

TEST_F(SoftStream, AValueIsWrittenAfterTheWorkBeforeIt) {
    const Gate gate;
    const CUstream s = stream();
    auto* const fence = reinterpret_cast<std::atomic<std::uint64_t>*>(static_cast<char*>(gate.memory) + 8);
    *fence = 0;
    gate.hold(s);
    OK(cuStreamWriteValue64(s, gate.address() + 8, 0x123456789abcdef0, CU_STREAM_WRITE_VALUE_DEFAULT));
    EXPECT_EQ(0u, fence->load());
    gate.open();
    OK(cuStreamSynchronize(s));
    EXPECT_EQ(0x123456789abcdef0u, fence->load());
    OK(cuStreamDestroy(s));
}

TEST_F(SoftStream, ABatchRunsInItsOrder) {
    const Gate gate;
    const CUstream s = stream();
    CUstreamBatchMemOpParams batch[3] = {};
    batch[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    batch[0].writeValue.address = gate.address();
    batch[0].writeValue.value = 0xf0;
    batch[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    batch[1].waitValue.address = gate.address();
    batch[1].waitValue.value = 0x10;
    batch[1].waitValue.flags = CU_STREAM_WAIT_VALUE_AND;
    batch[2].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    batch[2].writeValue.address = gate.address() + 8;
    batch[2].writeValue.value64 = 9;
    OK(cuStreamBatchMemOp(s, 3, batch, 0));
    OK(cuStreamSynchronize(s));
    EXPECT_EQ(0xf0u, gate.word()->load());
    OK(cuStreamDestroy(s));
}

TEST_F(SoftStream, AValueOutsideOfDeviceMemoryIsRefused) {
    static std::uint64_t mine = 0;
    SAYS(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue64(nullptr, reinterpret_cast<CUdeviceptr>(&mine), 1, 0));
    const Gate gate;
    SAYS(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue64(nullptr, gate.address() + 4, 1, 0));
}

// ---- host functions -------------------------------------------------------------------------------------------------

TEST_F(SoftStream, AHostFunctionMayNotCallTheDriver) {
    static CUresult inside;
    OK(cuLaunchHostFunc(
        nullptr, [](void*) { inside = cuCtxSynchronize(); }, nullptr));
    OK(cuStreamSynchronize(nullptr));
    EXPECT_EQ(CUDA_ERROR_NOT_PERMITTED, inside);
}

TEST_F(SoftStream, ACallbackLearnsItsStreamAndStatus) {
    static CUstream seen;
    static CUresult status;
    seen = nullptr;
    status = CUDA_ERROR_UNKNOWN;
    const CUstream s = stream();
    OK(cuStreamAddCallback(
        s,
        [](CUstream from, CUresult result, void*) {
            seen = from;
            status = result;
        },
        nullptr, 0));
    OK(cuStreamSynchronize(s));
    EXPECT_EQ(s, seen);
    EXPECT_EQ(CUDA_SUCCESS, status);
    OK(cuStreamDestroy(s));
}

// ---- contexts -------------------------------------------------------------------------------------------------------

TEST_F(SoftStream, ContextsAreAStackOfTheThread) {
    CUcontext made = nullptr, now = nullptr;
    OK(cuCtxCreate(&made, nullptr, 0, device));
    OK(cuCtxGetCurrent(&now));
    EXPECT_EQ(made, now);
    OK(cuCtxPopCurrent(&now));
    EXPECT_EQ(made, now);
    OK(cuCtxGetCurrent(&now));
    EXPECT_EQ(context, now);
    OK(cuCtxPushCurrent(made));
    OK(cuCtxDestroy(made));
    OK(cuCtxGetCurrent(&now));
    EXPECT_EQ(context, now);
    SAYS(CUDA_ERROR_INVALID_CONTEXT, cuCtxSetCurrent(made));
    std::thread([] {
        CUdeviceptr at;
        SAYS(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc(&at, 4));
    }).join();
}

TEST_F(SoftStream, AContextOutlivedByAWaitingStreamCanBeDestroyed) {
    CUcontext made = nullptr;
    OK(cuCtxCreate(&made, nullptr, 0, device));
    CUdeviceptr word = device_memory(4);
    OK(cuMemsetD32(word, 0, 1));
    OK(cuStreamWaitValue32(nullptr, word, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuCtxDestroy(made));  // does not wait for what will never happen
}

}  // namespace
