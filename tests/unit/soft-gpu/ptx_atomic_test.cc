// SPDX-License-Identifier: Apache-2.0
// ptx_atomic_test.cc: every atomic, under contention of all threads of several blocks.
#include "tests/soft/instruction.h"

namespace {

using namespace barcuda::soft::test;

constexpr unsigned blocks = 8, threads = 96, n = blocks * threads;

// Every thread does `text` on the word at %rd1 (of `bits` bits) with a = its number + 1; `d` is the value that it saw.
template <class T> std::pair<T, std::vector<T>> contend(const std::string& text, T first, bool shared = false) {
    std::vector<T> word{first}, seen(n);
    const std::string bits = ".b" + std::to_string(8 * sizeof(T)), size = std::to_string(sizeof(T));
    const std::string ptx =
        header +
        ".visible .entry k(.param .u64 p0, .param .u64 p1)\n{\n.reg .b64 %rd<8>, w; .reg .b32 %r<8>, x; .reg .b16 h; "
        ".reg .f32 f; .reg .f64 g; .reg " +
        bits +
        " a, d; .reg .pred %p; .shared .align 8 .b64 s;\n"
        "ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, "
        "%r1, 96, %r2; add.u32 x, %r3, 1; mad.wide.u32 %rd4, %r3, " +
        size + ", %rd2; mov" + bits + " d, 0;\n" +
        (sizeof(T) == 8   ? "cvt.u64.u32 a, x;\n"
         : sizeof(T) == 2 ? "cvt.u16.u32 a, x;\n"
                          : "mov.b32 a, x;\n") +
        (shared ? "mov.u64 %rd5, %rd1; setp.ne.u32 %p, %r2, 0; ld.global" + bits + " d, [%rd5]; @!%p st.shared" + bits +
                      " [s], d; bar.sync 0; mov.u64 %rd1, s;\n"
                : "") +
        text + "\nst.global" + bits + " [%rd4], d;\n" +
        (shared ? "bar.sync 0; @%p exit; setp.ne.u32 %p, %r1, 0; @%p exit; ld.shared" + bits + " d, [s]; st.global" +
                      bits + " [%rd5], d;"
                : "") +
        "\nret;\n}\n";
    try {
        Machine::get().run(ptx, "k", {blocks, threads}, {bytes_of_vector(word), bytes_of_vector(seen)});
    } catch (const Failure& f) { ADD_FAILURE() << text << ": " << f.what(); }
    return {word[0], seen};
}
constexpr u64 sum = u64{n} * (n + 1) / 2;

TEST(PtxAtomic, TwoWordsAreSwappedAsOne) {
    // u:d is the expected pair, w:l the pair that was seen; both halves grow together
    const std::string loop =
        ".reg .b128 o, b, e; .reg .b64 l, u; .reg .pred q; mov.b64 d, 0; mov.b64 u, 0;"
        "LOOP: mov.b128 b, {d, u}; add.u64 l, d, 1; add.u64 w, u, 2; mov.b128 e, {l, w};"
        "atom.global.cas.b128 o, [%rd2], b, e; mov.b128 {l, w}, o; setp.eq.u64 %p, l, d; "
        "setp.eq.and.u64 q, w, u, %p; mov.b64 d, l; mov.b64 u, w; @!q bra LOOP;"
        "mov.b64 d, w; mov.u64 %rd4, %rd2; exit;";
    const auto pair = contend<u64>(loop, 0).second;
    EXPECT_EQ(pair[0], n);
    EXPECT_EQ(pair[1], 2 * n);
}

TEST(PtxAtomic, AdditionLosesNothing) {
    EXPECT_EQ(contend<u32>("atom.global.add.u32 d, [%rd1], a;", 5).first, sum + 5);
    EXPECT_EQ(contend<u64>("atom.global.add.u64 d, [%rd1], a;", 5).first, sum + 5);
    EXPECT_EQ(contend<s32>("atom.add.s32 d, [%rd1], a;", -5).first, static_cast<s32>(sum) - 5);
    EXPECT_EQ(contend<u32>("red.global.add.u32 [%rd1], a;", 0).first, sum);
    EXPECT_EQ(contend<u32>("atom.acq_rel.sys.global.add.u32 d, [%rd1], a;", 0).first, sum);
    EXPECT_EQ(contend<u32>("atom.shared.add.u32 d, [%rd1], a;", 1, true).first, u64{threads} * (threads + 1) / 2 + 1);
}

TEST(PtxAtomic, EveryAdditionSeesAnotherOldValue) {
    auto seen = contend<u32>("mov.u32 a, 1; atom.global.add.u32 d, [%rd1], a;", 0).second;
    std::sort(seen.begin(), seen.end());
    for (u32 i = 0; i < n; ++i) EXPECT_EQ(seen[i], i);
}

TEST(PtxAtomic, FloatingAdditionsOfSmallIntegersAreExact) {
    EXPECT_EQ(contend<float>("cvt.rn.f32.u32 a, x; atom.global.add.f32 d, [%rd1], a;", 1).first,
              static_cast<float>(sum) + 1);
    EXPECT_EQ(contend<double>("cvt.rn.f64.u32 a, x; red.global.add.f64 [%rd1], a;", 1).first,
              static_cast<double>(sum) + 1);
    EXPECT_EQ(contend<u16>("mov.u16 a, 0x3C00; atom.global.add.noftz.f16 d, [%rd1], a;", 0).first, 0x6200);  // 768 ones
    EXPECT_EQ(contend<u32>("mov.b32 a, 0x3C003C00; red.global.add.noftz.f16x2 [%rd1], a;", 0).first, 0x62006200u);
    EXPECT_EQ(contend<u32>("mov.b32 a, 0x3F803F80; atom.global.add.noftz.bf16x2 d, [%rd1], a;", 0).first,
              0x43804380u);  // 256: there 1 is lost
}

TEST(PtxAtomic, MinimaAndMaxima) {
    EXPECT_EQ(contend<u32>("atom.global.max.u32 d, [%rd1], a;", 3).first, n);
    EXPECT_EQ(contend<u32>("atom.global.min.u32 d, [%rd1], a;", 3000).first, 1u);
    EXPECT_EQ(contend<s32>("neg.s32 a, a; atom.global.min.s32 d, [%rd1], a;", 3).first, -static_cast<s32>(n));
    EXPECT_EQ(contend<s64>("neg.s64 a, a; atom.global.max.s64 d, [%rd1], a;", -30000).first, -1);
    EXPECT_EQ(contend<u64>("atom.global.max.u64 d, [%rd1], a;", 3).first, n);
}

TEST(PtxAtomic, Logic) {
    EXPECT_EQ(contend<u32>("atom.global.or.b32 d, [%rd1], a;", 0).first, 1023u);
    EXPECT_EQ(contend<u32>("atom.global.and.b32 d, [%rd1], a;", ~0u).first, 0u);
    u32 parity = 0;
    for (u32 i = 1; i <= n; ++i) parity ^= i;
    EXPECT_EQ(contend<u32>("atom.global.xor.b32 d, [%rd1], a;", 0).first, parity);
    EXPECT_EQ(contend<u64>("red.global.or.b64 [%rd1], a;", u64{1} << 40).first, 1023u | u64{1} << 40);
}

TEST(PtxAtomic, IncAndDecWrapAtTheirBound) {
    EXPECT_EQ(contend<u32>("mov.u32 a, 99; atom.global.inc.u32 d, [%rd1], a;", 0).first, n % 100);
    EXPECT_EQ(contend<u32>("mov.u32 a, 99; atom.global.dec.u32 d, [%rd1], a;", 0).first, (100 - n % 100) % 100);
}

TEST(PtxAtomic, ExchangeHandsEveryValueOnce) {
    auto [last, seen] = contend<u32>("atom.global.exch.b32 d, [%rd1], a;", 0);
    seen.push_back(last);
    std::sort(seen.begin(), seen.end());
    for (u32 i = 0; i <= n; ++i) EXPECT_EQ(seen[i], i);
}

TEST(PtxAtomic, CompareAndSwapBuildsAnAddition) {
    const std::string loop =
        "ld.global.TYPE d, [%rd1]; LOOP: mov.b64 w, 0; add.ADD a, d, 2; atom.global.cas.TYPE a, [%rd1], d, a; "
        "setp.eq.ADD %p, a, d; mov.TYPE d, a; @!%p bra LOOP;";
    const auto with = [&](std::string bits, std::string add) {
        std::string text = loop;
        for (std::size_t at; (at = text.find("TYPE")) != text.npos;) text.replace(at, 4, bits);
        for (std::size_t at; (at = text.find("ADD")) != text.npos;) text.replace(at, 3, add);
        return text;
    };
    EXPECT_EQ(contend<u32>(with("b32", "u32"), 1).first, 1 + 2 * n);
    EXPECT_EQ(contend<u64>(with("b64", "u64"), 1).first, 1 + 2 * n);
    EXPECT_EQ(contend<u16>(with("b16", "u16"), 1).first, 1 + 2 * n);
}

TEST(PtxAtomic, ALockAmongTheLanesOfOneWarpMakesProgress) {
    // Each lane takes the lock, adds to the second half of the word without atomics, and releases the lock.
    const auto [word, seen] = contend<u64>(
        "TRY: atom.global.cas.b32 x, [%rd1], 0, 1; setp.ne.u32 %p, x, 0; @%p bra TRY; ld.volatile.global.u32 x, "
        "[%rd1+4]; add.u32 x, x, 1; st.volatile.global.u32 [%rd1+4], x; membar.gl; atom.global.exch.b32 x, [%rd1], 0;",
        0);
    EXPECT_EQ(word, u64{n} << 32);
}

}  // namespace
