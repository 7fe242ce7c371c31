// SPDX-License-Identifier: Apache-2.0
// ptx_control_test.cc: branches, loops, tables, calls, recursion, printf, assert and traps.
#include "tests/soft/instruction.h"

namespace {

using namespace barcuda::soft::test;

std::string kernel(const std::string& body, const std::string& before = {}) {
    return header + before +
           ".visible .entry k(.param .u64 p0)\n{\n.reg .b64 %rd<16>; .reg .b32 %r<32>; .reg .pred %p<8>;\n"
           "ld.param.u64 %rd1, [p0]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2;\n" +
           body + "\nret;\n}\n";
}
std::vector<u32> run(const std::string& ptx, unsigned threads = 32) {
    std::vector<u32> data(threads);
    Machine::get().run(ptx, "k", {1, threads}, {bytes_of_vector(data)}, {});
    return data;
}
std::string failure_of(const std::string& ptx, int code) {
    try {
        run(ptx);
    } catch (const Failure& f) {
        EXPECT_EQ(f.code, code) << f.what();
        return f.what();
    }
    return "no failure";
}
const std::string factorial =
    ".func (.param .b32 r) fact(.param .b32 n)\n{\n.reg .b32 %r<8>; .reg .pred %p; ld.param.u32 %r1, [n]; setp.lt.u32 "
    "%p, %r1, 2; @%p bra BASE; { .param .b32 a; .param .b32 b; sub.u32 %r2, %r1, 1; st.param.b32 [a], %r2; call (b), "
    "fact, (a); ld.param.b32 %r3, [b]; }\n"
    "mul.lo.u32 %r4, %r1, %r3; st.param.b32 [r], %r4; ret; BASE: st.param.b32 [r], 1; ret;\n}\n";

TEST(PtxControl, LanesLoopAsOftenAsTheyLike) {
    const auto d =
        run(kernel("mov.u32 %r5, 0; mov.u32 %r6, 0; LOOP: setp.ge.u32 %p1, %r5, %r1; @%p1 bra END; add.u32 %r6, %r6, "
                   "%r5; add.u32 %r5, %r5, 1; bra LOOP; END: st.global.u32 [%rd3], %r6;"));
    for (u32 i = 0; i < 32; ++i) EXPECT_EQ(d[i], i * (i - 1) / 2 * (i > 0));
}

TEST(PtxControl, NestedBranchesComeBackTogether) {
    const auto d =
        run(kernel("mov.u32 %r5, 0; and.b32 %r6, %r1, 1; setp.eq.u32 %p1, %r6, 0; @%p1 bra EVEN; and.b32 %r6, %r1, 2; "
                   "setp.eq.u32 %p2, %r6, 0; @%p2 bra ONE; add.u32 %r5, %r5, 30; bra JOIN; ONE: add.u32 %r5, %r5, 10; "
                   "JOIN: add.u32 %r5, %r5, 1; bra END; EVEN: add.u32 %r5, %r5, 5; END: activemask.b32 %r7; popc.b32 "
                   "%r7, %r7; mad.lo.u32 %r5, %r7, 1000, %r5; st.global.u32 [%rd3], %r5;"));
    for (u32 i = 0; i < 32; ++i) EXPECT_EQ(d[i] % 1000, i % 2 == 0 ? 5u : i % 4 == 1 ? 11u : 31u);
    if (Machine::get().is_hardware()) return;
    for (u32 v : d) EXPECT_EQ(v / 1000, 32u);
}

TEST(PtxControl, ABranchTableSendsEachLaneItsWay) {
    const auto d =
        run(kernel("rem.u32 %r5, %r1, 3; T: .branchtargets A, B, C; brx.idx %r5, T; A: mov.u32 %r6, 100; bra END; B: "
                   "mov.u32 %r6, 200; bra END; C: mov.u32 %r6, 300; END: st.global.u32 [%rd3], %r6;"));
    for (u32 i = 0; i < 32; ++i) EXPECT_EQ(d[i], 100 * (i % 3 + 1));
}

TEST(PtxControl, RecursionHasAFrameForEachCall) {
    const auto d =
        run(kernel("{ .param .b32 a; .param .b32 b; rem.u32 %r5, %r1, 12; st.param.b32 [a], %r5; call (b), fact, (a); "
                   "ld.param.b32 %r6, [b]; } st.global.u32 [%rd3], %r6;",
                   factorial));
    for (u32 i = 0; i < 32; ++i) {
        u32 want = 1;
        for (u32 k = 2; k <= i % 12; ++k) want *= k;
        EXPECT_EQ(d[i], want);
    }
}

TEST(PtxControl, EndlessRecursionOverflowsItsStack) {
    if (Machine::get().is_hardware()) GTEST_SKIP() << "a fault ends a context of hardware";
    const auto text =
        failure_of(kernel("call down, ();", ".func down()\n{\n.local .b8 space[256]; call down, (); ret;\n}\n"),
                   CUDA_ERROR_LAUNCH_FAILED);
    EXPECT_NE(text.find("stack overflow"), std::string::npos) << text;
}

TEST(PtxControl, AnIndirectCallGoesWhereTheLanesPointersGo) {
    const std::string functions =
        ".func (.param .b32 r) twice(.param .b32 n)\n{\n.reg .b32 %r<4>; ld.param.u32 %r1, [n]; shl.b32 %r1, %r1, 1; "
        "st.param.b32 [r], %r1; ret;\n}\n.func (.param .b32 r) square(.param .b32 n)\n{\n.reg .b32 %r<4>; ld.param.u32 "
        "%r1, [n]; mul.lo.u32 %r1, %r1, %r1; st.param.b32 [r], %r1; ret;\n}\n.global .align 8 .u64 table[2] = {twice, "
        "square};\n";
    const auto d = run(kernel(
        "and.b32 %r5, %r1, 1; mul.wide.u32 %rd4, %r5, 8; mov.u64 %rd5, table; add.u64 %rd5, %rd5, %rd4; ld.global.u64 "
        "%rd6, [%rd5]; { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; P: .callprototype (.param .b32 _) _ "
        "(.param .b32 _); call (b), %rd6, (a), P; ld.param.b32 %r6, [b]; } st.global.u32 [%rd3], %r6;",
        functions));
    for (u32 i = 0; i < 32; ++i) EXPECT_EQ(d[i], i % 2 == 0 ? 2 * i : i * i);
}

TEST(PtxControl, StructuresArePassedByValue) {
    const std::string function =
        ".func (.param .align 8 .b8 r[16]) swap(.param .align 8 .b8 s[16])\n{\n.reg .b64 %rd<4>; ld.param.u64 %rd1, "
        "[s]; ld.param.u64 %rd2, [s+8]; st.param.b64 [r], %rd2; st.param.b64 [r+8], %rd1; ret;\n}\n";
    const auto d =
        run(kernel("{ .param .align 8 .b8 a[16]; .param .align 8 .b8 b[16]; cvt.u64.u32 %rd4, %r1; st.param.b64 [a], "
                   "%rd4; st.param.b64 [a+8], 1000; call (b), swap, (a); ld.param.b64 %rd5, [b]; ld.param.b64 %rd6, "
                   "[b+8]; } sub.u64 %rd5, %rd5, %rd6; cvt.u32.u64 %r5, %rd5; st.global.u32 [%rd3], %r5;",
                   function));
    for (u32 i = 0; i < 32; ++i) EXPECT_EQ(d[i], 1000 - i);
}

TEST(PtxControl, PrintfFormatsLikeC) {
    if (Machine::get().is_hardware()) GTEST_SKIP() << "hardware prints to the process's own output";
    std::string format = "%d|%5.2f|%s|%llx|%c|%%|%-4u|\n", bytes;
    for (char c : format + '\0') bytes += (bytes.empty() ? "" : ",") + std::to_string(static_cast<int>(c));
    Machine::get().printed.clear();
    run(kernel(".local .align 8 .b8 l[64]; mov.u64 %rd4, l; st.local.u32 [%rd4], -5; st.local.f64 [%rd4+8], "
               "0d400921FB54442D18; mov.u64 %rd5, word; cvta.global.u64 %rd5, %rd5; st.local.u64 [%rd4+16], %rd5; "
               "mov.u64 %rd6, 0x123456789ABC; st.local.u64 [%rd4+24], %rd6; st.local.u32 [%rd4+32], 65; st.local.u32 "
               "[%rd4+36], 7; cvta.local.u64 %rd7, %rd4; mov.u64 %rd8, format; cvta.global.u64 %rd8, %rd8;"
               "{ .param .b64 a; .param .b64 b; .param .b32 c; st.param.b64 [a], %rd8; st.param.b64 [b], %rd7; call "
               "(c), vprintf, (a, b); }",
               ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n.global .align 1 .b8 format[" +
                   std::to_string(format.size() + 1) + "] = {" + bytes +
                   "};\n.global .align 1 .b8 word[4] = {97, 98, 99, 0};\n"),
        1);
    EXPECT_EQ(Machine::get().printed, "-5| 3.14|abc|123456789abc|A|%|7   |\n");
}

TEST(PtxControl, ATrapEndsTheLaunch) {
    if (Machine::get().is_hardware()) GTEST_SKIP() << "a fault ends a context of hardware";
    EXPECT_NE(
        failure_of(kernel("setp.eq.u32 %p1, %r1, 9; @%p1 trap;"), CUDA_ERROR_LAUNCH_FAILED).find("thread (9,0,0)"),
        std::string::npos);
}

}  // namespace
