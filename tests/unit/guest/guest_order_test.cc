// SPDX-License-Identifier: Apache-2.0
// guest_order_test: what calls of a guest's program wait for, and what they do not: work of green contexts and of other
// devices, of graphs, of threads without a context; and what is kept for graphs, and for how long.
#include <malloc.h>

#include <set>

#include "guest-allocator/driver/graph_node.h"
#include "guest-allocator/driver/host_function.h"
#include "guest-allocator/heap/core.h"
#include "tests/unit/support/guest_program.h"

#define OK(call) EXPECT_EQ(CUDA_SUCCESS, call)

namespace barcuda {
namespace {

using test::IdleGpu;
using test::Program;
using test::soft_driver;

// A function that does not return before this object lets it; another thread does that a little later.
class Held {
  public:
    explicit Held(useconds_t microseconds = 20'000)
        : soon_([this, microseconds] {
              for (useconds_t slept = 0; slept < microseconds && !over_; slept += 1000) usleep(1000);
              held_ = false;
          }) {}
    Held(const Held&) = delete;
    ~Held() {
        end();
        soon_.join();
    }
    static void CUDA_CB run(void* held) {
        while (static_cast<Held*>(held)->held_) std::this_thread::yield();
    }
    bool lasts() const { return held_; }
    void end() { over_ = true; }

  private:
    std::atomic<bool> held_{true}, over_{false};
    std::thread soon_;
};
// A call that waits for it, though it is something of another stream, or of no stream's.
template <class Call> void expect_to_wait(CUstream stream, const char* what, const Call& call) {
    Held held;
    OK(cuLaunchHostFunc(stream, Held::run, &held));
    OK(call());
    EXPECT_FALSE(held.lasts()) << what;
}

TEST(GuestOfTheSoftwareGpu, WaitsForGreenContextsWithTheWhole) {
    test::as_client(true, soft_driver, [] {
        Program program;
        CUdevResource all{}, group{};
        CUdevResourceDesc description = nullptr;
        CUgreenCtx green = nullptr;
        CUcontext part = nullptr;
        CUstream its = nullptr, other = nullptr;
        unsigned count = 1;
        OK(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
        OK(cuDevSmResourceSplitByCount(&group, &count, &all, nullptr, 0, all.sm.minSmPartitionSize));
        OK(cuDevResourceGenerateDesc(&description, &group, 1));
        OK(cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
        OK(cuCtxFromGreenCtx(&part, green));
        OK(cuGreenCtxStreamCreate(&its, green, CU_STREAM_NON_BLOCKING, 0));
        OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
        OK(cuCtxSynchronize());
        const auto free_some = [] {
            CUdeviceptr p = 0;
            OK(cuMemAlloc(&p, 4096));
            return cuMemFree(p);
        };
        expect_to_wait(its, "cuCtxSynchronize of the primary context", [] { return cuCtxSynchronize(); });
        CUdeviceptr memory = 0;
        OK(cuMemAlloc(&memory, 4096));
        expect_to_wait(its, "cuMemFree in the primary context", [&] { return cuMemFree(memory); });
        expect_to_wait(its, "and of a stream that is gone", [&] {
            OK(cuStreamDestroy(its));
            return cuCtxSynchronize();
        });
        OK(cuCtxSetCurrent(part));
        OK(cuMemAlloc(&memory, 4096));
        expect_to_wait(other, "cuMemFree in the green context", [&] { return cuMemFree(memory); });
        {
            Held held(2'000'000);
            OK(cuLaunchHostFunc(other, Held::run, &held));
            OK(cuCtxSynchronize());
            EXPECT_TRUE(held.lasts()) << "cuCtxSynchronize of the green context is for its own work";
            held.end();
            OK(cuStreamSynchronize(other));
        }
        OK(free_some());
        OK(cuCtxSetCurrent(program.context));
        OK(cuGreenCtxDestroy(green));
    });
}

TEST(GuestOfTheSoftwareGpu, FindsAnEventOfAGraphUndoneWhileTheGraphRuns) {
    test::as_client(true, soft_driver, [] {
        Program program;
        for (const bool captured : {false, true}) {
            CUstream stream = nullptr;
            CUevent event = nullptr;
            CUgraph graph = nullptr;
            CUgraphExec exec = nullptr;
            CUgraphNode first = nullptr, second = nullptr;
            Held held;
            OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
            OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
            if (captured) {
                OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
                OK(cuLaunchHostFunc(stream, Held::run, &held));
                OK(cuEventRecordWithFlags(event, stream, CU_EVENT_RECORD_EXTERNAL));
                OK(cuStreamEndCapture(stream, &graph));
            } else {
                const CUDA_HOST_NODE_PARAMS function{Held::run, &held};
                OK(cuGraphCreate(&graph, 0));
                OK(cuGraphAddHostNode(&first, graph, nullptr, 0, &function));
                OK(cuGraphAddEventRecordNode(&second, graph, &first, 1, event));
            }
            OK(cuGraphInstantiate(&exec, graph, 0));
            OK(cuEventRecord(event, stream));
            OK(cuEventSynchronize(event));
            OK(cuGraphLaunch(exec, stream));
            OK(cuEventSynchronize(event));
            EXPECT_FALSE(held.lasts()) << (captured ? "captured" : "added");
            OK(cuStreamSynchronize(stream));
            OK(cuGraphExecDestroy(exec));
            OK(cuGraphDestroy(graph));
            OK(cuEventDestroy(event));
            OK(cuStreamDestroy(stream));
        }
    });
}

TEST(GuestOfAnIdleGpu, WaitsWithoutAContextBeforeItGivesUpHostMemory) {
    test::as_client(false, IdleGpu::driver, [] {
        Program program;
        CUstream stream = nullptr;
        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        OK(cuCtxSynchronize());
        void* pinned = nullptr;
        alignas(4096) static std::byte own[4096];
        OK(cuMemHostAlloc(&pinned, 4096, 0));
        OK(cuMemHostRegister(own, sizeof own, 0));
        OK(cuCtxSetCurrent(nullptr));
        expect_to_wait(stream, "cuMemFreeHost", [&] { return cuMemFreeHost(pinned); });
        expect_to_wait(stream, "cuMemHostUnregister", [&] { return cuMemHostUnregister(own); });
    });
}

// As natively: the driver takes pageable bytes with it when the call returns, up to 64 KiB of them.
TEST(GuestOfAnIdleGpu, CopiesALittlePageableMemoryOfTheRegionWithoutWaiting) {
    test::as_client(false, IdleGpu::driver, [] {
        Program program;
        CUdeviceptr to = 0;
        CUstream stream = nullptr;
        constexpr std::size_t bytes = 64 << 10;
        void* const from = heap::region_alloc(2 * bytes, 4096, true);
        ASSERT_TRUE(from && heap::reach(from, bytes) && heap::kind_of(from, bytes) == heap::Kind::pageable);
        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        OK(cuMemAlloc(&to, bytes));
        CUDA_MEMCPY2D rows{};
        rows.srcMemoryType = CU_MEMORYTYPE_HOST;
        rows.srcHost = from;
        rows.srcPitch = 2048;
        rows.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        rows.dstDevice = to;
        rows.dstPitch = rows.WidthInBytes = 1024;
        rows.Height = 64;
        Held held(2'000'000);
        OK(cuLaunchHostFunc(stream, Held::run, &held));
        OK(cuMemcpyHtoDAsync(to, from, 32 << 10, stream));
        OK(cuMemcpyHtoDAsync(to, from, bytes, stream));
        EXPECT_TRUE(held.lasts()) << "a run of bytes";
        OK(cuMemcpy2DAsync(&rows, stream));
        EXPECT_TRUE(held.lasts()) << "rows";
        held.end();
        OK(cuMemcpyHtoD(to, from, bytes));
    });
}

TEST(GuestOfAnIdleGpu, AsksBothContextsAboutACopyBetweenThem) {
    test::as_client(false, IdleGpu::driver, [] {
        Program program;
        CUcontext other = nullptr;
        CUdeviceptr from = 0, to = 0;
        OK(cuCtxCreate(&other, nullptr, 0, 0));
        OK(cuMemAlloc(&to, 4096));
        OK(cuCtxSetCurrent(program.context));
        OK(cuMemAlloc(&from, 4096));
        const auto waits_of_the_other = [&] {
            OK(cuCtxSetCurrent(other));
            const unsigned before = IdleGpu::get().words;
            OK(cuCtxSynchronize());
            const unsigned asked = IdleGpu::get().words - before;
            OK(cuCtxSetCurrent(program.context));
            OK(cuCtxSynchronize());
            return asked;
        };
        waits_of_the_other();
        OK(program.launch(program.add, nullptr));
        EXPECT_EQ(0u, waits_of_the_other()) << "it was given nothing";
        OK(cuMemcpyDtoD(to, from, 4096));
        EXPECT_NE(0u, waits_of_the_other()) << "cuMemcpyDtoD";
        OK(cuMemcpyPeer(to, other, from, program.context, 4096));
        EXPECT_NE(0u, waits_of_the_other()) << "cuMemcpyPeer";
    });
}

TEST(GuestOfAnIdleGpu, CountsTheContextsThatItKnows) {
    test::as_client(false, IdleGpu::driver, [] {
        Program program;
        std::vector<CUcontext> made;
        CUcontext context = nullptr;
        CUresult r = CUDA_SUCCESS;
        const auto make = [&] { return r = cuCtxCreate(&context, nullptr, 0, 0); };
        while (made.size() < 200 && make() == CUDA_SUCCESS) {
            made.push_back(context);
            OK(cuCtxPopCurrent(nullptr));
        }
        EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, r) << made.size();
        for (const CUcontext one : made) OK(cuCtxDestroy(one));
        OK(make());
        OK(cuCtxDestroy(context));
    });
}

TEST(GuestOfAnIdleGpu, UsesTheNumbersOfFunctionsAgain) {
    test::as_client(false, IdleGpu::driver, [] {
        Program program;
        constexpr auto nothing = [](void*) {};
        int one = 0, two = 0;
        EXPECT_EQ(guest::keep_function(nothing, &one), guest::keep_function(nothing, &one));
        EXPECT_NE(guest::keep_function(nothing, &one), guest::keep_function(nothing, &two));
        const auto some = [&](unsigned count) {
            std::set<std::uint64_t> numbers;
            for (unsigned i = 0; i < count; ++i) numbers.insert(guest::await_function(nothing, &one));
            for (const std::uint64_t number : numbers) guest::forget_function(number);
            return numbers;
        };
        EXPECT_EQ(some(3000), some(3000));
    });
}

TEST(NodesOfGraphs, GiveUpWhatTheNodeBeforeThemHadInTheirPlace) {
    const auto node = [](std::uint64_t turn) { return reinterpret_cast<CUgraphNode>(turn << 32 | wire::given | 7); };
    constexpr std::size_t large = 64 << 20;  // of mappings of its own
    guest::keep_block(node(1), malloc(large));
    const std::size_t before = mallinfo2().hblkhd;
    guest::keep_block(node(2), malloc(large));
    EXPECT_EQ(before, mallinfo2().hblkhd);
    guest::keep_block(node(2), nullptr);
}

}  // namespace
}  // namespace barcuda
