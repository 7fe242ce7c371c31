// SPDX-License-Identifier: Apache-2.0
// graph.h: rows of graphs. (What a row says: shm-device/rows/commands.h.)
#pragma once
#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "shm-device/rows/launch.h"

namespace barcuda::ext {

// Kernel nodes: their parameters travel packed, as a launch's do.
CUresult add_kernel_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, std::size_t count,
                         CUfunction function, Shape shape, const void* parameters, std::size_t bytes);
CUresult set_kernel_node(CUgraphNode node, CUfunction function, Shape shape, const void* parameters, std::size_t bytes);
CUresult exec_set_kernel_node(CUgraphExec exec, CUgraphNode node, CUfunction function, Shape shape,
                              const void* parameters, std::size_t bytes);
CUresult kernel_node(CUgraphNode node, CUfunction* function, Shape* shape, void* parameters, std::size_t room);

// A child graph that is not cloned: it is the node's from now on, and its own nodes stay what they are.
CUresult move_child_graph(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, std::size_t count, CUgraph child);

// The graph waits until the client has run the function that it calls `function`.
CUresult add_host_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, std::size_t count,
                       std::uint64_t function);
CUresult set_host_node(CUgraphNode node, std::uint64_t function);
CUresult exec_set_host_node(CUgraphExec exec, CUgraphNode node, std::uint64_t function);
CUresult host_node(CUgraphNode node, std::uint64_t* function);

// The last reference's end calls the client's function, by its number.
CUresult create_user_object(CUuserObject* object, std::uint64_t destroy, unsigned references, unsigned flags);

// The text that cuGraphDebugDotPrint writes, from its byte `from` on: `all` is how many it has. The file is the
// client's.
CUresult graph_text(CUgraph graph, unsigned flags, std::uint64_t from, char* text, std::size_t room,
                    std::uint64_t* all);

// Nodes of a stream's operations on words of memory.
CUresult add_values_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, std::size_t count,
                         CUcontext context, const CUstreamBatchMemOpParams* operations, unsigned operation_count,
                         unsigned flags);
CUresult set_values_node(CUgraphNode node, CUcontext context, const CUstreamBatchMemOpParams* operations,
                         unsigned count, unsigned flags);
CUresult exec_set_values_node(CUgraphExec exec, CUgraphNode node, CUcontext context,
                              const CUstreamBatchMemOpParams* operations, unsigned count, unsigned flags);
CUresult values_node(CUgraphNode node, CUcontext* context, CUstreamBatchMemOpParams* operations, unsigned* count,
                     unsigned* flags);

// The graphs of its branches are the driver's, and the node's parts.
CUresult add_conditional_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, std::size_t count,
                              CUgraphConditionalHandle condition, CUgraphConditionalNodeType type, CUcontext context,
                              CUgraph* branches, unsigned branch_count);

// cuGraphExecUpdate: the driver's own verdict is a value, because it comes with reasons.
CUresult exec_update(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* why, CUresult* verdict);

}  // namespace barcuda::ext

// clang-format off
//    CUDA's function                                      how         traits, one kind per parameter
#define BARCUDA_GRAPH_ROWS(X)                                                                                         \
    X(cuDeviceGraphMemTrim,                                 call,       trims|asks, in)                               \
    X(cuGraphCreate,                                        call,       plain, make, in)                              \
    X(cuGraphInstantiateWithFlags,                          call,       current, make, use, in)                         \
    X(cuGraphExecGetFlags,                                  call,       asks,  use, out)                              \
    X(cuGraphClone,                                         call,       plain, make, use)                             \
    X(cuGraphNodeFindInClone,                               call,       plain, part<2>, use, use)                     \
    X(cuGraphNodeGetType,                                   inner_call, asks,  use, out)                              \
    X(cuGraphNodeSetEnabled,                                inner_call, lasts, use, use, in)                          \
    X(cuGraphNodeGetEnabled,                                inner_call, asks, use, use, out)                         \
    X(cuGraphChildGraphNodeGetGraph,                        call,       plain, use, part<0>)                          \
    X(cuGraphExecChildGraphNodeSetParams,                   call,       lasts, use, use, use)                         \
    X(cuGraphEventRecordNodeGetEvent,                       call,       plain, use, give)                             \
    X(cuGraphEventWaitNodeGetEvent,                         call,       plain, use, give)                             \
    X(cuGraphEventWaitNodeSetEvent,                         call,       lasts, use, use)                              \
    X(cuGraphExecEventWaitNodeSetEvent,                     call,       lasts, use, use, use)                         \
    X(cuGraphMemsetNodeGetParams,                           call,       asks,  use, out)                              \
    X(cuGraphMemsetNodeSetParams,                           call,       lasts, use, desc)                             \
    X(cuGraphMemAllocNodeGetParams,                         call,       asks,  use, told)                             \
    X(cuGraphMemFreeNodeGetParams,                          call,       asks,  use, out)                              \
    X(cuGraphKernelNodeCopyAttributes,                      call,       lasts, use, use)                              \
    X(cuGraphUpload,                                        post,       work, use, use)                               \
    X(cuGraphGetNodes,                                      call,       plain, use, all<2>, inout)                    \
    X(cuGraphGetRootNodes,                                  call,       plain, use, all<2>, inout)                    \
    X(cuGraphGetEdges_v2,                                   call,       plain, use, all<4>, all<4>, all<4>, inout)    \
    X(cuGraphNodeGetDependencies_v2,                        call,       plain, use, all<3>, all<3>, inout)            \
    X(cuGraphNodeGetDependentNodes_v2,                      call,       plain, use, all<3>, all<3>, inout)            \
    X(cuGraphAddDependencies_v2,                            call,       lasts, use, nodes<4>, nodes<4>, edges<4>, in) \
    X(cuGraphRemoveDependencies_v2,                         call,       lasts, use, nodes<4>, nodes<4>, edges<4>, in) \
    X(cuGraphDestroyNode,                                   call,       plain, drop)                                  \
    X(cuGraphAddEmptyNode,                                  call,       lasts, part<1>, use, nodes<3>, in)            \
    X(cuGraphAddChildGraphNode,                             call,       lasts, part<1>, use, nodes<3>, in, use)       \
    X(cuGraphAddEventRecordNode,                            inner_call, lasts, part<1>, use, nodes<3>, in, use)       \
    X(cuGraphAddEventWaitNode,                              inner_call, lasts, part<1>, use, nodes<3>, in, use)       \
    X(cuGraphEventRecordNodeSetEvent,                       inner_call, lasts, use, use)                              \
    X(cuGraphExecEventRecordNodeSetEvent,                   inner_call, lasts, use, use, use)                         \
    X(cuGraphAddMemAllocNode,                               call,       hosted|charges(4)|graphs_allocate|lasts, part<1>, use, nodes<3>, in, answered) \
    X(cuGraphAddMemFreeNode,                                call,       lasts, part<1>, use, nodes<3>, in, in)        \
    X(cuGraphAddMemcpyNode,                                 inner_call, lasts, part<1>, use, nodes<3>, in, desc, use) \
    X(cuGraphMemcpyNodeGetParams,                           inner_call, plain, use, told)                             \
    X(cuGraphMemcpyNodeSetParams,                           inner_call, lasts, use, desc)                             \
    X(cuGraphExecMemcpyNodeSetParams,                       inner_call, lasts, use, use, desc, use)                   \
    X(cuGraphAddMemsetNode,                                 inner_call, lasts, part<1>, use, nodes<3>, in, desc, use) \
    X(cuGraphExecMemsetNodeSetParams,                       inner_call, lasts, use, use, desc, use)                   \
    X(cuGraphExecDestroy,                                   call,       plain, drop)                                  \
    X(cuGraphDestroy,                                       call,       plain, drop)                                  \
    X(cuGraphLaunch,                                        inner_post, work|kernels, use, use)                             \
    X(cuGraphConditionalHandleCreate,                       inner_call, plain, make_condition<1>, use, use, in, in)   \
    X(cuGraphKernelNodeGetAttribute,                        call,       hosted|asks, use, in, out)                    \
    X(cuGraphKernelNodeSetAttribute,                        call,       hosted|lasts, use, in, desc)                  \
    X(cuDeviceGetGraphMemAttribute,                         call,       asks,  in, in, attribute)                     \
    X(cuDeviceSetGraphMemAttribute,                         call,       plain, in, in, attribute_in)                  \
    X(cuUserObjectRetain,                                   call,       hosted|lasts, use, in)                        \
    X(cuUserObjectRelease,                                  call,       hosted|lasts, use, in)                        \
    X(cuGraphRetainUserObject,                              call,       hosted|lasts, use, use, in, in)               \
    X(cuGraphReleaseUserObject,                             call,       hosted|lasts, use, use, in)                   \
    X(cuUserObjectCreate,                                   guest,      plain)                                        \
    X(cuGraphDebugDotPrint,                                 guest,      plain)                                        \
    X(cuGraphAddBatchMemOpNode,                             guest,      plain)                                        \
    X(cuGraphAddHostNode,                                   guest,      plain)                                        \
    X(cuGraphAddKernelNode_v2,                              guest,      plain)                                        \
    X(cuGraphAddNode_v2,                                    guest,      plain)                                        \
    X(cuGraphBatchMemOpNodeGetParams,                       guest,      plain)                                        \
    X(cuGraphBatchMemOpNodeSetParams,                       guest,      plain)                                        \
    X(cuGraphExecBatchMemOpNodeSetParams,                   guest,      plain)                                        \
    X(cuGraphExecHostNodeSetParams,                         guest,      plain)                                        \
    X(cuGraphExecKernelNodeSetParams_v2,                    guest,      plain)                                        \
    X(cuGraphExecNodeSetParams,                             guest,      plain)                                        \
    X(cuGraphExecUpdate_v2,                                 guest,      plain)                                        \
    X(cuGraphHostNodeGetParams,                             guest,      plain)                                        \
    X(cuGraphHostNodeSetParams,                             guest,      plain)                                        \
    X(cuGraphInstantiateWithParams,                         guest,      plain)                                        \
    X(cuGraphKernelNodeGetParams_v2,                        guest,      plain)                                        \
    X(cuGraphKernelNodeSetParams_v2,                        guest,      plain)                                        \
    X(cuGraphNodeSetParams,                                 guest,      plain)

//    ours
#define BARCUDA_GRAPH_OWN_ROWS(X)                                                                                      \
    X(add_kernel_node,                                      call,       lasts, part<1>, use, nodes<3>, in, use, in, blob<7>, in) \
    X(set_kernel_node,                                      call,       lasts, use, use, in, blob<4>, in)              \
    X(exec_set_kernel_node,                                 call,       lasts, use, use, use, in, blob<5>, in)         \
    X(kernel_node,                                          call,       plain, use, give, out, fill<4>, in)            \
    X(move_child_graph,                                     call,       plain, part<1>, use, nodes<3>, in, joins<0>)   \
    X(add_host_node,                                        call,       lasts, part<1>, use, nodes<3>, in, in)         \
    X(set_host_node,                                        call,       lasts, use, in)                                \
    X(exec_set_host_node,                                   call,       lasts, use, use, in)                           \
    X(host_node,                                            call,       asks,  use, out)                               \
    X(create_user_object,                                   call,       plain, make, in, in, in)                       \
    X(graph_text,                                           call,       asks,  use, in, in, fill<4>, in, out)          \
    X(add_values_node,                                      call,       lasts, part<1>, use, nodes<3>, in, use, memory_operations<6>, in, in) \
    X(set_values_node,                                      call,       lasts, use, use, memory_operations<3>, in, in) \
    X(exec_set_values_node,                                 call,       lasts, use, use, use, memory_operations<4>, in, in) \
    X(values_node,                                          call,       plain, use, give, all<3>, inout, out)          \
    X(add_conditional_node,                                 call,       lasts, part<1>, use, nodes<3>, in, use_condition<1>, in, use, all<8>, in) \
    X(exec_update,                                          call,       lasts, use, use, told, out)
// clang-format on
