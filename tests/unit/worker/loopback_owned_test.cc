// SPDX-License-Identifier: Apache-2.0
// loopback_owned_test: what a client may name though it has not made it. Memory that a graph will allocate, nodes,
// functions and events that the driver tells of, and memory of the worker, which is told to no client.
#include <gtest/gtest.h>

#include "tests/unit/support/loopback.h"

namespace barcuda {
namespace {

// A driver that says nothing of memory that a graph is yet to allocate.
struct GraphMemory : Loopback {
    static constexpr CUdeviceptr promised = 0x2b00'0000'0000;
    static constexpr std::size_t bytes = 4096;
    static inline CUgraph capturing = nullptr;  // the driver's
    static Driver driver() {
        Driver d = fake::driver();
        d.cuGraphAddMemAllocNode = [](CUgraphNode* node, CUgraph, const CUgraphNode*, std::size_t,
                                      CUDA_MEM_ALLOC_NODE_PARAMS* p) {
            *node = reinterpret_cast<CUgraphNode>(fake::World::current().give());
            p->dptr = promised;
            return CUDA_SUCCESS;
        };
        d.cuMemAllocAsync = [](CUdeviceptr* p, std::size_t, CUstream) {
            *p = promised;
            return CUDA_SUCCESS;
        };
        d.cuStreamGetCaptureInfo_v3 = [](CUstream, CUstreamCaptureStatus* status, cuuint64_t*, CUgraph* graph,
                                         const CUgraphNode**, const CUgraphEdgeData**, std::size_t*) {
            *status = capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
            *graph = capturing;
            return CUDA_SUCCESS;
        };
        d.cuStreamEndCapture = [](CUstream, CUgraph* graph) {
            *graph = std::exchange(capturing, nullptr);
            return *graph ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        };
        return d;
    }
    GraphMemory() : Loopback(driver()) {}
    void TearDown() override { capturing = nullptr; }

    bool fill(CUdeviceptr at = promised, std::size_t count = bytes) {
        return call<Op::cuMemsetD8Async>(at, static_cast<unsigned char>(0), count, CUstream{}).ok();
    }
    CUdeviceptr allocate(CUstream s) {
        CUdeviceptr p = 0;
        EXPECT_TRUE((call<Op::cuMemAllocAsync>(&p, std::size_t{bytes}, s).ok()));
        return p;
    }
    CUstream begun() {
        const CUstream s = stream();
        capturing = reinterpret_cast<CUgraph>(world.give());
        EXPECT_TRUE((call<Op::cuStreamBeginCapture_v2>(s, CU_STREAM_CAPTURE_MODE_GLOBAL).ok()));
        return s;
    }
};
TEST_F(GraphMemory, IsTheClientsAsLongAsTheGraphIs) {
    const CUgraph g = graph();
    CUgraphNode node = nullptr;
    CUDA_MEM_ALLOC_NODE_PARAMS p{};
    p.bytesize = bytes;
    EXPECT_FALSE(fill());
    ASSERT_TRUE((
        call<Op::cuGraphAddMemAllocNode>(&node, g, static_cast<const CUgraphNode*>(nullptr), std::size_t{0}, &p).ok()));
    EXPECT_EQ(p.dptr, promised);
    EXPECT_TRUE(fill());
    EXPECT_TRUE(fill(promised + bytes - 1, 1));
    EXPECT_FALSE(fill(promised + bytes - 1, 2));
    EXPECT_FALSE(fill(promised - 1, 1));
    EXPECT_TRUE((call<Op::cuGraphDestroy>(g).ok()));
    EXPECT_FALSE(fill());
}
TEST_F(GraphMemory, OfACaptureIsTheClientsInItAndAfterIt) {
    const CUstream s = begun();
    EXPECT_EQ(allocate(s), promised);
    EXPECT_TRUE(fill());
    CUgraph g = nullptr;
    EXPECT_TRUE((call<Op::cuStreamEndCapture>(s, &g).ok()));
    EXPECT_TRUE(fill());
    EXPECT_TRUE((call<Op::cuStreamDestroy_v2>(s).ok()));
    EXPECT_TRUE(fill());
    EXPECT_TRUE((call<Op::cuGraphDestroy>(g).ok()));
    EXPECT_FALSE(fill());
}
TEST_F(GraphMemory, OfACaptureThatHasGoneWrongIsNobodys) {
    const CUstream s = begun();
    allocate(s);
    capturing = nullptr;
    EXPECT_FALSE(fill());
    CUgraph g = nullptr;
    EXPECT_FALSE((call<Op::cuStreamEndCapture>(s, &g).ok()));
    capturing = reinterpret_cast<CUgraph>(world.give());
    EXPECT_FALSE(fill());
}
TEST_F(GraphMemory, IsNotWhatAStreamAllocatesOutsideACapture) {
    allocate(stream());
    EXPECT_FALSE(fill());
}
TEST_F(GraphMemory, TheGraphOfACaptureThatHasGoneWrongIsUnknown) {
    const auto told = [&](CUstream s) {
        CUstreamCaptureStatus status{};
        cuuint64_t number = 0;
        std::size_t count = 0;
        CUgraph g = nullptr;
        EXPECT_TRUE((call<Op::capture_info>(s, &status, &number, &g, static_cast<CUgraphNode*>(nullptr), &count).ok()));
        return g;
    };
    const auto expect_unknown = [&](CUgraph g) {
        const auto before = world.calls;
        EXPECT_EQ((call<Op::cuGraphDestroy>(g).result), CUDA_ERROR_INVALID_HANDLE);
        EXPECT_EQ(world.calls, before);
    };
    const CUstream s = begun();
    const CUgraph lost = told(s);
    ASSERT_NE(lost, nullptr);
    capturing = nullptr;
    CUgraph g = nullptr;
    EXPECT_FALSE((call<Op::cuStreamEndCapture>(s, &g).ok()));
    expect_unknown(lost);

    const CUstream gone = begun();
    const CUgraph left = told(gone);
    capturing = nullptr;
    EXPECT_TRUE((call<Op::cuStreamDestroy_v2>(gone).ok()));
    expect_unknown(left);

    const CUstream good = begun();
    const CUgraph made = told(good);
    EXPECT_TRUE((call<Op::cuStreamEndCapture>(good, &g).ok()));
    EXPECT_EQ(g, made);
    EXPECT_TRUE((call<Op::cuStreamDestroy_v2>(good).ok()));
    EXPECT_TRUE((call<Op::cuGraphDestroy>(g).ok()));
}

// What a driver tells of, the client never made: it is known as long as what it was told of.
struct Borrowed : Loopback {
    static Driver driver() {
        Driver d = fake::driver();
        d.cuGraphExecUpdate_v2 = [](CUgraphExec, CUgraph, CUgraphExecUpdateResultInfo* why) {
            why->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
            why->errorNode = reinterpret_cast<CUgraphNode>(fake::World::current().give());
            why->errorFromNode = reinterpret_cast<CUgraphNode>(fake::World::current().give());
            return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
        };
        return d;
    }
    Borrowed() : Loopback(driver()) {}
    CUgraphNode node(CUgraph g) {
        CUgraphNode n = nullptr;
        const CUgraphNode* none = nullptr;
        EXPECT_TRUE((call<Op::cuGraphAddEmptyNode>(&n, g, none, std::size_t{0}).ok()));
        return n;
    }
    template <Op op, class... Given> CUresult unasked(Given... given) {  // the driver has not been asked
        const auto before = world.calls;
        const CUresult r = call<op>(given...).result;
        EXPECT_EQ(world.calls, before);
        return r;
    }
};
TEST_F(Borrowed, NodesThatDoNotFitGoWithTheirGraph) {
    const CUgraph g = graph();
    CUgraphExec e = nullptr;
    EXPECT_TRUE((call<Op::cuGraphInstantiateWithFlags>(&e, g, 0ull).ok()));
    CUgraphExecUpdateResultInfo why{};
    CUresult verdict{};
    ASSERT_TRUE((call<Op::exec_update>(e, g, &why, &verdict).ok()));
    CUgraphNodeType type{};
    EXPECT_TRUE((call<Op::cuGraphNodeGetType>(why.errorNode, &type).ok()));
    EXPECT_TRUE((call<Op::cuGraphDestroy>(g).ok()));
    EXPECT_EQ((unasked<Op::cuGraphNodeGetType>(why.errorNode, &type)), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ((unasked<Op::cuGraphNodeGetType>(why.errorFromNode, &type)), CUDA_ERROR_INVALID_HANDLE);
}
TEST_F(Borrowed, AFunctionOfANodeGoesWithTheNode) {
    const CUgraph g = graph();
    CUfunction f = nullptr;
    ext::Shape shape{};
    ASSERT_TRUE((call<Op::kernel_node>(node(g), &f, &shape, static_cast<void*>(reply.data()), std::size_t{0}).ok()));
    EXPECT_TRUE((call<Op::cuFuncLoad>(f).ok()));
    EXPECT_TRUE((call<Op::cuGraphDestroy>(g).ok()));
    EXPECT_EQ((unasked<Op::cuFuncLoad>(f)), CUDA_ERROR_INVALID_HANDLE);
}
TEST_F(Borrowed, AnEventOfANodeGoesWithTheNodeAndIsNotTheClientsToDestroy) {
    const CUgraph g = graph();
    CUevent event = nullptr;
    ASSERT_TRUE((call<Op::cuGraphEventRecordNodeGetEvent>(node(g), &event).ok()));
    EXPECT_TRUE((call<Op::cuEventQuery>(event).ok()));
    EXPECT_EQ((unasked<Op::cuEventDestroy_v2>(event)), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_TRUE((call<Op::cuGraphDestroy>(g).ok()));
    EXPECT_EQ((unasked<Op::cuEventQuery>(event)), CUDA_ERROR_INVALID_HANDLE);
}
TEST_F(Borrowed, AModuleThatTheClientHasNotLoadedIsNotItsToUnload) {
    const auto f = reinterpret_cast<CUfunction>(ground.session.name(reinterpret_cast<CUfunction>(world.give())));
    CUmodule m = nullptr;
    ASSERT_TRUE((call<Op::cuFuncGetModule>(&m, f).ok()));
    EXPECT_EQ((unasked<Op::cuModuleUnload>(m)), CUDA_ERROR_NOT_PERMITTED);
}

// A driver that knows memory of its own process.
struct Foreign : Loopback {
    static constexpr CUdeviceptr workers = 0x7100'0000'0000;
    static Driver driver() {
        Driver d = fake::driver();
        d.cuPointerGetAttributes = [](unsigned count, CUpointer_attribute* names, void** values, CUdeviceptr p) {
            if (p != workers) return fake::driver().cuPointerGetAttributes(count, names, values, p);
            for (unsigned i = 0; i < count; ++i)
                *static_cast<std::uint32_t*>(values[i]) =
                    names[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ? CU_MEMORYTYPE_HOST : 1;
            return CUDA_SUCCESS;
        };
        d.cuMemGetAddressRange_v2 = [](CUdeviceptr* begin, std::size_t* bytes, CUdeviceptr p) {
            if (p != workers) return fake::driver().cuMemGetAddressRange_v2(begin, bytes, p);
            if (begin) *begin = workers;
            if (bytes) *bytes = 4096;
            return CUDA_SUCCESS;
        };
        return d;
    }
    Foreign() : Loopback(driver()) {}
};
TEST_F(Foreign, TheWorkersMemoryIsNotDescribed) {
    std::uint64_t value = 0;
    for (const auto attribute : {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                 CU_POINTER_ATTRIBUTE_MAPPED, CU_POINTER_ATTRIBUTE_BUFFER_ID})
        EXPECT_EQ((call<Op::pointer_attribute>(&value, attribute, workers).result), CUDA_ERROR_INVALID_VALUE);
    CUdeviceptr begin = 0;
    std::size_t bytes = 0;
    EXPECT_EQ((call<Op::cuMemGetAddressRange_v2>(&begin, &bytes, workers).result), CUDA_ERROR_INVALID_VALUE);
    EXPECT_TRUE((call<Op::pointer_attribute>(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, world.memory).ok()));
    EXPECT_TRUE((call<Op::cuMemGetAddressRange_v2>(&begin, &bytes, world.memory).ok()));
    EXPECT_EQ(begin, world.memory);
}

}  // namespace
}  // namespace barcuda
