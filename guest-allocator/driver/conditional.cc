// SPDX-License-Identifier: Apache-2.0
// conditional.cc: graph nodes whose branches run if, while or as a value says that kernels set. The value's handle is
// the driver's own number, since kernels name it; the branches' graphs are the driver's too, and the program fills
// them.
#include <stdlib.h>

#include "guest-allocator/client/command.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/graph_node.h"

namespace barcuda::guest {

CUresult add_conditional(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, std::size_t count,
                         CUDA_CONDITIONAL_NODE_PARAMS& asked) noexcept {
    if (asked.size == 0) return CUDA_ERROR_INVALID_VALUE;
    if (asked.size > max_list_bytes / sizeof(CUgraph)) return CUDA_ERROR_NOT_SUPPORTED;
    // "CUDA-owned", and "valid for the lifetime of the conditional node".
    auto* branches = static_cast<CUgraph*>(calloc(asked.size, sizeof(CUgraph)));
    if (!branches) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult r =
        command<Op::add_conditional_node>(node, graph, after, count, asked.handle, asked.type,
                                          asked.ctx ? asked.ctx : current_context(), branches, asked.size);
    if (r != CUDA_SUCCESS) {
        free(branches);
        return r;
    }
    keep_block(*node, branches);
    asked.phGraph_out = branches;
    return CUDA_SUCCESS;
}

}  // namespace barcuda::guest

using namespace barcuda::guest;

CU cuGraphConditionalHandleCreate(CUgraphConditionalHandle* condition, CUgraph graph, CUcontext context,
                                  unsigned initial, unsigned flags) {
    return command<Op::cuGraphConditionalHandleCreate>(condition, graph, context ? context : current_context(), initial,
                                                       flags);
}
