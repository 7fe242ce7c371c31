// SPDX-License-Identifier: Apache-2.0
// guest_loopback_test: the guest's driver functions, as programs call them, over a worker's real session and loop, in
// one process: once with a driver that only watches, once with the software GPU. Several threads at once, so that under
// ThreadSanitizer (make SANITIZE=thread) both halves are seen together: what one of them publishes too early, or
// without an order, the other reads.
#include <gtest/gtest.h>
#include <unistd.h>

#include <barrier>
#include <condition_variable>
#include <deque>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "guest-allocator/client/host_rows.h"
#include "guest-allocator/driver/fence.h"
#include "tests/unit/support/fake_driver.h"
#include "tests/unit/support/host_side.h"

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

// ---- a GPU that computes nothing ------------------------------------------------------------------------------------
// What it is given it does one thing after another, on a thread of its own, a little later. Only what somebody waits
// for is done at all: words that are written, functions that are called. A driver over it watches its arguments
// (fake_driver.h).
class IdleGpu {
  public:
    static IdleGpu& get() {
        static IdleGpu& gpu = *new IdleGpu;  // never destroyed: its thread has no end
        return gpu;
    }
    static Driver driver();

    std::atomic<bool> refuses{false};           // to write words
    std::atomic<CUresult> fault{CUDA_SUCCESS};  // it does nothing any more, and says why when asked
    std::atomic<unsigned> talks_for{0};         // microseconds: how long a driver takes to name an error
    std::atomic<bool> seems_busy{false};        // a driver has not noticed yet that all is done
    std::atomic<unsigned> words{0};             // it was given to write
    std::atomic<unsigned> questions_of_events{0};
    std::atomic<unsigned> questions{0};  // about functions

  private:
    void run() {
        for (unsigned done = 0;; ++done) {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [&] { return !work_.empty(); });
            const std::function<void()> next = work_.front();
            lock.unlock();
            if (done % 16 == 0) usleep(50);
            if (fault == CUDA_SUCCESS) next();
            lock.lock();
            work_.pop_front();
        }
    }
    void give(std::function<void()> work) {
        const std::lock_guard lock(mutex_);
        work_.push_back(std::move(work));
        changed_.notify_one();
    }
    CUresult state() {
        const std::lock_guard lock(mutex_);
        return fault != CUDA_SUCCESS          ? fault.load()
               : work_.empty() && !seems_busy ? CUDA_SUCCESS
                                              : CUDA_ERROR_NOT_READY;
    }

    IdleGpu() {
        std::thread([this] { run(); }).detach();
    }

    CUdeviceptr next_ = 0x2a00'0000'0000;
    std::map<CUdeviceptr, std::size_t> allocations_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> work_;
};

Driver IdleGpu::driver() {
    Driver d = fake::driver();
    d.cuStreamWriteValue64_v2 = [](CUstream, CUdeviceptr word, cuuint64_t value, unsigned) {
        if (get().refuses) return CUDA_ERROR_INVALID_VALUE;
        ++get().words;
        get().give([=] { publish(*reinterpret_cast<std::uint64_t*>(word), value); });
        return CUDA_SUCCESS;
    };
    d.cuLaunchHostFunc = [](CUstream, CUhostFn function, void* data) {
        get().give([=] { function(data); });
        return CUDA_SUCCESS;
    };
    d.cuStreamAddCallback = [](CUstream stream, CUstreamCallback function, void* data, unsigned) {
        get().give([=] { function(stream, CUDA_SUCCESS, data); });
        return CUDA_SUCCESS;
    };
    d.cuStreamQuery = [](CUstream) { return get().state(); };
    d.cuEventQuery = [](CUevent) {
        ++get().questions_of_events;
        return get().state();
    };
    d.cuMemAlloc_v2 = [](CUdeviceptr* address, std::size_t bytes) {
        *address = get().next_;
        get().next_ += (bytes + 255) / 256 * 256;
        get().allocations_[*address] = bytes;
        return CUDA_SUCCESS;
    };
    d.cuMemFree_v2 = [](CUdeviceptr address) {
        return get().allocations_.erase(address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    };
    d.cuPointerGetAttributes = [](unsigned, CUpointer_attribute*, void** values, CUdeviceptr p) {
        const auto behind = get().allocations_.upper_bound(p);
        if (behind == get().allocations_.begin()) return CUDA_ERROR_INVALID_VALUE;
        const auto [start, bytes] = *std::prev(behind);
        if (p - start >= bytes) return CUDA_ERROR_INVALID_VALUE;
        *static_cast<unsigned*>(values[0]) = CU_MEMORYTYPE_DEVICE;
        *static_cast<CUdeviceptr*>(values[1]) = start;
        *static_cast<std::size_t*>(values[2]) = bytes;
        return CUDA_SUCCESS;
    };
    d.cuFuncGetAttribute = [](int* value, CUfunction_attribute, CUfunction) {
        ++get().questions;
        *value = 1024;
        return CUDA_SUCCESS;
    };
    d.cuGetErrorName = [](CUresult, const char** name) {
        usleep(get().talks_for);
        *name = "an error";
        return CUDA_SUCCESS;
    };
    return d;
}

Driver soft_driver() {
    Driver d;
    EXPECT_EQ("", d.open(software_library()).text());
    return d;
}

// ---- a client -------------------------------------------------------------------------------------------------------
constexpr char code[] = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .entry add(.param .u64 words, .param .u32 count, .param .u32 value)
{
    .reg .pred %p; .reg .b32 %r<6>; .reg .b64 %a<3>;
    ld.param.u64 %a1, [words];
    ld.param.u32 %r1, [count];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r2, %r2, %r3, %r4;
    setp.ge.u32 %p, %r2, %r1;
    @%p bra DONE;
    mad.wide.u32 %a2, %r2, 4, %a1;
    ld.global.u32 %r4, [%a2];
    ld.param.u32 %r5, [value];
    add.u32 %r4, %r4, %r5;
    st.global.u32 [%a2], %r4;
DONE:
    ret;
}
.visible .entry stop() { trap; }
)";

// What a program has in front of its threads.
struct Program {
    CUcontext context = nullptr;
    CUmodule module = nullptr;
    CUfunction add = nullptr, stop = nullptr;

    Program() {
        OK(cuInit(0));
        OK(cuDevicePrimaryCtxRetain(&context, 0));
        OK(cuCtxSetCurrent(context));
        OK(cuModuleLoadData(&module, code));
        OK(cuModuleGetFunction(&add, module, "add"));
        OK(cuModuleGetFunction(&stop, module, "stop"));
    }
    // Runs body(0), body(1), ... on so many threads.
    template <class Body> void on_threads(unsigned count, Body body) {
        std::vector<std::thread> threads;
        for (unsigned t = 0; t < count; ++t)
            threads.emplace_back([&, t] {
                OK(cuCtxSetCurrent(context));
                body(t);
            });
        for (std::thread& t : threads) t.join();
    }
    CUresult launch(CUfunction f, CUstream stream, CUdeviceptr words = 0, unsigned count = 0,
                    unsigned value = 0) const {
        void* parameters[] = {&words, &count, &value};
        return cuLaunchKernel(f, (count + 255) / 256 + !count, 1, 1, 256, 1, 1, 0, stream, parameters, nullptr);
    }
};

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

// ---- what a waiter finds --------------------------------------------------------------------------------------------
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
        for (unsigned i = 0; i < 5; ++i) {  // now and then, which is often enough
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

// How many words so many fences lie in, of which one is had at a time.
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
        program.on_threads(1, wait_for_none);  // nobody writes what this one has asked for
        for (unsigned i = 0; i < 100; ++i)
            program.on_threads(1, [&](unsigned) {
                OK(program.launch(program.add, nullptr));
                OK(cuStreamSynchronize(nullptr));
            });
        EXPECT_LT(words_of_fences(500), 80u);
        // One that is pending for long is in nobody's way.
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
