// SPDX-License-Identifier: Apache-2.0
// ptx_memory_test.cc: every state space, vectors, generic addresses, and the errors of invalid addresses.
#include "tests/soft/instruction.h"

namespace {

using namespace barcuda::soft::test;

// A kernel over one buffer of words: its parameter in %rd1, the thread's number in %r1, the thread's word at [%rd3].
std::string kernel(const std::string& body, const std::string& before = {}) {
    return header + before +
           ".visible .entry k(.param .u64 p0)\n{\n.reg .b64 %rd<16>; .reg .b32 %r<32>; .reg .b16 %h<8>; .reg .f32 "
           "%f<8>; .reg .pred %p<4>;\n"
           "ld.param.u64 %rd1, [p0]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r4, "
           "%r2, %r3, %r1; mul.wide.u32 %rd2, %r4, 4; add.u64 %rd3, %rd1, %rd2;\n" +
           body + "\nret;\n}\n";
}
std::vector<u32> run(const std::string& ptx, Shape shape = {}, std::size_t words = 32) {
    std::vector<u32> data(words);
    for (std::size_t i = 0; i < words; ++i) data[i] = static_cast<u32>(i);
    Machine::get().run(ptx, "k", shape, {bytes_of_vector(data)}, {});
    return data;
}
std::string failure_of(const std::string& ptx, int code, Shape shape = {}) {
    try {
        run(ptx, shape);
    } catch (const Failure& f) {
        EXPECT_EQ(f.code, code) << f.what();
        return f.what();
    }
    return "no failure";
}
void expect_text(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(PtxMemory, SharedMemoryIsOneOfABlock) {
    const auto data = run(kernel(".shared .align 4 .b32 s[64]; mul.lo.u32 %r5, %r1, 4; mov.u32 %r6, s; add.u32 %r6, "
                                 "%r6, %r5; add.u32 %r7, %r4, 100; st.shared.u32 [%r6], %r7; bar.sync 0;"
                                 "xor.b32 %r8, %r5, 252; mov.u32 %r9, s; add.u32 %r9, %r9, %r8; ld.shared.u32 %r10, "
                                 "[%r9]; st.global.u32 [%rd3], %r10;"),
                          {2, 64}, 128);
    for (u32 i = 0; i < 128; ++i) EXPECT_EQ(data[i], i / 64 * 64 + (63 - i % 64) + 100);
}

TEST(PtxMemory, DynamicSharedMemoryFollowsTheStaticOne) {
    const auto data =
        run(kernel(".shared .align 4 .b32 s[4]; mov.u32 %r5, dyn; mov.u32 %r6, s; sub.u32 %r7, %r5, %r6; mov.u32 %r8, "
                   "%dynamic_smem_size; mul.wide.u32 %rd4, %r1, 4; mov.u64 %rd5, dyn; add.u64 %rd5, %rd5, %rd4;"
                   "st.shared.u32 [%rd5], %r1; ld.shared.u32 %r9, [%rd5]; add.u32 %r9, %r9, %r8; mul.lo.u32 %r7, %r7, "
                   "1000; add.u32 %r9, %r9, %r7; st.global.u32 [%rd3], %r9;",
                   ".extern .shared .align 16 .b8 dyn[];\n"),
            {1, 32, 128});
    for (u32 i = 0; i < 32; ++i) EXPECT_EQ(data[i], i + 128 + 16000);
}

TEST(PtxMemory, LocalMemoryIsEachThreadsOwn) {
    const auto data =
        run(kernel(".local .align 8 .b8 depot[256]; mov.u64 %rd4, depot; cvta.local.u64 %rd5, %rd4; mul.wide.u32 %rd6, "
                   "%r1, 8; add.u64 %rd7, %rd5, %rd6; mul.lo.u32 %r5, %r1, %r1; st.u32 [%rd7], %r5;"
                   "add.u64 %rd8, %rd4, %rd6; ld.local.u32 %r6, [%rd8]; st.global.u32 [%rd3], %r6;"));
    for (u32 i = 0; i < 32; ++i) EXPECT_EQ(data[i], i * i);
}

TEST(PtxMemory, AGenericAddressReachesEverySpace) {
    const auto data =
        run(kernel(".shared .align 4 .b32 s[32]; .local .align 4 .b32 l; mul.wide.u32 %rd4, %r1, 4; mov.u64 %rd5, s; "
                   "cvta.shared.u64 %rd5, %rd5; add.u64 %rd5, %rd5, %rd4; mov.u64 %rd6, l; cvta.local.u64 %rd6, %rd6;"
                   "st.u32 [%rd5], %r1; st.u32 [%rd6], 1000; ld.u32 %r5, [%rd5]; ld.u32 %r6, [%rd6]; ld.u32 %r7, "
                   "[%rd3]; add.u32 %r8, %r5, %r6; add.u32 %r8, %r8, %r7;"
                   "isspacep.shared %p1, %rd5; selp.u32 %r9, 10000, 0, %p1; isspacep.local %p2, %rd6; selp.u32 %r10, "
                   "20000, 0, %p2; isspacep.global %p3, %rd3; selp.u32 %r11, 40000, 0, %p3;"
                   "add.u32 %r8, %r8, %r9; add.u32 %r8, %r8, %r10; add.u32 %r8, %r8, %r11; cvta.to.shared.u64 %rd7, "
                   "%rd5; ld.shared.u32 %r12, [%rd7]; add.u32 %r8, %r8, %r12; st.u32 [%rd3], %r8;"));
    for (u32 i = 0; i < 32; ++i) EXPECT_EQ(data[i], 3 * i + 1000 + 70000);
}

TEST(PtxMemory, ModuleVariablesAreInitialized) {
    const auto data =
        run(kernel("ld.global.u32 %r5, [g+4]; ld.const.u32 %r6, [c]; mov.u64 %rd4, c; ld.const.u8 %r7, [%rd4+5]; "
                   "ld.global.u64 %rd5, [address]; ld.u32 %r8, [%rd5]; ld.global.s8 %r9, [bytes+1]; ld.global.f32 %f1, "
                   "[f]; cvt.rzi.u32.f32 %r10, %f1;"
                   "add.u32 %r5, %r5, %r6; add.u32 %r5, %r5, %r7; add.u32 %r5, %r5, %r8; add.u32 %r5, %r5, %r9; "
                   "add.u32 %r5, %r5, %r10; st.global.u32 [%rd3], %r5;",
                   ".global .align 4 .u32 g[3] = {1, 20, 3};\n.const .align 4 .b8 c[8] = {44, 1, 0, 0, 0, 9, 0, "
                   "0};\n.global .align 8 .u64 address = generic(g)+8;\n.global .align 1 .b8 bytes[2] = {1, "
                   "-2};\n.global .f32 f = 0f44FA0000;\n"));
    for (u32 i = 0; i < 32; ++i) EXPECT_EQ(data[i], 20u + 300 + 9 + 3 - 2 + 2000);
}

TEST(PtxMemory, VectorsMoveSeveralElements) {
    const auto data =
        run(kernel("and.b32 %r5, %r1, 7; mul.wide.u32 %rd4, %r5, 16; add.u64 %rd4, %rd1, %rd4; ld.global.v4.u32 {%r6, "
                   "%r7, %r8, %r9}, [%rd4]; setp.gt.u32 %p1, %r1, 7; @%p1 exit; bar.warp.sync 0xFF; st.global.v4.u32 "
                   "[%rd4], {%r9, %r8, %r7, %r6};"));
    for (u32 i = 0; i < 32; ++i) EXPECT_EQ(data[i], i / 4 * 4 + 3 - i % 4);
}

TEST(PtxMemory, NarrowLoadsExtendIntoTheirRegister) {
    const auto data =
        run(kernel("mov.u32 %r5, 0xFFFF80F0; st.global.u32 [%rd3], %r5; ld.global.s8 %r6, [%rd3]; ld.global.u8 %r7, "
                   "[%rd3]; ld.global.s16 %r8, [%rd3]; ld.global.u16 %r9, [%rd3]; ld.global.s32 %rd4, [%rd3]; "
                   "cvt.u32.u64 %r10, %rd4; shr.u64 %rd4, %rd4, 63; cvt.u32.u64 %r11, %rd4;"
                   "add.u32 %r6, %r6, %r7; add.u32 %r6, %r6, %r8; add.u32 %r6, %r6, %r9; add.u32 %r6, %r6, %r10; "
                   "add.u32 %r6, %r6, %r11; st.global.u32 [%rd3], %r6;"));
    const u32 want = 0xFFFFFFF0u + 0xF0u + 0xFFFF80F0u + 0x80F0u + 0xFFFF80F0u + 1;
    for (u32 i = 0; i < 32; ++i) EXPECT_EQ(data[i], want);
}

TEST(PtxMemory, AsynchronousCopiesArriveAndFillWithZeros) {
    const auto data =
        run(kernel(".shared .align 16 .b8 s[512]; mul.wide.u32 %rd4, %r1, 4; mov.u32 %r5, s; mul.lo.u32 %r6, %r1, 4; "
                   "add.u32 %r5, %r5, %r6; and.b32 %r7, %r1, 1; mul.lo.u32 %r7, %r7, 4;"
                   "cp.async.ca.shared.global [%r5], [%rd3], 4, %r7; cp.async.commit_group; cp.async.wait_group 0; "
                   "bar.sync 0; ld.shared.u32 %r8, [%r5]; st.global.u32 [%rd3], %r8;"));
    for (u32 i = 0; i < 32; ++i) EXPECT_EQ(data[i], i % 2 == 1 ? i : 0);
}

TEST(PtxMemory, AConstantsAddressIsKnownAsOne) {
    const auto data = run(
        kernel("mov.u64 %rd4, c; cvta.const.u64 %rd4, %rd4; isspacep.const %p1, %rd4; selp.u32 %r5, 1, 0, %p1; "
               "isspacep.const %p2, %rd3; selp.u32 %r6, 2, 0, %p2; add.u32 %r5, %r5, %r6; st.global.u32 [%rd3], %r5;",
               ".const .align 4 .b32 c[4];\n"));
    for (u32 i = 0; i < 32; ++i) EXPECT_EQ(data[i], 1u);
}

TEST(PtxMemory, AnIllegalAddressIsToldWithKernelThreadInstructionAndAddress) {
    if (Machine::get().is_hardware()) GTEST_SKIP() << "a fault ends a context of hardware";
    const auto text = failure_of(kernel("setp.ne.u32 %p1, %r4, 37; @%p1 exit;\nst.global.u32 [%rd1+4096], %r1;"),
                                 CUDA_ERROR_ILLEGAL_ADDRESS, {2, 32});
    expect_text(text, "kernel 'k', block (1,0,0), thread (5,0,0)");
    expect_text(text, "'st.global.u32 [%rd1+4096], %r1'");
    expect_text(text, "outside any allocation");
}

TEST(PtxMemory, AnInstructionOfManyLinesIsToldOnOne) {
    if (Machine::get().is_hardware()) GTEST_SKIP() << "a fault ends a context of hardware";
    expect_text(failure_of(kernel("st.global.u32\n\t[%rd1+4096],\n  %r1;"), CUDA_ERROR_ILLEGAL_ADDRESS),
                "'st.global.u32 [%rd1+4096], %r1'");
}

TEST(PtxMemory, AMisalignedAddressIsTold) {
    if (Machine::get().is_hardware()) GTEST_SKIP() << "a fault ends a context of hardware";
    expect_text(failure_of(kernel("ld.global.u32 %r5, [%rd3+2];"), CUDA_ERROR_MISALIGNED_ADDRESS),
                "is not a multiple of 4");
    expect_text(failure_of(kernel("ld.global.v2.u32 {%r5, %r6}, [%rd1+4];"), CUDA_ERROR_MISALIGNED_ADDRESS),
                "is not a multiple of 8");
}

TEST(PtxMemory, SharedAndLocalMemoryHaveTheirSizes) {
    if (Machine::get().is_hardware()) GTEST_SKIP() << "a fault ends a context of hardware";
    expect_text(failure_of(kernel(".shared .align 4 .b32 s[32]; mov.u32 %r5, s; st.shared.u32 [%r5+128], %r1;"),
                           CUDA_ERROR_ILLEGAL_INSTRUCTION),
                "shared memory");
    expect_text(failure_of(kernel(".local .align 4 .b32 l[4]; mov.u64 %rd4, l; st.local.u32 [%rd4+1048576], %r1;"),
                           CUDA_ERROR_ILLEGAL_ADDRESS),
                "local memory");
}

TEST(PtxMemory, ConstantsAndParametersAreReadOnly) {
    if (Machine::get().is_hardware()) GTEST_SKIP() << "a fault ends a context of hardware";
    expect_text(failure_of(kernel("mov.u64 %rd4, c; st.u32 [%rd4], %r1;", ".const .align 4 .b32 c;\n"),
                           CUDA_ERROR_ILLEGAL_ADDRESS),
                "read-only");
}

TEST(PtxMemory, MallocGivesMemoryThatOtherThreadsMayUse) {
    const auto data =
        run(kernel(".shared .align 8 .b64 s; .param .b64 size; .param .b64 got; setp.ne.u32 %p1, %r1, 0; @%p1 bra "
                   "wait; mov.u64 %rd4, 128; st.param.b64 [size], %rd4; call (got), malloc, (size); ld.param.b64 %rd5, "
                   "[got]; st.shared.u64 [s], %rd5;\n wait: bar.sync 0;"
                   "ld.shared.u64 %rd5, [s]; add.u64 %rd6, %rd5, %rd2; add.u32 %r5, %r1, 7; st.u32 [%rd6], %r5; "
                   "bar.sync 0; xor.b64 %rd7, %rd2, 4; add.u64 %rd7, %rd5, %rd7; ld.u32 %r6, [%rd7]; st.global.u32 "
                   "[%rd3], %r6; bar.sync 0; @%p1 exit; st.param.b64 [size], %rd5; call free, (size);",
                   ".extern .func (.param .b64 r) malloc (.param .b64 a);\n.extern .func free (.param .b64 a);\n"));
    for (u32 i = 0; i < 32; ++i) EXPECT_EQ(data[i], (i ^ 1) + 7);
}

}  // namespace
