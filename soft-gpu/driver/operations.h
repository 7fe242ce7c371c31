// SPDX-License-Identifier: Apache-2.0
// operations.h: the operations other than copies and fills (copy.h): launches, host functions, events, values in
// memory.
#pragma once
#include <memory>
#include <vector>

#include "soft-gpu/driver/context.h"
#include "soft-gpu/driver/module.h"

namespace barcuda::soft::driver {

struct Launch final : OperationOf<Launch, CU_GRAPH_NODE_TYPE_KERNEL> {
    std::shared_ptr<Module> module;  // kept alive
    std::shared_ptr<Function> function;
    LaunchConfig config;  // its parameters point to `parameters` when it runs
    std::vector<std::byte> parameters;
    std::vector<CUlaunchAttribute> attributes;
    std::vector<void*> pointers;  // to its parameters, for queries of graph nodes
    void run(Context& context) override;
};

// Packs the parameters according to the kernel's table; throws what cuLaunchKernel returns.
std::shared_ptr<Launch> make_launch(std::shared_ptr<Function> function, const CUlaunchConfig& config, bool cooperative,
                                    void** parameters, void** extra);

// Hides textures whose memory is gone from kernels, and shows those whose memory exists again.
void look_at_textures();

struct HostCall final : OperationOf<HostCall, CU_GRAPH_NODE_TYPE_HOST> {
    CUDA_HOST_NODE_PARAMS asked{};
    void run(Context&) override;
};

struct EventRecord final : OperationOf<EventRecord, CU_GRAPH_NODE_TYPE_EVENT_RECORD> {
    std::shared_ptr<Event> event;
    std::shared_ptr<Event::Record> record;  // filled by the run; for a graph node: a new one for each launch
    std::uint64_t number = 0;               // of a shared event's record; 0: determined by the run
    void run(Context&) override;
    bool runs_after_fault() const override { return true; }
};

struct EventWait final : OperationOf<EventWait, CU_GRAPH_NODE_TYPE_WAIT_EVENT> {
    std::shared_ptr<Event> event;
    // The last record when the graph was launched; later records may come after it in their own streams.
    std::shared_ptr<Event::Record> record{};
    std::uint64_t number = 0;     // of a shared event's
    void run(Context&) override;  // only in graphs: a stream waits by marks
};

struct Values final : OperationOf<Values, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP> {
    std::vector<CUstreamBatchMemOpParams> asked;
    void run(Context& context) override;  // waits also end when the context ends or faults
};
std::shared_ptr<Values> values(const CUstreamBatchMemOpParams* asked, unsigned count);

struct Nothing final : OperationOf<Nothing, CU_GRAPH_NODE_TYPE_EMPTY> {
    void run(Context&) override {}
};

}  // namespace barcuda::soft::driver
