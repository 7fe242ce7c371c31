// SPDX-License-Identifier: Apache-2.0
// operation.h: one piece of work of the device: a launch, a copy, a record of an event. The same object runs in a
// stream's order, is recorded into a graph while a stream captures, and is copied when a graph is instantiated.
#pragma once
#include <functional>
#include <memory>

#include "soft-gpu/driver/api.h"

namespace barcuda::soft::driver {

class Context;

struct Operation {
    virtual ~Operation() = default;
    virtual void run(Context& context) = 0;  // throws Error: the context's error from then on
    virtual CUgraphNodeType type() const = 0;
    virtual std::shared_ptr<Operation> copy() const = 0;
    // Whether it runs even if the context is in error: callbacks and releases must not be lost.
    virtual bool runs_after_fault() const { return false; }
    std::uint64_t node = 0;  // in a plan: the graph's node, by its number
};

// Gives a final struct its copy().
template <class Self, CUgraphNodeType Type> struct OperationOf : Operation {
    CUgraphNodeType type() const override { return Type; }
    std::shared_ptr<Operation> copy() const override { return std::make_shared<Self>(static_cast<const Self&>(*this)); }
};

// Work without a node type and without parameters to read back: never recorded into a graph.
struct Action final : OperationOf<Action, CU_GRAPH_NODE_TYPE_EMPTY> {
    explicit Action(std::function<void(Context&)> body, bool always = false) : body(std::move(body)), always(always) {}
    std::function<void(Context&)> body;
    bool always;
    void run(Context& context) override { body(context); }
    bool runs_after_fault() const override { return always; }
};

}  // namespace barcuda::soft::driver
