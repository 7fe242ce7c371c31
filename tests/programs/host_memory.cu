// SPDX-License-Identifier: Apache-2.0
// host_memory.cu: what CUDA documents about host memory: the flags of cudaHostAlloc and what is found out about a
// pointer, registration and its errors, a kernel and the CPU that work on the same words at the same time, managed
// memory.
#include <cuda.h>
#include <string.h>

#include <atomic>

#include "check.h"

#define REFUSES(error, call)                                                                                 \
    do {                                                                                                     \
        cudaError_t got_ = (call);                                                                           \
        if (got_ != (error)) {                                                                               \
            printf("FAILED: %s:%d: %s is %d, not %d\n", __FILE__, __LINE__, #call, (int)got_, (int)(error)); \
            exit(1);                                                                                         \
        }                                                                                                    \
        (void)cudaGetLastError();                                                                            \
    } while (0)

__global__ void add(int* data, int n, int amount) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] += amount;
}

__global__ void count(unsigned* counter) { atomicAdd_system(counter, 1u); }

// Answers each number that the CPU asks with its square.
__global__ void converse(volatile unsigned* question, volatile unsigned* answer, unsigned rounds) {
    for (unsigned i = 1; i <= rounds; i++) {
        while (*question != i) {}
        __threadfence_system();
        *answer = i * i;
        __threadfence_system();
    }
}

static const int n = 10000;
static long wrong_after_add(int* host, int* device, int base) {
    for (int i = 0; i < n; i++) host[i] = i;
    add<<<(n + 127) / 128, 128>>>(device, n, base);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    long wrong = 0;
    for (int i = 0; i < n; i++) wrong += host[i] != i + base;
    return wrong;
}

static void allocation_flags() {
    for (unsigned flags = 0; flags < 8; flags++) {  // portable 1, mapped 2, write-combined 4
        int *host, *device;
        unsigned got = 0;
        CHECK(cudaHostAlloc(&host, n * sizeof(int), flags));
        CHECK(cudaHostGetFlags(&got, host));
        REQUIRE((got & flags) == (flags & ~cudaHostAllocPortable));  // all memory is
        CHECK(cudaHostGetFlags(&got, host + n / 2));                 // of the block that holds it
        CHECK(cudaHostGetDevicePointer(&device, host, 0));
        REQUIRE(wrong_after_add(host, device, (int)flags + 1) == 0);
        cudaPointerAttributes attributes;
        CHECK(cudaPointerGetAttributes(&attributes, host + 100));
        REQUIRE(attributes.type == cudaMemoryTypeHost);
        REQUIRE(attributes.hostPointer == host + 100 && attributes.devicePointer == device + 100);
        CHECK(cudaFreeHost(host));
    }
    int local = 0;
    unsigned got;
    void* p;
    REFUSES(cudaErrorInvalidValue, cudaHostAlloc(&p, 4096, 64));
    REFUSES(cudaErrorInvalidValue, cudaHostGetFlags(&got, &local));
    REFUSES(cudaErrorInvalidValue, cudaFreeHost(&local));
    REFUSES(cudaErrorMemoryAllocation, cudaHostAlloc(&p, (size_t)1 << 46, 0));
    CHECK(cudaFreeHost(nullptr));
    cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, &local));
    REQUIRE(attributes.type == cudaMemoryTypeUnregistered && !attributes.devicePointer);
    printf("flags of cudaHostAlloc: right\n");
}

static void registration() {
    const size_t bytes = 1 << 20;
    char *data, *device;
    REQUIRE(posix_memalign((void**)&data, 4096, bytes) == 0);
    memset(data, 5, bytes);
    REFUSES(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(data));
    CHECK(cudaHostRegister(data, bytes, cudaHostRegisterMapped | cudaHostRegisterPortable));
    REFUSES(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(data, bytes, 0));
    REFUSES(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(data + bytes / 2, bytes, 0));
    cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, data + 1000));
    REQUIRE(attributes.type == cudaMemoryTypeHost && attributes.hostPointer == data + 1000);
    CHECK(cudaHostGetDevicePointer(&device, data, 0));
    REQUIRE(wrong_after_add((int*)data, (int*)device, 77) == 0);
    CHECK(cudaHostUnregister(data));
    REFUSES(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(data));
    REQUIRE(((int*)data)[3] == 80);  // contents and address are the program's
    CHECK(cudaPointerGetAttributes(&attributes, data));
    REQUIRE(attributes.type == cudaMemoryTypeUnregistered);
    CHECK(cudaHostRegister(data + 4096, 8192, 0));  // a part, after the whole
    CHECK(cudaHostUnregister(data + 4096));
    REFUSES(cudaErrorInvalidValue, cudaHostRegister(nullptr, 4096, 0));
    REFUSES(cudaErrorInvalidValue, cudaHostRegister(data, 0, 0));
    REFUSES(cudaErrorInvalidValue, cudaHostRegister(data, bytes, 64));
    int read_only = 0;
    CHECK(cudaDeviceGetAttribute(&read_only, cudaDevAttrHostRegisterReadOnlySupported, 0));
    if (read_only) {
        int first = 0;
        CHECK(cudaHostRegister(data, bytes, cudaHostRegisterReadOnly));
        CHECK(cudaMalloc(&device, bytes));
        CHECK(cudaMemcpyAsync(device, data, bytes, cudaMemcpyHostToDevice, 0));
        CHECK(cudaMemcpy(&first, device + 12, sizeof first, cudaMemcpyDeviceToHost));
        REQUIRE(first == 80);
        CHECK(cudaFree(device));
        CHECK(cudaHostUnregister(data));
    } else {
        REFUSES(cudaErrorNotSupported, cudaHostRegister(data, bytes, cudaHostRegisterReadOnly));
    }
    free(data);
    printf("registration: right\n");
}

static void conversation() {
    unsigned* words;
    CHECK(cudaHostAlloc(&words, 4096, cudaHostAllocMapped));
    memset(words, 0, 4096);
    volatile unsigned *question = words, *answer = words + 512;
    const unsigned rounds = 200;
    converse<<<1, 1>>>(question, answer, rounds);
    CHECK(cudaGetLastError());
    for (unsigned i = 1; i <= rounds; i++) {
        std::atomic_thread_fence(std::memory_order_seq_cst);
        *question = i;
        while (*answer != i * i) {}
    }
    CHECK(cudaDeviceSynchronize());

    // Atomics of all threads of a kernel on one word of the host; of the CPU at the same time where the bus can do
    // that.
    int native = 0;
    CHECK(cudaDeviceGetAttribute(&native, cudaDevAttrHostNativeAtomicSupported, 0));
    words[0] = 0;
    count<<<40, 100>>>(words);
    CHECK(cudaGetLastError());
    unsigned ours = 0;
    if (native)
        for (; ours < 1000; ours++) __atomic_fetch_add(words, 1u, __ATOMIC_SEQ_CST);
    CHECK(cudaDeviceSynchronize());
    REQUIRE(words[0] == 4000 + ours);
    CHECK(cudaFreeHost(words));
    printf("a kernel and the CPU on the same words%s: right\n", native ? ", atomics too" : "");
}

static void managed() {
    int *data, *copy;
    CHECK(cudaMallocManaged(&data, n * sizeof(int)));
    cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, data));
    REQUIRE(attributes.type == cudaMemoryTypeManaged);
    REQUIRE(wrong_after_add(data, data, 5) == 0);
    CHECK(cudaMallocManaged(&copy, n * sizeof(int), cudaMemAttachHost));
    CHECK(cudaMemcpy(copy, data, n * sizeof(int), cudaMemcpyDefault));
    REQUIRE(memcmp(copy, data, n * sizeof(int)) == 0);
    CHECK(cudaMemset(data, 0, n * sizeof(int)));
    CHECK(cudaDeviceSynchronize());
    REQUIRE(data[n - 1] == 0);
    CHECK(cudaFree(copy));
    CHECK(cudaFree(data));
    printf("managed memory: right\n");
}

// No memory at all: a null pointer, or the driver's error; what NVIDIA's 580 answers.
static void nothing() {
    void* p = &p;
    cudaDriverEntryPointQueryResult found;
    CHECK(cudaMallocManaged(&p, 0));
    REQUIRE(p == nullptr);
    REFUSES(cudaErrorInvalidValue, cudaMallocManaged((void**)nullptr, 0));
    CHECK(cudaGetDriverEntryPointByVersion("cuMemAllocManaged", &p, 12000, cudaEnableDefault, &found));
    CUdeviceptr address = 1;
    REQUIRE(((decltype(&cuMemAllocManaged))p)(&address, 0, CU_MEM_ATTACH_GLOBAL) == CUDA_ERROR_INVALID_VALUE &&
            address == 0);
    CHECK(cudaGetDriverEntryPointByVersion("cuMemHostAlloc", &p, 12000, cudaEnableDefault, &found));
    void* pinned = &pinned;
    REQUIRE(((decltype(&cuMemHostAlloc))p)(&pinned, 0, 0) == CUDA_SUCCESS && pinned == nullptr);
}

int main() {
    nothing();
    CHECK(cudaSetDeviceFlags(cudaDeviceMapHost));
    allocation_flags();
    registration();
    conversation();
    managed();
    return verdict(0);
}
