// SPDX-License-Identifier: Apache-2.0
// ptx_warp_test.cc: lanes of a warp exchange values, vote, match, and meet, converged or not.
#include <bit>

#include "tests/soft/instruction.h"

namespace {

using namespace barcuda::soft::test;

// One warp; lane i holds a = value(i), and its result d comes back.
template <class T = u32, class F> std::vector<u32> warp(const std::string& text, F value, unsigned threads = 32) {
    std::vector<u32> d(32, 0xDEADBEEF);
    std::vector<T> a(32);
    for (u32 i = 0; i < 32; ++i) a[i] = static_cast<T>(value(i));
    const std::string bits = std::to_string(8 * sizeof(T));
    const std::string ptx =
        header +
        ".visible .entry k(.param .u64 p0, .param .u64 p1)\n{\n.reg .b64 %rd<8>; .reg .b32 lane, x, y, z, d; .reg .b" +
        bits +
        " a; .reg .pred p, q;\n"
        "ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1]; mov.u32 lane, %laneid; mad.wide.u32 %rd3, lane, 4, %rd1; "
        "mad.wide.u32 %rd4, lane, " +
        std::to_string(sizeof(T)) + ", %rd2; ld.global.b" + bits + " a, [%rd4]; mov.u32 d, 0;\n" + text +
        "\nst.global.u32 [%rd3], d;\nret;\n}\n";
    try {
        Machine::get().run(ptx, "k", {1, threads}, {bytes_of_vector(d), bytes_of_vector(a)});
    } catch (const Failure& f) { ADD_FAILURE() << text << ": " << f.what(); }
    return d;
}
u32 triple(u32 i) { return 3 * i + 7; }

TEST(PtxWarp, ShuffleReadsAnotherLane) {
    const auto up = warp("shfl.sync.up.b32 d|p, a, 3, 0, 0xFFFFFFFF; selp.u32 x, 1000, 0, p; add.u32 d, d, x;", triple);
    const auto down = warp("shfl.sync.down.b32 d|p, a, 5, 31, -1; selp.u32 x, 1000, 0, p; add.u32 d, d, x;", triple);
    const auto butterfly = warp("shfl.sync.bfly.b32 d, a, 9, 31, -1;", triple);
    const auto index = warp("sub.u32 x, 31, lane; shfl.sync.idx.b32 d, a, x, 31, -1;", triple);
    for (u32 i = 0; i < 32; ++i) {
        EXPECT_EQ(up[i], i >= 3 ? triple(i - 3) + 1000 : triple(i));
        EXPECT_EQ(down[i], i + 5 < 32 ? triple(i + 5) + 1000 : triple(i));
        EXPECT_EQ(butterfly[i], triple(i ^ 9));
        EXPECT_EQ(index[i], triple(31 - i));
    }
}

TEST(PtxWarp, ShuffleStaysWithinItsSegment) {
    const auto up = warp("shfl.sync.up.b32 d, a, 3, 0x1800, -1;", triple);  // segments of 8
    const auto down = warp("shfl.sync.down.b32 d, a, 3, 0x181F, -1;", triple);
    const auto index = warp("shfl.sync.idx.b32 d, a, 10, 0x181F, -1;", triple);
    for (u32 i = 0; i < 32; ++i) {
        EXPECT_EQ(up[i], triple(i % 8 >= 3 ? i - 3 : i));
        EXPECT_EQ(down[i], triple(i % 8 + 3 < 8 ? i + 3 : i));
        EXPECT_EQ(index[i], triple(i / 8 * 8 + 10 % 8));
    }
}

// "Results are undefined if a thread sources a register from an inactive thread, or one not in membermask." A GPU
// returns 0 there, and programs depend on it (a sum over a warp's first lanes with offsets beyond them); it is never
// the lane's stale register.
TEST(PtxWarp, ShuffleReadsZeroFromALaneThatDoesNotTakePart) {
    const auto masked = warp(
        "setp.lt.u32 p, lane, 8; @!p bra END; shfl.sync.down.b32 d, a, 16, 31, 0xFF; shfl.sync.down.b32 x, a, 4, 31, "
        "0xFF; mad.lo.u32 d, d, 1000, x; END:",
        triple);
    for (u32 i = 0; i < 32; ++i) EXPECT_EQ(masked[i], i < 4 ? triple(i + 4) : 0) << i;
    const auto exited =
        warp("setp.ge.u32 p, lane, 20; @p exit; shfl.sync.bfly.b32 d, a, 16, 31, -1; add.u32 d, d, 1;", triple);
    for (u32 i = 0; i < 20; ++i) EXPECT_EQ(exited[i], (i >= 16 ? triple(i - 16) : i < 4 ? triple(i + 16) : 0) + 1) << i;
    const auto absent = warp("shfl.sync.down.b32 d, a, 16, 31, 0xFF;", triple, 8);
    for (u32 i = 0; i < 8; ++i) EXPECT_EQ(absent[i], 0u) << i;
}

TEST(PtxWarp, ATreeOfShufflesReduces) {
    const auto d = warp(
        "shfl.sync.down.b32 x, a, 16, 31, -1; add.u32 a, a, x; shfl.sync.down.b32 x, a, 8, 31, -1; add.u32 a, a, x; "
        "shfl.sync.down.b32 x, a, 4, 31, -1; add.u32 a, a, x;"
        "shfl.sync.down.b32 x, a, 2, 31, -1; add.u32 a, a, x; shfl.sync.down.b32 x, a, 1, 31, -1; add.u32 d, a, x;",
        triple);
    EXPECT_EQ(d[0], 3u * 31 * 32 / 2 + 7 * 32);
}

TEST(PtxWarp, Votes) {
    const auto ballot = warp("setp.gt.u32 p, a, 50; vote.sync.ballot.b32 d, p, -1;", triple);
    const auto votes = warp(
        "setp.gt.u32 p, a, 50; vote.sync.any.pred q, p, -1; selp.u32 x, 1, 0, q; vote.sync.all.pred q, p, -1; selp.u32 "
        "y, 2, 0, q; vote.sync.uni.pred q, !p, -1; selp.u32 z, 4, 0, q; add.u32 d, x, y; add.u32 d, d, z;",
        triple);
    u32 want = 0;
    for (u32 i = 0; i < 32; ++i) want |= static_cast<u32>(triple(i) > 50) << i;
    for (u32 i = 0; i < 32; ++i) {
        EXPECT_EQ(ballot[i], want);
        EXPECT_EQ(votes[i], 1u);
    }
}

TEST(PtxWarp, MatchFindsEqualValues) {
    const auto any = warp("match.any.sync.b32 d, a, -1;", [](u32 i) { return i % 5; });
    const auto wide = warp<u64>("match.any.sync.b64 d, a, -1;", [](u32 i) { return u64{i / 7} << 40; });
    const auto all =
        warp("match.all.sync.b32 d|p, a, -1; selp.u32 x, 1, 0, p; xor.b32 d, d, x;", [](u32) { return 4; });
    const auto none =
        warp("match.all.sync.b32 d|p, a, -1; selp.u32 x, 1, 0, p; xor.b32 d, d, x;", [](u32 i) { return i / 31; });
    for (u32 i = 0; i < 32; ++i) {
        u32 five = 0, seven = 0;
        for (u32 k = 0; k < 32; ++k) {
            five |= static_cast<u32>(k % 5 == i % 5) << k;
            seven |= static_cast<u32>(k / 7 == i / 7) << k;
        }
        EXPECT_EQ(any[i], five);
        EXPECT_EQ(wide[i], seven);
        EXPECT_EQ(all[i], ~1u);
        EXPECT_EQ(none[i], 0u);
    }
}

TEST(PtxWarp, ReduxCombinesAGroup) {
    const auto sum =
        warp("setp.lt.u32 p, lane, 16; selp.b32 x, 0xFFFF, 0xFFFF0000, p; redux.sync.add.u32 d, a, x;", triple);
    const auto least = warp("redux.sync.min.s32 d, a, -1;", [](u32 i) { return i - 20; });
    const auto bits = warp("redux.sync.xor.b32 d, a, -1;", triple);
    u32 low = 0, high = 0, parity = 0;
    for (u32 i = 0; i < 32; ++i) {
        (i < 16 ? low : high) += triple(i);
        parity ^= triple(i);
    }
    for (u32 i = 0; i < 32; ++i) EXPECT_EQ(sum[i], i < 16 ? low : high);
    for (u32 i = 0; i < 32; ++i) EXPECT_EQ(least[i], static_cast<u32>(-20));
    for (u32 i = 0; i < 32; ++i) EXPECT_EQ(bits[i], parity);
}

// Even and odd lanes are parts of their own up to the barrier, after which all lanes exchange.
TEST(PtxWarp, PartsOfAWarpMeetAfterAReduxThatNobodyReads) {
    if (Machine::get().is_hardware()) GTEST_SKIP() << "ptxas 13.0 leaves the parts of the warp apart";
    const auto d = warp(
        ".shared .b32 cell; setp.ne.u32 p, lane, 0; @!p st.shared.u32 [cell], 0; bar.sync 0; and.b32 x, lane, 1; "
        "match.any.sync.b32 y, x, -1; redux.sync.add.u32 z, a, y; setp.eq.u32 q, a, 0; @q bra ALL; "
        "atom.shared.cas.b32 z, [cell], 0, 77; ALL: bar.sync 0; @!p st.shared.u32 [cell], 0; bar.sync 0; "
        "shfl.sync.down.b32 d, a, 7, 31, -1; ld.shared.u32 z, [cell]; add.u32 d, d, z;",
        triple);
    for (u32 i = 0; i < 32; ++i) EXPECT_EQ(d[i], triple(i + 7 < 32 ? i + 7 : i));
}

TEST(PtxWarp, ElectChoosesOneLane) {
    const auto d = warp("elect.sync x|p, -1; selp.u32 y, 100, 0, p; add.u32 d, x, y;", triple);
    u32 leaders = 0;
    for (u32 i = 0; i < 32; ++i) leaders += d[i] >= 100;
    EXPECT_EQ(leaders, 1u);
}

TEST(PtxWarp, LanesMeetAfterTheyDiverged) {
    // The halves take different paths of different lengths and then exchange.
    const auto d = warp(
        "setp.lt.u32 p, lane, 11; @p bra SHORT; mov.u32 x, 0; LOOP: add.u32 a, a, 1; add.u32 x, x, 1; setp.lt.u32 q, "
        "x, lane; @q bra LOOP; bra MEET;\n SHORT: mul.lo.u32 a, a, 2;\n MEET: xor.b32 y, lane, 31; shfl.sync.idx.b32 "
        "d, a, y, 31, -1;",
        triple);
    const auto value = [](u32 i) { return i < 11 ? 2 * triple(i) : triple(i) + i; };
    for (u32 i = 0; i < 32; ++i) EXPECT_EQ(d[i], value(31 - i));
}

TEST(PtxWarp, TilesMeetOnTheirOwn) {
    // Only the second tile of four is divided; the others need not wait for it.
    const auto d = warp(
        "shr.u32 x, lane, 3; shl.b32 y, x, 3; mov.u32 z, 0xFF; shl.b32 z, z, y; setp.eq.u32 p, lane, 9; @p add.u32 a, "
        "a, 100; @p bra ODD; bra MEET; ODD: add.u32 a, a, 1; MEET: shfl.sync.bfly.b32 d, a, 1, 0x181F, z;",
        triple);
    for (u32 i = 0; i < 32; ++i) EXPECT_EQ(d[i], triple(i ^ 1) + ((i ^ 1) == 9 ? 101 : 0));
}

TEST(PtxWarp, SyncwarpJoinsDifferentPaths) {
    const auto d = warp(
        "setp.lt.u32 p, lane, 16; @p bra LOW; bar.warp.sync -1; add.u32 d, lane, 1; bra END; LOW: bar.warp.sync -1; "
        "add.u32 d, lane, 2; END:",
        triple);
    for (u32 i = 0; i < 32; ++i) EXPECT_EQ(d[i], i + (i < 16 ? 2 : 1));
}

TEST(PtxWarp, ExitedLanesAreNotWaitedFor) {
    const auto d =
        warp("setp.ge.u32 p, lane, 20; @p exit; setp.gt.u32 q, lane, 3; vote.sync.ballot.b32 d, q, -1;", triple);
    for (u32 i = 0; i < 20; ++i) EXPECT_EQ(d[i], 0xFFFF0u);
    for (u32 i = 20; i < 32; ++i) EXPECT_EQ(d[i], 0xDEADBEEF);
}

TEST(PtxWarp, APartialWarpHasOnlyItsLanes) {
    const auto d = warp("activemask.b32 d;", triple, 13);
    for (u32 i = 0; i < 13; ++i) EXPECT_EQ(d[i], (1u << 13) - 1);
}

TEST(PtxWarp, SpecialRegistersOfALane) {
    const auto d = warp(
        "mov.u32 x, %lanemask_lt; popc.b32 x, x; mov.u32 y, %lanemask_ge; popc.b32 y, y; mov.u32 z, %lanemask_eq; "
        "popc.b32 z, z; mad.lo.u32 d, y, 100, x; mad.lo.u32 d, z, 10000, d;",
        triple);
    for (u32 i = 0; i < 32; ++i) EXPECT_EQ(d[i], 10000 + (32 - i) * 100 + i);
}

}  // namespace
