// SPDX-License-Identifier: Apache-2.0
// ptx_scattered_test.cc: loads and stores whose lanes have unrelated addresses: every width in every space, guarded and
// not, by fewer lanes than a warp; two lanes at one place; and one lane with an invalid address.
#include "tests/soft/instruction.h"

namespace {

using namespace barcuda::soft::test;

// A loop of four rounds, with the round in %r9, over one buffer in %rd1: later rounds use what an access found before.
std::string kernel(const std::string& before, const std::string& round) {
    return header +
           ".visible .entry k(.param .u64 p0)\n{\n.reg .b64 %rd<32>; .reg .b32 %r<32>; .reg .b16 %h<8>; .reg .pred "
           "%p<4>;\n.shared .align 16 .b8 s[2048]; .local .align 16 .b8 l[2048];\n"
           "ld.param.u64 %rd1, [p0]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2;\n"
           "mov.u32 %r8, 0; mov.u32 %r9, 0; and.b32 %r7, %r1, 1; setp.eq.u32 %p2, %r7, 1;\n" +
           before + "\nagain:\n" + round +
           "\nadd.u32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, 4; @%p1 bra again;\nst.global.u32 [%rd3], %r8;\nret;\n}\n";
}
std::vector<u32> run(const std::string& ptx, unsigned threads = 32) {
    std::vector<u32> data(1024);
    Machine::get().run(ptx, "k", {1, threads}, {bytes_of_vector(data)}, {});
    return data;
}
// %rd4: where a space begins, after the words for results.
struct Where {
    const char *space, *begin;
};
constexpr Where places[] = {{".global", "add.u64 %rd4, %rd1, 1024;"},
                            {".shared", "mov.u64 %rd4, s;"},
                            {".volatile.shared", "mov.u64 %rd4, s;"},
                            {".local", "mov.u64 %rd4, l;"},
                            {"", "add.u64 %rd4, %rd1, 1024;"},
                            {"", "mov.u64 %rd4, s; cvta.shared.u64 %rd4, %rd4;"},
                            {"", "mov.u64 %rd4, l; cvta.local.u64 %rd4, %rd4;"}};
// %rd6: a lane's place among elements of `bytes`, another one in each round, no two lanes at the same.
std::string spread(unsigned bytes) {
    return "mad.lo.u32 %r5, %r1, 7, %r9; and.b32 %r5, %r5, 31; mul.wide.u32 %rd5, %r5, " + std::to_string(bytes) +
           "; add.u64 %rd6, %rd4, %rd5;\n";
}

TEST(PtxScattered, EachLaneFindsWhatItWrote) {
    struct Width {
        const char* type;
        unsigned bytes;
        u32 mask;
    };
    constexpr Width widths[] = {{"u8", 1, 0xFF}, {"u16", 2, 0xFFFF}, {"u32", 4, ~0u}, {"u64", 8, ~0u}};
    for (const auto& p : places)
        for (const auto& [guard, threads] : {std::pair{"", 32u}, {"@%p2 ", 32u}, {"@!%p2 ", 21u}}) {
            std::string round = "mad.lo.u32 %r6, %r1, 77, %r9; cvt.u64.u32 %rd7, %r6;";
            for (const Width& w : widths) {
                const bool wide = w.bytes == 8;
                round += spread(w.bytes) + "mov.u32 %r10, 0; mov.u64 %rd8, 0;" + guard + "st" + p.space + "." + w.type +
                         " [%rd6], " + (wide ? "%rd7" : "%r6") + ";" + guard + "ld" + p.space + "." + w.type + " " +
                         (wide ? "%rd8" : "%r10") + ", [%rd6];" + (wide ? "cvt.u32.u64 %r10, %rd8;" : "") +
                         "mad.lo.u32 %r8, %r8, 3, %r10;";
            }
            const auto data = run(kernel(p.begin, round), threads);
            for (u32 i = 0; i < threads; ++i) {
                u32 sum = 0;
                const bool takes_part = !*guard || (guard[1] != '!') == (i % 2 == 1);
                for (u32 k = 0; k < 4; ++k)
                    for (const Width& w : widths) sum = 3 * sum + (takes_part ? (77 * i + k) & w.mask : 0);
                ASSERT_EQ(data[i], sum) << p.space << " " << p.begin << " " << guard << i;
            }
        }
}

TEST(PtxScattered, VectorsGoTogether) {
    for (const auto& p : places) {
        if (std::string_view(p.space).starts_with(".volatile")) continue;
        const auto data = run(kernel(
            p.begin, spread(16) + "add.u32 %r11, %r1, %r9; add.u32 %r12, %r11, 100; add.u32 %r13, %r11, 200; st" +
                         p.space + ".v4.u32 [%rd6], {%r1, %r11, %r12, %r13}; ld" + p.space +
                         ".v2.u32 {%r14, %r15}, [%rd6+8]; ld" + p.space +
                         ".v4.u32 {%r16, %r17, %r18, %r19}, [%rd6]; add.u32 %r8, %r8, %r14; add.u32 %r8, %r8, %r15;"
                         "add.u32 %r8, %r8, %r16; add.u32 %r8, %r8, %r17;"));
        for (u32 i = 0; i < 32; ++i) {
            u32 sum = 0;
            for (u32 k = 0; k < 4; ++k) sum += 2 * (i + k) + 300 + i + i + k;
            ASSERT_EQ(data[i], sum) << p.space << " " << p.begin;
        }
    }
}

// Addresses that are a row in two rounds, every second place in the next and one place in the last; and a row
// backwards. A block continues with what it has computed before it checks them.
TEST(PtxScattered, ABlockGoesOnWhereAddressesAreNoRow) {
    for (const auto& p : places)
        for (const u32 threads : {32u, 21u, 64u}) {
            if (std::string_view(p.begin).find(" l;") != std::string_view::npos) continue;
            const std::string st = std::string("st") + p.space + ".u32 ", ld = std::string("ld") + p.space + ".u32 ";
            const auto data = run(
                kernel(
                    std::string(p.begin) + "add.u64 %rd5, %rd4, %rd2; mad.lo.u32 %r10, %r1, %r1, 1;" + st +
                        "[%rd5], %r10;" + st +
                        "[%rd5+256], %r10; mov.u32 %r20, %ntid.x; sub.u32 %r20, %r20, 1; sub.u32 %r20, %r20, %r1;"
                        "mul.wide.u32 %rd9, %r20, 4; add.u64 %rd9, %rd4, %rd9; bar.sync 0;",
                    "setp.eq.u32 %p3, %r9, 2; selp.u32 %r10, 8, 4, %p3; setp.eq.u32 %p3, %r9, 3; selp.u32 %r10, 0, "
                    "%r10, %p3; mul.lo.u32 %r11, %r1, %r10; cvt.u64.u32 %rd6, %r11; add.u64 %rd6, %rd4, %rd6;"
                    "add.u32 %r12, %r1, %r9; setp.gt.u32 %p3, %r12, 9; add.f32 %r17, %r12, 0f7FC00001;" +
                        ld +
                        "%r13, [%rd6]; selp.u32 %r14, %r12, 5, %p3; mad.lo.u32 %r8, %r8, 3, %r13;"
                        "add.u32 %r8, %r8, %r14; bar.sync 0;" +
                        st + "[%rd5+512], %r8; bar.sync 0; add.u32 %r15, %r8, 1; setp.lt.u32 %p3, %r15, 500;" + ld +
                        "%r16, [%rd9+512]; selp.u32 %r16, %r16, 0, %p3; add.u32 %r8, %r15, %r16; and.b32 %r17, %r17, "
                        "3; add.u32 %r8, %r8, %r17;"),
                threads);
            std::vector<u32> sums(threads), stored(threads);
            for (u32 k = 0; k < 4; ++k) {
                for (u32 i = 0; i < threads; ++i) {
                    u32 at = k < 2 ? i : k == 2 ? 2 * i : 0;
                    if (at >= 64) at -= 64;  // the words exist twice
                    const u32 word = at < threads ? at * at + 1 : 0;
                    sums[i] = 3 * sums[i] + word + (i + k > 9 ? i + k : 5);
                }
                stored = sums;
                for (u32 i = 0; i < threads; ++i)
                    sums[i] = sums[i] + 1 + (sums[i] + 1 < 500 ? stored[threads - 1 - i] : 0) + 3;
            }
            for (u32 i = 0; i < threads; ++i) ASSERT_EQ(data[i], sums[i]) << p.space << " " << p.begin << " " << i;
        }
}

TEST(PtxScattered, SignsAreExtended) {
    const auto data = run(kernel("add.u64 %rd4, %rd1, 1024;",
                                 spread(3) + "sub.u32 %r6, 0, %r1; st.global.u8 [%rd6], %r6; ld.global.s8 %r10, [%rd6];"
                                             "add.u32 %r8, %r8, %r10;"));
    for (u32 i = 0; i < 32; ++i) EXPECT_EQ(data[i], -4 * i);
}

TEST(PtxScattered, OfTwoLanesAtOnePlaceTheLastIsSeen) {
    for (const auto& p : places) {
        if (std::string_view(p.begin).find(" l;") != std::string_view::npos) continue;
        const auto data =
            run(kernel(p.begin, "and.b32 %r5, %r1, 7; mul.wide.u32 %rd5, %r5, 4; add.u64 %rd6, %rd4, %rd5; st" +
                                    std::string(p.space) + ".u32 [%rd6], %r1; ld" + p.space +
                                    ".u32 %r10, [%rd6]; add.u32 %r8, %r8, %r10;"));
        for (u32 i = 0; i < 32; ++i) ASSERT_EQ(data[i], 4 * (24 + i % 8)) << p.space << " " << p.begin;
    }
}

TEST(PtxScattered, OneWrongLaneIsNamed) {
    const std::string wrong = "setp.eq.u32 %p3, %r9, 2; setp.eq.and.u32 %p3, %r1, 13, %p3;";
    for (const auto& p : places)
        for (const bool load : {true, false})
            for (const auto& [offset, code] :
                 {std::pair{"2", CUDA_ERROR_MISALIGNED_ADDRESS}, {"0x100000000", CUDA_ERROR_ILLEGAL_ADDRESS}}) {
                const std::string access = load ? "ld" + std::string(p.space) + ".u32 %r10, [%rd6];"
                                                : "st" + std::string(p.space) + ".u32 [%rd6], %r1;";
                try {
                    run(kernel(p.begin, spread(4) + wrong + "@%p3 add.u64 %rd6, %rd6, " + offset + ";" + access));
                    ADD_FAILURE() << "no failure: " << p.space << p.begin << access;
                } catch (const Failure& f) {
                    const bool shared = std::string_view(p.space).find("shared") != std::string_view::npos;
                    const bool outside = code == CUDA_ERROR_ILLEGAL_ADDRESS;
                    EXPECT_EQ(f.code, shared && outside ? CUDA_ERROR_ILLEGAL_INSTRUCTION : code) << f.what();
                    const bool named = std::string_view(f.what()).find("thread (13,0,0)") != std::string_view::npos;
                    EXPECT_TRUE(named || Machine::get().is_hardware()) << f.what();
                }
            }
}

}  // namespace
