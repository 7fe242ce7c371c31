// SPDX-License-Identifier: Apache-2.0
// births_carried_test: a client of the software GPU makes its objects in one process, and uses them in another one,
// where they were made again from what was recorded: by the same ids, at the same addresses, with the same contents.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "host-bridge/worker/memory_bytes.h"
#include "tests/unit/support/carried.h"
#include "tests/unit/support/kernels_ptx.h"

namespace barcuda {
namespace {

using enum Op;

// A client whose worker is this process.
struct Client : CarriedClient {
    void begin() {
        CUcontext primary = nullptr;
        ASSERT_TRUE((call<cuDevicePrimaryCtxRetain>(&primary, 0).ok()));
        context = static_cast<std::uint32_t>(id(primary));
    }
    CUdeviceptr memory(std::size_t bytes) {
        CUdeviceptr at = 0;
        EXPECT_EQ(CUDA_SUCCESS, (call<cuMemAlloc_v2>(&at, bytes).result));
        return at;
    }
    void free(CUdeviceptr at) { EXPECT_EQ(CUDA_SUCCESS, (call<cuMemFree_v2>(at).result)); }
    void fill(CUdeviceptr at, unsigned char with, std::size_t bytes) {
        EXPECT_EQ(CUDA_SUCCESS, (call<cuMemsetD8Async>(at, with, bytes, CUstream{}).result));
    }
    template <class T> T read(CUdeviceptr at) {
        wait();
        T value{};
        EXPECT_EQ(CUDA_SUCCESS, (call<copy_out>(static_cast<void*>(&value), at, sizeof value, CUstream{}).result));
        return value;
    }
    void put_code() {
        std::memcpy(ground.extents.locate(guest.offset, sizeof kernels_ptx), kernels_ptx, sizeof kernels_ptx);
    }
    CUmodule module() {
        CUmodule m = nullptr;
        put_code();
        EXPECT_EQ(
            CUDA_SUCCESS,
            (call<load_module>(&m, static_cast<const void*>(kernels_ptx), sizeof kernels_ptx, ext::no_logs).result));
        std::memset(ground.extents.locate(guest.offset, sizeof kernels_ptx), 0,
                    sizeof kernels_ptx);  // the program uses the place again
        return m;
    }
    CUfunction function(CUmodule m, const char* name) {
        CUfunction f = nullptr;
        EXPECT_EQ(CUDA_SUCCESS, (call<cuModuleGetFunction>(&f, m, name).result));
        return f;
    }
    struct Parameters {
        CUdeviceptr to;
        unsigned value, padding;
    };
    static constexpr std::size_t parameter_bytes = 12;
    static ext::Shape shape(unsigned threads) {
        return {.grid = {1, 1, 1}, .block = {threads, 1, 1}, .shared_bytes = 0};
    }
    CUresult run(CUfunction f, CUdeviceptr to, unsigned value, CUstream stream = nullptr) {
        const Parameters p{to, value, 0};
        return call<launch>(f, shape(4), stream, static_cast<const void*>(&p), parameter_bytes).result;
    }
    CUgraphNode kernel_node(CUgraph g, CUfunction f, CUdeviceptr to, unsigned value) {
        const Parameters p{to, value, 0};
        CUgraphNode n = nullptr;
        EXPECT_EQ(CUDA_SUCCESS, (call<add_kernel_node>(&n, g, static_cast<const CUgraphNode*>(nullptr), std::size_t{0},
                                                       f, shape(4), static_cast<const void*>(&p), parameter_bytes)
                                     .result));
        return n;
    }
    CUgraphExec exec(CUgraph g) {
        CUgraphExec e = nullptr;
        EXPECT_EQ(CUDA_SUCCESS, (call<cuGraphInstantiateWithFlags>(&e, g, 0ull).result));
        return e;
    }
    void launch_graph(CUgraphExec e) { EXPECT_EQ(CUDA_SUCCESS, (call<cuGraphLaunch>(e, CUstream{}).result)); }
};

// What the two processes have in common: ids and numbers that the program remembers.
struct Memory {
    std::uint64_t next_id, remembered[64];
};

class BirthsCarried : public testing::Test {
  protected:
    Memory* const memory = static_cast<Memory*>(
        mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    const CarriedParts parts{};
    ~BirthsCarried() override { munmap(memory, sizeof(Memory)); }

    std::uint64_t& kept(std::size_t which) { return memory->remembered[which]; }
    template <class T> void keep(std::size_t which, T what) { kept(which) = (std::uint64_t)what; }
    template <class T> T get(std::size_t which) { return (T)kept(which); }

    // The client's first worker: all that is carried is written down.
    void first(const std::function<void(Client&)>& make) {
        in_a_process([&] {
            Client client;
            client.begin();
            make(client);
            client.wait();
            ASSERT_EQ("", parts.write(client).what);
            memory->next_id = client.guest.next;
        });
    }
    Failure wake(Client& client) {
        client.guest.next = memory->next_id;
        return parts.wake(client);
    }
    // And the second one, which goes on.
    void second(const std::function<void(Client&)>& use) {
        in_a_process([&] {
            Client client;
            ASSERT_EQ("", wake(client).text());
            CUcontext primary = nullptr;
            ASSERT_TRUE((client.call<cuDevicePrimaryCtxRetain>(&primary, 0).ok()));
            client.context = static_cast<std::uint32_t>(Client::id(primary));
            use(client);
            client.wait();
        });
    }
};

TEST_F(BirthsCarried, MemoryKeepsItsAddressAndItsContentsWhateverWasFreedBefore) {
    first([&](Client& c) {
        const CUdeviceptr gone = c.memory(6 << 20), small_gone = c.memory(700);
        keep(0, c.memory(4 << 20));
        keep(1, c.memory(1000));
        c.free(gone);
        c.free(small_gone);
        c.wait();
        EXPECT_TRUE(c.session().deferred().reap(true));
        keep(2, c.memory(2 << 20));  // where another one was
        c.fill(get<CUdeviceptr>(0), 7, 4 << 20);
        c.fill(get<CUdeviceptr>(1), 8, 1000);
    });
    second([&](Client& c) {
        EXPECT_EQ(c.read<std::uint32_t>(get<CUdeviceptr>(0) + (4 << 20) - 4), 0x07070707u);
        EXPECT_EQ(c.read<std::uint32_t>(get<CUdeviceptr>(1) + 996), 0x08080808u);
        EXPECT_EQ(c.read<std::uint32_t>(get<CUdeviceptr>(2)), 0u);
        for (int i : {0, 1, 2}) c.free(get<CUdeviceptr>(static_cast<std::size_t>(i)));
        EXPECT_NE(c.memory(6 << 20), 0u);
    });
}
TEST_F(BirthsCarried, RowsOfMemoryKeepTheirPitch) {
    first([&](Client& c) {
        std::size_t pitch = 0;
        CUdeviceptr at = 0;
        EXPECT_TRUE((c.call<cuMemAllocPitch_v2>(&at, &pitch, std::size_t{100}, std::size_t{50}, 4u).ok()));
        keep(0, at);
        keep(1, pitch);
        c.fill(at + pitch * 49, 9, 100);
    });
    second([&](Client& c) { EXPECT_EQ(c.read<unsigned char>(get<CUdeviceptr>(0) + get<std::size_t>(1) * 49), 9); });
}
TEST_F(BirthsCarried, MemoryThatTheProgramMapsIsWhereItWas) {
    constexpr std::size_t granule = 2 << 20;
    first([&](Client& c) {
        CUmemAllocationProp what{};
        what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        what.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        CUmemAccessDesc access{what.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        CUdeviceptr at = 0;
        ASSERT_TRUE((c.call<cuMemAddressReserve>(&at, 4 * granule, std::size_t{0}, CUdeviceptr{0}, 0ull).ok()));
        for (std::size_t i = 0; i < 3; ++i) {
            CUmemGenericAllocationHandle physical = 0;
            ASSERT_TRUE((c.call<cuMemCreate>(&physical, granule, &what, 0ull).ok()));
            ASSERT_TRUE((c.call<cuMemMap>(at + i * granule, granule, std::size_t{0}, physical, 0ull).ok()));
            if (i == 0 || i == 2) { EXPECT_TRUE((c.call<cuMemRelease>(physical).ok())); }
            keep(1 + i, physical);
        }
        ASSERT_TRUE((c.call<cuMemSetAccess>(at, 3 * granule, &access, std::size_t{1}).ok()));
        for (std::size_t i = 0; i < 3; ++i) c.fill(at + i * granule, 5, granule);
        c.wait();
        ASSERT_TRUE((c.call<cuMemUnmap>(at, granule).ok()));
        keep(0, at);
    });
    second([&](Client& c) {
        const auto at = get<CUdeviceptr>(0);
        EXPECT_EQ(c.read<std::uint32_t>(at + 2 * granule), 0x05050505u);
        EXPECT_EQ(c.read<std::uint32_t>(at + granule), 0x05050505u);
        ASSERT_TRUE((c.call<cuMemMap>(at, granule, std::size_t{0}, get<CUmemGenericAllocationHandle>(2), 0ull).ok()))
            << "the physical memory that the program kept";
        EXPECT_TRUE((c.call<cuMemUnmap>(at, 3 * granule).ok()));
        EXPECT_TRUE((c.call<cuMemAddressFree>(at, 4 * granule).ok()));
    });
}
TEST_F(BirthsCarried, PhysicalMemoryThatIsNotMappedAsAWholeWithAccessStandsInTheWay) {
    in_a_process([] {
        constexpr std::size_t granule = 2 << 20;
        Client c;
        c.begin();
        CUmemAllocationProp what{};
        what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        what.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        CUdeviceptr at = 0;
        CUmemGenericAllocationHandle physical = 0;
        ASSERT_TRUE((c.call<cuMemAddressReserve>(&at, 4 * granule, std::size_t{0}, CUdeviceptr{0}, 0ull).ok()));
        ASSERT_TRUE((c.call<cuMemCreate>(&physical, 2 * granule, &what, 0ull).ok()));
        EXPECT_EQ(hindrances(c.session()).size(), 1u) << "mapped nowhere";
        ASSERT_TRUE((c.call<cuMemMap>(at, 2 * granule, std::size_t{0}, physical, 0ull).ok()));
        EXPECT_EQ(hindrances(c.session()).size(), 1u) << "no access";
        CUmemAccessDesc access{what.location, CU_MEM_ACCESS_FLAGS_PROT_READ};
        ASSERT_TRUE((c.call<cuMemSetAccess>(at, 2 * granule, &access, std::size_t{1}).ok()));
        EXPECT_EQ(hindrances(c.session()).size(), 1u) << "what it has cannot be put back there";
        access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        ASSERT_TRUE((c.call<cuMemSetAccess>(at, 2 * granule, &access, std::size_t{1}).ok()));
        EXPECT_EQ(hindrances(c.session()).size(), 0u) << "mapped as a whole";
        ASSERT_TRUE((c.call<cuMemUnmap>(at, 2 * granule).ok()));
        EXPECT_EQ(hindrances(c.session()).size(), 1u) << "unmapped again";
        ASSERT_TRUE((c.call<cuMemRelease>(physical).ok()));
        EXPECT_EQ(hindrances(c.session()).size(), 0u) << "released";
    });
}
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
TEST_F(BirthsCarried, ContextsAndTheirLimits) {
    first([&](Client& c) {
        CUcontext second = nullptr;
        ASSERT_TRUE((c.call<create_context>(&second, 0u, CUdevice{0}).ok()));
        const std::uint32_t primary = c.context;
        c.context = static_cast<std::uint32_t>(Client::id(second));
        EXPECT_TRUE((c.call<cuCtxSetLimit>(CU_LIMIT_STACK_SIZE, std::size_t{4096}).ok()));
        keep(0, second);
        keep(1, c.stream());
        keep(2, c.memory(64));
        c.fill(get<CUdeviceptr>(2), 3, 64);
        c.wait();
        c.context = primary;
        keep(3, c.stream());
    });
    second([&](Client& c) {
        const std::uint32_t primary = c.context;
        c.context = static_cast<std::uint32_t>(kept(0));
        std::size_t limit = 0;
        EXPECT_TRUE((c.call<cuCtxGetLimit>(&limit, CU_LIMIT_STACK_SIZE).ok()));
        EXPECT_EQ(limit, 4096u);
        EXPECT_EQ(c.read<unsigned char>(get<CUdeviceptr>(2)), 3);
        EXPECT_TRUE((c.call<cuStreamDestroy_v2>(get<CUstream>(1)).ok()));
        EXPECT_TRUE((c.call<cuCtxDestroy_v2>(get<CUcontext>(0)).ok()));
        c.context = primary;
        EXPECT_TRUE((c.call<cuStreamQuery>(get<CUstream>(3)).ok()));
    });
}
TEST_F(BirthsCarried, TexturesOfLinearMemory) {
    first([&](Client& c) {
        const CUdeviceptr at = c.memory(4096);
        CUDA_RESOURCE_DESC what{};
        what.resType = CU_RESOURCE_TYPE_LINEAR;
        what.res.linear = {at, CU_AD_FORMAT_FLOAT, 1, 4096};
        CUDA_TEXTURE_DESC how{};
        CUtexObject texture = 0;
        ASSERT_TRUE(
            (c.call<cuTexObjectCreate>(&texture, &what, &how, static_cast<const CUDA_RESOURCE_VIEW_DESC*>(nullptr))
                 .ok()));
        keep(0, texture);
        keep(1, at);
    });
    second([&](Client& c) {
        CUDA_RESOURCE_DESC what{};
        ASSERT_TRUE((c.call<cuTexObjectGetResourceDesc>(&what, get<CUtexObject>(0)).ok()));
        EXPECT_EQ(what.res.linear.devPtr, get<CUdeviceptr>(1));
        EXPECT_TRUE((c.call<cuTexObjectDestroy>(get<CUtexObject>(0)).ok()));
    });
}
TEST_F(BirthsCarried, ArraysAndMipmapsKeepTheirContents) {
    // Rows that are no power of two, in slices; each of its words is another.
    constexpr std::size_t width = 30, height = 7, slices = 3;
    const auto copy = [](Client& c, CUarray array, std::vector<std::uint32_t>& words, std::size_t rows,
                         std::size_t deep, bool out) {
        CUDA_MEMCPY3D what{};
        what.WidthInBytes = words.size() / rows / deep * 4;
        what.Height = rows;
        what.Depth = deep;
        (out ? what.srcMemoryType : what.dstMemoryType) = CU_MEMORYTYPE_ARRAY;
        (out ? what.dstMemoryType : what.srcMemoryType) = CU_MEMORYTYPE_HOST;
        (out ? what.srcArray : what.dstArray) = array;
        if (out) what.dstHost = words.data();
        else what.srcHost = words.data();
        (out ? what.dstPitch : what.srcPitch) = what.WidthInBytes;
        (out ? what.dstHeight : what.srcHeight) = rows;
        EXPECT_EQ(CUDA_SUCCESS, c.gpu().cuMemcpy3DAsync_v2(&what, nullptr));
        EXPECT_EQ(CUDA_SUCCESS, c.gpu().cuCtxSynchronize());
    };
    const auto drivers = [](Client& c, auto id) {
        decltype(id) raw = nullptr;
        EXPECT_TRUE(c.session().find(Client::id(id), raw).ok());
        return raw;
    };
    const auto level_of = [](Client& c, CUmipmappedArray mipmap, unsigned level) {
        CUarray array = nullptr;
        EXPECT_EQ(CUDA_SUCCESS, c.gpu().cuMipmappedArrayGetLevel(&array, mipmap, level));
        return array;
    };
    const auto numbers = [](std::size_t count, std::uint32_t from) {
        std::vector<std::uint32_t> words(count);
        for (std::uint32_t& word : words) word = from += 2654435761u;
        return words;
    };
    const CUDA_ARRAY3D_DESCRIPTOR shape{width, height, slices, CU_AD_FORMAT_UNSIGNED_INT32, 1, 0},
        flat{16, 8, 0, CU_AD_FORMAT_FLOAT, 1, 0};
    first([&](Client& c) {
        CUarray array = nullptr;
        CUmipmappedArray mipmap = nullptr;
        ASSERT_TRUE((c.call<cuArray3DCreate_v2>(&array, &shape).ok()));
        ASSERT_TRUE((c.call<cuMipmappedArrayCreate>(&mipmap, &flat, 2u).ok()));
        keep(0, array);
        keep(1, mipmap);
        auto words = numbers(width * height * slices, 1), level = numbers(8 * 4, 2);
        copy(c, drivers(c, array), words, height, slices, false);
        copy(c, level_of(c, drivers(c, mipmap), 1), level, 4, 1, false);
    });
    second([&](Client& c) {
        std::vector<std::uint32_t> words(width * height * slices), level(8 * 4);
        copy(c, drivers(c, get<CUarray>(0)), words, height, slices, true);
        copy(c, level_of(c, drivers(c, get<CUmipmappedArray>(1)), 1), level, 4, 1, true);
        EXPECT_EQ(words, numbers(words.size(), 1));
        EXPECT_EQ(level, numbers(level.size(), 2));
    });
}
TEST_F(BirthsCarried, PoolsAndWhatIsSetOfThem) {
    first([&](Client& c) {
        CUmemPoolProps what{};
        what.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        what.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        what.location.id = 0;
        CUmemoryPool pool = nullptr;
        ASSERT_TRUE((c.call<cuMemPoolCreate>(&pool, &what).ok()));
        std::uint64_t threshold = 1 << 20;
        ASSERT_TRUE(
            (c.call<cuMemPoolSetAttribute>(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, static_cast<void*>(&threshold))
                 .ok()));
        keep(0, pool);
    });
    second([&](Client& c) {
        std::uint64_t threshold = 0;
        ASSERT_TRUE((c.call<cuMemPoolGetAttribute>(get<CUmemoryPool>(0), CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                                                   static_cast<void*>(&threshold))
                         .ok()));
        EXPECT_EQ(threshold, 1u << 20);
    });
}
TEST_F(BirthsCarried, AnObjectOfTheProgramThatEndedWithItsLastReferenceIsGone) {
    first([&](Client& c) {
        CUuserObject object = nullptr;
        ASSERT_TRUE(
            (c.call<create_user_object>(&object, std::uint64_t{0}, 2u, unsigned{CU_USER_OBJECT_NO_DESTRUCTOR_SYNC})
                 .ok()));
        ASSERT_TRUE((c.call<cuUserObjectRelease>(object, 1u).ok()));
        EXPECT_EQ(hindrances(c.session()).size(), 1u) << "there is a reference";
        ASSERT_TRUE((c.call<cuUserObjectRelease>(object, 1u).ok()));
        keep(0, object);
    });
    second([&](Client& c) { EXPECT_FALSE((c.call<cuUserObjectRelease>(get<CUuserObject>(0), 1u).ok())); });
}
TEST_F(BirthsCarried, ACarriedClientCanBeCarriedOn) {
    first([&](Client& c) {
        const CUfunction store = c.function(c.module(), "store");
        const CUgraph g = c.graph();
        keep(0, c.memory(3 << 20));
        c.kernel_node(g, store, get<CUdeviceptr>(0), 21);
        keep(1, c.exec(g));
        EXPECT_TRUE((c.call<cuGraphDestroy>(g).ok()));
    });
    in_a_process([&] {
        Client client;
        ASSERT_EQ("", wake(client).text());
        ASSERT_TRUE(client.session().quiet());
        Carried again = carry(client.session());
        again.extents = client.session().extents().all();
        EXPECT_EQ(written(again), CarriedParts::bytes_of(parts.births()));
    });
}
// ---- differences
TEST_F(BirthsCarried, MemoryThatIsDamagedIsNotGivenToTheProgram) {
    first([&](Client& c) { c.fill(c.memory(1 << 20), 1, 1 << 20); });
    const char other = 2;
    ASSERT_EQ(1, pwrite(parts.memory().fd(), &other, 1, sizeof(PieceHead) + 1000));
    in_a_process([&] {
        Client client;
        const std::string text = wake(client).text();
        EXPECT_NE(text.find("damaged"), std::string::npos) << text;
    });
}
TEST_F(BirthsCarried, AnAddressThatIsTakenIsADifferenceByName) {
    first([&](Client& c) { keep(0, c.memory(3 << 20)); });
    in_a_process([&] {
        Client client;
        CUcontext context = nullptr;
        CUdeviceptr taken = 0;
        EXPECT_EQ(CUDA_SUCCESS, client.gpu().cuDevicePrimaryCtxRetain(&context, 0));
        EXPECT_EQ(CUDA_SUCCESS, client.gpu().cuCtxSetCurrent(context));
        EXPECT_EQ(CUDA_SUCCESS, client.gpu().cuMemAlloc_v2(&taken, 3 << 20));
        EXPECT_EQ(taken, get<CUdeviceptr>(0));
        const std::string text = wake(client).text();
        EXPECT_NE(text.find("cuMemAlloc_v2, which made memory at"), std::string::npos) << text;
    });
}

}  // namespace
}  // namespace barcuda
