// SPDX-License-Identifier: Apache-2.0
// graph.cc: see graph.h.
#include "soft-gpu/driver/graph.h"

#include <algorithm>

#include "soft-gpu/conditions.h"
#include "soft-gpu/driver/driver.h"

namespace barcuda::soft::driver {

std::mutex& graphs_mutex() {
    static auto* const mutex = new std::mutex;
    return *mutex;
}

// ---- structure ------------------------------------------------------------------------------------------------------

namespace {

constexpr std::size_t most_levels = 64, most_nodes = 1 << 16;

template <class Each> void for_graphs_in(const Operation& operation, const Each& each) {
    if (const auto* child = dynamic_cast<const ChildGraph*>(&operation)) each(*child->graph);
    if (const auto* conditional = dynamic_cast<const Conditional*>(&operation))
        for (const auto& branch : conditional->branches) each(*branch->graph);
}
std::size_t levels(const Graph& graph) {
    std::size_t below = 0;
    for (const auto& node : graph.nodes)
        for_graphs_in(*node->operation, [&](const Graph& in) { below = std::max(below, levels(in)); });
    return 1 + below;
}

}  // namespace

bool is_memory(const Operation& operation) {
    return operation.type() == CU_GRAPH_NODE_TYPE_MEM_ALLOC || operation.type() == CU_GRAPH_NODE_TYPE_MEM_FREE;
}
bool has_memory(const Graph& graph) {
    bool any = false;
    for (const auto& node : graph.nodes) {
        any = any || is_memory(*node->operation);
        for_graphs_in(*node->operation, [&](const Graph& in) { any = any || has_memory(in); });
    }
    return any;
}

GraphNode::GraphNode(Graph& graph, std::shared_ptr<Operation> operation)
    : graph(graph),
      number([] {
          static std::atomic<std::uint64_t> last = 0;
          return ++last;
      }()),
      operation(std::move(operation)) {}

Graph::~Graph() {
    for (const auto& node : nodes) {
        for_graphs_in(*node->operation, [](Graph& in) { in.inside = nullptr; });
        Driver::get().nodes.drop(node->handle());
    }
}

void Graph::grow(std::ptrdiff_t by) noexcept {
    for (Graph* each = this; each; each = each->inside) each->all_nodes += static_cast<std::size_t>(by);
}

void Graph::take_in(const Operation& operation) {
    std::size_t more = 0, below = 0, above = 0;
    const Graph* top = this;
    for_graphs_in(operation, [&](const Graph& in) {
        more += in.all_nodes;
        below = std::max(below, levels(in));
    });
    for (const Graph* each = this; each; top = each, each = each->inside) {
        ++above;
        for_graphs_in(operation, [&](const Graph& in) { require(&in != each); });
    }
    if (below != 0 && (above + below > most_levels || top->all_nodes + more > most_nodes))
        fail(CUDA_ERROR_OUT_OF_MEMORY);
    for_graphs_in(operation, [this](Graph& in) {
        in.inside = this;
        in.taken_in = true;
    });
    grow(static_cast<std::ptrdiff_t>(more));
}

void Graph::let_go(const Operation& operation) noexcept {
    for_graphs_in(operation, [this](Graph& in) {
        in.inside = nullptr;
        grow(-static_cast<std::ptrdiff_t>(in.all_nodes));
    });
}

void Graph::replace(GraphNode& node, std::shared_ptr<Operation> operation) {
    let_go(*node.operation);
    try {
        take_in(*operation);
    } catch (...) {
        take_in(*node.operation);
        throw;
    }
    node.operation = std::move(operation);
}

GraphNode& Graph::add(std::shared_ptr<Operation> operation, const std::vector<GraphNode*>& after,
                      const CUgraphEdgeData* edges) {
    auto node = std::make_shared<GraphNode>(*this, std::move(operation));
    try {
        for (std::size_t i = 0; i < after.size(); ++i) {
            require(&after[i]->graph == this);
            link(*after[i], *node, edges ? edges[i] : CUgraphEdgeData{});
        }
        take_in(*node->operation);
    } catch (...) {  // a dependency that was named twice, for example: no node may keep a missing one
        while (!node->after.empty()) unlink(*node->after.back(), *node);
        throw;
    }
    Driver::get().nodes.add(node);
    nodes.push_back(node);
    grow(1);
    return *node;
}

void Graph::remove(GraphNode& node) {
    while (!node.after.empty()) unlink(*node.after.back(), node);
    while (!node.before.empty()) unlink(node, *node.before.back());
    Driver::get().nodes.take(node.handle());
    let_go(*node.operation);
    grow(-1);
    std::erase_if(nodes, [&](const auto& each) { return each.get() == &node; });
}

std::vector<GraphNode*> nodes_of(const CUgraphNode* handles, std::size_t count) {
    require(handles || count == 0);
    std::vector<GraphNode*> nodes;
    for (std::size_t i = 0; i < count; ++i) nodes.push_back(Driver::get().nodes.find(handles[i]).get());
    return nodes;
}

void link(GraphNode& first, GraphNode& second, const CUgraphEdgeData& edge) {
    require(&first.graph == &second.graph && &first != &second);
    require(std::find(second.after.begin(), second.after.end(), &first) == second.after.end());
    if (edge.type || edge.from_port || edge.to_port) {
        const auto is_kernel = [](const GraphNode& node) { return dynamic_cast<const Launch*>(node.operation.get()); };
        require(edge.to_port == 0 && edge.from_port <= CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER && is_kernel(first));
        require(edge.type <= CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);
        require(edge.type != CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC || is_kernel(second));
        second.edge_data[&first] = edge;
    }
    second.after.push_back(&first);
    first.before.push_back(&second);
}

void unlink(GraphNode& first, GraphNode& second) {
    const auto found = std::find(second.after.begin(), second.after.end(), &first);
    require(found != second.after.end());
    second.after.erase(found);
    second.edge_data.erase(&first);
    first.before.erase(std::find(first.before.begin(), first.before.end(), &second));
}

CUgraphEdgeData edge_between(const GraphNode& first, const GraphNode& second) {
    const auto found = second.edge_data.find(&first);
    return found == second.edge_data.end() ? CUgraphEdgeData{} : found->second;
}

std::shared_ptr<Graph> Graph::clone() const {
    auto copy = std::make_shared<Graph>();
    copy->users = users;
    copy->conditions = conditions;
    std::map<const GraphNode*, GraphNode*> of;
    for (const auto& node : nodes) {
        GraphNode& made = copy->add(node->operation->copy(), {});
        made.original = node->number;
        made.enabled = node->enabled;
        of[node.get()] = &made;
    }
    for (const auto& node : nodes)
        for (const GraphNode* each : node->after) link(*of[each], *of[node.get()], edge_between(*each, *node));
    return copy;
}

std::vector<const GraphNode*> Graph::in_order() const {
    std::vector<const GraphNode*> order;
    std::map<const GraphNode*, std::size_t> waiting;
    for (const auto& node : nodes)
        if ((waiting[node.get()] = node->after.size()) == 0) order.push_back(node.get());
    for (std::size_t i = 0; i < order.size(); ++i)
        for (const GraphNode* next : order[i]->before)
            if (--waiting[next] == 0) order.push_back(next);
    require(order.size() == nodes.size());
    return order;
}

// ---- execution ------------------------------------------------------------------------------------------------------

ChildGraph::ChildGraph(std::shared_ptr<Graph> child, bool moved) : graph(std::move(child)), moved(moved) {
    graph->embedded = true;
    Driver::get().graphs.add(graph);  // cuGraphChildGraphNodeGetGraph returns its handle
}
ChildGraph::~ChildGraph() {
    if (moved && !graph->taken_in) graph->embedded = false;
    else Driver::get().graphs.drop(graph->handle());
}

void ChildGraph::run(Context& context) {
    for (const GraphNode* node : graph->in_order())
        if (node->enabled) node->operation->run(context);
}

// ---- branches
Condition::Condition(unsigned initial, bool assigned)
    : handle(conditions().add()), initial(initial), assigned(assigned) {}
Condition::~Condition() { conditions().remove(handle); }

Conditional::Conditional(CUgraphConditionalNodeType kind, std::shared_ptr<Condition> condition, std::size_t count)
    : kind(kind), condition(std::move(condition)) {
    for (std::size_t i = 0; i < count; ++i) {
        branches.push_back(std::make_shared<ChildGraph>(std::make_shared<Graph>()));
        handles.push_back(branches.back()->graph->handle());
    }
}

std::shared_ptr<Operation> Conditional::copy() const {
    auto made = std::make_shared<Conditional>(kind, condition, 0);
    for (const auto& branch : branches) {
        made->branches.push_back(std::make_shared<ChildGraph>(branch->graph->clone()));
        made->handles.push_back(made->branches.back()->graph->handle());
    }
    return made;
}

void Conditional::run(Context& context) {
    const auto value = [&] { return conditions().get(condition->handle); };
    if (kind == CU_GRAPH_COND_TYPE_WHILE) {
        while (value() && context.alive() && context.fault() == CUDA_SUCCESS) branches[0]->run(context);
    } else {
        const std::size_t branch = kind == CU_GRAPH_COND_TYPE_SWITCH ? value() : value() ? 0 : 1;
        if (branch < branches.size()) branches[branch]->run(context);
    }
}

namespace {
// All conditions of a graph and of the graphs inside it.
void collect(std::vector<std::shared_ptr<Condition>>& all, const Graph& graph) {
    all.insert(all.end(), graph.conditions.begin(), graph.conditions.end());
    for (const auto& node : graph.nodes) {
        if (const auto* child = dynamic_cast<const ChildGraph*>(node->operation.get())) collect(all, *child->graph);
        if (const auto* conditional = dynamic_cast<const Conditional*>(node->operation.get()))
            for (const auto& branch : conditional->branches) collect(all, *branch->graph);
    }
}

void append(GraphExec::Plan& plan, const Graph& graph) {
    for (const GraphNode* node : graph.in_order()) {
        if (!node->enabled) continue;
        if (const auto* child = dynamic_cast<const ChildGraph*>(node->operation.get())) append(plan, *child->graph);
        else if (node->operation->type() != CU_GRAPH_NODE_TYPE_EMPTY) {
            if (node->operation->node != node->original) node->operation->node = node->original;
            plan.push_back(node->operation);
        }
    }
}
}  // namespace

GraphExec::GraphExec(const Graph& from, unsigned long long flags) : graph(from.clone()), flags(flags) {
    note_originals(*graph);
    plan_again();
}

void GraphExec::note_originals(const Graph& copy) {
    for (const auto& node : copy.nodes) {
        of_original[node->original] = node.get();
        if (const auto* child = dynamic_cast<const ChildGraph*>(node->operation.get())) note_originals(*child->graph);
        if (const auto* conditional = dynamic_cast<const Conditional*>(node->operation.get()))
            for (const auto& branch : conditional->branches) note_originals(*branch->graph);
    }
}

void GraphExec::plan_again() {
    auto fresh = std::make_shared<Plan>();
    std::vector<std::shared_ptr<Condition>> all;
    collect(all, *graph);
    for (const auto& condition : all)
        if (condition->assigned)
            fresh->push_back(
                std::make_shared<Action>([=](Context&) { conditions().set(condition->handle, condition->initial); }));
    append(*fresh, *graph);
    plan = std::move(fresh);
}

GraphNode& GraphExec::node_of(CUgraphNode original) {
    const auto found = of_original.find(Driver::get().nodes.find(original)->number);
    require(found != of_original.end());
    return *found->second;
}

namespace {

using Graphs = std::vector<Graph*>;
Graphs graphs_in(const Operation& operation) {
    Graphs all;
    for_graphs_in(operation, [&](Graph& in) { all.push_back(&in); });
    return all;
}

CUgraphExecUpdateResult difference(const Graph& own, const Graph& fresh, const GraphNode*& at);
CUgraphExecUpdateResult difference(const Operation& own, const Operation& fresh, const GraphNode*& at) {
    if (own.type() != fresh.type()) return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    if (const auto* conditional = dynamic_cast<const Conditional*>(&own)) {
        const auto& other = dynamic_cast<const Conditional&>(fresh);
        if (conditional->kind != other.kind || conditional->condition != other.condition)
            return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    }
    const Graphs ours = graphs_in(own), others = graphs_in(fresh);
    if (ours.size() != others.size()) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (std::size_t i = 0; i < ours.size(); ++i)
        if (const auto why = difference(*ours[i], *others[i], at); why != CU_GRAPH_EXEC_UPDATE_SUCCESS) return why;
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}
CUgraphExecUpdateResult difference(const Graph& own, const Graph& fresh, const GraphNode*& at) {
    const auto dependencies = [](const Graph& graph, const GraphNode& node) {
        std::vector<std::ptrdiff_t> indices;
        for (const GraphNode* each : node.after)
            indices.push_back(std::ranges::find(graph.nodes, each, &std::shared_ptr<GraphNode>::get) -
                              graph.nodes.begin());
        std::ranges::sort(indices);
        return indices;
    };
    at = nullptr;
    if (own.nodes.size() != fresh.nodes.size()) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (std::size_t i = 0; i < own.nodes.size(); ++i) {
        const GraphNode &now = *own.nodes[i], &then = *fresh.nodes[i];
        const auto why = difference(*now.operation, *then.operation, at);
        at = &then;
        if (why != CU_GRAPH_EXEC_UPDATE_SUCCESS) return why;
        if (dependencies(own, now) != dependencies(fresh, then)) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    }
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

void take_over(GraphNode& own, const std::shared_ptr<Operation>& fresh) {
    const Graphs ours = graphs_in(*own.operation), others = graphs_in(*fresh);
    for (std::size_t i = 0; i < ours.size(); ++i)
        for (std::size_t k = 0; k < ours[i]->nodes.size(); ++k)
            take_over(*ours[i]->nodes[k], others[i]->nodes[k]->operation->copy());
    if (ours.empty()) own.graph.replace(own, fresh);
}

}  // namespace

CUgraphExecUpdateResultInfo GraphExec::update(const Graph& fresh) {
    const GraphNode* at = nullptr;
    const CUgraphExecUpdateResult why = difference(*graph, fresh, at);
    if (why != CU_GRAPH_EXEC_UPDATE_SUCCESS) return {why, at ? at->handle() : nullptr, nullptr};
    for (std::size_t i = 0; i < graph->nodes.size(); ++i)
        take_over(*graph->nodes[i], fresh.nodes[i]->operation->copy());
    plan_again();
    return {CU_GRAPH_EXEC_UPDATE_SUCCESS, nullptr, nullptr};
}

void GraphExec::update(GraphNode& node, std::shared_ptr<Operation> fresh) {
    const GraphNode* at = nullptr;
    require(difference(*node.operation, *fresh, at) == CU_GRAPH_EXEC_UPDATE_SUCCESS);
    take_over(node, fresh);
    plan_again();
}

void GraphRun::run(Context& context) {
    for (const auto& operation : *plan) {
        tracing::running_graph(exec, operation->node);
        operation->run(context);
    }
}

}  // namespace barcuda::soft::driver
