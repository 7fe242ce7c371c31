// SPDX-License-Identifier: Apache-2.0
// births_carried_code_test: code, libraries, streams, events and graphs of a client are carried to another process, in
// which they were made again from what was recorded.
#include "tests/unit/support/births_carried.h"

namespace barcuda {
namespace {

using enum Op;
using test::births::BirthsCarried;
using test::births::Client;

TEST_F(BirthsCarried, CodeItsFunctionsAndItsVariables) {
    first([&](Client& c) {
        const CUmodule m = c.module();
        const CUfunction bump = c.function(m, "bump"), store = c.function(m, "store");
        CUdeviceptr counter = 0;
        std::size_t bytes = 0;
        EXPECT_TRUE((c.call<cuModuleGetGlobal_v2>(&counter, &bytes, m, "counter").ok()));
        EXPECT_TRUE((c.call<cuFuncSetAttribute>(store, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 4096).ok()));
        EXPECT_EQ(CUDA_SUCCESS, c.run(bump, 0, 0));
        keep(0, m);
        keep(1, bump);
        keep(2, store);
        keep(3, counter);
        keep(4, c.memory(64));
    });
    second([&](Client& c) {
        EXPECT_EQ(c.read<unsigned>(get<CUdeviceptr>(3)), 9u) << "5, and 4 threads";
        EXPECT_EQ(CUDA_SUCCESS, c.run(get<CUfunction>(1), 0, 0));
        EXPECT_EQ(c.read<unsigned>(get<CUdeviceptr>(3)), 13u);
        EXPECT_EQ(CUDA_SUCCESS, c.run(get<CUfunction>(2), get<CUdeviceptr>(4), 17));
        EXPECT_EQ(c.read<unsigned>(get<CUdeviceptr>(4) + 12), 17u);
        int bytes = 0;
        EXPECT_TRUE(
            (c.call<cuFuncGetAttribute>(&bytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, get<CUfunction>(2))
                 .ok()));
        EXPECT_EQ(bytes, 4096);
        EXPECT_EQ(c.function(get<CUmodule>(0), "bump"), get<CUfunction>(1)) << "it has its name already";
        EXPECT_TRUE((c.call<cuModuleUnload>(get<CUmodule>(0)).ok()));
    });
}
TEST_F(BirthsCarried, AVariableThatTheProgramHasNeverNamed) {
    first([&](Client& c) {
        const CUmodule m = c.module();
        const CUfunction bump = c.function(m, "bump");
        EXPECT_EQ(CUDA_SUCCESS, c.run(bump, 0, 0));
        keep(0, m);
        keep(1, bump);
    });
    second([&](Client& c) {
        EXPECT_EQ(CUDA_SUCCESS, c.run(get<CUfunction>(1), 0, 0));
        CUdeviceptr counter = 0;
        std::size_t bytes = 0;
        EXPECT_TRUE((c.call<cuModuleGetGlobal_v2>(&counter, &bytes, get<CUmodule>(0), "counter").ok()));
        EXPECT_EQ(c.read<unsigned>(counter), 13u) << "5, and twice 4 threads";
    });
}
// Its variables lie behind those of what was loaded before.
TEST_F(BirthsCarried, CodeThatWasLoadedBesideCodeThatIsGone) {
    first([&](Client& c) {
        CUmodule copies[4]{};
        CUdeviceptr counter = 0, others[4]{};
        std::size_t bytes = 0;
        for (int i = 0; i < 4; ++i) {
            copies[i] = c.module();
            EXPECT_TRUE((c.call<cuModuleGetGlobal_v2>(&others[i], &bytes, copies[i], "counter").ok()));
            EXPECT_NE(std::exchange(counter, others[i]), others[i]);
        }
        const CUfunction bump = c.function(copies[2], "bump");
        EXPECT_EQ(CUDA_SUCCESS, c.run(bump, 0, 0));
        c.wait();
        for (int gone : {0, 3, 1}) EXPECT_TRUE((c.call<cuModuleUnload>(copies[gone]).ok()));
        c.session().deferred().reap(true);
        keep(0, copies[2]);
        keep(1, bump);
        keep(2, others[2]);
    });
    second([&](Client& c) {
        EXPECT_EQ(CUDA_SUCCESS, c.run(get<CUfunction>(1), 0, 0));
        EXPECT_EQ(c.read<unsigned>(get<CUdeviceptr>(2)), 13u) << "5, and twice 4 threads";
        const CUmodule again = c.module();
        EXPECT_NE(again, nullptr);
        EXPECT_TRUE((c.call<cuModuleUnload>(get<CUmodule>(0)).ok()));
    });
}
// The driver unloads when the GPU is idle.
TEST_F(BirthsCarried, CodeThatWasLoadedWhileUnloadedCodeWasThereYet) {
    first([&](Client& c) {
        const CUdeviceptr word = c.memory(64);
        const CUstream waits = c.stream(), other = c.stream();
        c.fill(word, 0, 64);
        c.wait();
        std::size_t bytes = 0;
        CUdeviceptr counter = 0, before = 0;
        const CUmodule gone = c.module();
        EXPECT_TRUE((c.call<cuModuleGetGlobal_v2>(&before, &bytes, gone, "counter").ok()));
        EXPECT_TRUE((c.call<cuStreamWaitValue32_v2>(waits, word, 1u, unsigned{CU_STREAM_WAIT_VALUE_EQ}).ok()));
        EXPECT_TRUE((c.call<cuModuleUnload>(gone).ok()));
        EXPECT_EQ(c.session().deferred().unloaded(), 1u);
        const CUmodule stays = c.module();
        EXPECT_TRUE((c.call<cuModuleGetGlobal_v2>(&counter, &bytes, stays, "counter").ok()));
        EXPECT_NE(counter, before);
        EXPECT_TRUE((c.call<cuStreamWriteValue32_v2>(other, word, 1u, 0u).ok()));
        c.wait();
        c.session().deferred().reap(true);
        EXPECT_EQ(c.session().deferred().unloaded(), 0u);
        const CUfunction bump = c.function(stays, "bump");
        EXPECT_EQ(CUDA_SUCCESS, c.run(bump, 0, 0));
        keep(0, bump);
        keep(1, counter);
    });
    second([&](Client& c) {
        EXPECT_EQ(CUDA_SUCCESS, c.run(get<CUfunction>(0), 0, 0));
        EXPECT_EQ(c.read<unsigned>(get<CUdeviceptr>(1)), 13u) << "5, and twice 4 threads";
        EXPECT_EQ(c.session().deferred().unloaded(), 0u);
    });
}
// A library has a copy of its variables in each context, and the copy ends with the context.
TEST_F(BirthsCarried, ALibraryInContextsOfWhichOneHasEnded) {
    const auto bump_in = [](Client& c, CUkernel kernel) {
        CUfunction bump = nullptr;
        EXPECT_TRUE((c.call<cuKernelGetFunction>(&bump, kernel).ok()));
        EXPECT_EQ(CUDA_SUCCESS, c.run(bump, 0, 0));
        return bump;
    };
    const auto counter_of = [](Client& c, CUlibrary library) {
        CUdeviceptr counter = 0;
        std::size_t bytes = 0;
        EXPECT_TRUE((c.call<cuLibraryGetGlobal>(&counter, &bytes, library, "counter").ok()));
        return counter;
    };
    first([&](Client& c) {
        CUlibrary library = nullptr;
        CUkernel kernel = nullptr;
        const auto primary = c.context;
        const auto another = [&] {
            CUcontext made = nullptr;
            EXPECT_TRUE((c.call<create_context>(&made, 0u, 0).ok()));
            return made;
        };
        const CUcontext gone = another(), stays = another();
        c.context = static_cast<std::uint32_t>(Client::id(gone));
        c.put_code();
        ASSERT_TRUE(
            (c.call<load_library>(&library, static_cast<const void*>(kernels_ptx), sizeof kernels_ptx, ext::no_logs)
                 .ok()));
        ASSERT_TRUE((c.call<cuLibraryGetKernel>(&kernel, library, "bump").ok()));
        const CUdeviceptr counter = counter_of(c, library);
        const auto recorded = [&] {
            return std::ranges::count(c.session().births().memory(), counter, [](auto& m) { return m.thing.name; });
        };
        bump_in(c, kernel);
        c.wait();
        EXPECT_EQ(recorded(), 1);
        ASSERT_TRUE((c.call<cuCtxDestroy_v2>(gone).ok()));
        EXPECT_EQ(recorded(), 0);
        c.context = static_cast<std::uint32_t>(Client::id(stays));
        keep(1, bump_in(c, kernel));
        keep(3, c.context);
        c.context = primary;
        bump_in(c, kernel);
        keep(2, bump_in(c, kernel));
        keep(0, library);
    });
    second([&](Client& c) {
        EXPECT_EQ(c.read<unsigned>(counter_of(c, get<CUlibrary>(0))), 13u) << "5, and twice 4 threads";
        EXPECT_EQ(CUDA_SUCCESS, c.run(get<CUfunction>(2), 0, 0));
        EXPECT_EQ(c.read<unsigned>(counter_of(c, get<CUlibrary>(0))), 17u);
        c.context = get<std::uint32_t>(3);
        EXPECT_EQ(c.read<unsigned>(counter_of(c, get<CUlibrary>(0))), 9u) << "in the context that lives, too";
    });
}
TEST_F(BirthsCarried, LibrariesAndTheirKernels) {
    first([&](Client& c) {
        CUlibrary library = nullptr;
        CUkernel kernel = nullptr;
        CUfunction f = nullptr;
        c.put_code();
        ASSERT_TRUE(
            (c.call<load_library>(&library, static_cast<const void*>(kernels_ptx), sizeof kernels_ptx, ext::no_logs)
                 .ok()));
        ASSERT_TRUE((c.call<cuLibraryGetKernel>(&kernel, library, "store").ok()));
        ASSERT_TRUE((c.call<cuKernelGetFunction>(&f, kernel).ok()));
        keep(0, library);
        keep(1, f);
        keep(2, c.memory(64));
    });
    second([&](Client& c) {
        EXPECT_EQ(CUDA_SUCCESS, c.run(get<CUfunction>(1), get<CUdeviceptr>(2), 3));
        EXPECT_EQ(c.read<unsigned>(get<CUdeviceptr>(2)), 3u);
        EXPECT_TRUE((c.call<cuLibraryUnload>(get<CUlibrary>(0)).ok()));
    });
}
TEST_F(BirthsCarried, StreamsAndEventsAndWhetherTheseWereRecorded) {
    first([&](Client& c) {
        CUstream s = nullptr;
        ASSERT_TRUE((c.call<cuStreamCreateWithPriority>(&s, unsigned{CU_STREAM_NON_BLOCKING}, 0).ok()));
        keep(0, s);
        for (std::size_t i : {1u, 2u}) {
            CUevent e = nullptr;
            ASSERT_TRUE((c.call<cuEventCreate>(&e, 0u).ok()));
            keep(i, e);
        }
        EXPECT_TRUE((c.call<record_event>(get<CUevent>(1), s, 0u, ext::Fence{}).ok()));
    });
    second([&](Client& c) {
        unsigned flags = 0;
        EXPECT_TRUE((c.call<cuStreamGetFlags>(get<CUstream>(0), &flags).ok()));
        EXPECT_EQ(flags, unsigned{CU_STREAM_NON_BLOCKING});
        c.wait();
        float time = -1;
        EXPECT_EQ(CUDA_SUCCESS, (c.call<cuEventElapsedTime_v2>(&time, get<CUevent>(1), get<CUevent>(1)).result));
        EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE,
                  (c.call<cuEventElapsedTime_v2>(&time, get<CUevent>(2), get<CUevent>(2)).result));
        EXPECT_TRUE((c.call<cuStreamDestroy_v2>(get<CUstream>(0)).ok()));
    });
}
TEST_F(BirthsCarried, AGraphOfNodesAndWhatWasInstantiatedOfOneThatIsGone) {
    first([&](Client& c) {
        const CUfunction store = c.function(c.module(), "store");
        const CUdeviceptr at = c.memory(64);
        const CUgraph gone = c.graph(), there = c.graph();
        const CUgraphNode n = c.kernel_node(gone, store, at, 1);
        const CUgraphExec early = c.exec(gone);
        const Client::Parameters p{at, 2, 0};
        EXPECT_TRUE(
            (c.call<set_kernel_node>(n, store, Client::shape(4), static_cast<const void*>(&p), Client::parameter_bytes)
                 .ok()));
        keep(0, early);
        keep(1, c.exec(gone));
        EXPECT_TRUE((c.call<cuGraphDestroy>(gone).ok()));
        keep(2, there);
        keep(3, c.kernel_node(there, store, at, 3));
        keep(4, at);
        keep(5, store);
    });
    second([&](Client& c) {
        const auto at = get<CUdeviceptr>(4);
        c.launch_graph(get<CUgraphExec>(0));
        EXPECT_EQ(c.read<unsigned>(at), 1u);
        c.launch_graph(get<CUgraphExec>(1));
        EXPECT_EQ(c.read<unsigned>(at), 2u);
        const CUgraphNode fresh = c.kernel_node(get<CUgraph>(2), get<CUfunction>(5), at + 4, 4);
        EXPECT_NE(fresh, get<CUgraphNode>(3));
        c.launch_graph(c.exec(get<CUgraph>(2)));
        std::size_t count = 8;
        CUgraphNode nodes[8]{};
        EXPECT_TRUE((c.call<cuGraphGetNodes>(get<CUgraph>(2), static_cast<CUgraphNode*>(nodes), &count).ok()));
        EXPECT_EQ(count, 2u);
        EXPECT_EQ(nodes[0], get<CUgraphNode>(3));
    });
}
TEST_F(BirthsCarried, AGraphOfACaptureOfTwoStreams) {
    first([&](Client& c) {
        const CUfunction store = c.function(c.module(), "store");
        const CUdeviceptr at = c.memory(4096);
        const CUstream one = c.stream(), other = c.stream(), outside = c.stream();
        CUevent fork = nullptr, join = nullptr;
        for (CUevent* e : {&fork, &join}) ASSERT_TRUE((c.call<cuEventCreate>(e, 0u).ok()));
        ASSERT_TRUE((c.call<cuStreamBeginCapture_v2>(one, CU_STREAM_CAPTURE_MODE_RELAXED).ok()));
        EXPECT_EQ(hindrances(c.session()).size(), 1u) << "it has not ended";
        EXPECT_EQ(CUDA_SUCCESS, c.run(store, at, 11, one));
        EXPECT_TRUE((c.call<record_event>(fork, one, 0u, ext::Fence{}).ok()));
        EXPECT_TRUE((c.call<cuStreamWaitEvent>(other, fork, 0u).ok()));
        EXPECT_TRUE((c.call<cuMemsetD32Async>(at + 1024, 12u, std::size_t{4}, other).ok()));
        EXPECT_EQ(CUDA_SUCCESS, c.run(store, at + 2048, 99, outside)) << "no part of it";
        EXPECT_TRUE((c.call<record_event>(join, other, 0u, ext::Fence{}).ok()));
        EXPECT_TRUE((c.call<cuStreamWaitEvent>(one, join, 0u).ok()));
        EXPECT_TRUE((c.call<cuMemsetD32Async>(at + 3072, 13u, std::size_t{1}, one).ok()));
        CUgraph g = nullptr;
        ASSERT_TRUE((c.call<cuStreamEndCapture>(one, &g).ok()));
        keep(0, c.exec(g));
        keep(1, at);
        EXPECT_TRUE((c.call<cuGraphDestroy>(g).ok()));
        for (CUstream s : {one, other, outside}) EXPECT_TRUE((c.call<cuStreamDestroy_v2>(s).ok()));
        for (CUevent e : {fork, join}) EXPECT_TRUE((c.call<cuEventDestroy_v2>(e).ok()));
        c.wait();
        c.fill(at, 0, 4096);
        EXPECT_FALSE(c.session().births().captures());
    });
    second([&](Client& c) {
        const auto at = get<CUdeviceptr>(1);
        EXPECT_EQ(c.read<unsigned>(at + 2048), 0u) << "nothing runs while a capture is made again";
        c.launch_graph(get<CUgraphExec>(0));
        EXPECT_EQ(c.read<unsigned>(at), 11u);
        EXPECT_EQ(c.read<unsigned>(at + 1024), 12u);
        EXPECT_EQ(c.read<unsigned>(at + 3072), 13u);
        EXPECT_EQ(c.read<unsigned>(at + 2048), 0u);
        EXPECT_NE(c.stream(), nullptr);
    });
}
// NVIDIA's driver crashes when it is asked about a stream that was destroyed; the software GPU's refuses the question.
TEST_F(BirthsCarried, NoQuestionIsAskedAboutAStreamThatGoesWhileItCaptures) {
    first([&](Client& c) {
        static int refused = 0;
        static decltype(Driver::cuStreamGetCaptureInfo_v3) ask = nullptr;
        auto& table = const_cast<Driver&>(c.gpu());
        ask = table.cuStreamGetCaptureInfo_v3;
        table.cuStreamGetCaptureInfo_v3 = [](CUstream stream, auto... told) {
            const CUresult r = ask(stream, told...);
            refused += r == CUDA_ERROR_INVALID_HANDLE;
            return r;
        };
        const CUfunction store = c.function(c.module(), "store");
        const CUdeviceptr at = c.memory(4096);
        const CUstream stream = c.stream();
        ASSERT_TRUE((c.call<cuStreamBeginCapture_v2>(stream, CU_STREAM_CAPTURE_MODE_RELAXED).ok()));
        EXPECT_EQ(CUDA_SUCCESS, c.run(store, at, 11, stream));
        EXPECT_TRUE(c.session().births().captures());
        EXPECT_TRUE((c.call<cuStreamDestroy_v2>(stream).ok()));
        EXPECT_EQ(refused, 0);
        EXPECT_FALSE(c.session().births().captures()) << "the capture went with its stream";
        EXPECT_EQ(hindrances(c.session()).size(), 0u);
        table.cuStreamGetCaptureInfo_v3 = ask;
    });
}

}  // namespace
}  // namespace barcuda
