/* SPDX-License-Identifier: Apache-2.0
 * graphs.c: edges have no data
 */
#include "runtime12.h"

int main(void) {
    void* p;
    stream_t stream;
    graph_t graph;
    node_t nodes[4], from[4], to[4];
    size_t count = 4, edges = 4, before = 4;
    int status = -1;
    unsigned long long id = 0;
    CHECK(cudaMalloc(&p, 4096));
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, 1));
    CHECK(cudaMemsetAsync(p, 0, 4096, stream));
    CHECK(cudaMemsetAsync(p, 1, 2048, stream));
    CHECK(cudaStreamGetCaptureInfo(stream, &status, &id));
    EXPECT(status == 1);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphGetNodes(graph, nodes, &count));
    CHECK(cudaGraphGetEdges(graph, from, to, &edges));
    EXPECT(count == 2 && edges == 1 && from[0] == nodes[0] && to[0] == nodes[1]);
    CHECK(cudaGraphNodeGetDependencies(nodes[1], from, &before));
    EXPECT(before == 1 && from[0] == nodes[0]);
    CHECK(cudaGraphDestroy(graph));
    return passed();
}
