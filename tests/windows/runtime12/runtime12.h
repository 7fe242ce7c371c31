/* SPDX-License-Identifier: Apache-2.0
 * runtime12.h: functions as CUDA 12 declares them, where CUDA 13 has other ones of the same name. Its headers are not
 * there: each is declared here, and on Linux asked for under the version that programs of CUDA 12 ask for.
 */
#pragma once
#include <stddef.h>
#include <string.h>

#include "../expect.h"

#ifdef __linux__
#define OF_12(result, name, ...)                             \
    __asm__(".symver " #name ", " #name "@libcudart.so.12"); \
    result name(__VA_ARGS__)
#else
#define OF_12(result, name, ...) result name(__VA_ARGS__)
#endif

typedef struct graph* graph_t;
typedef struct node* node_t;
typedef struct stream* stream_t;
OF_12(int, cudaRuntimeGetVersion, int* version);
OF_12(int, cudaMalloc, void** p, size_t bytes);
OF_12(int, cudaMallocManaged, void** p, size_t bytes, unsigned flags);
OF_12(int, cudaMemcpy, void* to, const void* from, size_t bytes, int kind);
OF_12(int, cudaMemset, void* to, int value, size_t bytes);
OF_12(int, cudaFree, void* p);
OF_12(int, cudaDeviceSynchronize, void);
OF_12(int, cudaMemAdvise, const void* p, size_t bytes, int advice, int device);
OF_12(int, cudaMemPrefetchAsync, const void* p, size_t bytes, int device, stream_t stream);
OF_12(int, cudaGetDeviceProperties_v2, void* properties, int device);
OF_12(int, cudaGetDeviceProperties, void* properties, int device);
OF_12(int, cudaGetDriverEntryPoint, const char* name, void** function, unsigned long long flags, int* status);
OF_12(const char*, cudaGetErrorName, int error);
OF_12(int, cudaStreamCreate, stream_t* stream);
OF_12(int, cudaStreamGetCaptureInfo, stream_t stream, int* status, unsigned long long* id);
OF_12(int, cudaStreamBeginCapture, stream_t stream, int mode);
OF_12(int, cudaStreamEndCapture, stream_t stream, graph_t* graph);
OF_12(int, cudaMemsetAsync, void* to, int value, size_t bytes, stream_t stream);
OF_12(int, cudaGraphGetEdges, graph_t graph, node_t* from, node_t* to, size_t* count);
OF_12(int, cudaGraphGetNodes, graph_t graph, node_t* nodes, size_t* count);
OF_12(int, cudaGraphNodeGetDependencies, node_t node, node_t* nodes, size_t* count);
OF_12(int, cudaGraphDestroy, graph_t graph);

#define CHECK(call) check(call, #call, __LINE__)
static inline void check(int error, const char* call, int line) {
    if (error == 0) return;
    printf("line %d: %s: %s\n", line, call, cudaGetErrorName(error));
    exit(1);
}
static inline int passed(void) {
    printf("passed\n");
    return 0;
}
