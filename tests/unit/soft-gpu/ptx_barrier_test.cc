// SPDX-License-Identifier: Apache-2.0
// ptx_barrier_test.cc: threads of a block, and blocks of a cooperative grid, wait for each other; a wait that cannot
// end is reported.
#include "tests/soft/instruction.h"

namespace {

using namespace barcuda::soft::test;

std::string kernel(const std::string& body) {
    return header +
           ".visible .entry k(.param .u64 p0)\n{\n.reg .b64 %rd<16>; .reg .b32 %r<32>; .reg .pred %p<8>; .shared "
           ".align 8 .b8 s[4096];\n"
           "ld.param.u64 %rd1, [p0]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r4, "
           "%r2, %r3, %r1; mul.wide.u32 %rd2, %r4, 4; add.u64 %rd3, %rd1, %rd2; mov.u32 %r5, s; mad.lo.u32 %r6, %r1, "
           "4, %r5;\n" +
           body + "\nret;\n}\n";
}
std::vector<u32> run(const std::string& body, Shape shape) {
    std::vector<u32> data(static_cast<std::size_t>(shape.grid) * shape.block);
    Machine::get().run(kernel(body), "k", shape, {bytes_of_vector(data)}, {});
    return data;
}

TEST(PtxBarrier, AllWarpsSeeWhatWasWrittenBefore) {
    const auto d =
        run("st.shared.u32 [%r6], %r1; bar.sync 0; sub.u32 %r7, %r3, 1; sub.u32 %r7, %r7, %r1; mad.lo.u32 %r7, %r7, 4, "
            "%r5; ld.shared.u32 %r8, [%r7]; st.global.u32 [%rd3], %r8;",
            {2, 200});
    for (u32 i = 0; i < 400; ++i) EXPECT_EQ(d[i], 199 - i % 200);
}

TEST(PtxBarrier, ReductionsCountAndCombine) {
    const auto d =
        run("rem.u32 %r7, %r1, 3; setp.eq.u32 %p1, %r7, 0; bar.red.popc.u32 %r8, 0, %p1; bar.red.and.pred %p2, 0, %p1; "
            "bar.red.or.pred %p3, 0, !%p1; selp.u32 %r9, 1000, 0, %p2; selp.u32 %r10, 2000, 0, %p3; add.u32 %r8, %r8, "
            "%r9; add.u32 %r8, %r8, %r10; st.global.u32 [%rd3], %r8;",
            {1, 96});
    for (u32 v : d) EXPECT_EQ(v, 32u + 2000);
}

TEST(PtxBarrier, ExitedThreadsCountAsArrived) {
    const auto d =
        run("setp.gt.u32 %p1, %r1, 40; @%p1 exit; bar.sync 0; mov.u32 %r7, 1; st.global.u32 [%rd3], %r7;", {1, 128});
    for (u32 i = 0; i < 128; ++i) EXPECT_EQ(d[i], i <= 40 ? 1u : 0u);
}

// Whole warps, one whose lanes part for a round, and an incomplete one, whose threads end before the others.
TEST(PtxBarrier, AllKindsOfWarpsMeetAgainAndAgain) {
    const u32 n = 150;
    const auto d =
        run("st.shared.u32 [%r6], %r1; mov.u32 %r9, 0;\n"
            "LOOP: bar.sync 0; mov.u32 %r11, 1; and.b32 %r10, %r1, 33; setp.eq.u32 %p2, %r10, 33; setp.eq.and.u32 %p1, "
            "%r9, 2, "
            "%p2; @%p1 bra ODD; bra JOIN;\n"
            "ODD: mov.u32 %r11, 1000;\n"
            "JOIN: add.u32 %r12, %r1, 33; rem.u32 %r12, %r12, %r3; mad.lo.u32 %r12, %r12, 4, %r5; ld.shared.u32 %r13, "
            "[%r12]; "
            "add.u32 %r13, %r13, %r11; bar.sync 0; st.shared.u32 [%r6], %r13; add.u32 %r9, %r9, 1; setp.eq.u32 %p3, "
            "%r9, 4; "
            "setp.ge.and.u32 %p3, %r1, 128, %p3; @%p3 exit; setp.lt.u32 %p2, %r9, 9; @%p2 bra LOOP;\n"
            "st.global.u32 [%rd3], %r13;",
            {1, n});
    std::vector<u32> now(n), next(n);
    for (u32 i = 0; i < n; ++i) now[i] = i;
    for (u32 round = 0; round < 9; ++round) {
        next = now;
        for (u32 i = 0; i < (round < 4 ? n : 128); ++i)
            next[i] = now[(i + 33) % n] + (round == 2 && (i & 33) == 33 ? 1000 : 1);
        now = next;
    }
    for (u32 i = 0; i < n; ++i) EXPECT_EQ(d[i], i < 128 ? now[i] : 0) << i;
}

TEST(PtxBarrier, WarpsThatMeetAtTwoBarriersAreADeadlock) {
    if (Machine::get().is_hardware()) GTEST_SKIP() << "hardware hangs";
    const std::string body = "setp.ge.u32 %p1, %r1, 32; @%p1 bra OTHER; bar.sync 0; exit; OTHER: bar.sync 1;";
    try {
        run(body, {1, 64});
        FAIL() << "it came to an end";
    } catch (const Failure& f) {
        EXPECT_EQ(f.code, CUDA_ERROR_LAUNCH_FAILED);
        EXPECT_NE(std::string(f.what()).find("thread (0,0,0), ptx line"), std::string::npos) << f.what();
        EXPECT_NE(std::string(f.what()).find("bar.sync 0"), std::string::npos) << f.what();
    }
}

TEST(PtxBarrier, ProducersArriveAndConsumersWait) {
    // The first warp writes and only arrives; the second waits at a named barrier of 64 threads.
    const auto d =
        run("setp.ge.u32 %p1, %r1, 32; @%p1 bra CONSUME; add.u32 %r7, %r1, 500; st.shared.u32 [%r6], %r7; bar.arrive "
            "3, 64; exit; CONSUME: bar.sync 3, 64; ld.shared.u32 %r8, [%r6+-128]; st.global.u32 [%rd3], %r8;",
            {1, 64});
    for (u32 i = 32; i < 64; ++i) EXPECT_EQ(d[i], i - 32 + 500);
}

TEST(PtxBarrier, AWarpThatSpinsOnAnotherWarpsFlagMakesProgress) {
    const auto d =
        run("setp.ne.u32 %p2, %r1, 0; @!%p2 st.shared.u32 [%r5+1024], 0; bar.sync 0; setp.ge.u32 %p1, %r1, 32; @%p1 "
            "bra SET; WAIT: ld.volatile.shared.u32 %r7, [%r5+1024]; setp.eq.u32 %p3, %r7, 0; @%p3 bra WAIT; "
            "st.global.u32 [%rd3], %r7; exit; SET: st.volatile.shared.u32 [%r5+1024], 7;",
            {1, 64});
    for (u32 i = 0; i < 32; ++i) EXPECT_EQ(d[i], 7u);
}

TEST(PtxBarrier, ACooperativeGridMeets) {
    // Each block counts itself in the first word and spins until all have.
    const auto d =
        run("setp.ne.u32 %p1, %r1, 0; @%p1 bra MEET; atom.global.add.u32 %r7, [%rd1], 1; mov.u32 %r9, %nctaid.x; SPIN: "
            "ld.acquire.gpu.global.u32 %r8, [%rd1]; setp.lt.u32 %p2, %r8, %r9; @%p2 bra SPIN; MEET: bar.sync 0; "
            "setp.eq.u32 %p3, %r4, 0; @%p3 exit; ld.global.u32 %r8, [%rd1]; st.global.u32 [%rd3], %r8;",
            {24, 64, 0, true});
    for (u32 v : d) EXPECT_EQ(v, 24u);
}

TEST(PtxBarrier, AnMbarrierEndsItsPhaseWithTheLastArrival) {
    const auto d =
        run("setp.ne.u32 %p1, %r1, 0; @%p1 bra READY; mbarrier.init.shared.b64 [%r5+2048], 96; READY: bar.sync 0; "
            "st.shared.u32 [%r6], %r1; mbarrier.arrive.shared.b64 %rd4, [%r5+2048]; WAIT: "
            "mbarrier.test_wait.shared.b64 %p2, [%r5+2048], %rd4; @!%p2 bra WAIT;"
            "sub.u32 %r7, 95, %r1; mad.lo.u32 %r7, %r7, 4, %r5; ld.shared.u32 %r8, [%r7]; st.global.u32 [%rd3], %r8;",
            {1, 96});
    for (u32 i = 0; i < 96; ++i) EXPECT_EQ(d[i], 95 - i);
}

TEST(PtxBarrier, ABulkCopyCountsItsBytesForAnMbarrier) {
    // One thread copies 128 bytes, which all threads double, back to their origin.
    const auto d =
        run("st.global.u32 [%rd3], %r1; bar.sync 0; setp.ne.u32 %p1, %r1, 0; @%p1 bra READY; mbarrier.init.shared.b64 "
            "[%r5+2048], 1; fence.proxy.async; mbarrier.arrive.expect_tx.shared.b64 %rd4, [%r5+2048], 128; mov.u32 "
            "%r9, 128; "
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%rd1], %r9, [%r5+2048]; READY: "
            "bar.sync 0; WAIT: mbarrier.test_wait.parity.shared.b64 %p2, [%r5+2048], 0; @!%p2 bra WAIT;"
            "ld.shared.u32 %r8, [%r6]; add.u32 %r8, %r8, %r8; st.shared.u32 [%r6], %r8; fence.proxy.async; bar.sync 0; "
            "@%p1 exit; cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r5], 128; cp.async.bulk.commit_group; "
            "cp.async.bulk.wait_group 0;",
            {1, 32});
    for (u32 i = 0; i < 32; ++i) EXPECT_EQ(d[i], 2 * i);
}

TEST(PtxBarrier, ADeadlockIsAnErrorNotAHang) {
    if (Machine::get().is_hardware()) GTEST_SKIP() << "hardware hangs";
    try {
        run("setp.ge.u32 %p1, %r1, 32; @%p1 bra OTHER; bar.sync 1, 96; exit; OTHER: bar.sync 2, 96;", {1, 64});
        ADD_FAILURE() << "no failure";
    } catch (const Failure& f) { EXPECT_NE(std::string(f.what()).find("deadlock"), std::string::npos) << f.what(); }
}

}  // namespace
