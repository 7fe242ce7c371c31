// SPDX-License-Identifier: Apache-2.0
// bursts.cu: long runs of launches, as fast as they can be posted: what each computes depends on all before it, so that
// a lost, doubled, early or mistaken one shows. In one stream and in several, of one kernel and of several in every
// order, with few parameters and with many; while the settings of a kernel change, streams are made and destroyed, a
// graph is noted down; and while another stream is blocked until all this is done.
#include <cstdlib>

#include "check.h"

struct Words {
    unsigned w[200];
};
constexpr unsigned plus = 0, times = 1, many = 2, kinds = 4;

__global__ void add(unsigned* x, unsigned k) { *x = *x * 5 + k; }
__global__ void multiply(unsigned k, unsigned* x, unsigned also) { *x = (*x ^ k) * 7 + also; }
__global__ void sum(Words words, unsigned* x) {
    for (unsigned w : words.w) *x = *x * 3 + w;
}
__global__ void through_shared(unsigned* x, unsigned k, unsigned last) {
    extern __shared__ unsigned far[];
    far[last] = k;
    *x = *x * 11 + far[last];
}
__global__ void wait_until_set(const volatile int* flag) {
    while (!*flag) {}
}

static unsigned last_word = 1000;  // of dynamic shared memory

struct Counted {  // a word of the device, and what it must be
    unsigned* word;
    unsigned expected = 1;
    Counted() {
        CHECK(cudaMalloc(&word, sizeof *word));
        CHECK(cudaMemcpy(word, &expected, sizeof expected, cudaMemcpyHostToDevice));
        CHECK(cudaDeviceSynchronize());  // streams that do not wait for the default one do not wait for that copy
    }
    void launch(unsigned kind, unsigned k, cudaStream_t s) {
        Words words;
        switch (kind) {
            case plus:
                add<<<1, 1, 0, s>>>(word, k);
                expected = expected * 5 + k;
                break;
            case times:
                multiply<<<1, 1, 0, s>>>(k, word, k / 3);
                expected = (expected ^ k) * 7 + k / 3;
                break;
            case many:
                for (unsigned& w : words.w) w = k++, expected = expected * 3 + w;
                sum<<<1, 1, 0, s>>>(words, word);
                break;
            default:
                through_shared<<<1, 1, 4 * (last_word + 1), s>>>(word, k, last_word);
                expected = expected * 11 + k;
        }
    }
    void right(const char* what) const {
        unsigned is;
        CHECK(cudaMemcpy(&is, word, sizeof is, cudaMemcpyDeviceToHost));
        if (is != expected) std::printf("FAILED: %s: %u, not %u\n", what, is, expected), std::exit(1);
        CHECK(cudaFree(word));
    }
};

static unsigned number = 1;
static unsigned next() { return number = number * 1664525 + 1013904223, number >> 8; }

static void one_stream(cudaStream_t s) {
    Counted c;
    for (unsigned i = 0; i < 2000; ++i) c.launch(plus, i, s);
    for (unsigned i = 0; i < 2000; ++i) c.launch(i % 2, i, s);
    for (unsigned i = 0; i < 1500; ++i) c.launch(i % 5 % kinds, i, s);
    for (unsigned i = 0; i < 1500; ++i) c.launch(next() % kinds, i, s);
    for (unsigned i = 0; i < 300; ++i) {  // bursts of every length
        for (unsigned n = next() % 40; n > 0; --n) c.launch(next() % 2, n, s);
        CHECK(cudaStreamSynchronize(s));
    }
    CHECK(cudaGetLastError());
    CHECK(cudaStreamSynchronize(s));
    c.right("one stream");
}

static void several_streams() {
    cudaStream_t s[6];
    Counted each[6], all;
    for (unsigned i = 0; i < 6; ++i) CHECK(cudaStreamCreate(&s[i]));
    for (unsigned i = 0; i < 4000; ++i) {
        const unsigned k = i < 2000 ? i % 6 : next() % 6;
        each[k].launch(next() % 2, i, s[k]);
        if (next() % 16) continue;
        all.launch(plus, i, i % 2 ? nullptr : cudaStreamLegacy);
        each[k].launch(plus, i, nullptr);  // after what is before it in any of the streams, and before what comes then
    }
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    for (const Counted& c : each) c.right("several streams");
    all.right("the default stream");
    for (cudaStream_t one : s) CHECK(cudaStreamDestroy(one));
}

static void settings_change() {
    cudaStream_t s;
    Counted c, noted;
    CHECK(cudaStreamCreate(&s));
    for (unsigned i = 0; i < 1000; ++i) c.launch(i % kinds, i, s);
    CHECK(cudaFuncSetAttribute(through_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 60000));
    last_word = 14999;
    for (unsigned i = 0; i < 1000; ++i) c.launch(i % kinds, i, s);
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    for (unsigned i = 0; i < 100; ++i) noted.launch(plus, 1, s);
    CHECK(cudaStreamEndCapture(s, &graph));
    size_t nodes;
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
    REQUIRE(nodes == 100);
    for (unsigned i = 0; i < 500; ++i) c.launch(i % kinds, i, s);
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, s));
    CHECK(cudaStreamDestroy(s));  // its work goes on
    CHECK(cudaDeviceSynchronize());
    c.right("settings that change");
    noted.right("a graph");
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
}

static void beside_one_that_stands_still() {
    int *flag, *device_flag;
    cudaStream_t still, s[3];
    CHECK(cudaHostAlloc(&flag, sizeof *flag, cudaHostAllocMapped));
    *flag = 0;
    CHECK(cudaHostGetDevicePointer(&device_flag, flag, 0));
    CHECK(cudaStreamCreateWithFlags(&still, cudaStreamNonBlocking));
    Counted held, each[3];
    for (unsigned i = 0; i < 400; ++i) held.launch(i % 2, i, still);
    CHECK(cudaStreamSynchronize(still));
    wait_until_set<<<1, 1, 0, still>>>(device_flag);
    for (unsigned i = 0; i < 400; ++i) held.launch(i % 2, i, still);
    for (unsigned i = 0; i < 3; ++i) {
        CHECK(cudaStreamCreateWithFlags(&s[i], cudaStreamNonBlocking));
        for (unsigned k = 0; k < 1000; ++k) each[i].launch(next() % kinds, k, s[i]);
        CHECK(cudaStreamSynchronize(s[i]));
        CHECK(cudaStreamDestroy(s[i]));
    }
    CHECK(cudaStreamDestroy(still));
    *static_cast<volatile int*>(flag) = 1;
    CHECK(cudaDeviceSynchronize());
    held.right("a stream that stood still");
    for (const Counted& c : each) c.right("streams beside it");
    CHECK(cudaFreeHost(flag));
}

int main() {
    CHECK(cudaFuncSetAttribute(through_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 60000));
    cudaStream_t s;
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    one_stream(s);
    one_stream(nullptr);
    one_stream(cudaStreamPerThread);
    several_streams();
    settings_change();
    beside_one_that_stands_still();
    std::printf("every launch in its turn\n");
    return verdict(0);
}
