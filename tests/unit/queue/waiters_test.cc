// SPDX-License-Identifier: Apache-2.0
// waiters_test: each thread that waits for a fence of the region is woken, however its command ended, and finds the
// reason in the status page. The page with the fences is watched: what is checked is what a guest sees at the very
// moment when a fence gets its value.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "shm-device/queue/sync.h"
#include "shm-device/region/status.h"
#include "tests/unit/support/channel_memory.h"
#include "tests/unit/support/loopback.h"
#include "tests/unit/support/watched.h"

#ifdef __SANITIZE_THREAD__
// Observers run in signal handlers, but only where the one thread stores: malloc is not interrupted.
extern "C" [[gnu::visibility("default")]] const char* __tsan_default_options() { return "report_signal_unsafe=0"; }
#endif

namespace barcuda {
namespace {

// A GPU whose streams stand still until the test says otherwise.
struct Gpu {
    CUresult registering = CUDA_SUCCESS, write = CUDA_SUCCESS, record = CUDA_SUCCESS, launch = CUDA_SUCCESS,
             query = CUDA_ERROR_NOT_READY;
    unsigned full = 0;     // writes that find no memory
    bool instant = false;  // a write is carried out before the driver's call returns
    std::vector<std::pair<std::uint64_t*, std::uint64_t>> queued;
    std::vector<void*> registered;
    CUdeviceptr only = 0;  // `registering` is of this; 0: of all

    void go() {
        for (const auto& [word, value] : std::exchange(queued, {})) publish(*word, value);
    }
};
Gpu* gpu = nullptr;

Driver driver() {
    Driver d = fake::driver();
    d.cuStreamWriteValue64_v2 = [](CUstream, CUdeviceptr word, cuuint64_t value, unsigned) {
        if (gpu->full) {
            --gpu->full;
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        if (gpu->write != CUDA_SUCCESS) return gpu->write;
        gpu->queued.emplace_back(reinterpret_cast<std::uint64_t*>(word), value);
        if (gpu->instant) gpu->go();
        return CUDA_SUCCESS;
    };
    d.cuEventRecordWithFlags = [](CUevent, CUstream, unsigned) { return gpu->record; };
    d.cuStreamQuery = [](CUstream) { return gpu->query; };
    d.cuMemHostRegister_v2 = [](void* at, std::size_t, unsigned) {
        gpu->registered.push_back(at);
        const bool this_one = !gpu->only || gpu->only == reinterpret_cast<CUdeviceptr>(at);
        return this_one ? gpu->registering : CUDA_SUCCESS;
    };
    d.cuLaunchKernel = [](CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                          void**, void**) { return gpu->launch; };
    return d;
}

// What a waiting guest finds when its fence has got a value.
struct Seen {
    std::uint64_t value, failures;
    int posted_error, context_error;
    auto operator<=>(const Seen&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Seen& s) {
    return out << "value " << s.value << " with " << s.failures << " failures, the last " << s.posted_error
               << ", context " << s.context_error;
}

struct Waiters : Loopback {
    static constexpr std::uint64_t page = 0x2000, one = page, two = page + 8;  // offsets in the region
    Gpu all;
    std::vector<Seen> seen;
    test::Watched watched{
        reinterpret_cast<void*>(region(page)), BARCUDA_PAGE, [this](void* at) {
            const barcuda_status& s = ground.status;
            seen.push_back({*static_cast<std::uint64_t*>(at), s.posted_count, s.posted_error, s.context_error});
        }};

    Waiters() : Loopback(driver()) { gpu = &all; }
    CUresult fence(std::uint64_t offset, std::uint64_t value, CUstream s = nullptr) {
        return call<Op::write_fence>(s, ext::Fence{offset, value}).result;
    }
    CUevent event() {
        CUevent e = nullptr;
        EXPECT_TRUE((call<Op::cuEventCreate>(&e, 0u).ok()));
        return e;
    }
    CUresult record(CUevent e, std::uint64_t offset, std::uint64_t value, CUstream s = nullptr) {
        return call<Op::record_event>(e, s, 0u, ext::Fence{offset, value}).result;
    }
    std::uint64_t word(std::uint64_t offset) const { return *reinterpret_cast<std::uint64_t*>(region(offset)); }
};

TEST_F(Waiters, AreWokenByTheGpuAndHearOfNoFailure) {
    EXPECT_EQ(fence(one, 1), CUDA_SUCCESS);
    EXPECT_EQ(seen, std::vector<Seen>{});
    gpu->go();
    EXPECT_EQ(seen, (std::vector<Seen>{{1, 0, 0, 0}}));
}
TEST_F(Waiters, OfAFenceThatTheDriverRefusesFindTheFailure) {
    gpu->write = CUDA_ERROR_INVALID_VALUE;
    EXPECT_EQ(fence(one, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(seen, (std::vector<Seen>{{1, 1, CUDA_ERROR_INVALID_VALUE, 0}}));
    EXPECT_EQ(ground.status.posted_count, 1u);  // not counted again
}
TEST_F(Waiters, OfALostContextFindThatItIsLost) {
    EXPECT_EQ(fence(one, 1), CUDA_SUCCESS);
    gpu->write = CUDA_ERROR_ILLEGAL_ADDRESS;
    EXPECT_EQ(fence(two, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
    ASSERT_EQ(seen.size(), 2u);  // the earlier one too: the GPU writes nothing more
    for (const Seen& s : seen) EXPECT_EQ(s.context_error, CUDA_ERROR_ILLEGAL_ADDRESS) << s;
    EXPECT_EQ(word(one), 1u);
    EXPECT_EQ(word(two), 1u);
}
TEST_F(Waiters, FindThatItIsLostWhicheverCommandHeardItFirst) {
    EXPECT_EQ(fence(one, 1), CUDA_SUCCESS);
    gpu->query = CUDA_ERROR_LAUNCH_FAILED;
    EXPECT_EQ((call<Op::cuStreamQuery>(CUstream{}).result), CUDA_ERROR_LAUNCH_FAILED);
    EXPECT_EQ(seen, (std::vector<Seen>{{1, 0, 0, CUDA_ERROR_LAUNCH_FAILED}}));
}
TEST_F(Waiters, FindThatItIsLostWhenALaunchThatWasHeldHearsIt) {
    EXPECT_EQ(fence(one, 1), CUDA_SUCCESS);
    gpu->launch = CUDA_ERROR_ASSERT;
    ground.session.launches().hold(nullptr, {{1, 1, 1}, {1, 1, 1}, 0, 0}, nullptr, "", 0);
    ground.session.launches().flush();
    EXPECT_EQ(seen, (std::vector<Seen>{{1, 1, CUDA_ERROR_ASSERT, CUDA_ERROR_ASSERT}}));
}
TEST_F(Waiters, FindThatItIsLostWhenTheWorkerLooksAfterThem) {
    EXPECT_EQ(fence(one, 1), CUDA_SUCCESS);
    gpu->query = CUDA_ERROR_LAUNCH_FAILED;
    ground.session.fences().watch();
    EXPECT_EQ(seen, (std::vector<Seen>{{1, 0, 0, CUDA_ERROR_LAUNCH_FAILED}}));
}
TEST_F(Waiters, OfAnEventWhoseRecordFailedFindTheFailure) {
    const CUevent e = event();
    gpu->record = CUDA_ERROR_INVALID_HANDLE;
    gpu->instant = true;
    EXPECT_EQ(record(e, one, 1), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(seen, (std::vector<Seen>{{1, 1, CUDA_ERROR_INVALID_HANDLE, 0}}));
    EXPECT_EQ(ground.status.posted_count, 1u);
}
TEST_F(Waiters, OfAStreamThatIsGoneAreWoken) {
    EXPECT_EQ(fence(one, 1, reinterpret_cast<CUstream>(0x777)), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(seen, (std::vector<Seen>{{1, 1, CUDA_ERROR_INVALID_HANDLE, 0}}));
}
TEST_F(Waiters, OfAContextThatIsGoneAreWoken) {
    context = 0x777;
    EXPECT_EQ(fence(one, 1), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(seen, (std::vector<Seen>{{1, 1, CUDA_ERROR_INVALID_CONTEXT, 0}}));
}
TEST_F(Waiters, AreNotWokenByAnAttemptThatIsMadeAgain) {
    CUdeviceptr p = world.memory;
    ground.session.deferred().allocate(p, 4096);
    EXPECT_EQ((call<Op::cuMemFree_v2>(p).result), CUDA_SUCCESS);  // kept, so that it can be given back now
    gpu->full = 1;
    EXPECT_EQ(fence(one, 1), CUDA_SUCCESS);
    EXPECT_EQ(seen, std::vector<Seen>{});
    gpu->go();
    EXPECT_EQ(seen, (std::vector<Seen>{{1, 0, 0, 0}}));
}
TEST_F(Waiters, OfAnEarlierValueAreNotWokenByARefusedOneNorDoesItsValueComeOverIt) {
    EXPECT_EQ(fence(one, 1), CUDA_SUCCESS);
    gpu->write = CUDA_ERROR_INVALID_VALUE;
    EXPECT_EQ(fence(one, 2), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(word(one), 0u);
    gpu->go();
    EXPECT_FALSE(ground.session.fences().collect());
    EXPECT_EQ(seen, (std::vector<Seen>{{1, 1, CUDA_ERROR_INVALID_VALUE, 0}, {2, 1, CUDA_ERROR_INVALID_VALUE, 0}}));
}
TEST_F(Waiters, AreAllWokenWhateverFails) {
    const CUevent e = event();
    const CUresult results[] = {CUDA_SUCCESS, CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_SUPPORTED};
    std::mt19937 random(11);
    std::uint64_t asked[64] = {}, failures = 0;
    for (int i = 0; i < 5000; ++i) {
        gpu->write = results[random() % 4];
        gpu->record = results[random() % 4];
        gpu->instant = random() % 2;
        context = random() % 8 ? 0 : 0x777;
        const unsigned w = random() % 64;
        const auto s = random() % 8 ? CUstream{} : reinterpret_cast<CUstream>(0x777);
        const std::uint64_t offset = page + w * 8, value = ++asked[w];
        seen.clear();
        const CUresult r = random() % 2 ? fence(offset, value, s) : record(e, offset, value, s);
        failures += r != CUDA_SUCCESS;
        ASSERT_EQ(ground.status.posted_count, failures);
        for (const Seen& now : seen) ASSERT_EQ(now.failures, failures) << now;
        if (random() % 4 == 0) {
            gpu->go();
            ground.session.fences().collect();
        }
    }
    gpu->go();
    EXPECT_FALSE(ground.session.fences().collect());
    for (unsigned w = 0; w < 64; ++w) EXPECT_EQ(word(page + w * 8), asked[w]) << w;
}
TEST_F(Waiters, AreNowhereButInTheClientsOwnMemory) {
    const auto calls = world.calls;
    EXPECT_TRUE((call<Op::write_fence>(CUstream{}, ext::Fence{ground.granted, 1}).lie));
    EXPECT_TRUE((call<Op::write_fence>(CUstream{}, ext::Fence{one + 4, 1}).lie));
    EXPECT_TRUE((call<Op::write_fence>(CUstream{}, ext::Fence{~std::uint64_t{0} - 7, 1}).lie));
    EXPECT_EQ(world.calls, calls);
    EXPECT_TRUE(gpu->queued.empty() && seen.empty());
}

TEST_F(Waiters, InAnExtentThatTheDriverHadNoRoomForHaveItTryAgain) {
    CUcontext primary = nullptr;
    gpu->registering = CUDA_ERROR_OUT_OF_MEMORY;
    EXPECT_EQ((call<Op::cuDevicePrimaryCtxRetain>(&primary, CUdevice{0}).result), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(fence(one, 1), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(word(one), 1u);
    gpu->registering = CUDA_SUCCESS;
    gpu->registered.clear();
    for (std::uint64_t value : {2, 3}) EXPECT_EQ(fence(one, value), CUDA_SUCCESS);
    EXPECT_EQ(gpu->registered, std::vector<void*>{reinterpret_cast<void*>(region(0))});
}

// The driver knows a client's extents. It knows the channel once a fence is wanted there: by a guest's library of an
// older build, or in a full region.
TEST_F(Waiters, InTheChannelAreRegisteredWhenOneIsAskedFor) {
    const std::uint64_t channel = ground.granted;
    ASSERT_EQ(ground.extents.map_channel(channel, BARCUDA_CHANNEL_SIZE).text(), "");
    CUcontext primary = nullptr;
    EXPECT_TRUE((call<Op::cuDevicePrimaryCtxRetain>(&primary, CUdevice{0}).ok()));
    EXPECT_EQ(fence(one, 1), CUDA_SUCCESS);
    EXPECT_EQ(gpu->registered, std::vector<void*>{reinterpret_cast<void*>(region(0))});
    gpu->registering = CUDA_ERROR_OUT_OF_MEMORY;
    EXPECT_EQ(fence(channel + page, 1), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(word(channel + page), 1u);  // by the CPU
    gpu->registering = CUDA_SUCCESS;
    gpu->registered.clear();
    for (std::uint64_t value : {2, 3}) EXPECT_EQ(fence(channel + page, value), CUDA_SUCCESS);
    EXPECT_EQ(std::ranges::count(gpu->registered, reinterpret_cast<void*>(region(channel))), 1);
    gpu->go();
    EXPECT_EQ(word(channel + page), 3u);
}

// ---- the memory that a fence lies in --------------------------------------------------------------------------------
struct Unwatched : Loopback {
    Gpu all;
    Unwatched() : Loopback(driver()) { gpu = &all; }
};
TEST_F(Unwatched, AFenceKeepsItsExtentUntilItIsWritten) {
    const std::uint64_t one = 0x2000;
    EXPECT_TRUE((call<Op::write_fence>(CUstream{}, ext::Fence{one, 1}).ok()));  // no work goes before it
    EXPECT_TRUE((call<Op::release>(std::uint64_t{0}, ground.granted).ok()));
    ASSERT_NE(ground.extents.locate(one, 8), nullptr);
    EXPECT_TRUE(ground.session.fences().collect());
    gpu->go();
    EXPECT_FALSE(ground.session.fences().collect());
    ground.session.deferred().reap();
    EXPECT_EQ(ground.extents.locate(one, 8), nullptr);
}

TEST_F(Unwatched, AFenceIsForgottenWithAnExtentThatMustGo) {
    for (const bool running : {false, true}) {
        ASSERT_EQ(ground.extents.map(0, ground.granted).text(), "");
        const std::uint64_t one = 0x2000;
        EXPECT_TRUE((call<Op::write_fence>(CUstream{}, ext::Fence{one, 1}).ok()));
        EXPECT_TRUE((call<Op::release>(std::uint64_t{0}, ground.granted).ok()));
        ASSERT_NE(ground.extents.locate(one, 8), nullptr);
        // The very command that wants one there finds no memory, until all is released, and then not the word.
        if (running) {
            gpu->full = 2;
            EXPECT_TRUE((call<Op::write_fence>(CUstream{}, ext::Fence{one, 2}).lie));
        } else {
            ground.session.deferred().reap(true);
        }
        EXPECT_EQ(ground.extents.locate(one, 8), nullptr);
        EXPECT_FALSE(ground.session.fences().collect());
    }
}
TEST_F(Unwatched, AnExtentThatTheDriverHasNoRoomForIsNotInTheWayOfFencesInOthers) {
    ASSERT_EQ(ground.extents.map(ground.granted, 1 << 20).text(), "");
    gpu->registering = CUDA_ERROR_OUT_OF_MEMORY;
    gpu->only = region(0);
    CUcontext primary = nullptr;
    EXPECT_EQ((call<Op::cuDevicePrimaryCtxRetain>(&primary, CUdevice{0}).result), CUDA_ERROR_OUT_OF_MEMORY);
    gpu->registered.clear();
    EXPECT_TRUE((call<Op::write_fence>(CUstream{}, ext::Fence{ground.granted + 0x2000, 1}).ok()));
    EXPECT_TRUE(gpu->registered.empty()) << "it was registered with the rest";
    gpu->go();
}

// ---- threads that sleep ---------------------------------------------------------------------------------------------
struct Sleepers : Unwatched {
    static constexpr std::uint64_t one = 0x2000;
    ChannelMemory memory = channel_memory();
    Channel channel{.memory = memory.get()};
    Bell bell{channel, -1};
    Fences fences{ground.session.driver(),
                  ground.extents,
                  ground.status,
                  bell,
                  ground.session.client_rows(),
                  ground.session.contexts(),
                  ground.session.streams(),
                  ground.session.output(),
                  ground.session.in_flight()};
    std::uint32_t wakes() { return *reinterpret_cast<std::uint32_t*>(memory.get() + BARCUDA_WAKES_OFFSET); }
    void sleep(bool there) {
        using namespace virtqueue;
        in_channel(memory.get())
            .driver_event->store(event_word(there ? event_enable : event_disable), std::memory_order_relaxed);
    }
    CUresult fence(std::uint64_t value) {
        fences.begin_command();
        EXPECT_TRUE(fences.promise({one, value}).ok());
        const CUresult r = fences.write(nullptr);
        fences.end_command(static_cast<std::uint32_t>(Op::write_fence), r, false);
        return r;
    }
};
TEST_F(Sleepers, AreWokenThoughTheySayOnlyAfterTheGpusWriteThatTheySleep) {
    sleep(false);
    EXPECT_EQ(fence(1), CUDA_SUCCESS);
    EXPECT_TRUE(fences.collect_for_somebody());
    gpu->go();
    EXPECT_TRUE(fences.collect_for_somebody()) << "no thread waits: it is not looked at";
    EXPECT_EQ(wakes(), 0u);
    sleep(true);
    EXPECT_FALSE(fences.collect_for_somebody());
    EXPECT_EQ(wakes(), 1u);
}
TEST_F(Sleepers, AreWokenByAFenceThatTheGpuWritesLater) {
    sleep(true);
    EXPECT_EQ(fence(1), CUDA_SUCCESS);
    EXPECT_TRUE(fences.collect_for_somebody());
    EXPECT_EQ(wakes(), 0u);
    gpu->go();
    EXPECT_FALSE(fences.collect_for_somebody());
    EXPECT_EQ(wakes(), 1u);
}
TEST_F(Sleepers, NeedNotBeThereForTheCpuToWriteWhatTheGpuWillNot) {
    sleep(false);
    EXPECT_EQ(fence(1), CUDA_SUCCESS);
    gpu->write = CUDA_ERROR_INVALID_VALUE;
    EXPECT_EQ(fence(2), CUDA_ERROR_INVALID_VALUE);
    EXPECT_TRUE(fences.collect_for_somebody());  // the GPU's value is still to come
    gpu->go();
    EXPECT_FALSE(fences.collect_for_somebody());
    EXPECT_EQ(*reinterpret_cast<std::uint64_t*>(region(one)), 2u);
    gpu->write = CUDA_SUCCESS;
    EXPECT_EQ(fence(3), CUDA_SUCCESS);
    gpu->go();
    EXPECT_TRUE(fences.collect_for_somebody()) << "it writes nothing any more";
}

// A fault shows in the context of the stream.
TEST_F(Unwatched, AFenceIsWrittenInTheContextOfItsStreamWhicheverIsCurrent) {
    CUcontext one = nullptr, other = nullptr;
    ASSERT_TRUE((call<Op::create_context>(&one, 0u, CUdevice{0}).ok()));
    context = static_cast<std::uint32_t>(id(one));
    const CUstream inside = stream();
    ASSERT_TRUE((call<Op::create_context>(&other, 0u, CUdevice{0}).ok()));
    CUcontext its = nullptr, others = nullptr;
    ASSERT_TRUE(ground.session.handles().find(id(one), its) && ground.session.handles().find(id(other), others));
    ASSERT_NE(its, others);
    std::uint64_t value = 0;
    for (const auto& [stream, expected] : {std::pair{inside, its}, std::pair{CUstream{}, others}}) {
        context = static_cast<std::uint32_t>(id(other));
        EXPECT_TRUE((call<Op::write_fence>(stream, ext::Fence{0x2000, ++value}).ok()));
        EXPECT_EQ(ground.session.contexts().current(), expected);
    }
    gpu->go();
}

// ---- the status page itself -----------------------------------------------------------------------------------------
struct StatusPage : testing::Test {
    barcuda_status& status = *static_cast<barcuda_status*>(
        mmap(nullptr, BARCUDA_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ~StatusPage() override { munmap(&status, BARCUDA_PAGE); }
};
TEST_F(StatusPage, SaysWhyBeforeItSaysThatTheSessionIsOver) {
    unsigned stores = 0, ended = 0;
    const auto stored = [&](void*) {
        ++stores;
        // Not observe(): under ThreadSanitizer the store that has just been made still holds the lock of its word.
        if (status.state <= BARCUDA_STATE_READY) return;
        ++ended;
        EXPECT_STREQ(status.message, "a reason");
        EXPECT_EQ(status.fatal_error, CUDA_ERROR_DEVICE_UNAVAILABLE);
    };
    const test::Watched watched(&status, BARCUDA_PAGE, stored);
    EXPECT_TRUE(end_session(status, BARCUDA_STATE_DEAD, CUDA_ERROR_DEVICE_UNAVAILABLE, "a reason"));
    EXPECT_EQ(ended, 1u);  // the last of the stores
    EXPECT_GT(stores, 2u);
    EXPECT_FALSE(end_session(status, BARCUDA_STATE_GONE, 0, "what follows from it"));
    EXPECT_EQ(status.state, BARCUDA_STATE_DEAD);
}

}  // namespace
}  // namespace barcuda
