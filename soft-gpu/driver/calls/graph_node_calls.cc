// SPDX-License-Identifier: Apache-2.0
// graph_node_calls.cc: the nodes of graphs: adding them, and reading and changing their parameters, in a graph and in
// an executable one. A change of parameters replaces the node's operation.
#include <algorithm>

#include "soft-gpu/driver/copy.h"
#include "soft-gpu/driver/driver.h"
#include "soft-gpu/driver/graph_memory.h"
#include "soft-gpu/driver/graph_node.h"

namespace barcuda::soft::driver {

std::shared_ptr<Operation> kernel_operation(const CUDA_KERNEL_NODE_PARAMS_v2& asked) {
    require((asked.func != nullptr) != (asked.kern != nullptr));
    auto function = asked.func ? function_of(asked.func) : function_of(asked.kern);
    return make_launch(std::move(function),
                       {asked.gridDimX, asked.gridDimY, asked.gridDimZ, asked.blockDimX, asked.blockDimY,
                        asked.blockDimZ, asked.sharedMemBytes, nullptr, nullptr, 0},
                       false, asked.kernelParams, asked.extra);
}
std::shared_ptr<Operation> copy_operation(const CUDA_MEMCPY3D& asked) { return copy_box(asked); }
std::shared_ptr<Operation> fill_operation(const CUDA_MEMSET_NODE_PARAMS& asked) {
    require(asked.width != 0 && asked.height != 0);  // a call may fill nothing, a node may not
    return fill(asked);
}
std::shared_ptr<Operation> host_operation(const CUDA_HOST_NODE_PARAMS& asked) {
    require(asked.fn);
    auto call = std::make_shared<HostCall>();
    call->asked = asked;
    return call;
}
std::shared_ptr<Operation> child_operation(CUgraph graph) {
    const auto child = Driver::get().graphs.find(graph);
    if (has_memory(*child)) fail(CUDA_ERROR_NOT_SUPPORTED, "a graph with memory is not copied into another");
    return std::make_shared<ChildGraph>(child->clone());
}
std::shared_ptr<Operation> record_operation(CUevent event) {
    auto record = std::make_shared<EventRecord>();
    record->event = Driver::get().events.find(event);
    record->record = std::make_shared<Event::Record>();
    return record;
}
std::shared_ptr<Operation> wait_operation(CUevent event) {
    auto wait = std::make_shared<EventWait>();
    wait->event = Driver::get().events.find(event);
    return wait;
}
std::shared_ptr<Operation> values_operation(const CUDA_BATCH_MEM_OP_NODE_PARAMS& asked) {
    require(asked.flags == 0);
    return values(asked.paramArray, asked.count);
}

static std::shared_ptr<Operation> child_operation(const CUDA_CHILD_GRAPH_NODE_PARAMS& asked, const Graph* parent) {
    if (!parent || asked.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE) return child_operation(asked.graph);
    require(asked.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE);
    auto child = Driver::get().graphs.find(asked.graph);
    require(child.get() != parent && !child->embedded);
    return std::make_shared<ChildGraph>(std::move(child), true);
}

static std::shared_ptr<Operation> conditional_operation(CUDA_CONDITIONAL_NODE_PARAMS& asked, Graph& graph) {
    const auto& conditions = graph.outermost().conditions;
    const auto condition = std::find_if(conditions.begin(), conditions.end(),
                                        [&](const auto& each) { return each->handle == asked.handle; });
    require(condition != conditions.end() && !(*condition)->used);
    switch (asked.type) {
        case CU_GRAPH_COND_TYPE_IF: require(asked.size == 1 || asked.size == 2); break;
        case CU_GRAPH_COND_TYPE_WHILE: require(asked.size == 1); break;
        case CU_GRAPH_COND_TYPE_SWITCH: require(asked.size != 0); break;
        default: fail(CUDA_ERROR_INVALID_VALUE);
    }
    auto conditional = std::make_shared<Conditional>(asked.type, *condition, asked.size);
    asked.phGraph_out = conditional->handles.data();
    (*condition)->used = true;
    return conditional;
}

std::shared_ptr<Operation> operation_of(CUgraphNodeParams& asked, Graph* graph) {
    switch (asked.type) {
        case CU_GRAPH_NODE_TYPE_KERNEL: {
            const auto& k = asked.kernel;
            return kernel_operation({k.func, k.gridDimX, k.gridDimY, k.gridDimZ, k.blockDimX, k.blockDimY, k.blockDimZ,
                                     k.sharedMemBytes, k.kernelParams, k.extra, k.kern, k.ctx});
        }
        case CU_GRAPH_NODE_TYPE_MEMCPY: return copy_operation(asked.memcpy.copyParams);
        case CU_GRAPH_NODE_TYPE_MEMSET: {
            const auto& m = asked.memset;
            return fill_operation({m.dst, m.pitch, m.value, m.elementSize, m.width, m.height});
        }
        case CU_GRAPH_NODE_TYPE_HOST: return host_operation({asked.host.fn, asked.host.userData});
        case CU_GRAPH_NODE_TYPE_GRAPH: return child_operation(asked.graph, graph);
        case CU_GRAPH_NODE_TYPE_EMPTY: return std::make_shared<Nothing>();
        case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return record_operation(asked.eventRecord.event);
        case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return wait_operation(asked.eventWait.event);
        case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
            return values_operation({asked.memOp.ctx, asked.memOp.count, asked.memOp.paramArray, asked.memOp.flags});
        case CU_GRAPH_NODE_TYPE_CONDITIONAL:
            if (!graph) refuse("other parameters for a conditional graph node");
            return conditional_operation(asked.conditional, *graph);
        case CU_GRAPH_NODE_TYPE_MEM_ALLOC: refuse("a graph node that allocates memory");
        case CU_GRAPH_NODE_TYPE_MEM_FREE: refuse("a graph node that frees memory");
        default: refuse("a graph node of type " + std::to_string(asked.type));
    }
}

CUDA_KERNEL_NODE_PARAMS_v2 parameters_of(Launch& launch) {
    launch.pointers.clear();
    for (const Parameter& parameter : launch.function->info.parameters)
        launch.pointers.push_back(launch.parameters.data() + parameter.offset);
    const auto& [gx, gy, gz] = launch.config.grid;
    const auto& [bx, by, bz] = launch.config.block;
    return {handle_of(*launch.function),
            gx,
            gy,
            gz,
            bx,
            by,
            bz,
            static_cast<unsigned>(launch.config.dynamic_shared_bytes),
            launch.pointers.data(),
            nullptr,
            nullptr,
            nullptr};
}

namespace {

// `make` builds the operation from the parameters of the API.
template <class Make> CUresult add(CUgraphNode* made, CUgraph handle, const CUgraphNode* dependencies,
                                   std::size_t count, const Make& make, const CUgraphEdgeData* edges = nullptr,
                                   const char* name = __builtin_FUNCTION()) {
    return api(
        [&] {
            require(made);
            const auto graph = Driver::get().graphs.find(handle);
            auto operation = make();
            std::lock_guard lock(graphs_mutex());
            *made = graph->add(std::move(operation), nodes_of(dependencies, count), edges).handle();
        },
        name);
}

template <class Of> Of& operation_in(GraphNode& node) {
    auto* const operation = dynamic_cast<Of*>(node.operation.get());
    require(operation);
    return *operation;
}

// `use` gets the node's operation, which must be an Of.
template <class Of, class Use>
CUresult look(CUgraphNode handle, const Use& use, const char* name = __builtin_FUNCTION()) {
    return api(
        [&] {
            const auto node = Driver::get().nodes.find(handle);
            std::lock_guard lock(graphs_mutex());
            use(operation_in<Of>(*node));
        },
        name);
}

template <class Of, class Make>
CUresult change(CUgraphNode handle, const Make& make, const char* name = __builtin_FUNCTION()) {
    return api(
        [&] {
            const auto node = Driver::get().nodes.find(handle);
            auto operation = make();
            std::lock_guard lock(graphs_mutex());
            operation_in<Of>(*node);
            node->graph.replace(*node, std::move(operation));
        },
        name);
}

template <class Of, class Make> CUresult change(CUgraphExec exec_handle, CUgraphNode handle, const Make& make,
                                                const char* name = __builtin_FUNCTION()) {
    return api(
        [&] {
            const auto exec = Driver::get().execs.find(exec_handle);
            auto operation = make();
            std::lock_guard lock(graphs_mutex());
            GraphNode& node = exec->node_of(handle);
            operation_in<Of>(node);
            exec->update(node, std::move(operation));
        },
        name);
}

CUDA_KERNEL_NODE_PARAMS_v2 newer(const CUDA_KERNEL_NODE_PARAMS_v1& p) {
    return {p.func,      p.gridDimX,       p.gridDimY,     p.gridDimZ, p.blockDimX, p.blockDimY,
            p.blockDimZ, p.sharedMemBytes, p.kernelParams, p.extra,    nullptr,     nullptr};
}

}  // namespace
}  // namespace barcuda::soft::driver

using namespace barcuda::soft::driver;

// ---- adding ---------------------------------------------------------------------------------------------------------

CUresult cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                 const CUDA_KERNEL_NODE_PARAMS_v2* params) {
    return add(node, graph, dependencies, count, [&] {
        require(params);
        return kernel_operation(*params);
    });
}
CUresult cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                              const CUDA_KERNEL_NODE_PARAMS_v1* params) {
    return add(node, graph, dependencies, count, [&] {
        require(params);
        return kernel_operation(newer(*params));
    });
}
CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                              const CUDA_MEMCPY3D* params, CUcontext) {
    return add(node, graph, dependencies, count, [&] {
        require(params);
        return copy_operation(*params);
    });
}
CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                              const CUDA_MEMSET_NODE_PARAMS* params, CUcontext) {
    return add(node, graph, dependencies, count, [&] {
        require(params);
        return fill_operation(*params);
    });
}
CUresult cuGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                            const CUDA_HOST_NODE_PARAMS* params) {
    return add(node, graph, dependencies, count, [&] {
        require(params);
        return host_operation(*params);
    });
}
CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                  CUgraph child) {
    return add(node, graph, dependencies, count, [&] {
        require(child != graph);
        return child_operation(child);
    });
}
CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count) {
    return add(node, graph, dependencies, count, [] { return std::make_shared<Nothing>(); });
}
CUresult cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                   CUevent event) {
    return add(node, graph, dependencies, count, [&] { return record_operation(event); });
}
CUresult cuGraphAddEventWaitNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                 CUevent event) {
    return add(node, graph, dependencies, count, [&] { return wait_operation(event); });
}
CUresult cuGraphAddBatchMemOpNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                  const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
    return add(node, graph, dependencies, count, [&] {
        require(params);
        return values_operation(*params);
    });
}
CUresult cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                        CUgraphNodeParams* params) {
    return add(node, graph, dependencies, count, [&] {
        require(params);
        return operation_of(*params, Driver::get().graphs.find(graph).get());
    });
}
CUresult cuGraphAddNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                           const CUgraphEdgeData* edges, size_t count, CUgraphNodeParams* params) {
    return add(
        node, graph, dependencies, count,
        [&] {
            require(params);
            return operation_of(*params, Driver::get().graphs.find(graph).get());
        },
        edges, "cuGraphAddNode");
}

CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle* handle, CUgraph hGraph, CUcontext,
                                        unsigned int defaultLaunchValue, unsigned int flags) {
    return api([&] {
        require(handle && (flags & ~CU_GRAPH_COND_ASSIGN_DEFAULT) == 0);
        const auto graph = Driver::get().graphs.find(hGraph);
        auto condition = std::make_shared<Condition>(defaultLaunchValue, flags & CU_GRAPH_COND_ASSIGN_DEFAULT);
        std::lock_guard lock(graphs_mutex());
        *handle = condition->handle;
        graph->outermost().conditions.push_back(std::move(condition));
    });
}

// ---- kernels --------------------------------------------------------------------------------------------------------

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2* params) {
    return look<Launch>(node, [&](Launch& launch) {
        require(params);
        *params = parameters_of(launch);
    });
}
CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1* params) {
    return look<Launch>(node, [&](Launch& launch) {
        require(params);
        const auto p = parameters_of(launch);
        *params = {p.func,      p.gridDimX,  p.gridDimY,       p.gridDimZ,     p.blockDimX,
                   p.blockDimY, p.blockDimZ, p.sharedMemBytes, p.kernelParams, p.extra};
    });
}
CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2* params) {
    return change<Launch>(node, [&] {
        require(params);
        return kernel_operation(*params);
    });
}
CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* params) {
    return change<Launch>(node, [&] {
        require(params);
        return kernel_operation(newer(*params));
    });
}
CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS_v2* params) {
    return change<Launch>(exec, node, [&] {
        require(params);
        return kernel_operation(*params);
    });
}
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* params) {
    return change<Launch>(exec, node, [&] {
        require(params);
        return kernel_operation(newer(*params));
    });
}

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID attribute, CUkernelNodeAttrValue* value) {
    return look<Launch>(node, [&](Launch& launch) {
        require(value);
        *value = {};
        for (const CUlaunchAttribute& each : launch.attributes)
            if (each.id == attribute) *value = each.value;
        if (attribute == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) value->cooperative = launch.config.cooperative;
    });
}
CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID attribute,
                                       const CUkernelNodeAttrValue* value) {
    return look<Launch>(node, [&](Launch& launch) {
        require(value);
        if (attribute == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION &&
            value->clusterDim.x * value->clusterDim.y * value->clusterDim.z > 1)
            refuse("a launch in clusters");
        if (attribute == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) launch.config.cooperative = value->cooperative != 0;
        std::erase_if(launch.attributes, [&](const CUlaunchAttribute& each) { return each.id == attribute; });
        CUlaunchAttribute set{};
        set.id = attribute;
        set.value = *value;
        launch.attributes.push_back(set);
    });
}
CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src) {
    return look<Launch>(dst, [&](Launch& to) {
        const auto& from = operation_in<Launch>(*Driver::get().nodes.find(src));
        to.attributes = from.attributes;
        to.config.cooperative = from.config.cooperative;
    });
}

// ---- the other kinds ------------------------------------------------------------------------------------------------

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D* params) {
    return look<Copy>(node, [&](Copy& copy) {
        require(params);
        *params = copy.asked;
    });
}
CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* params) {
    return change<Copy>(node, [&] {
        require(params);
        return copy_operation(*params);
    });
}
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* params, CUcontext) {
    return change<Copy>(exec, node, [&] {
        require(params);
        return copy_operation(*params);
    });
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* params) {
    return look<Fill>(node, [&](Fill& fill) {
        require(params);
        *params = fill.asked;
    });
}
CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* params) {
    return change<Fill>(node, [&] {
        require(params);
        return fill_operation(*params);
    });
}
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* params,
                                        CUcontext) {
    return change<Fill>(exec, node, [&] {
        require(params);
        return fill_operation(*params);
    });
}

CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* params) {
    return look<HostCall>(node, [&](HostCall& call) {
        require(params);
        *params = call.asked;
    });
}
CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* params) {
    return change<HostCall>(node, [&] {
        require(params);
        return host_operation(*params);
    });
}
CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS* params) {
    return change<HostCall>(exec, node, [&] {
        require(params);
        return host_operation(*params);
    });
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* graph) {
    return look<ChildGraph>(node, [&](ChildGraph& child) {
        require(graph);
        *graph = child.graph->handle();
    });
}
CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child) {
    return change<ChildGraph>(exec, node, [&] { return child_operation(child); });
}

CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent* event) {
    return look<EventRecord>(node, [&](EventRecord& record) {
        require(event);
        *event = Handles<CUevent, Event>::handle_of(*record.event);
    });
}
CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) {
    return change<EventRecord>(node, [&] { return record_operation(event); });
}
CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
    return change<EventRecord>(exec, node, [&] { return record_operation(event); });
}
CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* event) {
    return look<EventWait>(node, [&](EventWait& wait) {
        require(event);
        *event = Handles<CUevent, Event>::handle_of(*wait.event);
    });
}
CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event) {
    return change<EventWait>(node, [&] { return wait_operation(event); });
}
CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
    return change<EventWait>(exec, node, [&] { return wait_operation(event); });
}

CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode node, CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
    return look<Values>(node, [&](Values& of) {
        require(params);
        *params = {nullptr, static_cast<unsigned>(of.asked.size()), of.asked.data(), 0};
    });
}
CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
    return change<Values>(node, [&] {
        require(params);
        return values_operation(*params);
    });
}
CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                            const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
    return change<Values>(exec, node, [&] {
        require(params);
        return values_operation(*params);
    });
}

CUresult cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams* params) {
    return api([&] {
        require(params);
        const auto node = Driver::get().nodes.find(hNode);
        auto operation = operation_of(*params);
        std::lock_guard lock(graphs_mutex());
        require(operation->type() == node->operation->type());
        node->graph.replace(*node, std::move(operation));
    });
}
CUresult cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeParams* params) {
    return api([&] {
        require(params);
        const auto exec = Driver::get().execs.find(hGraphExec);
        auto operation = operation_of(*params);
        std::lock_guard lock(graphs_mutex());
        exec->update(exec->node_of(hNode), std::move(operation));
    });
}
