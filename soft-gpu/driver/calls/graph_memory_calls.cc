// SPDX-License-Identifier: Apache-2.0
// graph_memory_calls.cc: see graph_memory.h.
#include "soft-gpu/driver/graph_memory.h"

#include <algorithm>

#include "soft-gpu/driver/driver.h"
#include "soft-gpu/driver/pool.h"

namespace barcuda::soft::driver {
namespace {

// All graphs' memory of a device, as cuDeviceGetGraphMemAttribute reports it.
struct Total {
    std::atomic<std::uint64_t> reserved{0}, reserved_high{0}, used{0}, used_high{0};
    static void raise(std::atomic<std::uint64_t>& high, std::uint64_t now) {
        for (std::uint64_t before = high; before < now && !high.compare_exchange_weak(before, now);) {}
    }
};
Total totals[most_devices];

void set_in_use(GraphMemory& memory, bool in_use) {
    if (memory.in_use.exchange(in_use) == in_use) return;
    const std::uint64_t bytes = Heap::rounded(memory.size);
    Total& total = totals[memory.device];
    if (in_use) Total::raise(total.used_high, total.used += bytes);
    else total.used -= bytes;
}

}  // namespace

GraphMemory::GraphMemory(std::size_t size, CUcontext context, int device) : size(size), device(device) {
    address = Driver::get().memory.allocate(
        {.size = size, .kind = Allocation::Kind::device, .context = context, .device = device});
    Total& total = totals[device];
    Total::raise(total.reserved_high, total.reserved += Heap::rounded(size));
}

GraphMemory::~GraphMemory() {
    Total& total = totals[device];
    total.reserved -= Heap::rounded(size);
    if (in_use) {  // from now on like any other allocation
        total.used -= Heap::rounded(size);
        return;
    }
    Driver::get().memory.remove_all([&](const Allocation& allocation) { return allocation.base == address; });
}

std::shared_ptr<GraphAllocate> allocate_in_graph(const CUDA_MEM_ALLOC_NODE_PARAMS& asked, CUcontext context) {
    require(asked.bytesize != 0 && asked.poolProps.allocType == CU_MEM_ALLOCATION_TYPE_PINNED);
    require(asked.poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE);
    require_device(asked.poolProps.location.id);
    auto node = std::make_shared<GraphAllocate>();
    node->memory = std::make_shared<GraphMemory>(asked.bytesize, context, asked.poolProps.location.id);
    Driver::get().memory.change(node->memory->address,
                                [&](Allocation& allocation) { allocation.graph = node->memory; });
    node->asked = asked;
    node->asked.accessDescs = nullptr;
    node->asked.accessDescCount = 0;
    node->asked.dptr = node->memory->address;
    return node;
}

std::shared_ptr<GraphFree> free_in_graph(CUdeviceptr address) {
    const auto target = Driver::get().memory.find(address);
    require(target && target->base == address && target->of_graph());
    auto node = std::make_shared<GraphFree>();
    node->address = address;
    return node;
}

void GraphAllocate::run(Context&) { set_in_use(*memory, true); }

void GraphFree::run(Context&) {
    if (free_graph_memory(address)) return;
    const Allocation gone =
        Driver::get().memory.remove(address, [](const Allocation& allocation) { return allocation.in_heap(); });
    if (gone.pool) gone.pool->give(Heap::rounded(gone.size));
}

namespace {
std::shared_ptr<GraphMemory> graph_memory_at(CUdeviceptr address) {
    const auto target = Driver::get().memory.find(address);
    const auto memory = target ? target->graph.lock() : nullptr;
    return memory && memory->address == address ? memory : nullptr;
}
}  // namespace

void note_free(CUdeviceptr address) {
    if (const auto memory = graph_memory_at(address)) memory->allocated = false;
}

bool free_graph_memory(CUdeviceptr address) {
    const auto memory = graph_memory_at(address);
    if (memory) set_in_use(*memory, false);
    return memory != nullptr;
}

void note_launch(const GraphExec& exec) {
    std::vector<CUdeviceptr> freed;
    std::vector<GraphMemory*> left;  // still allocated after the launch
    for (const auto& operation : *exec.plan)
        if (const auto* node = dynamic_cast<const GraphFree*>(operation.get())) freed.push_back(node->address);
    for (const auto& operation : *exec.plan)
        if (const auto* node = dynamic_cast<const GraphAllocate*>(operation.get()))
            if (std::ranges::find(freed, node->memory->address) == freed.end()) left.push_back(node->memory.get());
    if (!(exec.flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH))
        for (const GraphMemory* memory : left) require(!memory->allocated);
    for (const CUdeviceptr address : freed) note_free(address);
    for (GraphMemory* memory : left) memory->allocated = true;
}

}  // namespace barcuda::soft::driver

using namespace barcuda::soft::driver;

CUresult cuGraphAddMemAllocNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                size_t numDependencies, CUDA_MEM_ALLOC_NODE_PARAMS* nodeParams) {
    return api([&] {
        require(phGraphNode && nodeParams);
        const auto graph = Driver::get().graphs.find(hGraph);
        auto node = allocate_in_graph(*nodeParams, current_context()->handle());
        nodeParams->dptr = node->memory->address;
        std::lock_guard lock(graphs_mutex());
        *phGraphNode = graph->add(std::move(node), nodes_of(dependencies, numDependencies)).handle();
    });
}
CUresult cuGraphMemAllocNodeGetParams(CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS* params_out) {
    return api([&] {
        const auto node = Driver::get().nodes.find(hNode);
        const auto* allocate = dynamic_cast<const GraphAllocate*>(node->operation.get());
        require(params_out && allocate);
        *params_out = allocate->asked;
    });
}
CUresult cuGraphAddMemFreeNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                               size_t numDependencies, CUdeviceptr dptr) {
    return api([&] {
        require(phGraphNode);
        const auto graph = Driver::get().graphs.find(hGraph);
        auto node = free_in_graph(dptr);
        std::lock_guard lock(graphs_mutex());
        require(std::ranges::none_of(graph->nodes, [=](const auto& each) {
            const auto* const free = dynamic_cast<const GraphFree*>(each->operation.get());
            return free && free->address == dptr;
        }));
        *phGraphNode = graph->add(std::move(node), nodes_of(dependencies, numDependencies)).handle();
    });
}
CUresult cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr* dptr_out) {
    return api([&] {
        const auto node = Driver::get().nodes.find(hNode);
        const auto* free = dynamic_cast<const GraphFree*>(node->operation.get());
        require(dptr_out && free);
        *dptr_out = free->address;
    });
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void* value) {
    return api([&] {
        require(value);
        require_device(device);
        const Total& total = totals[device];
        auto& out = *static_cast<cuuint64_t*>(value);
        switch (attr) {
            case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT: out = total.used; return;
            case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH: out = total.used_high; return;
            case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT: out = total.reserved; return;
            case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH: out = total.reserved_high; return;
            default: fail(CUDA_ERROR_INVALID_VALUE);
        }
    });
}
CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void* value) {
    return api([&] {
        require_device(device);
        Total& total = totals[device];
        require(value && *static_cast<const cuuint64_t*>(value) == 0);  // CUDA allows only a reset of a high mark
        switch (attr) {
            case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH: total.used_high = total.used.load(); return;
            case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH: total.reserved_high = total.reserved.load(); return;
            default: fail(CUDA_ERROR_INVALID_VALUE);
        }
    });
}
CUresult cuDeviceGraphMemTrim(CUdevice device) {
    return api([&] { require_device(device); });  // a graph's memory is freed with the graph
}
