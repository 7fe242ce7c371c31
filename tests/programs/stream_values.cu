// SPDX-License-Identifier: Apache-2.0
// stream_values: a stream waits for a word of memory and writes words (cuStreamWaitValue32 and its relatives), in the
// host's memory and in the device's, one by one and in batches.
#include <chrono>
#include <thread>

#include "driver.h"

int main() {
    const auto wait32 = entry<decltype(&cuStreamWaitValue32)>("cuStreamWaitValue32");
    const auto wait64 = entry<decltype(&cuStreamWaitValue64)>("cuStreamWaitValue64");
    const auto write32 = entry<decltype(&cuStreamWriteValue32)>("cuStreamWriteValue32");
    const auto write64 = entry<decltype(&cuStreamWriteValue64)>("cuStreamWriteValue64");
    const auto batch = entry<decltype(&cuStreamBatchMemOp)>("cuStreamBatchMemOp");

    unsigned *words, *device_words, *device, back[4];
    CHECK(cudaHostAlloc(&words, 4096, cudaHostAllocMapped));
    for (int i = 0; i < 1024; ++i) words[i] = 0;
    CHECK(cudaHostGetDevicePointer(&device_words, words, 0));
    CHECK(cudaMalloc(&device, 4096));
    CHECK(cudaMemset(device, 0, 4096));
    CHECK(cudaStreamSynchronize(nullptr));  // the other two streams do not wait for it
    cudaStream_t waiting, writing;
    CHECK(cudaStreamCreateWithFlags(&waiting, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&writing, cudaStreamNonBlocking));
    const auto host = reinterpret_cast<CUdeviceptr>(device_words), far = reinterpret_cast<CUdeviceptr>(device);

    // The CPU lets it go.
    DRIVER(wait32(waiting, host, 5, CU_STREAM_WAIT_VALUE_GEQ));
    DRIVER(write32(waiting, host + 4, 77, CU_STREAM_WRITE_VALUE_DEFAULT));
    DRIVER(write64(waiting, far + 8, 0x1122334455667788, CU_STREAM_WRITE_VALUE_DEFAULT));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    REQUIRE(cudaStreamQuery(waiting) == cudaErrorNotReady);
    REQUIRE(static_cast<volatile unsigned*>(words)[1] == 0);
    static_cast<volatile unsigned*>(words)[0] = 4;
    REQUIRE(cudaStreamQuery(waiting) == cudaErrorNotReady);
    static_cast<volatile unsigned*>(words)[0] = 6;
    CHECK(cudaStreamSynchronize(waiting));
    REQUIRE(static_cast<volatile unsigned*>(words)[1] == 77);

    // Another stream lets it go, by memory of the device.
    DRIVER(wait64(waiting, far + 16, 9, CU_STREAM_WAIT_VALUE_EQ));
    DRIVER(write32(waiting, far + 24, 1234, CU_STREAM_WRITE_VALUE_DEFAULT));
    CUstreamBatchMemOpParams operations[2] = {};
    operations[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    operations[0].writeValue.address = far + 28;
    operations[0].writeValue.value = 4321;
    operations[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    operations[1].writeValue.address = far + 16;
    operations[1].writeValue.value64 = 9;
    DRIVER(batch(writing, 2, operations, 0));
    CHECK(cudaStreamSynchronize(waiting));
    CHECK(cudaMemcpy(back, device + 2, 8, cudaMemcpyDeviceToHost));
    REQUIRE(back[0] == 0x55667788 && back[1] == 0x11223344);
    CHECK(cudaMemcpy(back, device + 6, 8, cudaMemcpyDeviceToHost));
    REQUIRE(back[0] == 1234 && back[1] == 4321);
    CHECK(cudaFreeHost(words));
    CHECK(cudaFree(device));
    std::printf("words that streams wait for, and write\nPASSED\n");
    return 0;
}
