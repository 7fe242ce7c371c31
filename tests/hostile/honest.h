// SPDX-License-Identifier: Apache-2.0
// honest.h: what single rows want of their arguments, and what only they teach.
//
//   numbers   after the kinds have chosen theirs, before they choose memory
//   rest      after that
//   learn     of a command that has succeeded
#pragma once
#include "tests/hostile/makers.h"

namespace barcuda::hostile {

template <Op> struct Honest {};
#define NUMBERS static void numbers([[maybe_unused]] Generator& g, auto& a)
#define REST static void rest([[maybe_unused]] Generator& g, [[maybe_unused]] Pending& p, auto& a)
#define LEARN static void learn([[maybe_unused]] Generator& g, auto& a)
#define AT(i) std::get<i>(a)

// ---- memory
template <std::size_t Bytes, Sort sort> struct Allocates {
    NUMBERS {
        AT(Bytes) = g.random.between(1, g.random.chance(95) ? 1 << 16 : 4 << 20);
        if (g.known.memory(sort).size() > 24) g.want(sort == Sort::queued ? Op::cuMemFreeAsync : Op::cuMemFree_v2);
    }
    LEARN { g.keep(sort, *AT(0), AT(Bytes)); }
};
template <> struct Honest<Op::cuMemAlloc_v2> : Allocates<1, Sort::allocated> {};
template <> struct Honest<Op::cuMemAllocAsync> : Allocates<1, Sort::queued> {};
template <> struct Honest<Op::cuMemAllocFromPoolAsync> : Allocates<1, Sort::queued> {};
template <> struct Honest<Op::cuMemAllocPitch_v2> {
    NUMBERS {
        AT(2) = g.random.between(1, 1024), AT(3) = g.random.between(1, 16), AT(4) = g.random.one_of({4u, 8u, 16u});
        if (g.known.memory(Sort::allocated).size() > 24) g.want(Op::cuMemFree_v2);
    }
    LEARN { g.keep(Sort::allocated, *AT(0), *AT(1) * AT(3)); }
};
template <> struct Honest<Op::cuMemAddressReserve> {
    NUMBERS {
        AT(1) = values::page, AT(2) = 0, AT(3) = 0, AT(4) = 0;
        if (g.known.memory(Sort::reserved).size() > 8) g.want(Op::cuMemAddressFree);
    }
    LEARN { g.keep(Sort::reserved, *AT(0), AT(1)); }
};
template <> struct Honest<Op::cuMemCreate> {
    NUMBERS { AT(1) = values::page, AT(3) = 0; }
};
template <> struct Honest<Op::cuMemMap> {
    NUMBERS {
        const Memory m = g.memory(Sort::reserved, Op::cuMemAddressReserve);
        AT(0) = m.address, AT(1) = m.bytes, AT(2) = 0, AT(4) = 0;
    }
    LEARN {
        g.known.free(AT(0));
        g.keep(Sort::mapped, AT(0), AT(1));
        if (g.known.memory(Sort::mapped).size() > 8) g.want(Op::cuMemUnmap);
    }
};
template <> struct Honest<Op::cuMemSetAccess> {
    NUMBERS {
        const Memory m = g.memory(Sort::mapped, Op::cuMemMap);
        AT(0) = m.address, AT(1) = m.bytes, AT(3) = 1;
    }
    LEARN { g.keep(Sort::accessible, AT(0), AT(1)); }
};
template <> struct Honest<Op::cuMemGetAccess> {
    NUMBERS { AT(2) = g.memory(Sort::mapped, Op::cuMemMap).address; }
};
template <> struct Honest<Op::cuMemPoolSetAccess> {
    NUMBERS { AT(2) = 1; }
};
template <> struct Honest<Op::retain_memory> {
    REST { AT(1) = g.memory(Sort::mapped, Op::cuMemMap).address; }
};
template <> struct Honest<Op::set_pointer_attribute> {
    NUMBERS { AT(0) = CU_POINTER_ATTRIBUTE_SYNC_MEMOPS; }
    REST { AT(2) = g.memory(Sort::allocated, Op::cuMemAlloc_v2).address; }
};
template <std::size_t I, Sort sort, Op maker> struct Needs {
    REST { AT(I) = g.memory(sort, maker).address; }
};
template <> struct Honest<Op::cuMemGetAddressRange_v2> : Needs<2, Sort::allocated, Op::cuMemAlloc_v2> {};
template <> struct Honest<Op::cuMemPoolExportPointer> : Needs<1, Sort::queued, Op::cuMemAllocFromPoolAsync> {
    LEARN { g.known.tell(Op::cuMemPoolExportPointer, AT(0), sizeof *AT(0)); }
};
template <> struct Honest<Op::cuMemPoolImportPointer> {
    LEARN { g.keep(Sort::queued, *AT(0), 64); }
};
template <> struct Honest<Op::cuIpcGetMemHandle> : Needs<1, Sort::allocated, Op::cuMemAlloc_v2> {
    LEARN { g.known.tell(Op::cuIpcGetMemHandle, AT(0), sizeof *AT(0)); }
};
template <> struct Honest<Op::cuIpcOpenMemHandle_v2> {
    NUMBERS { AT(2) = CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS; }
    LEARN { g.keep(Sort::opened, *AT(0), 1); }
};
template <> struct Honest<Op::cuIpcGetEventHandle> {
    LEARN { g.known.tell(Op::cuIpcGetEventHandle, AT(0), sizeof *AT(0)); }
};
template <> struct Honest<Op::export_memory> {
    LEARN { g.known.tell(Op::export_memory, AT(0), sizeof *AT(0)); }
};
template <> struct Honest<Op::export_pool> {
    LEARN { g.known.tell(Op::export_pool, AT(0), sizeof *AT(0)); }
};
template <> struct Honest<Op::cuEventCreate> {
    NUMBERS { AT(1) = g.random.one_of({0u, 1u, 2u, 6u, 6u}); }  // 6: other processes may open it
};

// ---- copies
template <std::size_t Bytes, std::size_t Box> struct BoxOf {
    NUMBERS { AT(Bytes) = 32 * 4 * 2; }
    REST {
        auto* c = const_cast<CUDA_MEMCPY3D*>(AT(Box));
        c->srcMemoryType = c->dstMemoryType = CU_MEMORYTYPE_DEVICE;
        c->srcDevice = c->dstDevice = g.address(1024);
        c->srcArray = c->dstArray = nullptr;
        c->Height = 4, c->Depth = 2;
    }
};
template <> struct Honest<Op::box_in> : BoxOf<2, 0> {};
template <> struct Honest<Op::box_out> : BoxOf<2, 0> {};

// ---- streams
template <std::size_t Value, std::size_t Flags> struct WaitsForNothing {  // much: it is there already
    NUMBERS { AT(Value) = 0, AT(Flags) = CU_STREAM_WAIT_VALUE_NOR; }
    REST { AT(1) = reinterpret_cast<CUdeviceptr>(g.heap(8)) & ~7ull; }
};
template <> struct Honest<Op::cuStreamWaitValue32_v2> : WaitsForNothing<2, 3> {};
template <> struct Honest<Op::cuStreamWaitValue64_v2> : WaitsForNothing<2, 3> {};
template <std::size_t Value> struct Writes {
    NUMBERS { AT(Value) = g.random.below(100), AT(Value + 1) = 0; }
    REST { AT(1) &= ~7ull; }
};
template <> struct Honest<Op::cuStreamWriteValue32_v2> : Writes<2> {};
template <> struct Honest<Op::cuStreamWriteValue64_v2> : Writes<2> {};
template <> struct Honest<Op::cuStreamBatchMemOp_v2> {
    NUMBERS { AT(1) = static_cast<unsigned>(g.random.between(1, 2)), AT(3) = 0; }
};
template <std::size_t Flag> struct NoFlags {
    NUMBERS { AT(Flag) = 0; }
};
template <> struct Honest<Op::cuEventRecordWithFlags> : NoFlags<2> {};
template <> struct Honest<Op::cuStreamWaitEvent> : NoFlags<2> {};
template <> struct Honest<Op::cuStreamCreateWithPriority> {
    NUMBERS { AT(1) = static_cast<unsigned>(g.random.below(2)), AT(2) = -static_cast<int>(g.random.below(2)); }
};
struct Captures {  // for a short time
    REST { AT(0) = std::bit_cast<CUstream>(g.object(tag<CUstream>())); }
    LEARN { g.known.add(tag<Captures>(), {std::bit_cast<std::uint64_t>(AT(0))}), g.want(Op::cuStreamEndCapture); }
};
template <> struct Honest<Op::cuStreamBeginCapture_v2> : Captures {};
template <> struct Honest<Op::cuStreamBeginCaptureToGraph> : Captures {
    NUMBERS { AT(4) = 0; }
};
template <> struct Honest<Op::cuStreamEndCapture> {
    REST {
        auto& all = g.known.of(tag<Captures>());
        if (all.empty()) return g.want(Op::cuStreamBeginCapture_v2);
        AT(0) = std::bit_cast<CUstream>(all.back().id);
        all.pop_back();
    }
};
template <> struct Honest<Op::launch_host> {
    NUMBERS { AT(1) = g.random.below(8), AT(2) = static_cast<unsigned>(g.random.below(2)); }
};
template <> struct Honest<Op::record_event> {
    NUMBERS { AT(2) = 0; }
};

// ---- code and launches
template <std::size_t Bytes> struct Packed {  // an address and a number: what the kernels of the image take
    static constexpr std::size_t bytes = 12;
    NUMBERS { AT(Bytes) = bytes; }
    REST {
        auto* to = reinterpret_cast<std::byte*>(const_cast<void*>(static_cast<const void*>(AT(Bytes - 1))));
        const std::uint64_t address = g.address(64 * 4) & ~3ull;
        std::memcpy(to, &address, sizeof address);
    }
};
template <> struct Honest<Op::launch> : Packed<4> {};
template <> struct Honest<Op::try_launch> : Packed<4> {};
template <> struct Honest<Op::add_kernel_node> : Packed<7> {};
template <> struct Honest<Op::cuFuncSetAttribute> {
    NUMBERS {
        AT(1) = g.random.one_of(
            {CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT}),
        AT(2) = 16;
    }
};
template <> struct Honest<Op::cuKernelSetAttribute> {
    NUMBERS { AT(0) = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, AT(1) = 16, AT(3) = 0; }
};
template <std::size_t Size> struct Block {
    NUMBERS { AT(Size) = static_cast<int>(g.random.between(1, 256)); }
};
template <> struct Honest<Op::cuOccupancyMaxActiveBlocksPerMultiprocessor> : Block<2> {};
template <> struct Honest<Op::cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags> : Block<2> {
    NUMBERS { AT(2) = 64, AT(4) = 0; }
};
template <> struct Honest<Op::cuOccupancyAvailableDynamicSMemPerBlock> {
    NUMBERS { AT(2) = 1, AT(3) = 64; }
};
template <> struct Honest<Op::image_part> {
    NUMBERS { AT(0) = 0; }
};
template <> struct Honest<Op::image_begin> {
    NUMBERS { AT(0) = g.random.between(1, 4096); }
};
template <> struct Honest<Op::link_add> {
    REST {
        if (!AT(2)) AT(2) = g.image().data(), AT(3) = g.image().size();
    }
};
template <> struct Honest<Op::replace_address> {
    REST { AT(1) &= ~255ull; }
};
template <> struct Honest<Op::release> {
    NUMBERS {
        const auto spare = g.spare_extent();
        AT(0) = spare.empty() ? 0 : g.offset_of(spare.data()), AT(1) = spare.size();
    }
};

// ---- graphs
template <std::size_t Node, Op maker> struct OfNode {  // of this kind
    REST { AT(Node) = std::bit_cast<CUgraphNode>(g.object(tag<CUgraphNode>(), 0, maker)); }
};
// A node of this kind whose graph was instantiated, and what came of that. Null: one of them is still to be made.
inline const Thing* choose_instantiated(Generator& g, Op maker, CUgraphExec& exec, CUgraphNode& node) {
    const std::uint64_t id = g.object(tag<CUgraphNode>(), 0, maker);
    const auto& nodes = g.known.of(tag<CUgraphNode>());
    const auto its = std::ranges::find(nodes, id, &Thing::id);
    if (its == nodes.end() || its->made_by != maker) return nullptr;
    const auto& execs = g.known.of(tag<CUgraphExec>());
    const auto of = std::ranges::find(execs, its->whole, &Thing::note);
    if (of == execs.end()) {
        g.want(Op::cuGraphInstantiateWithFlags);
        return nullptr;
    }
    exec = std::bit_cast<CUgraphExec>(of->id);
    node = std::bit_cast<CUgraphNode>(id);
    return &*its;
}
template <> struct Honest<Op::cuGraphChildGraphNodeGetGraph> : OfNode<0, Op::cuGraphAddChildGraphNode> {};
// Of a graph that was instantiated, and the graph that the node is a copy of: the only one that surely fits.
template <> struct Honest<Op::cuGraphAddChildGraphNode> {
    LEARN { g.known.of(tag<CUgraphNode>()).back().note = std::bit_cast<std::uint64_t>(AT(4)); }
};
template <> struct Honest<Op::cuGraphExecChildGraphNodeSetParams> {
    REST {
        if (const Thing* const its = choose_instantiated(g, Op::cuGraphAddChildGraphNode, AT(0), AT(1)))
            AT(2) = std::bit_cast<CUgraph>(its->note);
    }
};
template <> struct Honest<Op::set_kernel_node> : Packed<4> {
    REST {
        Packed<4>::rest(g, p, a);
        OfNode<0, Op::add_kernel_node>::rest(g, p, a);
    }
};
template <> struct Honest<Op::exec_set_kernel_node> : Packed<5> {
    REST {
        Packed<5>::rest(g, p, a);
        choose_instantiated(g, Op::add_kernel_node, AT(0), AT(1));
    }
};
template <> struct Honest<Op::cuGraphEventRecordNodeGetEvent> : OfNode<0, Op::cuGraphAddEventRecordNode> {};
template <> struct Honest<Op::cuGraphEventRecordNodeSetEvent> : OfNode<0, Op::cuGraphAddEventRecordNode> {};
template <> struct Honest<Op::cuGraphExecEventRecordNodeSetEvent> : OfNode<1, Op::cuGraphAddEventRecordNode> {};
template <> struct Honest<Op::cuGraphEventWaitNodeGetEvent> : OfNode<0, Op::cuGraphAddEventWaitNode> {};
template <> struct Honest<Op::cuGraphEventWaitNodeSetEvent> : OfNode<0, Op::cuGraphAddEventWaitNode> {};
template <> struct Honest<Op::cuGraphExecEventWaitNodeSetEvent> : OfNode<1, Op::cuGraphAddEventWaitNode> {};
template <> struct Honest<Op::cuGraphMemsetNodeGetParams> : OfNode<0, Op::cuGraphAddMemsetNode> {};
template <> struct Honest<Op::cuGraphMemsetNodeSetParams> : OfNode<0, Op::cuGraphAddMemsetNode> {};
template <> struct Honest<Op::cuGraphExecMemsetNodeSetParams> : OfNode<1, Op::cuGraphAddMemsetNode> {};
template <> struct Honest<Op::cuGraphMemcpyNodeGetParams> : OfNode<0, Op::cuGraphAddMemcpyNode> {};
template <> struct Honest<Op::cuGraphMemcpyNodeSetParams> : OfNode<0, Op::cuGraphAddMemcpyNode> {};
template <> struct Honest<Op::cuGraphExecMemcpyNodeSetParams> : OfNode<1, Op::cuGraphAddMemcpyNode> {};
template <> struct Honest<Op::cuGraphMemAllocNodeGetParams> : OfNode<0, Op::cuGraphAddMemAllocNode> {};
template <> struct Honest<Op::cuGraphMemFreeNodeGetParams> : OfNode<0, Op::cuGraphAddMemFreeNode> {};
template <> struct Honest<Op::cuGraphKernelNodeGetAttribute> : OfNode<0, Op::add_kernel_node> {};
template <> struct Honest<Op::cuGraphKernelNodeSetAttribute> : OfNode<0, Op::add_kernel_node> {};
template <> struct Honest<Op::kernel_node> : OfNode<0, Op::add_kernel_node> {};
template <> struct Honest<Op::host_node> : OfNode<0, Op::add_host_node> {};
template <> struct Honest<Op::set_host_node> : OfNode<0, Op::add_host_node> {};
template <> struct Honest<Op::exec_set_host_node> : OfNode<1, Op::add_host_node> {};
template <> struct Honest<Op::values_node> : OfNode<0, Op::add_values_node> {};
template <> struct Honest<Op::set_values_node> : OfNode<0, Op::add_values_node> {};
template <> struct Honest<Op::exec_set_values_node> : OfNode<1, Op::add_values_node> {};
template <> struct Honest<Op::cuGraphKernelNodeCopyAttributes> {
    REST {
        OfNode<0, Op::add_kernel_node>::rest(g, p, a);
        OfNode<1, Op::add_kernel_node>::rest(g, p, a);
    }
};
template <> struct Honest<Op::cuGraphAddMemAllocNode> {
    LEARN { g.keep(Sort::in_graph, AT(4)->dptr, AT(4)->bytesize, std::bit_cast<std::uint64_t>(AT(1))); }
};
template <> struct Honest<Op::cuGraphAddMemFreeNode> {
    REST {
        const Memory m = g.memory(Sort::in_graph, Op::cuGraphAddMemAllocNode);
        AT(4) = m.address;
        if (m.whole) AT(1) = std::bit_cast<CUgraph>(m.whole);
        AT(3) = 0;
    }
    LEARN { g.known.free(AT(4)); }
};
template <> struct Honest<Op::cuGraphAddDependencies_v2> {
    NUMBERS { AT(4) = 1; }
};
template <> struct Honest<Op::cuGraphRemoveDependencies_v2> {
    NUMBERS { AT(4) = 1; }
};
template <> struct Honest<Op::cuGraphConditionalHandleCreate> {
    NUMBERS { AT(3) = 0, AT(4) = CU_GRAPH_COND_ASSIGN_DEFAULT; }
};
template <> struct Honest<Op::add_conditional_node> {
    NUMBERS { AT(8) = 1; }
};
template <> struct Honest<Op::add_values_node> {
    NUMBERS { AT(6) = 1, AT(7) = 0; }
};
template <> struct Honest<Op::cuGraphInstantiateWithFlags> {
    NUMBERS { AT(2) = g.random.one_of({0ull, 0ull, 1ull, 8ull}); }
    LEARN { g.known.of(tag<CUgraphExec>()).back().note = std::bit_cast<std::uint64_t>(AT(1)); }
};
template <> struct Honest<Op::cuGraphCreate> : NoFlags<1> {};
template <> struct Honest<Op::create_user_object> {
    NUMBERS { AT(1) = 1, AT(2) = 2, AT(3) = CU_USER_OBJECT_NO_DESTRUCTOR_SYNC; }
};
template <> struct Honest<Op::cuUserObjectRetain> {
    NUMBERS { AT(1) = 1; }
};
template <> struct Honest<Op::cuUserObjectRelease> {
    NUMBERS { AT(1) = 1; }
};
template <> struct Honest<Op::cuGraphRetainUserObject> {
    NUMBERS { AT(2) = 1, AT(3) = 0; }
};
template <> struct Honest<Op::cuGraphReleaseUserObject> {
    NUMBERS { AT(2) = 1; }
};

// ---- contexts
template <> struct Honest<Op::cuDevicePrimaryCtxRetain> : NoFlags<1> {};
template <> struct Honest<Op::create_context> {
    NUMBERS { AT(1) = 0, AT(2) = 0; }
};
template <> struct Honest<Op::cuCtxDestroy_v2> {
    REST { AT(0) = std::bit_cast<CUcontext>(g.object(tag<CUcontext>(), 0, Op::create_context)); }
};
template <> struct Honest<Op::cuDevicePrimaryCtxReset_v2> {
    LEARN {
        static_cast<void>(a);
        g.known.clear();
        g.want(Op::cuDevicePrimaryCtxRetain);
    }
};
template <> struct Honest<Op::cuCtxSetLimit> {
    NUMBERS { AT(1) = std::size_t{1} << g.random.between(10, 20); }
};

#undef NUMBERS
#undef REST
#undef LEARN
#undef AT

}  // namespace barcuda::hostile
