/* SPDX-License-Identifier: Apache-2.0
 * graph_capture.c: work of two streams is captured, and launched as a graph
 */
#include "runtime.h"

int main(void) {
    int numbers[64], *p, i;
    size_t nodes = 0, edges = 0;
    cudaLibrary_t library;
    cudaStream_t first, second;
    cudaEvent_t fork, join;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    enum cudaStreamCaptureStatus status;
    const void* add = kernel_of(&library, "add");
    CHECK(cudaMalloc((void**)&p, sizeof numbers));
    CHECK(cudaMemset(p, 0, sizeof numbers));
    CHECK(cudaStreamCreate(&first));
    CHECK(cudaStreamCreate(&second));
    CHECK(cudaEventCreate(&fork));
    CHECK(cudaEventCreate(&join));
    CHECK(cudaStreamBeginCapture(first, cudaStreamCaptureModeThreadLocal));
    CHECK(cudaStreamIsCapturing(first, &status));
    EXPECT(status == cudaStreamCaptureStatusActive);
    launch_kernel(add, p, 64, 1, first);
    CHECK(cudaEventRecord(fork, first));
    CHECK(cudaStreamWaitEvent(second, fork, 0));
    launch_kernel(add, p, 64, 10, second);
    CHECK(cudaEventRecord(join, second));
    CHECK(cudaStreamWaitEvent(first, join, 0));
    launch_kernel(add, p, 64, 100, first);
    CHECK(cudaStreamEndCapture(first, &graph));
    CHECK(cudaGraphGetNodes(graph, NULL, &nodes));
    CHECK(cudaGraphGetEdges(graph, NULL, NULL, NULL, &edges));
    printf("%d nodes, %d edges\n", (int)nodes, (int)edges);
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (i = 0; i < 5; ++i) CHECK(cudaGraphLaunch(exec, first));
    CHECK(cudaStreamSynchronize(first));
    CHECK(cudaMemcpy(numbers, p, sizeof numbers, cudaMemcpyDeviceToHost));
    for (i = 0; i < 64; ++i) EXPECT(numbers[i] == 555);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    return passed();
}
