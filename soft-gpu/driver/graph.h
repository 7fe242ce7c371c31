// SPDX-License-Identifier: Apache-2.0
// graph.h: graphs: operations and what must come before what. Instantiating one copies it; an executable graph has a
// plan, its operations in one order that keeps every dependency, and a launch is one operation that runs the plan.
// Changing an executable graph makes a new plan: launches in flight keep theirs.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "soft-gpu/driver/operations.h"

namespace barcuda::soft::driver {

struct Graph;

struct GraphNode {
    GraphNode(Graph& graph, std::shared_ptr<Operation> operation) : graph(graph), operation(std::move(operation)) {}
    Graph& graph;
    std::shared_ptr<Operation> operation;
    std::vector<GraphNode*> after, before;                  // its dependencies, and its dependents
    std::map<const GraphNode*, CUgraphEdgeData> edge_data;  // of those dependencies that are not plain
    const GraphNode* original = nullptr;                    // of a clone's node
    bool enabled = true;                                    // of an executable graph's node

    CUgraphNode handle() const { return reinterpret_cast<CUgraphNode>(const_cast<GraphNode*>(this)); }
};

// What a program gave a graph to keep. Gone with the last reference.
struct UserObject {
    UserObject(void* data, CUhostFn destroy, unsigned references)
        : data(data), destroy(destroy), references(references) {}
    ~UserObject() { destroy(data); }
    void* const data;
    const CUhostFn destroy;
    unsigned references;  // the program's own. Guarded by graphs_mutex()
};

// What the handle of a conditional node's value stands for: gone with the last outermost graph that it was made in, and its
// copies. Any graph in that one may have the node, and there is one such node at most.
struct Condition {
    Condition(unsigned initial, bool assigned);
    ~Condition();
    const std::uint64_t handle;
    const unsigned initial;
    const bool assigned;  // `initial`, when a launch begins
    bool used = false;    // a node has it
};

struct Graph : std::enable_shared_from_this<Graph> {
    ~Graph();
    std::vector<std::shared_ptr<GraphNode>> nodes;  // as they were added
    std::map<std::shared_ptr<UserObject>, unsigned> users;
    std::vector<std::shared_ptr<Condition>> conditions;
    bool embedded = false;    // a child node's: destroyed with it
    Graph* inside = nullptr;  // whose child node's
    Graph& outermost() { return inside ? inside->outermost() : *this; }
    bool taken_in = false;               // it has been in one
    std::size_t all_nodes = 0;           // its own, and those of graphs in it
    std::atomic<unsigned> captures = 0;  // that make nodes of it now, and remember which came last

    // `edges`: null, or as many as it comes after.
    GraphNode& add(std::shared_ptr<Operation> operation, const std::vector<GraphNode*>& after,
                   const CUgraphEdgeData* edges = nullptr);
    void remove(GraphNode& node);
    // Another operation for one of its nodes.
    void replace(GraphNode& node, std::shared_ptr<Operation> operation);
    std::shared_ptr<Graph> clone() const;
    // Nodes in an order that keeps the dependencies. Throws CUDA_ERROR_INVALID_VALUE if they form a circle.
    std::vector<const GraphNode*> in_order() const;
    CUgraph handle() const { return reinterpret_cast<CUgraph>(const_cast<Graph*>(this)); }

  private:
    // Graphs in an operation come to lie in this one, or do so no more. Throws if they lead back here, and where there
    // would be too many in each other, or too many nodes: clones of clones grow with each by as much again.
    void take_in(const Operation& operation);
    void let_go(const Operation& operation) noexcept;
    void grow(std::ptrdiff_t by) noexcept;
};

// Throws if they are linked already. What `edge` allows to begin early, begins when it may at the latest: here a dependency
// is always the whole of its node.
void link(GraphNode& first, GraphNode& second, const CUgraphEdgeData& edge = {});
CUgraphEdgeData edge_between(const GraphNode& first, const GraphNode& second);
void unlink(GraphNode& first, GraphNode& second);  // throws if they are not

struct ChildGraph final : Operation {
    explicit ChildGraph(std::shared_ptr<Graph> graph, bool moved = false);  // a graph of its own, or the program's
    ~ChildGraph() override;  // of one that no graph took in: what the program moved here is the program's again
    const std::shared_ptr<Graph> graph;
    const bool moved;
    void run(Context& context) override;
    CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_GRAPH; }
    std::shared_ptr<Operation> copy() const override { return std::make_shared<ChildGraph>(graph->clone()); }
};

struct Conditional final : Operation {
    Conditional(CUgraphConditionalNodeType kind, std::shared_ptr<Condition> condition, std::size_t branches);
    const CUgraphConditionalNodeType kind;
    const std::shared_ptr<Condition> condition;
    std::vector<std::shared_ptr<ChildGraph>> branches;
    std::vector<CUgraph> handles;  // of the branches' graphs, as the program is shown them
    void run(Context& context) override;
    CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_CONDITIONAL; }
    std::shared_ptr<Operation> copy() const override;
};

struct GraphExec {
    using Plan = std::vector<std::shared_ptr<Operation>>;
    GraphExec(const Graph& graph, unsigned long long flags);

    std::shared_ptr<Graph> graph;  // a clone of its own
    std::map<const GraphNode*, GraphNode*> of_original;
    const unsigned long long flags;
    std::shared_ptr<const Plan> plan;
    std::mutex launching;
    Mark last;  // its launches run one after the other

    GraphNode& node_of(CUgraphNode original);  // throws CUDA_ERROR_INVALID_VALUE
    void plan_again();
    // Takes over what `fresh` does where both have the same shape: the same nodes in the same order, with the same edges. Nodes stay
    // which they are, in graphs within it too: the originals' handles go on to mean them.
    CUgraphExecUpdateResultInfo update(const Graph& fresh);
    void update(GraphNode& node, std::shared_ptr<Operation> fresh);  // one of them; throws CUDA_ERROR_INVALID_VALUE

  private:
    void note_originals(const Graph& copy);  // those of its nodes, and of nodes of graphs in it
};

// A launch's operation.
struct GraphRun final : OperationOf<GraphRun, CU_GRAPH_NODE_TYPE_GRAPH> {
    std::shared_ptr<const GraphExec::Plan> plan;
    void run(Context& context) override;
};

std::vector<GraphNode*> nodes_of(const CUgraphNode* handles, std::size_t count);

// Guards the structure of all graphs; taken after a context's order, never before it.
std::mutex& graphs_mutex();

}  // namespace barcuda::soft::driver
