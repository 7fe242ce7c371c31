// SPDX-License-Identifier: Apache-2.0
// guest_loopback_test: the guest's driver functions, as programs call them, over a worker's real session and loop, in
// one process: once with a driver that only watches, once with the software GPU. Several threads at once, so that under
// ThreadSanitizer (make SANITIZE=thread) both halves are seen together: what one of them publishes too early, or
// without an order, the other reads.
#include "tests/unit/support/guest_program.h"

#include <vector>

#define OK(call) EXPECT_EQ(CUDA_SUCCESS, call)

#ifdef __SANITIZE_THREAD__
#define TSAN extern "C" [[gnu::visibility("default")]]  // the sanitizer is a library, which looks for these
TSAN const char* __tsan_default_options() { return "halt_on_error=1 atexit_sleep_ms=0"; }
// The loader frees what a thread had of a library's thread_locals when the thread has ended, which ThreadSanitizer does
// not see.
TSAN const char* __tsan_default_suppressions() { return "race:_dl_deallocate_tls\n"; }
#endif

namespace barcuda {
namespace {

using test::IdleGpu;
using test::Program;
using test::soft_driver;

enum class Gpu { idle, soft };

struct GuestLoopback : testing::TestWithParam<Gpu> {
    const bool computes = GetParam() == Gpu::soft;
    template <class Body> void client(Body body) {
        test::as_client(computes, computes ? soft_driver : IdleGpu::driver, body);
    }
};
INSTANTIATE_TEST_SUITE_P(Over, GuestLoopback, testing::Values(Gpu::idle, Gpu::soft), [](const auto& gpu) {
    return gpu.param == Gpu::soft ? "TheSoftwareGpu" : "ADriverThatWatches";
});

// One round of a thread that has nothing in common with the others but the connection.
void round(const Program& program, unsigned thread, unsigned round, bool computes) {
    const unsigned count = round % 3 == 0 ? 20'000 : 1000, launches = 1 + round % 5;
    const std::size_t bytes = count * sizeof(unsigned);
    std::vector<unsigned> pageable(count, thread), result(count);
    unsigned* pinned = nullptr;
    CUstream stream = nullptr, other = nullptr;
    CUevent event = nullptr;
    CUdeviceptr words = 0;
    OK(cuStreamCreate(&stream, round % 2 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuMemAlloc(&words, bytes));
    OK(cuMemHostAlloc(reinterpret_cast<void**>(&pinned), bytes, 0));
    std::fill(pinned, pinned + count, thread);

    // Written by the thread that runs the program's functions, read after a wait: only a fence orders the two.
    int ran = 0;
    OK(cuMemcpyHtoDAsync(words, round % 4 < 2 ? pageable.data() : pinned, bytes, stream));
    for (unsigned i = 0; i < launches; ++i) OK(program.launch(program.add, stream, words, count, 1));
    OK(cuLaunchHostFunc(
        stream, [](void* n) { ++*static_cast<int*>(n); }, &ran));
    OK(cuEventRecord(event, stream));
    OK(cuStreamWaitEvent(other, event, 0));
    OK(program.launch(program.add, other, words, count, 100));
    OK(cuMemcpyDtoHAsync(pinned, words, bytes, other));
    switch (round % 4) {
        case 0: OK(cuStreamSynchronize(stream)); break;
        case 1: OK(cuEventSynchronize(event)); break;
        case 2: OK(cuCtxSynchronize()); break;
        default:
            while (cuEventQuery(event) == CUDA_ERROR_NOT_READY) std::this_thread::yield();
    }
    EXPECT_EQ(1, ran);
    OK(cuStreamSynchronize(other));
    OK(cuMemcpyDtoH(result.data(), words, bytes));
    if (computes) {
        EXPECT_EQ(std::vector<unsigned>(count, thread + launches + 100), result);
        EXPECT_EQ(std::vector<unsigned>(count, thread + launches + 100), std::vector<unsigned>(pinned, pinned + count));
    }
    OK(cuMemFree(words));
    OK(cuMemFreeHost(pinned));
    OK(cuEventDestroy(event));
    OK(cuStreamDestroy(stream));
    OK(cuStreamDestroy(other));
}

TEST_P(GuestLoopback, ThreadsThatShareAConnectionDoNotMeet) {
    client([this] {
        Program program;
        program.on_threads(4, [&](unsigned t) {
            for (unsigned r = 0; r < 12; ++r) round(program, t, t + r, computes);
        });
    });
}

TEST_P(GuestLoopback, AThreadCapturesWhileOthersWork) {
    client([this] {
        Program program;
        std::atomic<unsigned> left{2};
        program.on_threads(4, [&](unsigned t) {
            if (t >= 2) {
                // A wait for the device (every fourth round) would end the captures: CUDA's rule.
                for (unsigned r = 0; left; r += r % 4 == 1 ? 2 : 1) round(program, t, r, computes);
                return;
            }
            CUstream stream = nullptr;
            CUdeviceptr words = 0;
            OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
            OK(cuMemAlloc(&words, 4096));
            for (unsigned r = 0; r < 12; ++r) {
                CUgraph graph = nullptr;
                CUgraphExec exec = nullptr;
                unsigned result = 0;
                OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
                OK(cuMemsetD32Async(words, t, 1024, stream));
                for (unsigned i = 0; i < 3; ++i) OK(program.launch(program.add, stream, words, 1024, r));
                OK(cuStreamEndCapture(stream, &graph));
                OK(cuGraphInstantiate(&exec, graph, 0));
                OK(cuGraphLaunch(exec, stream));
                OK(cuStreamSynchronize(stream));
                OK(cuMemcpyDtoH(&result, words + 4 * r, sizeof result));
                if (computes) {  // else it is whatever the staging buffer held before
                    EXPECT_EQ(t + 3 * r, result);
                }
                OK(cuGraphExecDestroy(exec));
                OK(cuGraphDestroy(graph));
            }
            OK(cuStreamDestroy(stream));
            OK(cuMemFree(words));
            --left;
        });
    });
}

TEST_P(GuestLoopback, TheHeapGrowsAndShrinksUnderItsUsers) {
    client([] {
        Program program;
        program.on_threads(3, [&](unsigned t) {
            CUdeviceptr words = 0;
            OK(cuMemAlloc(&words, 4096));
            for (unsigned r = 0; r < 40; ++r) {
                void* pinned = nullptr;
                const std::size_t bytes = std::size_t{(t + r) % 4 ? 1u : 40u} << 20;
                OK(cuMemHostAlloc(&pinned, bytes, 0));
                std::memset(pinned, 1, 4096);
                OK(cuMemcpyHtoD(words, pinned, 4096));
                OK(program.launch(program.add, nullptr, reinterpret_cast<CUdeviceptr>(pinned), 16, 1));
                OK(cuStreamSynchronize(nullptr));
                OK(cuMemFreeHost(pinned));
            }
            OK(cuMemFree(words));
        });
    });
}

TEST_P(GuestLoopback, EveryThreadLearnsWhyTheSessionHasEnded) {
    client([] {
        Program program;
        std::atomic<unsigned> busy{0};
        std::thread end([&] {
            while (busy < 4) std::this_thread::yield();
            test::break_protocol();
        });
        program.on_threads(4, [&](unsigned t) {
            CUstream stream = nullptr;
            CUdeviceptr words = 0;
            unsigned word = 0;
            CUresult r = cuStreamCreate(&stream, CU_STREAM_DEFAULT);
            if (r == CUDA_SUCCESS) r = cuMemAlloc(&words, 4096);
            for (unsigned n = 0; r == CUDA_SUCCESS; ++n) {
                for (unsigned i = 0; i < 8 && r == CUDA_SUCCESS; ++i)
                    r = program.launch(program.add, stream, words, 1024, 1);
                if (r != CUDA_SUCCESS) break;
                if (t % 2) r = cuStreamSynchronize(stream);
                else r = cuMemcpyDtoH(&word, words, sizeof word);
                if (n == 3) ++busy;
            }
            const char* name = "none";
            OK(cuGetErrorName(r, &name));
            EXPECT_STREQ("CUDA_ERROR_DEVICE_UNAVAILABLE", name);
            EXPECT_EQ(CUDA_ERROR_DEVICE_UNAVAILABLE, cuStreamSynchronize(stream));
            EXPECT_EQ(CUDA_ERROR_DEVICE_UNAVAILABLE, cuMemFree(words));
        });
        end.join();
    });
}

TEST(GuestOfAnIdleGpu, LeavesTheAddressesBehindTheDevicesWindowToItsProgram) {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "ThreadSanitizer has them";
#endif
    test::as_client(false, IdleGpu::driver, [] {
        OK(cuInit(0));
        static_assert(test::HostSide::base > BARCUDA_DEVICE_END);
        const auto behind = reinterpret_cast<void*>(BARCUDA_DEVICE_END + (1ull << 40));
        EXPECT_EQ(behind, mmap(behind, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
    });
}

}  // namespace
}  // namespace barcuda
