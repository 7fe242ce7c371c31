// SPDX-License-Identifier: Apache-2.0
// thread_ends.cu: each thread uses its own default stream until its very end: in destructors of its thread_locals and
// of keys, and the main thread in those of globals, which come when its thread_locals are gone. (Built so that the
// default stream is the thread's own.)
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "check.h"

// The process is ending: exit() is no way out of it any more.
#define FAIL(why) (fprintf(stderr, "FAILED: %s:%d: %s\n", __FILE__, __LINE__, why), _exit(1))
#define MUST(what)                                 \
    do {                                           \
        if (!(what)) FAIL(#what " does not hold"); \
    } while (0)
#define WORKS(call)                                                              \
    do {                                                                         \
        if (cudaError_t e = (call); e != cudaSuccess) FAIL(cudaGetErrorName(e)); \
    } while (0)

__global__ void add(int* p, int n) { atomicAdd(p, n); }

int* sum = nullptr;
std::atomic<int> expected{0};

// All that a thread has something of its own for: its stream, its fence, what it was told of a capture.
void use(int n) {
    int now = -1, *own = nullptr;
    cudaStreamCaptureStatus status;
    cudaGraph_t graph;
    const cudaGraphNode_t* nodes = nullptr;
    size_t count = 0;
    add<<<1, 1>>>(sum, n);
    WORKS(cudaGetLastError());
    add<<<1, 1, 0, cudaStreamPerThread>>>(sum, n);
    WORKS(cudaStreamSynchronize(cudaStreamPerThread));
    expected += 2 * n;
    WORKS(cudaMalloc((void**)&own, sizeof *own));
    WORKS(cudaMemcpy(own, &n, sizeof n, cudaMemcpyHostToDevice));
    WORKS(cudaMemcpy(&now, own, sizeof now, cudaMemcpyDeviceToHost));
    WORKS(cudaFree(own));
    MUST(now == n);
    WORKS(cudaStreamBeginCapture(cudaStreamPerThread, cudaStreamCaptureModeThreadLocal));
    add<<<1, 1>>>(sum, n);
    WORKS(cudaStreamGetCaptureInfo(cudaStreamPerThread, &status, nullptr, &graph, &nodes, nullptr, &count));
    MUST(status == cudaStreamCaptureStatusActive && count == 1 && nodes[0]);
    WORKS(cudaStreamEndCapture(cudaStreamPerThread, &graph));
    WORKS(cudaGraphDestroy(graph));
}

struct Local {
    int n = 0;
    ~Local() {
        if (n) use(n);
    }
};
thread_local Local early, late;
pthread_key_t first_key, last_key;

struct Last {
    ~Last() {
        int total = -1;
        use(1000);
        WORKS(cudaMemcpy(&total, sum, sizeof total, cudaMemcpyDeviceToHost));
        MUST(total == expected);
        puts("PASSED");
        fflush(stdout);
    }
} last;
struct Earlier {
    ~Earlier() { use(100); }
} earlier;

int main() {
    const auto in_key = [](void* n) { use((int)(long)n); };
    pthread_key_create(&first_key, in_key);
    CHECK(cudaMalloc((void**)&sum, sizeof *sum));
    CHECK(cudaMemset(sum, 0, sizeof *sum));
    CHECK(cudaDeviceSynchronize());
    std::vector<std::thread> threads;
    const auto work = [](int i) {
        if (i % 2) early.n = 1;  // its destructor is registered before the thread uses CUDA
        pthread_setspecific(first_key, (void*)2);
        if (i % 3) use(3);
        late.n = 4;
        pthread_setspecific(last_key, (void*)5);
    };
    pthread_key_create(&last_key, in_key);
    work(1);  // of the main thread the keys' destructors do not come
    for (int i = 0; i < 8; ++i) threads.emplace_back(work, i);
    for (auto& t : threads) t.join();
    std::atexit([] { use(10); });
}
