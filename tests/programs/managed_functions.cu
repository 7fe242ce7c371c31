// SPDX-License-Identifier: Apache-2.0
// managed_functions.cu: functions in a stream that touch managed memory on the GPU's side, while copies and kernels of
// many other streams wait for the function: more streams than a GPU has queues for, so that the waits stand in front of
// whatever comes then.
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "check.h"

static const int streams = 40, n = 1 << 18;  // an allocation that shares its memory with no other
__managed__ int variable[1000];

__global__ void add(int* p, int count, int by) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) p[i] += by;
}

struct Function {
    int *p, count, expected;  // p null: it touches nothing
    std::atomic<bool> go{false};
    long wrong = 0;
    static void CUDART_CB run(void* data) {
        auto& f = *static_cast<Function*>(data);
        while (!f.go) std::this_thread::yield();
        for (int i = 0; f.p && i < f.count; ++i) f.wrong += f.p[i] != f.expected, f.p[i] += 10;
    }
};

// Writes when the function says that it is about its own memory, or after a while, where it begins behind the kernel.
__global__ void write_beside(volatile int* go, volatile int* done, int* p) {
    for (const long long start = clock64(); !*go && clock64() - start < 200000000;) {}
    ++*p;
    __threadfence_system();
    *done = 1;
}
struct Beside {
    int* p;
    volatile int *go, *done;
    static void CUDART_CB run(void* data) {
        auto& b = *static_cast<Beside*>(data);
        ++*b.p;
        *b.go = 1;
        for (int i = 0; i < 1000 && !*b.done; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ++*b.p;
    }
};
// The function's memory has neighbours in the same block, on which another stream is at work that has begun a capture
// since, or was destroyed (`captured`: none).
static long beside_another(cudaStream_t with_function, cudaStream_t captured) {
    int *mine, *its, *flags;
    CHECK(cudaMallocManaged(&mine, sizeof(int)));
    CHECK(cudaMallocManaged(&its, sizeof(int)));
    CHECK(cudaMallocHost(&flags, 2 * sizeof(int)));
    *mine = *its = flags[0] = flags[1] = 0;
    Beside b{mine, flags, flags + 1};
    cudaGraph_t graph = nullptr;
    cudaStream_t other = captured;
    if (!captured) CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    write_beside<<<1, 1, 0, other>>>(flags, flags + 1, its);
    CHECK(cudaGetLastError());
    if (captured) CHECK(cudaStreamBeginCapture(captured, cudaStreamCaptureModeRelaxed));
    else CHECK(cudaStreamDestroy(other));
    CHECK(cudaLaunchHostFunc(with_function, Beside::run, &b));
    CHECK(cudaStreamSynchronize(with_function));
    if (captured) CHECK(cudaStreamEndCapture(captured, &graph));
    if (graph) CHECK(cudaGraphDestroy(graph));
    CHECK(cudaDeviceSynchronize());
    const long wrong = (*mine != 2) + (*its != 1);
    CHECK(cudaFree(mine));
    CHECK(cudaFree(its));
    CHECK(cudaFreeHost(flags));
    return wrong;
}

// One function waits for the thread that destroys a stream with work, and launches another function.
static long while_one_waits(cudaStream_t first, cudaStream_t second, int* p, int count) {
    Function waits{nullptr, 0, 0}, other{nullptr, 0, 0};
    cudaStream_t gone;
    other.go = true;
    CHECK(cudaStreamCreateWithFlags(&gone, cudaStreamNonBlocking));
    CHECK(cudaLaunchHostFunc(first, Function::run, &waits));
    add<<<4, 64, 0, gone>>>(p, count, 0);
    CHECK(cudaGetLastError());
    CHECK(cudaStreamDestroy(gone));
    CHECK(cudaLaunchHostFunc(second, Function::run, &other));
    waits.go = true;
    CHECK(cudaStreamSynchronize(second));
    CHECK(cudaStreamSynchronize(first));
    return waits.wrong + other.wrong;
}

// A kernel behind two prefetches: of what comes to the host, and of something else to the device.
static long behind_prefetches(cudaStream_t stream) {
    int* p;
    long wrong = 0;
    const int count = 1 << 20, part = count / 4;
    const cudaMemLocation host{cudaMemLocationTypeHost, 0}, device{cudaMemLocationTypeDevice, 0};
    CHECK(cudaMallocManaged(&p, count * sizeof *p));
    CHECK(cudaStreamAttachMemAsync(stream, p, 0, cudaMemAttachSingle));
    CHECK(cudaMemsetAsync(p, 0, count * sizeof *p, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemPrefetchAsync(p, part * sizeof *p, host, 0, stream));
    CHECK(cudaMemPrefetchAsync(p + 2 * part, part * sizeof *p, device, 0, stream));
    add<<<4, 64, 0, stream>>>(p, count, 5);
    CHECK(cudaGetLastError());
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < count; ++i) wrong += p[i] != 5;
    CHECK(cudaFree(p));
    return wrong;
}

// What other streams do behind the function.
struct Others {
    std::vector<cudaStream_t> all;
    int *device, *host;
    Others() {
        CHECK(cudaMalloc(&device, streams * sizeof(int)));
        CHECK(cudaMallocHost(&host, streams * sizeof(int)));
        for (int i = 0; i < streams; ++i) {
            all.emplace_back();
            CHECK(cudaStreamCreateWithFlags(&all.back(), cudaStreamNonBlocking));
        }
    }
    void wait_for(cudaEvent_t event, int value) {
        for (int i = 0; i < streams; ++i) {
            host[i] = value;
            CHECK(cudaStreamWaitEvent(all[i], event, 0));
            CHECK(cudaMemcpyAsync(device + i, host + i, sizeof(int), cudaMemcpyHostToDevice, all[i]));
            add<<<1, 1, 0, all[i]>>>(device + i, 1, 1);
            CHECK(cudaGetLastError());
            CHECK(cudaMemcpyAsync(host + i, device + i, sizeof(int), cudaMemcpyDeviceToHost, all[i]));
        }
    }
    long finish(int value) {
        long wrong = 0;
        for (int i = 0; i < streams; ++i) {
            CHECK(cudaStreamSynchronize(all[i]));
            wrong += host[i] != value + 1;
        }
        return wrong;
    }
};

int main() {
    int *p, *other;
    cudaStream_t stream, beside;
    cudaEvent_t called;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&beside, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&called, cudaEventDisableTiming));
    long wrong = behind_prefetches(beside);  // first: the CPU has no managed memory open, and there are no functions
    CHECK(cudaMallocManaged(&p, n * sizeof *p));
    CHECK(cudaMallocManaged(&other, n * sizeof *other));
    for (int i = 0; i < n; ++i) p[i] = other[i] = 1;
    for (int& v : variable) v = 1;
    CHECK(cudaStreamAttachMemAsync(stream, p, 0, cudaMemAttachSingle));
    CHECK(cudaStreamAttachMemAsync(beside, other, 0, cudaMemAttachSingle));
    CHECK(cudaDeviceSynchronize());
    Others others;
    int value = 1;
    // The function touches what a kernel has written, and a kernel behind it what the function has.
    for (int round = 0; round < 3; ++round)
        for (const bool of_variable : {false, true}) {
            int* const at = of_variable ? variable : p;
            const int count = of_variable ? 1000 : n;
            Function f{at, count, value + 1};
            add<<<4, 64, 0, stream>>>(at, count, 1);
            CHECK(cudaGetLastError());
            CHECK(cudaLaunchHostFunc(stream, Function::run, &f));
            add<<<4, 64, 0, stream>>>(at, count, 100);
            CHECK(cudaGetLastError());
            CHECK(cudaEventRecord(called, stream));
            others.wait_for(called, round);
            f.go = true;
            wrong += others.finish(round) + f.wrong;
            CHECK(cudaStreamSynchronize(stream));
            for (int i = 0; i < count; ++i) wrong += at[i] != value + 111;
            if (of_variable) value += 111;
        }
    add<<<4, 64, 0, beside>>>(other, n, 1);
    CHECK(cudaGetLastError());
    CHECK(cudaStreamSynchronize(beside));
    wrong += other[0] != 2;
    // It waits for a thread that touches other memory on the GPU's side.
    for (int round = 0; round < 3; ++round) {
        Function f{nullptr, 0, 0};
        add<<<4, 64, 0, beside>>>(other, n, 1);
        CHECK(cudaGetLastError());
        CHECK(cudaStreamSynchronize(beside));
        CHECK(cudaLaunchHostFunc(stream, Function::run, &f));
        CHECK(cudaEventRecord(called, stream));
        others.wait_for(called, round);
        for (int i = 0; i < n; ++i) wrong += other[i] != 3 + round;
        f.go = true;
        wrong += others.finish(round);
        CHECK(cudaStreamSynchronize(stream));
    }
    // A fill of memory that the CPU sees waits for it, in another thread, and must hold up no other thread.
    cudaStream_t ordered;  // which the default stream, where such a fill is, waits for
    unsigned char* pinned;
    CHECK(cudaStreamCreate(&ordered));
    CHECK(cudaMallocHost(&pinned, 4096));
    for (int round = 0; round < 10; ++round) {
        Function f{p, n, value + 1};
        add<<<4, 64, 0, stream>>>(p, n, 1);
        CHECK(cudaGetLastError());
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaLaunchHostFunc(ordered, Function::run, &f));
        std::thread filling([&] {
            if (round % 2) CHECK(cudaMemset(pinned, round, 4096));
            else CHECK(cudaMemset(other, round, n * sizeof *other));
        });
        std::this_thread::sleep_for(std::chrono::milliseconds(20));  // most likely it waits by now
        f.go = true;
        filling.join();
        CHECK(cudaStreamSynchronize(ordered));
        wrong += f.wrong + (round % 2 ? pinned[4095] != round : other[n - 1] != 0x01010101 * round);
        for (int i = 0; i < n; ++i) wrong += p[i] != value + 11;
        value += 11;
    }
    CHECK(cudaFreeHost(pinned));
    // It is the first to touch memory, small and large, and nothing has worked on that.
    for (const size_t count : {size_t{10}, size_t{n}}) {
        int* fresh;
        CHECK(cudaMallocManaged(&fresh, count * sizeof *fresh));
        Function f{fresh, static_cast<int>(count), 0};
        f.go = true;
        CHECK(cudaLaunchHostFunc(stream, Function::run, &f));
        CHECK(cudaStreamSynchronize(stream));
        wrong += f.wrong;
        for (size_t i = 0; i < count; ++i) wrong += fresh[i] != 10;
        CHECK(cudaFree(fresh));
    }
    for (int round = 0; round < 5; ++round)
        wrong += beside_another(stream, round % 2 ? nullptr : others.all[static_cast<size_t>(round)]);
    wrong += while_one_waits(stream, beside, other, n);
    CHECK(cudaFree(p));
    CHECK(cudaFree(other));
    return verdict(wrong);
}
