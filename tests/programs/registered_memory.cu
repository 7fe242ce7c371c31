// SPDX-License-Identifier: Apache-2.0
// registered_memory.cu: memory that the program has already, wherever it comes from, is registered, used by kernels and
// copies in place, and is the program's own again afterwards: its address and contents stay, whatever other threads do
// meanwhile.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "check.h"

__global__ void increment(unsigned char* data, size_t n) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) ++data[i];
}

// Device and host write in turn.
__global__ void answer(volatile int* word, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        while (*word != 2 * i + 1) {}
        *word = 2 * i + 2;
        __threadfence_system();
    }
}

static unsigned char of(size_t i, unsigned seed) { return (unsigned char)(i * 7 + i / 251 + seed); }
static void fill(unsigned char* p, size_t n, unsigned seed) {
    for (size_t i = 0; i < n; ++i) p[i] = of(i, seed);
}
static long differing(const unsigned char* p, size_t n, unsigned seed) {
    long wrong = 0;
    for (size_t i = 0; i < n; ++i) wrong += p[i] != of(i, seed);
    return wrong;
}

static unsigned char globals[100000];

// Registers [p, p + n), and uses it in every way. True if the device reached it in place.
static bool use(const char* what, unsigned char* p, size_t n) {
    long wrong = 0;
    fill(p, n, 1);
    CHECK(cudaHostRegister(p, n, cudaHostRegisterMapped));
    wrong += differing(p, n, 1);

    unsigned char* device;
    const cudaError_t reached = cudaHostGetDevicePointer(&device, p, 0);
    unsigned seed = 1;
    if (reached == cudaSuccess) {
        increment<<<16, 64>>>(device, n);
        CHECK(cudaDeviceSynchronize());
        wrong += differing(p, n, ++seed);
        cudaDeviceProp properties;
        CHECK(cudaGetDeviceProperties(&properties, 0));
        if (properties.canUseHostPointerForRegisteredMem) {
            increment<<<16, 64>>>(p, n);
            CHECK(cudaDeviceSynchronize());
            wrong += differing(p, n, ++seed);
        }
        cudaPointerAttributes a;
        for (void* either : {(void*)(p + n / 2), (void*)(device + n / 2)}) {
            CHECK(cudaPointerGetAttributes(&a, either));
            REQUIRE(a.type == cudaMemoryTypeHost && a.hostPointer == p + n / 2 && a.devicePointer == device + n / 2);
        }
        CHECK(cudaMemset(p, 9, n));  // of memory that the host sees: done when it returns
        for (size_t i = 0; i < n; ++i) wrong += p[i] != 9;
        fill(p, n, seed);
    } else {
        (void)cudaGetLastError();
    }

    unsigned char* there;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc(&there, n));
    CHECK(cudaMemcpyAsync(there, p, n, cudaMemcpyHostToDevice, stream));
    increment<<<16, 64, 0, stream>>>(there, n);
    CHECK(cudaMemcpyAsync(p, there, n, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    wrong += differing(p, n, ++seed);
    CHECK(cudaMemcpy2DAsync(there, n / 4, p, n / 4, n / 4, 4, cudaMemcpyDefault, stream));
    increment<<<16, 64, 0, stream>>>(there, n / 4 * 4);
    CHECK(cudaMemcpy2DAsync(p, n / 4, there, n / 4, n / 4, 4, cudaMemcpyDefault, stream));
    CHECK(cudaStreamSynchronize(stream));
    wrong += differing(p, n / 4 * 4, ++seed);

    cudaGraph_t graph;
    cudaGraphExec_t exec;
    fill(p, n, seed);
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMemcpyAsync(there, p, n, cudaMemcpyHostToDevice, stream));
    increment<<<16, 64, 0, stream>>>(there, n);
    CHECK(cudaMemcpyAsync(p, there, n, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; ++i) CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    wrong += differing(p, n, seed += 3);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));

    CHECK(cudaFree(there));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaHostUnregister(p));
    wrong += differing(p, n, seed);
    printf("%-24s %s, %s\n", what, reached == cudaSuccess ? "in place" : "by copies", wrong ? "WRONG" : "right");
    if (wrong) exit(1);
    return reached == cudaSuccess;
}

__global__ void increment_words(unsigned char* pages, size_t n) {
    const size_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) ++*(unsigned*)(pages + i * 4096);
}

// More than what the region gives at a time (32 MiB), so that its parts are exchanged one by one.
static void use_large() {
    const size_t pages = 18000, bytes = pages * 4096;
    auto* const p = (unsigned char*)mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    long wrong = 0;
    const auto look = [&](unsigned by) {
        for (size_t i = 0; i < pages; ++i) wrong += *(unsigned*)(p + i * 4096) != i + by;
    };
    for (size_t i = 0; i < pages; ++i) *(unsigned*)(p + i * 4096) = (unsigned)i;
    CHECK(cudaHostRegister(p, bytes, cudaHostRegisterMapped));
    look(0);
    unsigned char* device;
    CHECK(cudaHostGetDevicePointer(&device, p, 0));
    increment_words<<<(unsigned)(pages + 255) / 256, 256>>>(device, pages);
    CHECK(cudaDeviceSynchronize());
    look(1);
    CHECK(cudaHostUnregister(p));
    look(1);
    munmap(p, bytes);
    if (wrong) exit(1);
    printf("70 MiB                   in place, right\n");
}

static void watch() {
    int* word = (int*)malloc(sizeof *word);
    int* device;
    *word = 0;
    CHECK(cudaHostRegister(word, sizeof *word, cudaHostRegisterMapped));
    CHECK(cudaHostGetDevicePointer(&device, word, 0));
    const int rounds = 20;
    answer<<<1, 1>>>(device, rounds);
    CHECK(cudaGetLastError());
    volatile int* seen = word;
    for (int i = 0; i < rounds; ++i) {
        *seen = 2 * i + 1;
        while (*seen != 2 * i + 2) std::this_thread::yield();
    }
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaHostUnregister(word));
    free(word);
    printf("a kernel and the CPU take turns in place\n");
}

static void write_meanwhile(unsigned char* p, size_t n) {
    auto* counters = (std::atomic<long>*)p;
    std::atomic<bool> stop{false};
    long counts[2] = {0, 0};
    memset(p, 0, n);
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t)
        threads.emplace_back([&, t] {
            while (!stop) {
                for (size_t at = 0; at < n; at += 4096) ++counters[at / 8 + t];
                ++counts[t];
                std::this_thread::yield();
            }
        });
    for (int i = 0; i < 100; ++i) {
        CHECK(cudaHostRegister(p, n, 0));
        CHECK(cudaHostUnregister(p));
    }
    stop = true;
    for (auto& t : threads) t.join();
    for (size_t at = 0; at < n; at += 4096)
        for (int t = 0; t < 2; ++t) REQUIRE(counters[at / 8 + t] == counts[t]);
    printf("threads that write meanwhile lose nothing\n");
}

static void fork_meanwhile(unsigned char* p, size_t n) {
    fill(p, n, 5);
    CHECK(cudaHostRegister(p, n, 0));
    int go[2];
    REQUIRE(pipe(go) == 0);
    const pid_t child = fork();
    if (child == 0) {
        char c;
        if (read(go[0], &c, 1) != 1 || differing(p, n, 5)) _exit(1);
        memset(p, 0, n);
        _exit(0);
    }
    fill(p, n, 6);
    REQUIRE(write(go[1], "", 1) == 1);
    int status;
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
    REQUIRE(differing(p, n, 6) == 0);
    CHECK(cudaHostUnregister(p));
    REQUIRE(differing(p, n, 6) == 0);
    close(go[0]), close(go[1]);
    printf("a forked child has its own\n");
}

int main() {
    const size_t n = 1000000;
    auto* mapped =
        (unsigned char*)mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(mapped != MAP_FAILED);
    auto* small = (unsigned char*)malloc(3000);
    unsigned char stack[5000];
    bool all = true;
    CHECK(cudaSetDeviceFlags(cudaDeviceMapHost));
    CHECK(cudaFree(nullptr));

    all &= use("mmap", mapped, n);
    all &= use("part of it", mapped + 12345, 100000);
    all &= use("a small malloc", small, 3000);
    all &= use("globals", globals + 5000, sizeof globals - 5000);
    use("the stack", stack, sizeof stack);
    std::vector<unsigned char> large(3 * n);
    all &= use("a std::vector", large.data(), large.size());

    CHECK(cudaHostRegister(mapped, 5000, 0));
    REQUIRE(cudaHostRegister(mapped + 4000, 5000, 0) == cudaErrorHostMemoryAlreadyRegistered);
    REQUIRE(cudaHostUnregister(mapped + 1) == cudaErrorInvalidValue);
    CHECK(cudaHostUnregister(mapped));
    REQUIRE(cudaHostUnregister(mapped) == cudaErrorHostMemoryNotRegistered);
    (void)cudaGetLastError();

    if (all) use_large(), watch();
    write_meanwhile(mapped, 40 * 4096);
    fork_meanwhile(mapped, n);

    small = (unsigned char*)realloc(small, 200000);  // the program's own again
    REQUIRE(small);
    free(small);
    CHECK(cudaHostRegister(mapped, n, 0));
    REQUIRE(munmap(mapped, n) == 0);  // a program that does that gets no error here
    (void)cudaHostUnregister(mapped);
    (void)cudaGetLastError();
    return verdict(!all);
}
