// SPDX-License-Identifier: Apache-2.0
// tracing.cc: see tracing.h. Its door for CUPTI is at the end.
#include "soft-gpu/driver/tracing.h"

#include <utility>

#include "soft-gpu/driver/context.h"
#include "soft-gpu/driver/driver.h"
#include "soft-gpu/driver/graph.h"

namespace barcuda::soft::driver::tracing {

constinit std::atomic<Tracer*> tracer{nullptr};

namespace {
constinit std::atomic<std::uint32_t> last_call{0};
constinit thread_local std::uint32_t this_call = 0;
struct Whose {
    std::uint64_t stream = 0, graph = 0, node = 0;
    std::uint32_t call = 0;
    bool asynchronous = false;
};
constinit thread_local Whose whose;
}  // namespace

std::uint32_t current_call() { return this_call; }

void TracedCall::begin(const char* function) {
    if (this_call) return;
    function_ = function;
    this_call = number_ = last_call.fetch_add(1, std::memory_order_relaxed) + 1;
    start_ = now();
}
void TracedCall::end() {
    this_call = 0;
    tracer.load(std::memory_order_acquire)->call_ends(function_, number_, start_, result_);
}

RunningWork::RunningWork(std::uint64_t stream, std::uint32_t call, bool asynchronous)
    : stream_(std::exchange(whose.stream, stream)),
      call_(std::exchange(whose.call, call)),
      asynchronous_(std::exchange(whose.asynchronous, asynchronous)) {}
RunningWork::~RunningWork() { whose = {stream_, 0, 0, call_, asynchronous_}; }

void running_graph(std::uint64_t graph, std::uint64_t node) {
    whose.graph = graph;
    whose.node = node;
}

void complete(Work& work) {
    work.stream = whose.stream;
    work.graph = whose.graph;
    work.node = whose.node;
    work.call = whose.call;
    work.asynchronous = whose.asynchronous;
}

}  // namespace barcuda::soft::driver::tracing

namespace {
template <class Body> std::uint64_t answer_number(const Body& body) {
    try {
        return body();
    } catch (const barcuda::soft::Error&) { return 0; }
}
}  // namespace

#define DOOR extern "C" [[gnu::visibility("default")]]
using namespace barcuda::soft::driver;

DOOR void barcuda_soft_trace(tracing::Tracer* tracer) { tracing::tracer.store(tracer, std::memory_order_release); }

// Numbers by which work names these; 0: there is no such object.
DOOR std::uint64_t barcuda_soft_number_of_context(CUcontext context) {
    return answer_number([&] { return Driver::get().contexts.find(context)->id; });
}
DOOR std::uint64_t barcuda_soft_number_of_stream(CUstream stream) {
    return answer_number([&] { return stream_of(stream)->id; });
}
DOOR std::uint64_t barcuda_soft_number_of_graph(CUgraph graph) {
    return answer_number([&] { return Driver::get().graphs.find(graph)->number; });
}
DOOR std::uint64_t barcuda_soft_number_of_exec(CUgraphExec exec) {
    return answer_number([&] { return Driver::get().execs.find(exec)->number; });
}
DOOR std::uint64_t barcuda_soft_number_of_node(CUgraphNode node) {
    return answer_number([&] { return Driver::get().nodes.find(node)->number; });
}
