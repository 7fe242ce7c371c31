// SPDX-License-Identifier: Apache-2.0
// counted.cu: for test_seen.py: copies in each direction and by each road, launches, and says as JSON how many bytes
// and launches that were, and what memory it has. Then "running", and so on at each line of its input; it ends with it.
#include <cuda_runtime.h>

#include <cstring>
#include <vector>

#include "../../programs/check.h"

__global__ void bump(int* x) { atomicAdd(x, 1); }

static struct {
    unsigned long long to_device, to_host, on_device, launches, graphs;
} done;

static void copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    CHECK(cudaMemcpy(to, from, bytes, kind));
    (kind == cudaMemcpyHostToDevice   ? done.to_device
     : kind == cudaMemcpyDeviceToHost ? done.to_host
                                      : done.on_device) += bytes;
}

int main(int argc, char** argv) {
    const size_t bytes = (argc > 1 ? strtoul(argv[1], nullptr, 10) : 8) << 20;
    char *device, *pinned;
    CHECK(cudaMalloc(&device, bytes));
    CHECK(cudaHostAlloc(&pinned, bytes, 0));
    memset(pinned, 1, bytes);
    std::vector<char> large(3 << 20, 2);  // from malloc
    char small[1000] = {};                // on the stack
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    bump<<<1, 1, 0, stream>>>((int*)device);
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    const unsigned long long captured = 1;  // a launch, too, as far as the worker knows
    done.launches = captured;
    do {
        for (int i = 0; i < 3; ++i) copy(device, pinned, bytes, cudaMemcpyHostToDevice);
        copy(pinned, device, bytes, cudaMemcpyDeviceToHost);
        copy(device, device + bytes / 2, bytes / 2, cudaMemcpyDeviceToDevice);
        copy(device, large.data(), large.size(), cudaMemcpyHostToDevice);
        copy(large.data(), device, large.size(), cudaMemcpyDeviceToHost);
        copy(device, small, sizeof small, cudaMemcpyHostToDevice);
        copy(small, device, sizeof small, cudaMemcpyDeviceToHost);
        CHECK(cudaMemcpy2D(device, 512, pinned, 1024, 100, 64, cudaMemcpyHostToDevice));
        done.to_device += 100 * 64;
        CHECK(cudaMemcpy2D(small, 20, device, 512, 10, 50, cudaMemcpyDeviceToHost));
        done.to_host += 10 * 50;
        for (int i = 0; i < 100; ++i) bump<<<1, 1, 0, stream>>>((int*)device), ++done.launches;
        for (int i = 0; i < 4; ++i, ++done.graphs) CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaDeviceSynchronize());
        printf(
            "{\"to_device\": %llu, \"to_host\": %llu, \"on_device\": %llu, \"launches\": %llu, \"graph_launches\": "
            "%llu, "
            "\"device_memory\": %zu}\nrunning\n",
            done.to_device, done.to_host, done.on_device, done.launches, done.graphs, bytes);
        fflush(stdout);
    } while (getchar() != EOF);
}
