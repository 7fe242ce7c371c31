// SPDX-License-Identifier: Apache-2.0
// guest_waits_test: what a thread of a guest's program finds when it waits: fences, streams, events, and a GPU that is
// lost.
#include <barrier>
#include <set>

#include "guest-allocator/client/host_rows.h"
#include "guest-allocator/driver/fence.h"
#include "tests/unit/support/guest_program.h"

#define OK(call) EXPECT_EQ(CUDA_SUCCESS, call)

namespace barcuda {
namespace {

using test::IdleGpu;
using test::Program;
using test::soft_driver;

TEST(GuestOfAnIdleGpu, FindsWhyAFenceWasNotWrittenWhenItWaitsForThat) {
    test::as_client(false, IdleGpu::driver, [] {
        Program program;
        IdleGpu& gpu = IdleGpu::get();
        gpu.talks_for = 200;
        std::atomic<bool> over{false};
        program.on_threads(3, [&](unsigned t) {
            while (t && !over) {  // these wait for nothing: a failure is told to one who does, whosever it is
                std::size_t free = 0, total = 0;
                for (unsigned i = 0; i < 20; ++i) OK(program.launch(program.add, nullptr));
                OK(cuMemGetInfo(&free, &total));
            }
            CUstream stream = nullptr;
            OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
            for (unsigned r = 0; !t && r < 200; ++r) {
                gpu.refuses = r % 2;
                OK(program.launch(program.add, stream));
                EXPECT_EQ(r % 2 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS, cuStreamSynchronize(stream));
            }
            gpu.refuses = false;
            over = true;
        });
    });
}

TEST(GuestOfAnIdleGpu, FindsAStreamIdleWhenItHasWaitedForIt) {
    test::as_client(false, IdleGpu::driver, [] {
        Program program;
        IdleGpu::get().seems_busy = true;
        CUstream stream = nullptr;
        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        for (const CUstream s : {stream, CUstream{nullptr}}) {
            OK(program.launch(program.add, s));
            OK(cuStreamSynchronize(s));
            EXPECT_EQ(CUDA_ERROR_NOT_READY, IdleGpu::driver().cuStreamQuery(s));
            OK(cuStreamQuery(s));
        }
        OK(program.launch(program.add, stream));
        OK(cuCtxSynchronize());
        OK(cuStreamQuery(stream));
        IdleGpu::get().seems_busy = false;
    });
}

// How many words the GPU was given to write by these calls.
template <class Calls> unsigned words_of(const Calls& calls) {
    const auto worker_has_taken_all = [] {
        std::size_t free = 0, total = 0;
        OK(cuMemGetInfo(&free, &total));
    };
    worker_has_taken_all();
    const unsigned before = IdleGpu::get().words;
    calls();
    worker_has_taken_all();
    return IdleGpu::get().words - before;
}
TEST(GuestOfAnIdleGpu, AsksNothingAboutAFunctionWhenItIsLaunchedFirst) {
    for (const bool older : {false, true})
        test::as_client(false, IdleGpu::driver, [older] {
            OK(cuInit(0));
            for (const Op op : {Op::find_function, Op::function_of_kernel})
                if (older) guest::host_rows::numbers[static_cast<std::size_t>(op)] = no_row;  // as of an older bridge
            Program program;
            const unsigned before = IdleGpu::get().questions;
            OK(program.launch(program.add, nullptr));
            OK(cuStreamSynchronize(nullptr));
            const unsigned asked = IdleGpu::get().questions - before;
            if (older) EXPECT_GT(asked, 0u);
            else EXPECT_EQ(asked, 0u);
        });
}

// Something that the GPU is at until the end of this object's life.
class Held {
  public:
    explicit Held(CUstream stream) {
        OK(cuLaunchHostFunc(
            stream,
            [](void* held) {
                while (static_cast<Held*>(held)->held_) std::this_thread::yield();
            },
            this));
    }
    Held(const Held&) = delete;
    ~Held() { end(); }
    void end() { held_ = false; }
    bool lasts() const { return held_; }

  private:
    std::atomic<bool> held_{true};
};

TEST(GuestOfAnIdleGpu, DestroysAStreamThatHadNoWorkWithoutAFence) {
    test::as_client(false, IdleGpu::driver, [] {
        Program program;
        OK(cuCtxSynchronize());
        const auto destroyed = [&](bool works, bool waits) {
            return words_of([&] {
                CUstream stream = nullptr;
                OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
                if (works) { OK(program.launch(program.add, stream)); }
                if (waits) { OK(cuStreamSynchronize(stream)); }
                OK(cuStreamDestroy(stream));
            });
        };
        EXPECT_EQ(0u, destroyed(false, false));
        EXPECT_EQ(1u, destroyed(true, true)) << "the wait's";
        EXPECT_EQ(1u, destroyed(true, false)) << "its own, for waits for the device";
        EXPECT_EQ(0u, destroyed(false, false));
    });
}

TEST(GuestOfAnIdleGpu, WaitsForTheWorkOfAStreamThatIsDestroyed) {
    test::as_client(false, IdleGpu::driver, [] {
        Program program;
        CUstream stream = nullptr, others[3] = {};
        for (CUstream& other : others) OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        for (const CUstream other : {others[1], others[0], others[2]}) OK(cuStreamDestroy(other));
        unsigned long long number = 0;
        for (const CUstream other : others) EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuStreamGetId(other, &number));
        OK(cuStreamGetId(stream, &number));
        int ran = 0;
        OK(cuLaunchHostFunc(
            stream,
            [](void* n) {
                usleep(20'000);
                ++*static_cast<int*>(n);
            },
            &ran));
        OK(cuStreamDestroy(stream));
        OK(cuCtxSynchronize());
        EXPECT_EQ(1, ran);
    });
}

void create(CUstream& stream, CUevent& event) {
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
}
TEST(GuestOfAnIdleGpu, GivesFencesToEventsThatAThreadLooksAt) {
    test::as_client(false, IdleGpu::driver, [] {
        Program program;
        CUstream stream = nullptr;
        CUevent event = nullptr;
        create(stream, event);
        const auto record = [&](unsigned times) {
            return words_of([&] {
                while (times-- > 0) OK(cuEventRecord(event, stream));
            });
        };
        for (unsigned i = 0; i < 5; ++i) {  // sometimes, which is often enough
            EXPECT_EQ(2u, record(2));
            OK(cuEventSynchronize(event));
        }
        EXPECT_EQ(2u, record(20));  // no thread looks
        OK(cuEventSynchronize(event));
        EXPECT_EQ(20u, record(20));  // one has looked
        OK(cuEventDestroy(event));
        OK(cuStreamDestroy(stream));
    });
}

TEST(GuestOfAnIdleGpu, WaitsForAnEventThatHasNoFence) {
    test::as_client(false, IdleGpu::driver, [] {
        Program program;
        CUstream stream = nullptr;
        CUevent event = nullptr;
        create(stream, event);
        for (unsigned i = 0; i < 10; ++i) OK(cuEventRecord(event, stream));
        OK(cuStreamSynchronize(stream));  // the fences of the first ones are written
        for (const bool fenced : {false, true, true}) {
            Held held(stream);
            EXPECT_EQ(fenced ? 1u : 0u, words_of([&] { OK(cuEventRecord(event, stream)); }));
            EXPECT_EQ(CUDA_ERROR_NOT_READY, cuEventQuery(event));
            std::thread soon([&] {
                usleep(5'000);
                held.end();
            });
            OK(cuEventSynchronize(event));
            EXPECT_FALSE(held.lasts());
            const unsigned questions = IdleGpu::get().questions_of_events;
            OK(cuEventQuery(event));
            EXPECT_EQ(questions, IdleGpu::get().questions_of_events) << "it is known to be done";
            soon.join();
        }
        OK(cuEventDestroy(event));
        OK(cuStreamDestroy(stream));
    });
}

TEST(GuestOfAnIdleGpu, HasLinesForFencesThatThreadsPoll) {
    test::as_client(false, IdleGpu::driver, [] {
        Program program;
        for (unsigned i = 0; i < 200; ++i) {
            guest::Fence* const shared = guest::take_fence(0);
            guest::Fence* const apart = guest::take_fence(0, true);
            EXPECT_EQ(0u, reinterpret_cast<std::uintptr_t>(apart->word) % 64);
            EXPECT_NE(reinterpret_cast<std::uintptr_t>(shared->word) / 64,
                      reinterpret_cast<std::uintptr_t>(apart->word) / 64);
            guest::recycle_fence(shared);
            guest::recycle_fence(apart);
        }
    });
}

// How many words so many fences lie in, of which one is held at a time.
std::size_t words_of_fences(unsigned fences) {
    std::set<const void*> words;
    while (fences-- > 0) {
        guest::Fence* const f = guest::take_fence(0);
        words.insert(f->word);
        guest::recycle_fence(f);
    }
    return words.size();
}

TEST(GuestOfAnIdleGpu, UsesTheFencesAgainOfThreadsThatHaveEnded) {
    test::as_client(false, IdleGpu::driver, [] {
        Program program;
        CUstream gone = nullptr;
        OK(cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING));
        OK(cuStreamDestroy(gone));
        const auto wait_for_none = [&](unsigned) { EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(gone)); };
        program.on_threads(1, wait_for_none);  // what this one has asked for is never written
        for (unsigned i = 0; i < 100; ++i)
            program.on_threads(1, [&](unsigned) {
                OK(program.launch(program.add, nullptr));
                OK(cuStreamSynchronize(nullptr));
            });
        EXPECT_LT(words_of_fences(500), 80u);
        // One that is pending for long is in no other's way.
        guest::Fence* const late = guest::take_fence(0);
        late->asked += 1;
        guest::recycle_fence(late);
        EXPECT_LT(words_of_fences(500), 80u);
    });
}

TEST(GuestOfAnIdleGpu, WaitsForFencesOfItsChannelWhereTheRegionIsFull) {
    test::as_client(false, IdleGpu::driver, [] {
        Program program;
        while (heap::staging_alloc(4096)) {}
        const Channel& channel = guest::Client::current()->channel();
        program.on_threads(4, [&](unsigned) {
            for (unsigned r = 0; r < 20; ++r) {
                OK(program.launch(program.add, nullptr));
                OK(cuStreamSynchronize(nullptr));
            }
        });
        unsigned there = 0;
        for (guest::Fence* f; (f = guest::take_fence(0)); ++there) EXPECT_TRUE(channel.contains(f->word));
        EXPECT_GT(there, BARCUDA_FENCES / 2);
        program.on_threads(1, [&](unsigned) {  // by a question, again and again
            OK(program.launch(program.add, nullptr));
            OK(cuStreamSynchronize(nullptr));
        });
    });
}

TEST(GuestOfAnIdleGpu, FindsInEachOfItsThreadsThatTheGpuIsLost) {
    test::as_client(false, IdleGpu::driver, [] {
        Program program;
        IdleGpu& gpu = IdleGpu::get();
        gpu.talks_for = 50'000;
        std::barrier together(4, [&]() noexcept { gpu.fault = CUDA_ERROR_ILLEGAL_ADDRESS; });
        program.on_threads(4, [&](unsigned) {
            CUstream stream = nullptr;
            OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
            for (unsigned r = 0; r < 20; ++r) {
                OK(program.launch(program.add, stream));
                OK(cuStreamSynchronize(stream));
            }
            together.arrive_and_wait();
            OK(program.launch(program.add, stream));
            EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
            EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
        });
    });
}

TEST(GuestOfTheSoftwareGpu, FindsInEachOfItsThreadsThatAKernelHasFailed) {
    test::as_client(true, soft_driver, [] {
        Program program;
        std::atomic<unsigned> busy{0};
        program.on_threads(4, [&](unsigned t) {
            CUresult r = CUDA_SUCCESS;
            for (unsigned n = 0; r == CUDA_SUCCESS; ++n) {
                if (n == 3) ++busy;
                if (t == 0 && busy == 4) r = program.launch(program.stop, nullptr);
                if (r == CUDA_SUCCESS) r = program.launch(program.add, nullptr);
                if (r == CUDA_SUCCESS) r = cuStreamSynchronize(nullptr);
            }
            EXPECT_EQ(CUDA_ERROR_LAUNCH_FAILED, r);
            EXPECT_EQ(CUDA_ERROR_LAUNCH_FAILED, cuCtxSynchronize());
        });
    });
}

}  // namespace
}  // namespace barcuda
