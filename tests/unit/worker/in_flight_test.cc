// SPDX-License-Identifier: Apache-2.0
// in_flight_test: how much work counts as unfinished, and when it is known to be done.
#include "host-bridge/worker/session/in_flight.h"

#include <gtest/gtest.h>

#include "tests/unit/support/fake_driver.h"

namespace barcuda {
namespace {

const CUcontext context = reinterpret_cast<CUcontext>(0x1000), other_context = reinterpret_cast<CUcontext>(0x2000);
const CUstream one = reinterpret_cast<CUstream>(0x100), two = reinterpret_cast<CUstream>(0x200),
               waited_for = reinterpret_cast<CUstream>(0x300);
const Driver driver = [] {
    Driver d = fake::driver();
    d.cuStreamGetFlags = [](CUstream s, unsigned* flags) {
        *flags = s == waited_for ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING;
        return CUDA_SUCCESS;
    };
    d.cuStreamGetCtx = [](CUstream, CUcontext* its) {
        *its = context;
        return CUDA_SUCCESS;
    };
    return d;
}();

TEST(InFlight, IsDoneWhenAFenceBehindItIsReached) {
    InFlight work(driver);
    work.add(context, one);
    work.add(context, one);
    const InFlight::Mark first = work.mark(context, one);
    work.add(context, one);
    EXPECT_EQ(work.count(), 3u);
    work.reached(first);
    EXPECT_EQ(work.count(), 1u);
    work.reached(first);
    EXPECT_EQ(work.count(), 1u);
    work.reached(work.mark(context, one));
    EXPECT_EQ(work.count(), 0u);
}

TEST(InFlight, OfAStreamIsNotDoneByAnothersFence) {
    InFlight work(driver);
    work.add(context, one);
    work.add(context, two);
    work.add(context, nullptr);
    work.add(other_context, nullptr);
    work.reached(work.mark(context, one));
    EXPECT_EQ(work.count(), 3u);
    work.reached(work.mark(context, CU_STREAM_LEGACY));  // the context's default stream, by its other name
    EXPECT_EQ(work.count(), 2u);
}

// NVIDIA's driver crashes when it is asked about such a stream.
TEST(InFlight, OfAHandleWhoseStreamIsGoneIsTheDefaultStreams) {
    InFlight work(driver);
    const int handle = 0, other = 0;
    work.set_stream(&handle, one);
    work.set_stream(&other, two);
    work.stream_gone(one);
    EXPECT_EQ(work.stream_of(&handle), nullptr);
    EXPECT_EQ(work.stream_of(&other), two);
}

TEST(InFlight, OfStreamsThatTheDefaultOneWaitsForIsDoneWithIt) {
    InFlight work(driver);
    for (CUstream stream : {one, waited_for}) work.stream_made(stream);
    work.add(context, waited_for);
    work.add(context, one);
    work.add(context, nullptr);
    const InFlight::Mark mark = work.mark(context, nullptr);
    work.reached(work.mark(other_context, nullptr));
    EXPECT_EQ(work.count(), 3u);
    work.reached(mark);
    EXPECT_EQ(work.count(), 1u);
    work.add(context, waited_for);
    const InFlight::Mark before = work.mark(context, nullptr);
    work.add(context, waited_for);
    work.reached(before);  // later work follows: nothing is known about that stream
    EXPECT_EQ(work.count(), 3u);
}

// In a capture the driver takes a question about the stream for a mistake, and ends the capture.
TEST(InFlight, AsksAboutAStreamWhenItIsMadeAndNotWhenItWorks) {
    static unsigned asked;
    asked = 0;
    Driver counting = driver;
    counting.cuStreamGetFlags = [](CUstream, unsigned* flags) {
        *flags = CU_STREAM_DEFAULT;
        ++asked;
        return CUDA_SUCCESS;
    };
    InFlight work(counting);
    work.stream_made(one);
    EXPECT_EQ(asked, 1u);
    work.add(context, one);
    work.reached(work.mark(context, one));
    work.add(context, two);
    EXPECT_EQ(asked, 1u);
    work.stream_gone(one);
    work.stream_made(one);  // another one, of the same handle
    EXPECT_EQ(asked, 2u);
}

TEST(InFlight, GoesOnWhenItsStreamIsDestroyed) {
    InFlight work(driver);
    work.add(context, one);
    const InFlight::Mark last = work.mark(context, one);
    work.stream_gone(one);
    work.add(context, one);  // another one, of the same handle
    work.reached(work.mark(context, one));
    EXPECT_EQ(work.count(), 1u);
    work.reached(last);
    EXPECT_EQ(work.count(), 0u);
}

TEST(InFlight, OfAMathLibraryIsItsHandlesStreams) {
    InFlight work(driver);
    const int blas = 0, random = 0;
    work.set_stream(&blas, one);
    EXPECT_EQ(work.stream_of(&blas), one);
    EXPECT_EQ(work.stream_of(&random), nullptr);
    work.handle_gone(&blas);
    EXPECT_EQ(work.stream_of(&blas), nullptr);
}

TEST(InFlight, OfNoStreamThatIsKnownIsDoneWhenAllIs) {
    InFlight work(driver);
    work.add();
    work.add(context, one);
    const InFlight::Mark mark = work.mark(context, one);
    work.all_done();
    EXPECT_EQ(work.count(), 0u);
    work.reached(mark);
    work.add(context, one);
    EXPECT_EQ(work.count(), 1u);
}

// The figures of ps, top and the metrics: a program that waits in each round has nothing in flight afterwards.
TEST(InFlight, OfAProgramThatWaitsInEachRoundStaysWithinARound) {
    fake::Ground ground;
    Session& session = ground.session;
    const auto work = [&] {
        session.note_work();
        session.count_work(nullptr);
    };
    for (std::uint64_t round = 1; round <= 1000; ++round) {
        work();
        work();
        work();
        EXPECT_TRUE(session.promise({64, round}).ok());
        EXPECT_EQ(session.fences().write(nullptr), CUDA_SUCCESS);
        EXPECT_EQ(session.in_flight().count(), 3u);
        *reinterpret_cast<std::uint64_t*>(fake::ground_base + 64) = round;  // by the GPU
        session.fences().collect();
        EXPECT_EQ(session.in_flight().count(), 0u);
    }
}

}  // namespace
}  // namespace barcuda
