// SPDX-License-Identifier: Apache-2.0
// graph_calls.cc: graphs as a whole: their structure, executable graphs, launches, and the objects that graphs keep.
#include <algorithm>
#include <fstream>

#include "soft-gpu/driver/copy.h"
#include "soft-gpu/driver/driver.h"
#include "soft-gpu/driver/graph_memory.h"
#include "soft-gpu/driver/graph_node.h"

namespace barcuda::soft::driver {

namespace {

GraphNode& node_of(CUgraphNode handle) { return *Driver::get().nodes.find(handle); }

// The API's two-step protocol: a null array asks for the number; an array gets as many entries as it holds, and then
// nulls.
template <class Each> void put_nodes(const std::vector<Each>& nodes, CUgraphNode* out, std::size_t* count) {
    require(count);
    if (out) {
        for (std::size_t i = 0; i < *count; ++i) out[i] = i < nodes.size() ? nodes[i]->handle() : nullptr;
        *count = std::min(*count, nodes.size());
    } else {
        *count = nodes.size();
    }
}
// A caller that does not ask for the data of edges must not miss any.
void put_data(const std::vector<CUgraphEdgeData>& edges, CUgraphEdgeData* out, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
        if (out) out[i] = edges[i];
        else require(edges[i].type == 0 && edges[i].from_port == 0, CUDA_ERROR_LOSSY_QUERY);
}

CUresult edges_of(CUgraph handle, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data, std::size_t* count,
                  const char* name) {
    return api(
        [&] {
            const auto graph = Driver::get().graphs.find(handle);
            std::lock_guard lock(graphs_mutex());
            std::vector<const GraphNode*> first, second;
            std::vector<CUgraphEdgeData> edges;
            for (const auto& node : graph->nodes)
                for (const GraphNode* before : node->after) {
                    first.push_back(before);
                    second.push_back(node.get());
                    edges.push_back(edge_between(*before, *node));
                }
            require(count && (from != nullptr) == (to != nullptr));
            std::size_t room = *count;
            put_nodes(first, from, &room);
            put_nodes(second, to, count);
            if (from) put_data(edges, data, *count);
        },
        name);
}

CUresult neighbours(CUgraphNode handle, bool dependents, CUgraphNode* out, CUgraphEdgeData* data, std::size_t* count,
                    const char* name) {
    return api(
        [&] {
            const GraphNode& node = node_of(handle);
            std::lock_guard lock(graphs_mutex());
            const auto& others = dependents ? node.before : node.after;
            std::vector<CUgraphEdgeData> edges;
            for (const GraphNode* each : others)
                edges.push_back(dependents ? edge_between(node, *each) : edge_between(*each, node));
            put_nodes(others, out, count);
            if (out) put_data(edges, data, *count);
        },
        name);
}

CUresult relink(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData* data,
                std::size_t count, bool adding, const char* name) {
    return api(
        [&] {
            const auto graph = Driver::get().graphs.find(handle);
            require(count == 0 || (from && to));
            std::lock_guard lock(graphs_mutex());
            for (std::size_t i = 0; i < count; ++i) {
                GraphNode &first = node_of(from[i]), &second = node_of(to[i]);
                require(&first.graph == graph.get());
                if (adding) link(first, second, data ? data[i] : CUgraphEdgeData{});
                else unlink(first, second);
            }
        },
        name);
}

CUresult instantiate(CUgraphExec* made, CUgraph handle, unsigned long long flags, const char* name) {
    return api(
        [&] {
            require(made);
            const auto graph = Driver::get().graphs.find(handle);
            // Kernels launch no graphs, and for an upload there must be a stream. (A node's priority is no flag of the
            // executable graph's, as NVIDIA's driver (580) tells them.)
            constexpr unsigned long long known =
                CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
            require((flags & ~known) == 0);
            std::lock_guard lock(graphs_mutex());
            const bool memory = has_memory(*graph);
            if (memory && !graph->instance.expired())
                fail(CUDA_ERROR_NOT_SUPPORTED, "a graph with memory has an instance");
            auto exec = std::make_shared<GraphExec>(*graph, flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
            if (memory) graph->instance = exec;
            for (const auto& operation : *exec->plan)
                if (const auto* filling = dynamic_cast<const Fill*>(operation.get()); filling && filling->captured)
                    require(is_there(filling->asked));
            *made = Driver::get().execs.add(std::move(exec));
        },
        name);
}

// Event nodes of a launch get records of their own, because an earlier launch may still use its records. Nodes that
// wait get the record to wait for.
std::shared_ptr<const GraphExec::Plan> plan_of_launch(const GraphExec& exec,
                                                      std::vector<std::shared_ptr<EventRecord>>& records) {
    std::shared_ptr<GraphExec::Plan> own;
    for (std::size_t i = 0; i < exec.plan->size(); ++i) {
        const auto* record = dynamic_cast<const EventRecord*>((*exec.plan)[i].get());
        const auto* wait = dynamic_cast<const EventWait*>((*exec.plan)[i].get());
        if (!record && !wait) continue;
        if (!own) own = std::make_shared<GraphExec::Plan>(*exec.plan);
        if (wait) {
            auto fresh = std::make_shared<EventWait>(*wait);
            fresh->record = wait->event->last();
            if (wait->event->shared) fresh->number = wait->event->shared->asked();
            (*own)[i] = std::move(fresh);
            continue;
        }
        auto fresh = std::make_shared<EventRecord>(*record);
        fresh->record = std::make_shared<Event::Record>();
        records.push_back(fresh);
        (*own)[i] = std::move(fresh);
    }
    return own ? own : exec.plan;
}

}  // namespace
}  // namespace barcuda::soft::driver

using namespace barcuda::soft::driver;

// ---- structure ------------------------------------------------------------------------------------------------------

CUresult cuGraphCreate(CUgraph* phGraph, unsigned int flags) {
    return api([&] {
        require(phGraph && flags == 0);
        *phGraph = Driver::get().graphs.add(std::make_shared<Graph>());
    });
}
CUresult cuGraphDestroy(CUgraph hGraph) {
    return api([&] {
        require(!Driver::get().graphs.find(hGraph)->embedded);
        Driver::get().graphs.take(hGraph);
    });
}
CUresult cuGraphClone(CUgraph* phGraphClone, CUgraph originalGraph) {
    return api([&] {
        require(phGraphClone);
        const auto graph = Driver::get().graphs.find(originalGraph);
        std::lock_guard lock(graphs_mutex());
        if (has_memory(*graph)) fail(CUDA_ERROR_NOT_SUPPORTED, "a graph with memory is not cloned");
        *phGraphClone = Driver::get().graphs.add(graph->clone());
    });
}
CUresult cuGraphNodeFindInClone(CUgraphNode* phNode, CUgraphNode hOriginalNode, CUgraph hClonedGraph) {
    return api([&] {
        require(phNode);
        const auto graph = Driver::get().graphs.find(hClonedGraph);
        const GraphNode& original = node_of(hOriginalNode);
        std::lock_guard lock(graphs_mutex());
        for (const auto& node : graph->nodes)
            if (node->original == original.number) {
                *phNode = node->handle();
                return CUDA_SUCCESS;
            }
        return CUDA_ERROR_INVALID_VALUE;
    });
}
CUresult cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType* type) {
    return api([&] {
        require(type);
        *type = node_of(hNode).operation->type();
    });
}
CUresult cuGraphDestroyNode(CUgraphNode hNode) {
    return api([&] {
        const auto node = Driver::get().nodes.find(hNode);
        std::lock_guard lock(graphs_mutex());
        require(node->graph.captures == 0, CUDA_ERROR_ILLEGAL_STATE);
        if (is_memory(*node->operation)) fail(CUDA_ERROR_NOT_SUPPORTED, "a node of memory stays in its graph");
        node->graph.remove(*node);
    });
}
CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode* nodes, size_t* numNodes) {
    return api([&] {
        const auto graph = Driver::get().graphs.find(hGraph);
        std::lock_guard lock(graphs_mutex());
        put_nodes(graph->nodes, nodes, numNodes);
    });
}
CUresult cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode* rootNodes, size_t* numRootNodes) {
    return api([&] {
        const auto graph = Driver::get().graphs.find(hGraph);
        std::lock_guard lock(graphs_mutex());
        std::vector<const GraphNode*> roots;
        for (const auto& node : graph->nodes)
            if (node->after.empty()) roots.push_back(node.get());
        put_nodes(roots, rootNodes, numRootNodes);
    });
}
CUresult cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* edgeData,
                            size_t* numEdges) {
    return edges_of(hGraph, from, to, edgeData, numEdges, "cuGraphGetEdges");
}
CUresult cuGraphGetEdges(CUgraph hGraph, CUgraphNode* from, CUgraphNode* to, size_t* numEdges) {
    return edges_of(hGraph, from, to, nullptr, numEdges, "cuGraphGetEdges");
}
CUresult cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode* dependencies, CUgraphEdgeData* edgeData,
                                       size_t* numDependencies) {
    return neighbours(hNode, false, dependencies, edgeData, numDependencies, "cuGraphNodeGetDependencies");
}
CUresult cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode* dependencies, size_t* numDependencies) {
    return neighbours(hNode, false, dependencies, nullptr, numDependencies, "cuGraphNodeGetDependencies");
}
CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode* dependentNodes, CUgraphEdgeData* edgeData,
                                         size_t* count) {
    return neighbours(hNode, true, dependentNodes, edgeData, count, "cuGraphNodeGetDependentNodes");
}
CUresult cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode* dependentNodes, size_t* count) {
    return neighbours(hNode, true, dependentNodes, nullptr, count, "cuGraphNodeGetDependentNodes");
}
CUresult cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                   const CUgraphEdgeData* edgeData, size_t count) {
    return relink(hGraph, from, to, edgeData, count, true, "cuGraphAddDependencies");
}
CUresult cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to, size_t count) {
    return relink(hGraph, from, to, nullptr, count, true, "cuGraphAddDependencies");
}
CUresult cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                      const CUgraphEdgeData*, size_t count) {
    return relink(hGraph, from, to, nullptr, count, false, "cuGraphRemoveDependencies");
}
CUresult cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to, size_t count) {
    return relink(hGraph, from, to, nullptr, count, false, "cuGraphRemoveDependencies");
}

CUresult cuGraphDebugDotPrint(CUgraph hGraph, const char* path, unsigned int) {
    return api([&] {
        require(path);
        const auto graph = Driver::get().graphs.find(hGraph);
        constexpr const char* kinds[] = {"kernel", "memcpy", "memset",     "host",
                                         "graph",  "empty",  "wait event", "record event"};
        std::lock_guard lock(graphs_mutex());
        std::ofstream dot(path);
        dot << "digraph graph_ {\n";
        for (const auto& node : graph->nodes) {
            const auto type = static_cast<std::size_t>(node->operation->type());
            dot << "  \"" << node.get() << "\" [label=\"" << (type < std::size(kinds) ? kinds[type] : "node");
            if (const auto* launch = dynamic_cast<const Launch*>(node->operation.get()))
                dot << "\\n" << launch->function->info.name;
            dot << "\"];\n";
            for (const GraphNode* next : node->before) dot << "  \"" << node.get() << "\" -> \"" << next << "\";\n";
        }
        dot << "}\n";
        require(dot.good(), CUDA_ERROR_OPERATING_SYSTEM);
    });
}

// ---- executable graphs ----------------------------------------------------------------------------------------------

CUresult cuGraphInstantiateWithFlags(CUgraphExec* phGraphExec, CUgraph hGraph, unsigned long long flags) {
    return instantiate(phGraphExec, hGraph, flags, "cuGraphInstantiate");
}
CUresult cuGraphInstantiate(CUgraphExec* phGraphExec, CUgraph hGraph, CUgraphNode* phErrorNode, char* logBuffer,
                            size_t bufferSize) {
    if (phErrorNode) *phErrorNode = nullptr;
    if (logBuffer && bufferSize != 0) *logBuffer = '\0';
    return instantiate(phGraphExec, hGraph, 0, "cuGraphInstantiate");
}
CUresult cuGraphInstantiate_v2(CUgraphExec* phGraphExec, CUgraph hGraph, CUgraphNode* phErrorNode, char* logBuffer,
                               size_t bufferSize) {
    return cuGraphInstantiate(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
}
CUresult cuGraphInstantiateWithParams(CUgraphExec* phGraphExec, CUgraph hGraph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams) {
    if (!instantiateParams) return CUDA_ERROR_INVALID_VALUE;
    const auto flags = instantiateParams->flags & ~cuuint64_t{CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD};
    const CUresult result = instantiate(phGraphExec, hGraph, flags, "cuGraphInstantiate");
    instantiateParams->hErrNode_out = nullptr;
    instantiateParams->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS
                                    : flags == CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH
                                        ? CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED
                                        : CUDA_GRAPH_INSTANTIATE_ERROR;
    return result;
}
CUresult cuGraphExecDestroy(CUgraphExec hGraphExec) {
    return api([&] { Driver::get().execs.take(hGraphExec); });  // a launch in flight keeps its plan
}
CUresult cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t* flags) {
    return api([&] {
        require(flags);
        *flags = Driver::get().execs.find(hGraphExec)->flags;
    });
}
CUresult cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream) {
    return api([&] {
        Driver::get().execs.find(hGraphExec);
        refuse_while_capturing(*stream_of(hStream));  // there is no device to upload to
    });
}

CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream) {
    return api([&] {
        const auto exec = Driver::get().execs.find(hGraphExec);
        const auto stream = stream_of(hStream);
        refuse_while_capturing(*stream);
        std::vector<std::shared_ptr<EventRecord>> records;
        auto run = std::make_shared<GraphRun>();
        run->exec = exec->number;
        std::unique_lock lock(exec->launching);  // one launch at a time, in the order of the calls
        {
            std::lock_guard structure(graphs_mutex());
            note_launch(*exec);
            run->plan = plan_of_launch(*exec, records);
        }
        exec->last = stream->context().post(*stream, std::move(run), {exec->last});
        for (const auto& each : records) {  // waiting for one is waiting for the whole launch
            std::lock_guard event(each->event->mutex);
            each->record->mark = exec->last;
            each->event->record = each->record;
            each->event->capture = nullptr;
        }
    });
}

CUresult cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled) {
    return api([&] {
        const auto exec = Driver::get().execs.find(hGraphExec);
        std::lock_guard lock(graphs_mutex());
        GraphNode& node = exec->node_of(hNode);
        const CUgraphNodeType type = node.operation->type();
        require(type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMSET ||
                type == CU_GRAPH_NODE_TYPE_MEMCPY);
        node.enabled = isEnabled != 0;
        exec->plan_again();
    });
}
CUresult cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int* isEnabled) {
    return api([&] {
        require(isEnabled);
        const auto exec = Driver::get().execs.find(hGraphExec);
        std::lock_guard lock(graphs_mutex());
        *isEnabled = exec->node_of(hNode).enabled;
    });
}

CUresult cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo* resultInfo) {
    return api([&] {
        require(resultInfo);
        *resultInfo = {CU_GRAPH_EXEC_UPDATE_ERROR, nullptr, nullptr};
        const auto exec = Driver::get().execs.find(hGraphExec);
        const auto graph = Driver::get().graphs.find(hGraph);
        std::lock_guard lock(graphs_mutex());
        *resultInfo = exec->update(*graph);
        return resultInfo->result == CU_GRAPH_EXEC_UPDATE_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    });
}
CUresult cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode* hErrorNode_out,
                           CUgraphExecUpdateResult* updateResult_out) {
    CUgraphExecUpdateResultInfo info;
    const CUresult result = cuGraphExecUpdate_v2(hGraphExec, hGraph, &info);
    if (hErrorNode_out) *hErrorNode_out = info.errorNode;
    if (updateResult_out) *updateResult_out = info.result;
    return result;
}

// ---- user objects ---------------------------------------------------------------------------------------------------

namespace {

// Drops references of the program; the object ends with the last reference.
std::shared_ptr<UserObject> release(CUuserObject handle, unsigned count) {
    const auto object = Driver::get().user_objects.find(handle);
    std::lock_guard lock(graphs_mutex());
    require(count != 0 && count <= object->references);
    if ((object->references -= count) == 0) Driver::get().user_objects.drop(handle);
    return object;
}

}  // namespace

CUresult cuUserObjectCreate(CUuserObject* object_out, void* ptr, CUhostFn destroy, unsigned int initialRefcount,
                            unsigned int flags) {
    return api([&] {
        require(object_out && destroy && initialRefcount != 0 && flags == CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
        *object_out = Driver::get().user_objects.add(std::make_shared<UserObject>(ptr, destroy, initialRefcount));
    });
}
CUresult cuUserObjectRetain(CUuserObject object, unsigned int count) {
    return api([&] {
        require(count != 0);
        const auto found = Driver::get().user_objects.find(object);
        std::lock_guard lock(graphs_mutex());
        found->references += count;
    });
}
CUresult cuUserObjectRelease(CUuserObject object, unsigned int count) {
    return api([&] { release(object, count); });
}
CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags) {
    return api([&] {
        require(count != 0 && (flags == 0 || flags == CU_GRAPH_USER_OBJECT_MOVE));
        const auto keeper = Driver::get().graphs.find(graph);
        const auto kept =
            flags == CU_GRAPH_USER_OBJECT_MOVE ? release(object, count) : Driver::get().user_objects.find(object);
        std::lock_guard lock(graphs_mutex());
        keeper->users[kept] += count;
    });
}
CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count) {
    return api([&] {
        const auto keeper = Driver::get().graphs.find(graph);
        std::shared_ptr<UserObject> gone;  // destroyed after the lock
        std::lock_guard lock(graphs_mutex());
        const auto found = std::find_if(keeper->users.begin(), keeper->users.end(), [&](const auto& each) {
            return Handles<CUuserObject, UserObject>::handle_of(*each.first) == object;
        });
        if (found == keeper->users.end()) return;  // NVIDIA's driver (580) takes it
        require(count != 0 && count <= found->second);
        gone = found->first;
        if ((found->second -= count) == 0) keeper->users.erase(found);
    });
}
