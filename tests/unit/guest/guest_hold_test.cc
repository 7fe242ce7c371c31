// SPDX-License-Identifier: Apache-2.0
// guest_hold_test: a program whose worker is held, moved away and brought back between any two of its commands, with
// the software GPU and in one process: no command is lost, done twice or done out of order, and waits continue.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "guest-allocator/client/patience.h"
#include "tests/unit/support/host_side.h"
#include "tests/unit/support/region_fixture.h"

#define OK(call) EXPECT_EQ(CUDA_SUCCESS, call)

namespace barcuda::guest {
// Looks for the host without a wait of 100 ms before each look.
struct PatienceTest {
    static void look(Patience& patience) { patience.look_for_host(*Client::current()); }
};
}  // namespace barcuda::guest

namespace barcuda {
namespace {

using test::HostSide;

Driver soft_driver() {
    Driver d;
    EXPECT_EQ("", d.open(software_library()).text());
    return d;
}

// words[i] = 3 words[i] + value: the result shows how often and in which order this was done.
constexpr char code[] = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .entry step(.param .u64 words, .param .u32 value)
{
    .reg .b32 %r<4>; .reg .b64 %a<3>;
    ld.param.u64 %a1, [words];
    ld.param.u32 %r1, [value];
    mov.u32 %r2, %tid.x;
    mad.wide.u32 %a2, %r2, 4, %a1;
    ld.global.u32 %r3, [%a2];
    mad.lo.u32 %r3, %r3, 3, %r1;
    st.global.u32 [%a2], %r3;
    ret;
}
)";
constexpr unsigned width = 64;

// One thread's random commands in a stream of its own, and their expected result.
class Lane {
  public:
    Lane(CUfunction step, unsigned seed) : step_(step), random_(seed) {
        OK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
        OK(cuMemAlloc(&words_, sizeof(std::uint32_t) * width));
        OK(cuMemsetD32Async(words_, model_ = seed, width, stream_));
    }
    ~Lane() {
        look();
        OK(cuMemFree(words_));
        OK(cuStreamDestroy(stream_));
        EXPECT_EQ(expected_calls_, calls_);
    }
    void one() {
        switch (random_() % 8) {
            case 0: return look();
            case 1: OK(cuMemsetD32Async(words_, model_ = random_(), width, stream_)); return;
            case 2: {
                ++expected_calls_;
                const auto count = [](void* calls) { ++*static_cast<unsigned*>(calls); };
                OK(cuLaunchHostFunc(stream_, count, &calls_));
                return;
            }
            case 3: {  // memory that is allocated and freed
                CUdeviceptr other = 0;
                OK(cuMemAllocAsync(&other, 4096, stream_));
                OK(cuMemcpyDtoDAsync(other, words_, 4 * width, stream_));
                OK(cuMemsetD32Async(words_, 0, width, stream_));
                OK(cuMemcpyDtoDAsync(words_, other, 4 * width, stream_));
                OK(cuMemFreeAsync(other, stream_));
                return;
            }
            default: {
                std::uint32_t value = random_() % 1000;
                void* parameters[] = {&words_, &value};
                OK(cuLaunchKernel(step_, 1, 1, 1, width, 1, 1, 0, stream_, parameters, nullptr));
                model_ = model_ * 3 + value;
            }
        }
    }

  private:
    void look() {
        std::vector<std::uint32_t> seen(width);
        OK(cuMemcpyDtoHAsync(seen.data(), words_, 4 * width, stream_));
        OK(cuStreamSynchronize(stream_));
        EXPECT_EQ(std::vector<std::uint32_t>(width, model_), seen);
    }
    const CUfunction step_;
    std::mt19937 random_;
    CUstream stream_ = nullptr;
    CUdeviceptr words_ = 0;
    std::uint32_t model_ = 0;
    unsigned calls_ = 0, expected_calls_ = 0;
};

struct Program {
    CUcontext context = nullptr;
    CUmodule module = nullptr;
    CUfunction step = nullptr;
    Program() {
        OK(cuInit(0));
        OK(cuDevicePrimaryCtxRetain(&context, 0));
        OK(cuCtxSetCurrent(context));
        OK(cuModuleLoadData(&module, code));
        OK(cuModuleGetFunction(&step, module, "step"));
    }
    // Runs commands in several threads, until `enough` returns true.
    template <class Enough> void run(unsigned threads, Enough enough) const {
        std::vector<std::thread> all;
        for (unsigned t = 0; t < threads; ++t)
            all.emplace_back([this, t, &enough] {
                OK(cuCtxSetCurrent(context));
                for (Lane lane(step, 1 + t); !enough();) lane.one();
            });
        for (std::thread& thread : all) thread.join();
    }
};

template <class Body> void client(Body body) { test::as_client_of(true, soft_driver, body); }

TEST(GuestHold, NoCommandIsLostOrDoneTwiceHoweverOftenTheWorkerIsHeld) {
    client([](HostSide& host) {
        const Program program;
        std::atomic<bool> enough = false;
        std::thread operates([&] {
            for (int times = 0; times < 300; ++times) {
                EXPECT_EQ(Obstacle::none, host.order(Paused::held));
                EXPECT_EQ(Paused::held, host.is());
                EXPECT_EQ(Obstacle::none, host.order(Paused::running));
            }
            enough = true;
        });
        program.run(3, [&] { return enough.load(); });
        operates.join();
    });
}

TEST(GuestHold, NorWhereAllThatItHasLeavesTheGpu) {
    client([](HostSide& host) {
        const Program program;
        std::atomic<bool> enough = false;
        std::thread operates([&] {
            for (int times = 0; times < 100; ++times) {
                EXPECT_EQ(Obstacle::none, host.order(Paused::away));
                EXPECT_EQ(Paused::away, host.is());
                EXPECT_EQ(Obstacle::none, host.order(Paused::running));
            }
            enough = true;
        });
        program.run(3, [&] { return enough.load(); });
        operates.join();
    });
}

TEST(GuestHold, CommandsThatComeMeanwhileWait) {
    client([](HostSide& host) {
        const Program program;
        EXPECT_EQ(Obstacle::none, host.order(Paused::away));
        const std::uint64_t before = host.sheet.counts.commands;
        std::atomic<bool> began = false;
        std::thread works([&] {
            OK(cuCtxSetCurrent(program.context));
            began = true;
            Lane lane(program.step, 5);
            for (int i = 0; i < 50; ++i) lane.one();
        });
        while (!began) std::this_thread::yield();
        EXPECT_EQ(before, host.sheet.counts.commands);
        EXPECT_EQ(Obstacle::none, host.order(Paused::running));
        works.join();
        EXPECT_LT(before, host.sheet.counts.commands);
    });
}

TEST(GuestHold, TheHeapGrowsWhileTheClientIsAway) {
    client([](HostSide& host) {
        const Program program;
        EXPECT_EQ(Obstacle::none, host.order(Paused::away));
        void* memory = nullptr;
        OK(cuMemAllocHost(&memory, 64 << 20));  // from the clerk
        std::memset(memory, 1, 64 << 20);
        EXPECT_EQ(Obstacle::none, host.order(Paused::running));
        CUdeviceptr there = 0;
        OK(cuMemAlloc(&there, 64 << 20));
        OK(cuMemcpyHtoD(there, memory, 64 << 20));  // and the driver knows it
        OK(cuMemFree(there));
        OK(cuMemFreeHost(memory));
    });
}

TEST(GuestHold, APauseThatLastsIsNamedAndEndsNothing) {
    client([](HostSide& host) {
        const Program program;
        EXPECT_EQ(Obstacle::none, host.order(Paused::away));
        publish(guest::Client::current()->status().paused, static_cast<std::uint32_t>(BARCUDA_PAUSED_AWAY));
        testing::internal::CaptureStderr();
        std::atomic<bool> may_look = true;
        std::thread works([&] {
            OK(cuCtxSetCurrent(program.context));
            guest::Patience patience;
            for (int looks = 0; looks < 120; ++looks) {
                host.region.beat();
                guest::PatienceTest::look(patience);
            }
            may_look = false;
            Lane lane(program.step, 5);
            for (int i = 0; i < 50; ++i) lane.one();
        });
        while (may_look) std::this_thread::yield();
        EXPECT_EQ(Obstacle::none, host.order(Paused::running));
        works.join();
        EXPECT_NE(std::string::npos, testing::internal::GetCapturedStderr().find("paused by the host"));
    });
}

// Its bridge has said that it ends, and has not ended the client's session.
TEST(GuestHold, AClientThatWasWrittenToADiskWaitsUntilABridgeIsThereAgain) {
    client([](HostSide& host) {
        const Program program;
        EXPECT_EQ(Obstacle::none, host.order(Paused::held));
        publish(guest::Client::current()->status().paused, static_cast<std::uint32_t>(BARCUDA_PAUSED_HELD));
        barcuda_header& header = RegionProbe::header(host.region);
        const std::uint32_t bridge = header.bridge_pid;
        publish(header.bridge_pid, 0u);
        guest::Patience patience;
        for (int looks = 0; looks < 300; ++looks) guest::PatienceTest::look(patience);
        EXPECT_EQ(guest::Client::current()->status().state, BARCUDA_STATE_READY);
        publish(header.bridge_pid, bridge);
        guest::PatienceTest::look(patience);  // before it has beaten
        EXPECT_EQ(guest::Client::current()->status().state, BARCUDA_STATE_READY);
        publish(guest::Client::current()->status().paused, static_cast<std::uint32_t>(BARCUDA_PAUSED_NO));
        EXPECT_EQ(Obstacle::none, host.order(Paused::running));
        Lane lane(program.step, 5);
        for (int i = 0; i < 50; ++i) lane.one();
    });
}

TEST(GuestHold, AClientWhoseGpuWaitsForItsOwnNextCommandGoesOn) {
    client([](HostSide& host) {
        const Program program;
        CUstream waits = nullptr, writes = nullptr;
        OK(cuStreamCreate(&waits, CU_STREAM_NON_BLOCKING));
        OK(cuStreamCreate(&writes, CU_STREAM_NON_BLOCKING));
        CUdeviceptr word = 0;
        OK(cuMemAlloc(&word, 256));
        OK(cuMemsetD32(word, 0, 64));
        OK(cuStreamWaitValue32(waits, word, 1, CU_STREAM_WAIT_VALUE_EQ));
        OK(cuMemsetD32Async(word + 4, 1, 1, writes));
        OK(cuStreamSynchronize(writes));  // both have reached the worker
        EXPECT_EQ(Obstacle::work, host.order(Paused::away, 20));
        EXPECT_EQ(Paused::running, host.is());
        OK(cuStreamWriteValue32(writes, word, 1, 0));
        OK(cuStreamSynchronize(waits));
        EXPECT_EQ(Obstacle::none, host.order(Paused::away));
        EXPECT_EQ(Obstacle::none, host.order(Paused::running));
        OK(cuMemFree(word));
    });
}

TEST(GuestHold, OneWhoseGpuWaitsForItsNextCommandAgainAndAgainIsHeldInBetween) {
    client([](HostSide& host) {
        const Program program;
        std::atomic<bool> enough = false;
        std::thread works([&] {
            OK(cuCtxSetCurrent(program.context));
            CUstream waits = nullptr, writes = nullptr;
            OK(cuStreamCreate(&waits, CU_STREAM_NON_BLOCKING));
            OK(cuStreamCreate(&writes, CU_STREAM_NON_BLOCKING));
            CUdeviceptr word = 0;
            OK(cuMemAlloc(&word, 256));
            OK(cuMemsetD32(word, 0, 64));
            for (unsigned n = 1; !enough; ++n) {
                OK(cuStreamWaitValue32(waits, word, n, CU_STREAM_WAIT_VALUE_EQ));
                OK(cuMemsetD32Async(word + 4, n, 1, writes));
                OK(cuStreamSynchronize(writes));
                OK(cuStreamWriteValue32(writes, word, n, 0));
                OK(cuStreamSynchronize(waits));
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
            OK(cuMemFree(word));
        });
        for (int times = 0; times < 5; ++times) {
            EXPECT_EQ(Obstacle::none, host.order(Paused::away));
            EXPECT_EQ(Obstacle::none, host.order(Paused::running));
        }
        enough = true;
        works.join();
    });
}

TEST(GuestHold, AHostFunctionThatTheGpuWaitsForIsRunWhileTheWorkerHolds) {
    client([](HostSide& host) {
        const Program program;
        struct Function {
            HostSide& host;
            std::atomic<bool> began = false, seen = false;
        } function{host};
        const auto until_held = [](void* data) {
            auto& its = *static_cast<Function*>(data);
            its.began = true;
            while (its.host.is() != Paused::holding) std::this_thread::yield();
            its.seen = true;
        };
        OK(cuLaunchHostFunc(nullptr, until_held, &function));
        while (!function.began) std::this_thread::yield();
        EXPECT_EQ(Obstacle::none, host.order(Paused::held));
        EXPECT_TRUE(function.seen);
        EXPECT_EQ(Obstacle::none, host.order(Paused::running));
    });
}

}  // namespace
}  // namespace barcuda
