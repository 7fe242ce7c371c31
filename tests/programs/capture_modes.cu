// SPDX-License-Identifier: Apache-2.0
// capture_modes: what a program may not do while a stream captures. The call is refused with the error that says why,
// the capture is invalidated, and its end says so. Which calls are refused depends on the mode of the capture and of
// the calling thread. The expected answers are those of NVIDIA's driver (580.159).
#include <functional>
#include <thread>

#include "check.h"

__global__ void add(int* to) { ++*to; }

static int wrong = 0;
static cudaStream_t stream, other;
static cudaEvent_t event;
static int *device, *second, *pinned, *managed;
static char memory[1 << 16];

struct Call {
    const char* name;
    int expected;  // where the mode forbids it
    bool always;   // in the relaxed mode too: it cannot be in a graph
    std::function<cudaError_t()> call;
};
static void CUDART_CB callback(cudaStream_t, cudaError_t, void*) {}
static cudaError_t launch(cudaStream_t where) {
    add<<<1, 1, 0, where>>>(device);
    return cudaGetLastError();
}

static const Call calls[] = {
    {"cudaMalloc", 900, false,
     [] {
         void* p;
         return cudaMalloc(&p, 1000);
     }},
    {"cudaMallocHost", 900, false,
     [] {
         void* p;
         return cudaMallocHost(&p, 1000);
     }},
    {"cudaMallocManaged", 900, false,
     [] {
         void* p;
         return cudaMallocManaged(&p, 1000);
     }},
    {"cudaFree", 900, false, [] { return cudaFree(second); }},
    {"cudaHostRegister", 900, false, [] { return cudaHostRegister(memory, sizeof memory, 0); }},
    {"cudaStreamSynchronize of another", 900, false, [] { return cudaStreamSynchronize(other); }},
    {"cudaStreamQuery of another", 900, false, [] { return cudaStreamQuery(other); }},
    {"cudaEventSynchronize of another", 900, false, [] { return cudaEventSynchronize(event); }},
    {"cudaEventQuery of another", 900, false, [] { return cudaEventQuery(event); }},
    {"cudaDeviceSynchronize", 900, true, [] { return cudaDeviceSynchronize(); }},
    {"cudaStreamSynchronize", 900, true, [] { return cudaStreamSynchronize(stream); }},
    {"cudaStreamQuery", 900, true, [] { return cudaStreamQuery(stream); }},
    {"cudaStreamAddCallback", 900, true, [] { return cudaStreamAddCallback(stream, callback, nullptr, 0); }},
    {"cudaMemPrefetchAsync", 900, true,
     [] {
         return cudaMemPrefetchAsync(managed, 4, {cudaMemLocationTypeDevice, 0}, 0, stream);
     }},
    {"cudaStreamAttachMemAsync", 900, false, [] { return cudaStreamAttachMemAsync(stream, managed); }},
    {"cudaStreamWaitEvent of no capture", 905, true, [] { return cudaStreamWaitEvent(stream, event); }},
    {"cudaMemcpy", 906, true, [] { return cudaMemcpy(device, second, 4, cudaMemcpyDeviceToDevice); }},
    {"cudaMemset", 906, true, [] { return cudaMemset(device, 0, 4); }},
    {"a launch in the default stream", 906, true, [] { return launch(nullptr); }},
    {"cudaMemcpyAsync in the default stream", 906, true,
     [] { return cudaMemcpyAsync(device, pinned, 4, cudaMemcpyHostToDevice, nullptr); }},
};

static void in_mode(cudaStreamCaptureMode mode) {
    for (const Call& c : calls) {
        const bool forbidden = mode != cudaStreamCaptureModeRelaxed || c.always;
        if (!forbidden) continue;  // those below
        cudaGraph_t graph = nullptr;
        cudaStreamCaptureStatus status{};
        CHECK(cudaStreamBeginCapture(stream, mode));
        CHECK(launch(stream));
        const int got = c.call();
        CHECK(cudaStreamIsCapturing(stream, &status));
        const int end = cudaStreamEndCapture(stream, &graph);
        // In the relaxed mode a wait of the device meets the default stream first.
        const bool expected = got == c.expected || (mode == cudaStreamCaptureModeRelaxed && got == 906);
        if (!expected || status != cudaStreamCaptureStatusInvalidated || end != 901 || graph)
            printf("%s in mode %d: %d, status %d, end %d\n", c.name, mode, got, status, end), ++wrong;
        cudaGetLastError();
        CHECK(cudaDeviceSynchronize());
    }
}

// What is allowed: the graph is whole, and has this many nodes.
static void allowed(const char* what, cudaStreamCaptureMode mode, size_t nodes, const std::function<void()>& calls) {
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamBeginCapture(stream, mode));
    CHECK(launch(stream));
    calls();
    cudaStreamCaptureStatus status{};
    CHECK(cudaStreamIsCapturing(stream, &status));
    const int end = cudaStreamEndCapture(stream, &graph);
    size_t count = 0;
    if (graph) CHECK(cudaGraphGetNodes(graph, nullptr, &count));
    if (status != cudaStreamCaptureStatusActive || end || count != nodes)
        printf("%s: status %d, end %d, %zu nodes\n", what, status, end, count), ++wrong;
    if (graph) CHECK(cudaGraphDestroy(graph));
}

static void allocate() {
    void *p, *q;
    CHECK(cudaMalloc(&p, 1000));
    CHECK(cudaMallocHost(&q, 1000));
    CHECK(cudaStreamSynchronize(other));
    CHECK(cudaStreamQuery(other));
    CHECK(cudaEventQuery(event));
    CHECK(cudaEventSynchronize(event));
    CHECK(cudaFree(p));
    CHECK(cudaFreeHost(q));
}
struct Mode {  // of this thread
    cudaStreamCaptureMode mode;
    explicit Mode(cudaStreamCaptureMode m) : mode(m) { CHECK(cudaThreadExchangeStreamCaptureMode(&mode)); }
    ~Mode() { CHECK(cudaThreadExchangeStreamCaptureMode(&mode)); }
};

int main() {
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&event));
    CHECK(cudaMalloc(&device, sizeof *device));
    CHECK(cudaMalloc(&second, sizeof *second));
    CHECK(cudaMallocHost(&pinned, sizeof *pinned));
    CHECK(cudaMallocManaged(&managed, sizeof *managed));
    CHECK(cudaEventRecord(event, other));
    CHECK(cudaDeviceSynchronize());

    in_mode(cudaStreamCaptureModeGlobal);
    in_mode(cudaStreamCaptureModeThreadLocal);
    in_mode(cudaStreamCaptureModeRelaxed);
    CHECK(cudaMemset(second, 0, sizeof *second));  // what was refused was not done: it is there still

    allowed("in a relaxed capture", cudaStreamCaptureModeRelaxed, 1, allocate);
    allowed("in a relaxed thread", cudaStreamCaptureModeGlobal, 2, [] {
        const Mode relaxed(cudaStreamCaptureModeRelaxed);
        allocate();
        CHECK(launch(stream));
    });
    allowed("beside another thread's capture", cudaStreamCaptureModeThreadLocal, 1,
            [] { std::thread(allocate).join(); });
    allowed("beside a global capture, in a thread that looks at its own", cudaStreamCaptureModeGlobal, 1, [] {
        std::thread([] {
            const Mode own(cudaStreamCaptureModeThreadLocal);
            allocate();
        }).join();
    });
    allowed("work in a stream that does not wait for the default one", cudaStreamCaptureModeGlobal, 1,
            [] { CHECK(launch(other)); });

    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    std::thread([] {
        void* p;
        REQUIRE(cudaMalloc(&p, 1000) == cudaErrorStreamCaptureUnsupported);
    }).join();
    REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
    cudaGetLastError();

    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    std::thread([] {
        cudaGraph_t graph = nullptr;
        REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureWrongThread);
    }).join();
    // It is over.
    CHECK(launch(stream));
    REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaErrorIllegalState);
    cudaGetLastError();

    // A captured fill may be of memory that is not there, until the graph is instantiated: cuDNN puts addresses in
    // later.
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CHECK(cudaMemsetAsync(reinterpret_cast<void*>(0x80), 0, 1 << 16, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    size_t nodes = 0;
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
    REQUIRE(nodes == 1);
    cudaGraphExec_t exec;
    REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaErrorInvalidValue);
    REQUIRE(cudaGetLastError() == cudaErrorInvalidValue);
    CHECK(cudaGraphDestroy(graph));
    REQUIRE(cudaMemsetAsync(reinterpret_cast<void*>(0x80), 0, 1 << 16, stream) == cudaErrorInvalidValue ||
            cudaStreamSynchronize(stream) == cudaErrorInvalidValue);  // posted: Barcuda says so at the wait
    cudaGetLastError();

    // A stream that goes while it captures leaves nothing forbidden.
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    cudaStreamDestroy(stream);
    cudaGetLastError();
    CHECK(cudaFree(second));
    return verdict(wrong);
}
