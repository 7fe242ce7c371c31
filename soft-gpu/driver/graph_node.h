// SPDX-License-Identifier: Apache-2.0
// graph_node.h: turns the parameter structures of graph nodes into operations. Throws CUDA_ERROR_INVALID_VALUE for
// parameters that the same call on a stream would refuse.
#pragma once
#include <memory>

#include "soft-gpu/driver/graph.h"

namespace barcuda::soft::driver {

std::shared_ptr<Operation> kernel_operation(const CUDA_KERNEL_NODE_PARAMS_v2& asked);
std::shared_ptr<Operation> copy_operation(const CUDA_MEMCPY3D& asked);
std::shared_ptr<Operation> fill_operation(const CUDA_MEMSET_NODE_PARAMS& asked);
std::shared_ptr<Operation> host_operation(const CUDA_HOST_NODE_PARAMS& asked);
std::shared_ptr<Operation> child_operation(CUgraph graph);
std::shared_ptr<Operation> record_operation(CUevent event);
std::shared_ptr<Operation> wait_operation(CUevent event);
std::shared_ptr<Operation> values_operation(const CUDA_BATCH_MEM_OP_NODE_PARAMS& asked);
// For cuGraphAddNode, and for a change of a node: then there is no graph, and the node keeps its own objects.
std::shared_ptr<Operation> operation_of(CUgraphNodeParams& asked, Graph* graph = nullptr);

CUDA_KERNEL_NODE_PARAMS_v2 parameters_of(Launch& launch);  // its pointers live as long as the launch

}  // namespace barcuda::soft::driver
