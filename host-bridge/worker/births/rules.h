// SPDX-License-Identifier: Apache-2.0
// rules.h: what a client that leaves its worker takes along of each row: how the commands of that row are recorded
// (births.h), or why a client that has used it cannot be carried. Each row that leaves something behind (lives.h) has a
// line here; one that has none does not compile.
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "shm-device/rows/commands.h"

namespace barcuda {

// What stands in the way of a client, and what its user can do about it.
struct Refusal {
    std::string_view what, cure;
};
namespace refusal {
inline constexpr Refusal pools{
    "memory that is allocated in the order of a stream (cudaMallocAsync, graphs that allocate)",
    "free it, or let the program use cudaMalloc (PyTorch: PYTORCH_CUDA_ALLOC_CONF=backend:native)"};
inline constexpr Refusal shared{"memory or events that are shared with other processes (cudaIpc*, descriptors, NCCL)",
                                "end the program's processes that share it, and free it"};
inline constexpr Refusal user_objects{"an object that graphs keep for the program (cudaUserObjectCreate)",
                                      "destroy the graphs that keep it"};
inline constexpr Refusal green{"a part of the GPU's multiprocessors (cuGreenCtxCreate)", "end it (cuGreenCtxDestroy)"};
inline constexpr Refusal references{"a texture or surface reference (cuModuleGetTexRef)",
                                    "let the program use texture objects, or unload its code"};
inline constexpr Refusal drawn{"a generator of cuRAND that has drawn numbers on the host's side",
                               "destroy the generator, or draw numbers in kernels"};
}  // namespace refusal

enum class Carry : std::uint8_t {
    unsaid,   // the row leaves nothing behind
    nothing,  // nothing that a client misses. In a capture, a part of the graph, as is all work
    made,     // kept while something that it made, or named, is there or needed
    adds,     // changes an object: all such commands are kept while the object is there or needed
    sets,     // the same, but a later one with the same `same` replaces it
    ends,     // kept where what has ended is needed: a graph of which another one was instantiated
    refused   // as made or adds, and a client that has it stays
};

struct Rule {
    Carry carry = Carry::unsaid;
    std::uint8_t same = 0;  // a bit for each of the packet's first words that say what is set
    const Refusal* why = nullptr;
    constexpr bool recorded() const { return carry > Carry::nothing; }
};

namespace rules {

constexpr std::uint8_t words(std::initializer_list<unsigned> which) {
    std::uint8_t all = 0;
    for (const unsigned w : which) all = static_cast<std::uint8_t>(all | 1u << w);
    return all;
}
constexpr Rule nothing{Carry::nothing}, made{Carry::made}, adds{Carry::adds}, ends{Carry::ends};
constexpr Rule sets(std::initializer_list<unsigned> same = {}) { return {Carry::sets, words(same)}; }
constexpr Rule refused(const Refusal& why) { return {Carry::refused, 0, &why}; }

struct Line {
    Rule rule;
    std::initializer_list<Op> rows;
};
using enum Op;

// A word of a packet: a handle's id, a number. (The words of a list or a struct are never named here.)
inline constexpr Line lines[] = {
    {nothing,
     {cuProfilerStart, cuProfilerStop, image_part, image_begin, image_piece, release, withdraw,
      // An event is asked in the end whether it was recorded.
      cuCtxRecordEvent, cuEventRecordWithFlags, record_event,
      // Of captures that have not ended.
      cuStreamBeginCapture_v2, cuStreamBeginCaptureToGraph, cuStreamUpdateCaptureDependencies_v2}},

    // ---- contexts
    {made, {cuDevicePrimaryCtxRetain, create_context}},
    {refused(refusal::green), {create_green}},
    {ends, {cuCtxDestroy_v2, cuDevicePrimaryCtxReset_v2}},
    {sets(), {cuCtxSetFlags, cuCtxSetCacheConfig}},
    {sets({0}), {cuDevicePrimaryCtxSetFlags_v2, cuCtxSetLimit}},
    {adds, {cuCtxEnablePeerAccess, cuCtxDisablePeerAccess}},  // the second undoes the first

    // ---- code
    {made,
     {load_module, load_library, link_create, cuModuleGetFunction, find_function, cuModuleGetGlobal_v2,
      cuLibraryGetKernel, cuLibraryGetModule, cuLibraryGetGlobal, cuLibraryGetManaged, cuKernelGetFunction,
      function_of_kernel, cuKernelGetLibrary, cuFuncGetModule, cuModuleEnumerateFunctions, cuLibraryEnumerateKernels}},
    {ends, {cuModuleUnload, cuLibraryUnload, cuLinkDestroy}},
    {adds, {link_add, link_complete}},
    {sets({0}), {cuFuncSetCacheConfig, cuFuncLoad}},
    {sets({0, 1}), {cuFuncSetAttribute}},
    {sets({0, 2}), {cuKernelSetCacheConfig}},
    {sets({0, 2, 3}), {cuKernelSetAttribute}},

    // ---- memory
    {made,
     {cuMemAlloc_v2, cuMemAllocPitch_v2, cuMemAddressReserve, cuMemCreate, cuMemMap, retain_memory, cuMemPoolCreate,
      cuDeviceGetDefaultMemPool, cuDeviceGetMemPool, cuMemGetDefaultMemPool, cuMemGetMemPool}},
    {ends,
     {cuMemFree_v2, cuMemFreeAsync, cuMemAddressFree, cuMemUnmap, cuMemRelease, cuMemPoolDestroy, cuIpcCloseMemHandle}},
    {adds, {cuMemSetAccess, cuMemPoolSetAccess}},
    {sets({0}), {cuDeviceSetMemPool}},
    {sets({0, 1}), {cuMemSetMemPool, cuMemPoolSetAttribute}},
    {sets({0, 2}), {set_pointer_attribute}},
    {refused(refusal::pools), {cuMemAllocAsync, cuMemAllocFromPoolAsync}},
    {refused(refusal::shared),
     {cuMemPoolExportPointer, cuMemPoolImportPointer, cuIpcGetMemHandle, cuIpcOpenMemHandle_v2, cuIpcGetEventHandle,
      cuIpcOpenEventHandle, export_memory, import_memory, export_pool, import_pool}},

    // ---- arrays, textures
    {made,
     {cuArrayCreate_v2, cuArray3DCreate_v2, cuMipmappedArrayCreate, cuArrayGetPlane, cuMipmappedArrayGetLevel,
      cuSurfObjectCreate, cuTexObjectCreate, cuTexObjectGetResourceDesc, cuSurfObjectGetResourceDesc}},
    {ends, {cuArrayDestroy, cuMipmappedArrayDestroy, cuTexObjectDestroy, cuSurfObjectDestroy, cuTexRefDestroy}},
    {refused(refusal::references),
     {cuModuleGetTexRef,
      cuModuleGetSurfRef,
      cuTexRefCreate,
      cuTexRefGetArray,
      cuTexRefGetMipmappedArray,
      cuSurfRefGetArray,
      cuTexRefSetArray,
      cuTexRefSetMipmappedArray,
      cuTexRefSetAddress_v2,
      cuTexRefSetAddress2D_v3,
      cuTexRefSetFormat,
      cuTexRefSetAddressMode,
      cuTexRefSetFilterMode,
      cuTexRefSetMipmapFilterMode,
      cuTexRefSetMipmapLevelBias,
      cuTexRefSetMipmapLevelClamp,
      cuTexRefSetMaxAnisotropy,
      cuTexRefSetFlags,
      cuSurfRefSetArray,
      set_border_color}},

    // ---- streams, events
    {made, {cuStreamCreateWithPriority, cuEventCreate, cuStreamEndCapture, capture_info}},
    {ends, {cuStreamDestroy_v2, cuEventDestroy_v2}},
    {adds, {cuStreamCopyAttributes}},
    {sets({0, 1}), {cuStreamSetAttribute}},

    // ---- graphs
    {made,
     {cuGraphCreate,
      cuGraphInstantiateWithFlags,
      cuGraphClone,
      cuGraphNodeFindInClone,
      cuGraphChildGraphNodeGetGraph,
      cuGraphEventRecordNodeGetEvent,
      cuGraphEventWaitNodeGetEvent,
      cuGraphGetNodes,
      cuGraphGetRootNodes,
      cuGraphGetEdges_v2,
      cuGraphNodeGetDependencies_v2,
      cuGraphNodeGetDependentNodes_v2,
      cuGraphAddEmptyNode,
      cuGraphAddChildGraphNode,
      cuGraphAddEventRecordNode,
      cuGraphAddEventWaitNode,
      cuGraphAddMemcpyNode,
      cuGraphAddMemsetNode,
      cuGraphMemcpyNodeGetParams,
      cuGraphConditionalHandleCreate,
      add_kernel_node,
      kernel_node,
      move_child_graph,
      add_host_node,
      add_values_node,
      values_node,
      add_conditional_node}},
    {ends, {cuGraphDestroyNode, cuGraphExecDestroy, cuGraphDestroy}},
    {adds, {cuGraphKernelNodeCopyAttributes, cuGraphAddDependencies_v2, cuGraphRemoveDependencies_v2}},
    {sets({0}),
     {cuGraphEventWaitNodeSetEvent, cuGraphMemsetNodeSetParams, cuGraphEventRecordNodeSetEvent,
      cuGraphMemcpyNodeSetParams, set_kernel_node, set_host_node, set_values_node, exec_update}},
    {sets({0, 1}),
     {cuGraphNodeSetEnabled, cuGraphExecChildGraphNodeSetParams, cuGraphExecEventWaitNodeSetEvent,
      cuGraphExecEventRecordNodeSetEvent, cuGraphExecMemcpyNodeSetParams, cuGraphExecMemsetNodeSetParams,
      cuGraphKernelNodeSetAttribute, cuDeviceSetGraphMemAttribute, exec_set_kernel_node, exec_set_host_node,
      exec_set_values_node}},
    {refused(refusal::pools), {cuGraphAddMemAllocNode, cuGraphAddMemFreeNode}},
    {refused(refusal::user_objects),
     {create_user_object, cuUserObjectRetain, cuUserObjectRelease, cuGraphRetainUserObject, cuGraphReleaseUserObject}},

    // ---- math libraries
    {made, {cublasCreate_v2, curandCreateGenerator, curandCreateGeneratorHost}},
    {ends, {cublasDestroy_v2, curandDestroyGenerator}},
    {sets({0}),
     {cublasSetStream_v2, cublasSetWorkspace_v2, cublasSetMathMode, cublasSetAtomicsMode, cublasSetSmCountTarget,
      curandSetStream, curandSetPseudoRandomGeneratorSeed, curandSetGeneratorOffset, curandSetGeneratorOrdering,
      curandSetQuasiRandomGeneratorDimensions}},
    {adds, {curandGenerateSeeds}},
    {refused(refusal::drawn),
     {curandGenerate, curandGenerateLongLong, curandGenerateUniform, curandGenerateUniformDouble, curandGenerateNormal,
      curandGenerateNormalDouble, curandGenerateLogNormal, curandGenerateLogNormalDouble, curandGeneratePoisson}},
};

struct Table {
    std::array<Rule, static_cast<std::size_t>(Op::count)> of{};
    bool once = true;  // no row has two lines
};
inline constexpr Table table = [] {
    Table all;
    for (const Line& line : lines)
        for (const Op op : line.rows) {
            Rule& rule = all.of[static_cast<std::size_t>(op)];
            all.once = all.once && rule.carry == Carry::unsaid;
            rule = line.rule;
        }
    return all;
}();
static_assert(table.once);

}  // namespace rules

// Whether a command of the row changes an object (lives.h).
bool changes_an_object(Op op);
constexpr const Rule& rule_of(Op op) { return rules::table.of[static_cast<std::size_t>(op)]; }

}  // namespace barcuda
