/* SPDX-License-Identifier: Apache-2.0
 * graph_capture.c: a stream's work is captured once and launched many times
 */
#include "check.h"

int main(void) {
    int numbers[256], i;
    size_t count;
    CUmodule module;
    CUdeviceptr p;
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    CUfunction add;
    begin();
    add = function(&module, "add");
    CHECK(cuMemAlloc(&p, sizeof numbers));
    CHECK(cuMemsetD32(p, 0, 256));
    CHECK(cuCtxSynchronize());
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    launch_add(add, p, 256, 1, stream);
    launch_add(add, p, 256, 2, stream);
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphGetNodes(graph, NULL, &count));
    EXPECT(count == 2);
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    for (i = 0; i < 20; ++i) CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(numbers, p, sizeof numbers));
    for (i = 0; i < 256; ++i) EXPECT(numbers[i] == 60);
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
    return passed();
}
