// SPDX-License-Identifier: Apache-2.0
// graph.h: copies to and from memory that the GPU cannot reach, in a graph: the copy's node goes by way of a buffer in
// the region, and a hidden host node before it (or behind it) fills (or empties) the buffer. The program sees one node.
#pragma once
#include <cuda.h>

#include <vector>

namespace barcuda {

CUgraphNode first_of(CUgraphNode node) noexcept;  // what its dependencies lead to
CUgraphNode last_of(CUgraphNode node) noexcept;   // what depends on it depends on
// The node that the program knows. Null: a hidden node's own edge, which it does not know either.
CUgraphNode shown(CUgraphNode node) noexcept;
bool hidden(CUgraphNode node) noexcept;

// The nodes that `count` of the program's nodes stand for, as dependencies.
inline std::vector<CUgraphNode> lasts(const CUgraphNode* nodes, std::size_t count) {
    std::vector<CUgraphNode> all;
    for (std::size_t i = 0; nodes && i < count; ++i) all.push_back(last_of(nodes[i]));
    return all;
}

}  // namespace barcuda
