// SPDX-License-Identifier: Apache-2.0
// graph_memory.h: memory that a graph allocates. Its address is fixed when the node is made, and the graph keeps its
// memory while the graph or an executable copy exists: an allocation node only marks it as in use, a free as unused.
// What is in use when the last graph ends stays until the program frees it.
#pragma once
#include <atomic>
#include <memory>

#include "soft-gpu/driver/graph.h"

namespace barcuda::soft::driver {

struct GraphMemory {
    GraphMemory(std::size_t size, CUcontext context, int device);  // throws CUDA_ERROR_OUT_OF_MEMORY
    ~GraphMemory();
    const std::size_t size;
    const int device;
    CUdeviceptr address = 0;
    std::atomic<bool> in_use{false};     // in the order of the work
    std::atomic<bool> allocated{false};  // in the order of the calls; launches are refused by it
};

struct GraphAllocate final : OperationOf<GraphAllocate, CU_GRAPH_NODE_TYPE_MEM_ALLOC> {
    CUDA_MEM_ALLOC_NODE_PARAMS asked{};
    std::shared_ptr<GraphMemory> memory;  // shared with the copies of the graph
    void run(Context&) override;
};
struct GraphFree final : OperationOf<GraphFree, CU_GRAPH_NODE_TYPE_MEM_FREE> {
    CUdeviceptr address = 0;
    void run(Context&) override;
};

std::shared_ptr<GraphAllocate> allocate_in_graph(const CUDA_MEM_ALLOC_NODE_PARAMS& asked, CUcontext context);
std::shared_ptr<GraphFree> free_in_graph(CUdeviceptr address);

// A free outside of graphs, at the time of the call: the next launch may allocate the memory.
void note_free(CUdeviceptr address);
// The same when the work is done. True: the address belongs to a graph, and is only marked.
bool free_graph_memory(CUdeviceptr address);
// Called before a launch is given to a stream, with the lock of all graphs. Throws CUDA_ERROR_INVALID_VALUE if the
// launch would allocate what an earlier one has left allocated.
void note_launch(const GraphExec& exec);

}  // namespace barcuda::soft::driver
