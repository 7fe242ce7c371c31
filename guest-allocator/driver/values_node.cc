// SPDX-License-Identifier: Apache-2.0
// values_node.cc: graph nodes that wait for words of memory and write words: batches of a stream's operations.
#include <stdlib.h>

#include <algorithm>

#include "guest-allocator/client/command.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/graph_node.h"

using namespace barcuda::guest;

static CUcontext context_of(const CUDA_BATCH_MEM_OP_NODE_PARAMS& p) { return p.ctx ? p.ctx : current_context(); }
static const CUstreamBatchMemOpParams* operations_of(const CUDA_BATCH_MEM_OP_NODE_PARAMS& p) { return p.paramArray; }

CU cuGraphAddBatchMemOpNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                            const CUDA_BATCH_MEM_OP_NODE_PARAMS* p) {
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    return command<Op::add_values_node>(node, graph, after, count, context_of(*p), operations_of(*p), p->count,
                                        p->flags);
}
CU cuGraphBatchMemOpNodeSetParams(CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS* p) {
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    return command<Op::set_values_node>(node, context_of(*p), operations_of(*p), p->count, p->flags);
}
CU cuGraphExecBatchMemOpNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS* p) {
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    return command<Op::exec_set_values_node>(exec, node, context_of(*p), operations_of(*p), p->count, p->flags);
}

CU cuGraphBatchMemOpNodeGetParams(CUgraphNode node, CUDA_BATCH_MEM_OP_NODE_PARAMS* p) {
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    CUDA_BATCH_MEM_OP_NODE_PARAMS answer{};
    const auto ask = [&](CUstreamBatchMemOpParams* operations) {
        return command<Op::values_node>(node, &answer.ctx, operations, &answer.count, &answer.flags);
    };
    if (CUresult r = ask(nullptr); r != CUDA_SUCCESS) return r;  // how many there are
    const unsigned room = answer.count;
    answer.paramArray = static_cast<CUstreamBatchMemOpParams*>(malloc(std::max(1u, room) * sizeof *answer.paramArray));
    if (!answer.paramArray) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult r = ask(answer.paramArray);
    if (r != CUDA_SUCCESS) {
        free(answer.paramArray);
        return r;
    }
    answer.count = std::min(answer.count, room);
    keep_block(node, answer.paramArray);
    *p = answer;
    return CUDA_SUCCESS;
}
