// SPDX-License-Identifier: Apache-2.0
// ptx_parser_test.cc: what is accepted, and what is refused with line and name.
#include "soft-gpu/ptx/parser.h"

#include "tests/soft/instruction.h"

namespace {

using namespace barcuda::soft;

std::string error_of(const std::string& text, int* code = nullptr) {
    AddressSpace space;
    try {
        const auto program = Program::load(text, {}, space);
        LaunchConfig config;
        std::vector<std::byte> parameters(4096);
        config.parameters = parameters;
        execute(*program, *program->kernel("k"), config, space, [](auto) {});
    } catch (const Error& error) {
        if (code != nullptr) *code = error.code;
        return error.message;
    }
    return "no error";
}
const std::string& header = test::header;
std::string kernel(const std::string& body) {
    return header + ".entry k()\n{\n.reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %rd<9>; .reg .pred %p<9>;\n" + body +
           "\n}\n";
}
bool mentions(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
struct PtxParser : testing::Test {
    void SetUp() override {
        if (std::getenv("BARCUDA_TEST_LIBCUDA")) GTEST_SKIP() << "only our engine has these texts";
    }
};

TEST_F(PtxParser, ReadsHeaderVariablesAndParameters) {
    const auto module = parse(
        ".version 7.4\n.target sm_86, debug\n.address_size 64\n.visible .const .align 8 .v2 .f32 c[3];\n.entry "
        "k(.param .u64 .ptr .global .align 16 p, .param .align 4 .b8 s[12]) .maxntid 64, 2, 1 { ret; }");
    EXPECT_EQ(module.version, 74);
    EXPECT_EQ(module.target, 86);
    ASSERT_EQ(module.variables.size(), 1u);
    EXPECT_EQ(module.variables[0].bytes, 24u);
    ASSERT_EQ(module.functions.size(), 1u);
    EXPECT_EQ(module.functions[0].max_threads[1], 2);
    EXPECT_EQ(module.functions[0].variables[1].bytes, 12u);
}

TEST_F(PtxParser, ReadsEveryWayToWriteANumber) {
    const auto module = parse(header +
                              ".global .b32 g[9] = {10, 0x1F, 017, 0b101, 12U, -3, 0f3F800000};\n.global .f64 d[3] = "
                              "{1.5, -2.5e-3, 0d4000000000000000};\n");
    const auto& g = module.variables[0].values;
    EXPECT_EQ(g[1].bits, 31u);
    EXPECT_EQ(g[2].bits, 15u);
    EXPECT_EQ(g[3].bits, 5u);
    EXPECT_EQ(static_cast<std::int64_t>(g[5].bits), -3);
    EXPECT_EQ(g[6].bits, 0x3F800000u);
    EXPECT_EQ(__builtin_bit_cast(double, module.variables[1].values[1].bits), -2.5e-3);
}

TEST_F(PtxParser, SkipsDebugInformation) {
    EXPECT_EQ(
        error_of(header + ".file 1 \"a b.cu\", 5, 6\n.entry k()\n{\n.loc 1 5 3, function_name $L__info0, inlined_at 1 "
                          "4 5\n$L__tmp0:\nret;\n}\n.section .debug_abbrev { .b8 1 .b8 17 .b32 .debug_str+12 { } }\n"),
        "no error");
}

TEST_F(PtxParser, NamesInAnInnerScopeHideOuterOnes) {
    EXPECT_EQ(error_of(kernel("{ .reg .b64 %r1; mov.u64 %r1, 5; } mov.u32 %r1, 5; { .param .b32 a; st.param.b32 [a], "
                              "%r1; } { .param .b64 a; st.param.b64 [a], %rd1; }")),
              "no error");
}

TEST_F(PtxParser, AScopeHasANameOnce) {
    EXPECT_TRUE(mentions(error_of(kernel(".reg .b64 h;\n.reg .b16 h;")), "ptx line 8: cannot read a second 'h'"));
    EXPECT_TRUE(mentions(error_of(kernel(".reg .b32 %r<2>;")), "a second '%r'"));
    EXPECT_TRUE(mentions(error_of(kernel(".reg .b32 h; .shared .b32 h;")), "a second 'h'"));
    EXPECT_EQ(error_of(kernel(".reg .b64 %r; mov.b64 %r, 1; mov.b32 %r1, 1;")), "no error");
}

TEST_F(PtxParser, TellsTheLineOfWhatItCannotRead) {
    int code = 0;
    EXPECT_EQ(error_of(header + "\n.bogus x;", &code), "ptx line 5: cannot read '.bogus'");
    EXPECT_EQ(code, CUDA_ERROR_INVALID_PTX);
    EXPECT_TRUE(mentions(error_of(kernel("mov.u32 %r1, 5")), "cannot read '}'"));
    EXPECT_TRUE(mentions(error_of(kernel("bra NOWHERE;")), "the label 'NOWHERE'"));
    EXPECT_TRUE(mentions(error_of(header + ".entry k() { /* "), "a comment that does not end"));
    EXPECT_TRUE(mentions(error_of(header + ".entry k() {"), "the end of the text"));
    EXPECT_TRUE(mentions(error_of(kernel("@%r1 ret;")), "the predicate '%r1'"));
}

TEST_F(PtxParser, RefusesUnknownInstructionsAndModifiersByName) {
    int code = 0;
    EXPECT_TRUE(
        mentions(error_of(kernel("frobnicate.u32 %r1, %r2;"), &code), "does not run 'frobnicate.u32 %r1, %r2'"));
    EXPECT_EQ(code, CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_TRUE(mentions(error_of(kernel("add.u32.sideways %r1, %r2, %r3;")),
                         "the modifier '.sideways' of 'add.u32.sideways %r1, %r2, %r3'"));
    EXPECT_TRUE(
        mentions(error_of(kernel("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1}, {%r1}, {%r2}, {%f2};")),
                 "mma.sync.aligned"));
    EXPECT_TRUE(mentions(error_of(kernel("add.u32 %r1, %r2, %rd3;")), "a register's type does not fit"));
    EXPECT_TRUE(mentions(error_of(kernel("mov.u32 %r1, %nosuchregister;")), "'%nosuchregister'"));
}

TEST_F(PtxParser, OnlyALaunchThatReachesARefusedFunctionFails) {
    const std::string bad = ".func bad()\n{\n.reg .b32 %r<2>; frobnicate.u32 %r1;\n}\n";
    EXPECT_EQ(error_of(header + bad + ".entry k()\n{\nret;\n}\n"), "no error");
    EXPECT_TRUE(
        mentions(error_of(header + bad + ".func middle()\n{\ncall bad, ();\n}\n.entry k()\n{\ncall middle, ();\n}\n"),
                 "frobnicate"));
}

TEST_F(PtxParser, RefusesATargetNewerThanTheDevice) {
    EXPECT_TRUE(
        mentions(error_of(".version 8.7\n.target sm_120\n.address_size 64\n.entry k() { ret; }"), "sm_120 is newer"));
}

TEST_F(PtxParser, KernelsTellTheirShape) {
    AddressSpace space;
    const auto program = Program::load(header +
                                           ".entry k(.param .u32 a, .param .u64 b, .param .align 8 .b8 c[24]) .reqntid "
                                           "32, 4 { .shared .align 16 .b8 s[100]; .local .align 4 .b8 l[40]; ret; }",
                                       {}, space);
    const auto* info = program->kernel("k");
    ASSERT_NE(info, nullptr);
    ASSERT_EQ(info->parameters.size(), 3u);
    EXPECT_EQ(info->parameters[1].offset, 8u);
    EXPECT_EQ(info->parameter_bytes, 40u);
    EXPECT_EQ(info->static_shared_bytes, 100u);
    EXPECT_EQ(info->max_threads_per_block, 128);
    EXPECT_EQ(info->required_block[1], 4);
    EXPECT_GE(info->local_bytes, 40u);
}

}  // namespace
