// SPDX-License-Identifier: Apache-2.0
// older_runtime.cc: a program as it was written for CUDA 12 (or 11, -DCUDA=11), whose prototypes and structures stand
// here as they were then. It is linked with a library that has those names under the version of that CUDA.
#include <cstring>

#include "check.h"

struct Stream;
struct Graph;
struct Node;
struct Exec;
struct Properties11 {  // 728 bytes; CUDA 12's is 1032 bytes long and begins with them
    char name[256];
    char uuid[16], luid[8];
    unsigned luid_mask;
    size_t total, shared;
    int registers, warp;
    size_t pitch;
    int threads, block[3], grid[3], clock_rate;
    size_t constant;
    int major, minor;
    size_t texture, texture_pitch;
    int overlap, processors;
    char rest[280];
    int shared_registers_and_others[2];
};

extern "C" {
int cudaMalloc(void**, size_t);
int cudaMallocManaged(void**, size_t, unsigned);
int cudaMemcpy(void*, const void*, size_t, int);
int cudaMemsetAsync(void*, int, size_t, Stream*);
int cudaFree(void*);
int cudaRuntimeGetVersion(int*);
int cudaGetDeviceProperties(void*, int);
int cudaGetDeviceProperties_v2(void*, int);
int cudaDeviceGetAttribute(int*, int, int);
int cudaMemAdvise(const void*, size_t, int, int);
int cudaMemPrefetchAsync(const void*, size_t, int, Stream*);
int cudaStreamCreate(Stream**);
int cudaStreamSynchronize(Stream*);
int cudaStreamBeginCapture(Stream*, int);
int cudaStreamEndCapture(Stream*, Graph**);
int cudaStreamGetCaptureInfo(Stream*, int*, unsigned long long*);
int cudaStreamGetCaptureInfo_v2(Stream*, int*, unsigned long long*, Graph**, Node* const**, size_t*);
int cudaGraphGetNodes(Graph*, Node**, size_t*);
int cudaGraphGetEdges(Graph*, Node**, Node**, size_t*);
int cudaGraphNodeGetDependencies(Node*, Node**, size_t*);
int cudaGraphAddEmptyNode(Node**, Graph*, Node* const*, size_t);
int cudaGraphAddDependencies(Graph*, Node* const*, Node* const*, size_t);
int cudaGraphLaunch(Exec*, Stream*);
#if CUDA == 11
int cudaGraphInstantiate(Exec**, Graph*, Node**, char*, size_t);
int cudaGraphExecUpdate(Exec*, Graph*, Node**, int*);
int cudaGetDriverEntryPoint(const char*, void**, unsigned long long);
#else
struct UpdateInfo {
    int result;
    Node *node, *from;
};
int cudaGraphInstantiate(Exec**, Graph*, unsigned long long);
int cudaGraphExecUpdate(Exec*, Graph*, UpdateInfo*);
int cudaGetDriverEntryPoint(const char*, void**, unsigned long long, int*);
#endif
}

#define WORKS(call) REQUIRE((call) == 0)

int main() {
    int version = 0;
    WORKS(cudaRuntimeGetVersion(&version));
    REQUIRE(version / 1000 == CUDA);

    // Structures are filled, and nothing behind them is.
    union {
        Properties11 is;
        unsigned char bytes[1100];
    } properties;
    int processors = 0, major = 0, clock_rate = 0;
    WORKS(cudaDeviceGetAttribute(&processors, 16, 0));
    WORKS(cudaDeviceGetAttribute(&major, 75, 0));
    WORKS(cudaDeviceGetAttribute(&clock_rate, 13, 0));
    const auto filled = [&](size_t bytes) {
        REQUIRE(properties.is.processors == processors && properties.is.major == major);
        REQUIRE(properties.is.clock_rate == clock_rate && properties.is.warp == 32);
        for (size_t i = bytes; i < sizeof properties; ++i) REQUIRE(properties.bytes[i] == 0x5a);
    };
    memset(&properties, 0x5a, sizeof properties);
    WORKS(cudaGetDeviceProperties(&properties, 0));
    filled(728);
#if CUDA == 12
    memset(&properties, 0x5a, sizeof properties);
    WORKS(cudaGetDeviceProperties_v2(&properties, 0));
    filled(1032);
#endif

    void *device, *managed;
    char out[5] = "", in[5] = "work";
    WORKS(cudaMalloc(&device, 4096));
    WORKS(cudaMemcpy(device, in, 5, 1));
    WORKS(cudaMemcpy(out, device, 5, 2));
    REQUIRE(!strcmp(in, out));

    // A device's number, where today a place is.
    Stream* stream;
    WORKS(cudaStreamCreate(&stream));
    WORKS(cudaMallocManaged(&managed, 4096, 1));
    WORKS(cudaMemAdvise(managed, 4096, 1, 0));
    int can = 0;
    WORKS(cudaDeviceGetAttribute(&can, 89, 0));  // concurrent managed access
    if (can) WORKS(cudaMemPrefetchAsync(managed, 4096, -1, stream));
    WORKS(cudaStreamSynchronize(stream));

    // Edges without data.
    Graph *graph, *capturing = nullptr;
    int status = 0;
    unsigned long long id = 0, same = 1;
    Node* const* nodes = nullptr;
    size_t count = 0;
    WORKS(cudaStreamBeginCapture(stream, 1));
    WORKS(cudaMemsetAsync(device, 7, 4096, stream));
    WORKS(cudaStreamGetCaptureInfo(stream, &status, &id));
    REQUIRE(status == 1 && id);
    WORKS(cudaStreamGetCaptureInfo_v2(stream, &status, &same, &capturing, &nodes, &count));
    REQUIRE(same == id && capturing && count == 1 && nodes[0]);
    WORKS(cudaMemsetAsync(device, 8, 100, stream));
    WORKS(cudaStreamEndCapture(stream, &graph));
    WORKS(cudaGraphGetEdges(graph, nullptr, nullptr, &count));
    REQUIRE(count == 1);
    Node *from[1], *to[1], *before[1], *last;
    WORKS(cudaGraphGetEdges(graph, from, to, &count));
    WORKS(cudaGraphNodeGetDependencies(to[0], before, &count));
    REQUIRE(count == 1 && before[0] == from[0]);
    WORKS(cudaGraphAddEmptyNode(&last, graph, nullptr, 0));
    WORKS(cudaGraphAddDependencies(graph, to, &last, 1));
    Exec* exec;
#if CUDA == 11
    char log[8] = "before";
    Node* failed = last;
    int result = 9;
    WORKS(cudaGraphInstantiate(&exec, graph, &failed, log, sizeof log));
    REQUIRE(!log[0] && !failed);
    WORKS(cudaGraphExecUpdate(exec, graph, &failed, &result));
    REQUIRE(result == 0);
#else
    UpdateInfo info{9, nullptr, nullptr};
    WORKS(cudaGraphInstantiate(&exec, graph, 0));
    WORKS(cudaGraphExecUpdate(exec, graph, &info));
    REQUIRE(info.result == 0);
#endif
    WORKS(cudaGraphLaunch(exec, stream));
    WORKS(cudaStreamSynchronize(stream));
    unsigned char back[200];
    WORKS(cudaMemcpy(back, device, sizeof back, 2));
    REQUIRE(back[0] == 8 && back[99] == 8 && back[100] == 7 && back[199] == 7);

    // A driver function as it was then: cuMemAdvise took a device until 12.2.
    void* advise = nullptr;
#if CUDA == 11
    WORKS(cudaGetDriverEntryPoint("cuMemAdvise", &advise, 0));
    REQUIRE(advise && reinterpret_cast<int (*)(void*, size_t, int, int)>(advise)(managed, 4096, 1, 0) == 0);
#else
    WORKS(cudaGetDriverEntryPoint("cuMemAdvise", &advise, 0, &status));
    struct Place {
        int type, id;
    };
    REQUIRE(advise && reinterpret_cast<int (*)(void*, size_t, int, Place)>(advise)(managed, 4096, 1, Place{1, 0}) == 0);
#endif
    WORKS(cudaFree(managed));
    WORKS(cudaFree(device));
    printf("a program of CUDA %d\nPASSED\n", CUDA);
    return 0;
}
