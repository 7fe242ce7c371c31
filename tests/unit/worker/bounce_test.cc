// SPDX-License-Identifier: Apache-2.0
// bounce_test: small copies to the device go by pinned memory of the worker's, and none of it is used again before the
// GPU has read it. The software GPU reads pinned memory when the copy's turn comes, as NVIDIA's does; a stream that
// waits for a word holds it back.
#include "host-bridge/worker/session/bounce.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <vector>

#include "host-bridge/between/device_choice.h"
#include "shm-device/queue/sync.h"
#include "tests/unit/support/loopback.h"

namespace barcuda {
namespace {

using enum Op;

Driver gpu;
const void* source = nullptr;    // of the last copy that the driver was given
unsigned events = 0, looks = 0;  // that are there; how often one was asked

Driver observed() {
    setenv("BARCUDA_SOFT_MEMORY", "256M", 1);
    if (gpu.library.empty()) { EXPECT_EQ("", gpu.open(software_library()).text()); }
    EXPECT_EQ(CUDA_SUCCESS, gpu.cuInit(0));
    Driver driver = gpu;
    driver.cuMemcpyHtoDAsync_v2 = [](CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
        source = from;
        return gpu.cuMemcpyHtoDAsync_v2(to, from, bytes, stream);
    };
    driver.cuEventCreate = [](CUevent* event, unsigned flags) {
        ++events;
        return gpu.cuEventCreate(event, flags);
    };
    driver.cuEventDestroy_v2 = [](CUevent event) {
        --events;
        return gpu.cuEventDestroy_v2(event);
    };
    driver.cuEventQuery = [](CUevent event) {
        ++looks;
        return gpu.cuEventQuery(event);
    };
    return driver;
}

struct BounceTest : Loopback {
    static constexpr std::size_t piece = Bounce::most;
    static constexpr unsigned in_a_segment = Bounce::segment_bytes / piece,
                              in_all = Bounce::segments * Bounce::segment_bytes / piece;
    CUdeviceptr memory = 0;  // room for each copy
    std::map<unsigned, unsigned char> copied;
    unsigned next = 0;

    BounceTest() : Loopback(observed()) {
        ground.extents.lend(Bounce::memory());
        CUcontext primary = nullptr;
        EXPECT_TRUE((call<cuDevicePrimaryCtxRetain>(&primary, 0).ok()));
        context = static_cast<std::uint32_t>(id(primary));
        EXPECT_TRUE((call<cuMemAlloc_v2>(&memory, std::size_t{256} * piece).ok()));
        events = looks = 0;
    }
    ~BounceTest() override {
        release();
        gpu.cuCtxSetCurrent(nullptr);
        gpu.cuDevicePrimaryCtxRetain(&unused_, 0);
        gpu.cuCtxSetCurrent(unused_);
        gpu.cuCtxSynchronize();
        ground.extents.unregister_all(ground.table);
        gpu.cuDevicePrimaryCtxReset_v2(0);
    }
    template <class T> T raw(T handle) {
        T its = nullptr;
        EXPECT_TRUE(ground.session.handles().find(id(handle), its));
        return its;
    }
    // One copy of a value that no other copy has. Whether it went by the pinned memory.
    bool copy(CUstream stream, std::size_t bytes = piece) {
        const auto value = static_cast<unsigned char>(1 + next % 251);
        copied[next] = value;
        const std::vector<unsigned char> from(bytes, value);
        EXPECT_TRUE(
            (call<copy_in>(memory + next++ * piece, static_cast<const void*>(from.data()), bytes, stream).ok()));
        const std::span<std::byte> all = Bounce::memory();
        return source >= all.data() && source < all.data() + all.size();
    }
    unsigned copies(CUstream stream, unsigned count) {
        unsigned pinned = 0;
        for (unsigned i = 0; i < count; ++i) pinned += copy(stream);
        return pinned;
    }
    void expect_all_there(std::size_t bytes = piece) {
        for (const auto& [at, value] : copied) {
            std::vector<unsigned char> there(bytes);
            ASSERT_EQ(CUDA_SUCCESS, gpu.cuMemcpyDtoH_v2(there.data(), memory + at * piece, bytes));
            ASSERT_EQ(there, std::vector<unsigned char>(bytes, value)) << "copy " << at;
        }
    }
    CUstream own_stream() {  // for which no default stream waits
        CUstream s = nullptr;
        EXPECT_TRUE((call<cuStreamCreateWithPriority>(&s, unsigned{CU_STREAM_NON_BLOCKING}, 0).ok()));
        return s;
    }
    // The stream does nothing more until release().
    void block(CUstream stream) {
        blocked_ = raw(stream);
        publish(*word(), std::uint64_t{0});
        EXPECT_EQ(CUDA_SUCCESS, gpu.cuStreamWaitValue64_v2(blocked_, reinterpret_cast<CUdeviceptr>(word()), 1,
                                                           CU_STREAM_WAIT_VALUE_GEQ));
    }
    void release() { publish(*word(), std::uint64_t{1}); }
    void finish(CUstream stream) {
        release();
        EXPECT_EQ(CUDA_SUCCESS, gpu.cuStreamSynchronize(raw(stream)));
    }
    bool idle() { return ground.session.deferred().check_idle(); }

  private:
    std::uint64_t* word() { return reinterpret_cast<std::uint64_t*>(ground.extents.locate(1 << 20, 8)); }
    CUstream blocked_ = nullptr;
    CUcontext unused_ = nullptr;
};

TEST_F(BounceTest, IsWholePages) {  // registered memory is what kernels can reach
    constexpr std::size_t largest_page = 64 << 10;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(Bounce::memory().data()) % largest_page, 0u);
    EXPECT_EQ(Bounce::memory().size() % largest_page, 0u);
}
TEST_F(BounceTest, TakesCopiesOfItsSizes) {
    EXPECT_FALSE(copy(nullptr, Bounce::above));
    EXPECT_TRUE(copy(nullptr, Bounce::above + 1));
    EXPECT_TRUE(copy(CU_STREAM_LEGACY, Bounce::most));
    EXPECT_FALSE(copy(nullptr, Bounce::most + 1));
    EXPECT_EQ(CUDA_SUCCESS, gpu.cuCtxSynchronize());
    expect_all_there(Bounce::above);
}
TEST_F(BounceTest, IsNotUsedAgainBeforeTheGpuHasReadIt) {
    const CUstream stream = own_stream();
    block(stream);
    EXPECT_EQ(copies(stream, in_all), in_all);
    EXPECT_EQ(copies(stream, 20), 0u) << "all of it is still to be read";
    finish(stream);
    expect_all_there();
    EXPECT_EQ(ground.session.in_flight().times_idle(), 0u);
    EXPECT_EQ(copies(stream, in_all), in_all) << "the events say so, and nobody else has looked";
    EXPECT_GT(looks, 0u);
    finish(stream);
    expect_all_there();
}
TEST_F(BounceTest, NeedsNoEventWhereTheGpuIsIdleInBetween) {
    const CUstream stream = own_stream();
    for (unsigned i = 0; i < in_all; ++i) {
        EXPECT_TRUE(copy(stream));
        finish(stream);
        EXPECT_TRUE(idle());
    }
    EXPECT_EQ(events, 0u);
    expect_all_there();
}
TEST_F(BounceTest, AStreamThatWaitsHoldsUpNoOther) {
    const CUstream waits = own_stream(), works = own_stream();
    block(waits);
    EXPECT_EQ(copies(waits, 2 * in_a_segment + 1), 2 * in_a_segment + 1);
    unsigned pinned = 0;
    for (unsigned i = 0; i < 200; ++i) {
        pinned += copy(works);
        EXPECT_EQ(CUDA_SUCCESS, gpu.cuStreamSynchronize(raw(works)));
    }
    EXPECT_GT(pinned, 100u);
    finish(waits);
    expect_all_there();
}
TEST_F(BounceTest, ManyStreamsShareIt) {
    for (unsigned i = 0; i < Bounce::segments; ++i) EXPECT_TRUE(copy(own_stream()));
    const CUstream one_more = own_stream();
    unsigned pinned = 0;
    for (unsigned i = 0; i < 20; ++i) {
        pinned += copy(one_more);
        EXPECT_EQ(CUDA_SUCCESS, gpu.cuCtxSynchronize());
    }
    EXPECT_GE(pinned, 15u) << "one that copies no more gives its part up";
    expect_all_there();
}
TEST_F(BounceTest, OfADestroyedStreamIsReadToTheEnd) {
    const CUstream stream = own_stream();
    block(stream);
    EXPECT_TRUE(copy(stream));
    EXPECT_TRUE((call<cuStreamDestroy_v2>(stream).ok()));
    // The driver may give the next one the same handle.
    const CUstream other = own_stream();
    EXPECT_GT(copies(other, in_all), 0u);
    EXPECT_EQ(CUDA_SUCCESS, gpu.cuStreamSynchronize(raw(other)));
    release();
    EXPECT_EQ(CUDA_SUCCESS, gpu.cuCtxSynchronize());
    expect_all_there();
    EXPECT_TRUE(idle());
    EXPECT_EQ(copies(other, in_all), in_all);
    EXPECT_EQ(CUDA_SUCCESS, gpu.cuCtxSynchronize());
    expect_all_there();
}
TEST_F(BounceTest, IsNoPartOfACapture) {
    const CUstream stream = own_stream();
    EXPECT_TRUE((call<cuStreamBeginCapture_v2>(stream, CU_STREAM_CAPTURE_MODE_RELAXED).ok()));
    ground.session.capture_begun();
    EXPECT_FALSE(copy(stream)) << "the graph reads it at each of its launches";
    EXPECT_TRUE(copy(nullptr));
    CUgraph graph = nullptr;
    EXPECT_TRUE((call<cuStreamEndCapture>(stream, &graph).ok()));
    EXPECT_TRUE(copy(stream));
}
TEST_F(BounceTest, OfAContextThatEndsIsFree) {
    const std::uint32_t first = context;
    for (unsigned round = 0; round < 3; ++round) {
        CUcontext second = nullptr;
        EXPECT_TRUE((call<create_context>(&second, 0u, 0).ok()));
        context = static_cast<std::uint32_t>(id(second));
        const CUstream stream = own_stream();
        block(stream);
        EXPECT_EQ(copies(stream, in_all + 1), in_all) << "in any context";
        EXPECT_GT(events, 0u);
        finish(stream);
        expect_all_there();
        EXPECT_TRUE((call<cuCtxDestroy_v2>(second).ok()));
        EXPECT_EQ(events, 0u);
        context = first;
        EXPECT_EQ(CUDA_SUCCESS, (call<cuMemsetD8Async>(memory, 0, std::size_t{1}, CUstream{}).result));
        EXPECT_EQ(CUDA_SUCCESS, gpu.cuCtxSynchronize());
        EXPECT_TRUE(idle());
        copied.clear();
        next = 0;
    }
    EXPECT_TRUE(copy(nullptr));
}
TEST_F(BounceTest, IsUsedOnlyWhileItIsRegistered) {
    EXPECT_TRUE(copy(nullptr));
    EXPECT_EQ(CUDA_SUCCESS, gpu.cuCtxSynchronize());
    ground.extents.unregister_all(ground.table);
    EXPECT_FALSE(copy(nullptr));
    EXPECT_EQ(CUDA_SUCCESS, ground.extents.register_all(ground.table));
    EXPECT_TRUE(copy(nullptr));
    EXPECT_EQ(CUDA_SUCCESS, gpu.cuCtxSynchronize());
    expect_all_there();
}

}  // namespace
}  // namespace barcuda
