// SPDX-License-Identifier: Apache-2.0
// graph.h: graphs: operations and their dependencies. Instantiation copies a graph. An executable graph has a plan: its
// operations in one order that keeps every dependency; a launch is one operation that runs the plan. A change of an
// executable graph makes a new plan: launches in flight keep theirs.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "soft-gpu/driver/driver.h"
#include "soft-gpu/driver/operations.h"

namespace barcuda::soft::driver {

struct Graph;
struct GraphExec;

struct GraphNode {
    GraphNode(Graph& graph, std::shared_ptr<Operation> operation);
    Graph& graph;
    const std::uint64_t number;  // unique; an address is used again
    std::shared_ptr<Operation> operation;
    std::vector<GraphNode*> after, before;                  // its dependencies, and the nodes that depend on it
    std::map<const GraphNode*, CUgraphEdgeData> edge_data;  // of dependencies that are not plain
    std::uint64_t original = 0;                             // in a clone: the number of the node that was copied
    bool enabled = true;                                    // in an executable graph

    CUgraphNode handle() const { return reinterpret_cast<CUgraphNode>(const_cast<GraphNode*>(this)); }
};

// An object that a program gave graphs to keep. Destroyed with the last reference.
struct UserObject {
    UserObject(void* data, CUhostFn destroy, unsigned references)
        : data(data), destroy(destroy), references(references) {}
    ~UserObject() { destroy(data); }
    void* const data;
    const CUhostFn destroy;
    unsigned references;  // of the program. Guarded by graphs_mutex()
};

// The object behind the handle of a conditional node's value. It ends with the last outermost graph in which it was
// made, and that graph's copies. Any graph inside that one may have the node, and at most one such node exists.
struct Condition {
    Condition(unsigned initial, bool assigned);
    ~Condition();
    const std::uint64_t handle;
    const unsigned initial;
    const bool assigned;  // set to `initial` when a launch begins
    bool used = false;    // a node has it
};

struct Graph : std::enable_shared_from_this<Graph> {
    ~Graph();
    const std::uint64_t number = Driver::get().next_id++;
    std::vector<std::shared_ptr<GraphNode>> nodes;  // in the order of their addition
    std::map<std::shared_ptr<UserObject>, unsigned> users;
    std::vector<std::shared_ptr<Condition>> conditions;
    bool embedded = false;    // part of a child node: destroyed with it
    Graph* inside = nullptr;  // the graph whose child node this is
    Graph& outermost() { return inside ? inside->outermost() : *this; }
    bool taken_in = false;               // it has been in another graph
    std::weak_ptr<GraphExec> instance;   // of a graph with memory: it may have one at a time
    std::size_t all_nodes = 0;           // its own nodes, and those of graphs inside it
    std::atomic<unsigned> captures = 0;  // captures that add nodes to it now, and remember the last ones

    // `edges`: null, or one for each dependency.
    GraphNode& add(std::shared_ptr<Operation> operation, const std::vector<GraphNode*>& after,
                   const CUgraphEdgeData* edges = nullptr);
    void remove(GraphNode& node);
    // Replaces the operation of one of its nodes.
    void replace(GraphNode& node, std::shared_ptr<Operation> operation);
    std::shared_ptr<Graph> clone() const;
    // Nodes in an order that keeps the dependencies. Throws CUDA_ERROR_INVALID_VALUE if they form a circle.
    std::vector<const GraphNode*> in_order() const;
    CUgraph handle() const { return reinterpret_cast<CUgraph>(const_cast<Graph*>(this)); }

  private:
    // Registers or removes the graphs inside an operation. Throws if they contain this graph, if the nesting is too
    // deep, or if there are too many nodes: clones of clones grow exponentially.
    void take_in(const Operation& operation);
    void let_go(const Operation& operation) noexcept;
    void grow(std::ptrdiff_t by) noexcept;
};

// Nodes that allocate memory or free it; and whether a graph, or one inside it, has such: it is not copied, keeps those
// nodes, and has one instance.
bool is_memory(const Operation& operation);
bool has_memory(const Graph& graph);

// Throws if they are already linked. A programmatic `edge` would let the second node begin early; here it always waits
// for the whole first node.
void link(GraphNode& first, GraphNode& second, const CUgraphEdgeData& edge = {});
CUgraphEdgeData edge_between(const GraphNode& first, const GraphNode& second);
void unlink(GraphNode& first, GraphNode& second);  // throws if they are not linked

struct ChildGraph final : Operation {
    explicit ChildGraph(std::shared_ptr<Graph> graph, bool moved = false);  // a clone, or the program's graph itself
    ~ChildGraph() override;  // if no graph took the node in, the program gets a moved graph back
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
    std::vector<CUgraph> handles;  // of the branches' graphs, as the program sees them
    void run(Context& context) override;
    CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_CONDITIONAL; }
    std::shared_ptr<Operation> copy() const override;
};

struct GraphExec {
    using Plan = std::vector<std::shared_ptr<Operation>>;
    GraphExec(const Graph& graph, unsigned long long flags);
    const std::uint64_t number = Driver::get().next_id++;

    std::shared_ptr<Graph> graph;                     // a clone of its own
    std::map<std::uint64_t, GraphNode*> of_original;  // by their numbers
    const unsigned long long flags;
    std::shared_ptr<const Plan> plan;
    std::mutex launching;
    Mark last;  // its launches run one after the other

    GraphNode& node_of(CUgraphNode original);  // throws CUDA_ERROR_INVALID_VALUE
    void plan_again();
    // Takes over the operations of `fresh` if both have the same shape: the same nodes in the same order, with the same
    // edges. Nodes keep their identity, also in graphs inside it: the originals' handles still refer to them.
    CUgraphExecUpdateResultInfo update(const Graph& fresh);
    void update(GraphNode& node, std::shared_ptr<Operation> fresh);  // one node; throws CUDA_ERROR_INVALID_VALUE

  private:
    void note_originals(const Graph& copy);  // notes its nodes, and those of graphs inside it
};

// A launch's operation.
struct GraphRun final : OperationOf<GraphRun, CU_GRAPH_NODE_TYPE_GRAPH> {
    std::uint64_t exec = 0;  // by its number
    std::shared_ptr<const GraphExec::Plan> plan;
    void run(Context& context) override;
};

std::vector<GraphNode*> nodes_of(const CUgraphNode* handles, std::size_t count);

// Guards the structure of all graphs; taken after a context's order, never before it.
std::mutex& graphs_mutex();

}  // namespace barcuda::soft::driver
