// SPDX-License-Identifier: Apache-2.0
// graph_node.h: what the files about the insides of nodes share.
#pragma once
#include <cuda.h>

#include <cstddef>

namespace barcuda::guest {

// What an answer about a node points to: a block of malloc's, one a node, until the next such answer. No node says when
// it goes: its block goes with the next answer about a node in its place (the lower half of its id).
void keep_block(CUgraphNode node, void* block) noexcept;

CUresult add_conditional(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, std::size_t count,
                         CUDA_CONDITIONAL_NODE_PARAMS& asked) noexcept;  // conditional.cc

}  // namespace barcuda::guest
