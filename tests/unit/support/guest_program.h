// SPDX-License-Identifier: Apache-2.0
// guest_program.h: a program of a guest's over a worker's session and loop, in one process (host_side.h), and a GPU
// that only watches.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <vector>

#include "tests/unit/support/fake_driver.h"
#include "tests/unit/support/host_side.h"

namespace barcuda::test {

// ---- a GPU that computes nothing ------------------------------------------------------------------------------------
// What it is given it does one thing after another, on a thread of its own, a little later. Only what is waited
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

inline Driver IdleGpu::driver() {
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

inline Driver soft_driver() {
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
        EXPECT_EQ(CUDA_SUCCESS, cuInit(0));
        EXPECT_EQ(CUDA_SUCCESS, cuDevicePrimaryCtxRetain(&context, 0));
        EXPECT_EQ(CUDA_SUCCESS, cuCtxSetCurrent(context));
        EXPECT_EQ(CUDA_SUCCESS, cuModuleLoadData(&module, code));
        EXPECT_EQ(CUDA_SUCCESS, cuModuleGetFunction(&add, module, "add"));
        EXPECT_EQ(CUDA_SUCCESS, cuModuleGetFunction(&stop, module, "stop"));
    }
    // Runs body(0), body(1), ... on so many threads.
    template <class Body> void on_threads(unsigned count, Body body) {
        std::vector<std::thread> threads;
        for (unsigned t = 0; t < count; ++t)
            threads.emplace_back([&, t] {
                EXPECT_EQ(CUDA_SUCCESS, cuCtxSetCurrent(context));
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

}  // namespace barcuda::test
