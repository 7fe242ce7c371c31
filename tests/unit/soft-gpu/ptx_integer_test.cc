// SPDX-License-Identifier: Apache-2.0
// ptx_integer_test.cc: integer arithmetic is that of the CPU, at every width.
#include "tests/soft/instruction.h"

namespace {

using namespace barcuda::soft::test;
__extension__ using i128 = __int128;
__extension__ using u128 = unsigned __int128;

template <class T> struct PtxIntegerOf : testing::Test {};
using Widths = testing::Types<u16, s16, u32, s32, u64, s64>;
TYPED_TEST_SUITE(PtxIntegerOf, Widths);
template <class T> std::string type() { return (std::is_signed_v<T> ? "s" : "u") + std::to_string(8 * sizeof(T)); }
template <class T> using U = std::make_unsigned_t<T>;
template <class T> using Twice = std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, s32, u32>,
                                                    std::conditional_t<std::is_signed_v<T>, s64, u64>>;

TYPED_TEST(PtxIntegerOf, AddSubAndMulWrapAround) {
    using T = TypeParam;
    expect<T, T, T>("add." + type<T>() + " d, a, b;",
                    [](T a, T b) { return static_cast<T>(static_cast<u64>(a) + static_cast<u64>(b)); });
    expect<T, T, T>("sub." + type<T>() + " d, a, b;",
                    [](T a, T b) { return static_cast<T>(static_cast<u64>(a) - static_cast<u64>(b)); });
    expect<T, T, T>("mul.lo." + type<T>() + " d, a, b;",
                    [](T a, T b) { return static_cast<T>(static_cast<u64>(a) * static_cast<u64>(b)); });
    expect<T, T, T, T>("mad.lo." + type<T>() + " d, a, b, c;", [](T a, T b, T c) {
        return static_cast<T>(static_cast<u64>(a) * static_cast<u64>(b) + static_cast<u64>(c));
    });
}

TYPED_TEST(PtxIntegerOf, MulHiIsTheUpperHalfOfTheProduct) {
    using T = TypeParam;
    using P = std::conditional_t<std::is_signed_v<T>, i128, u128>;
    expect<T, T, T>("mul.hi." + type<T>() + " d, a, b;", [](T a, T b) {
        return static_cast<T>((static_cast<P>(a) * static_cast<P>(b)) >> (8 * sizeof(T)));
    });
    expect<T, T, T, T>("mad.hi." + type<T>() + " d, a, b, c;", [](T a, T b, T c) {
        return static_cast<T>(static_cast<u64>((static_cast<P>(a) * static_cast<P>(b)) >> (8 * sizeof(T))) +
                              static_cast<u64>(c));
    });
}

TYPED_TEST(PtxIntegerOf, WideProductsDoubleTheWidth) {
    using T = TypeParam;
    if constexpr (sizeof(T) < 8) {
        using D = Twice<T>;
        expect<D, T, T>("mul.wide." + type<T>() + " d, a, b;",
                        [](T a, T b) { return static_cast<D>(static_cast<D>(a) * static_cast<D>(b)); });
        expect<D, T, T, D>("mad.wide." + type<T>() + " d, a, b, c;", [](T a, T b, D c) {
            return static_cast<D>(static_cast<u64>(static_cast<D>(a) * static_cast<D>(b)) + static_cast<u64>(c));
        });
    }
}

TYPED_TEST(PtxIntegerOf, DivisionTruncatesTowardZero) {
    using T = TypeParam;
    const auto defined = [](T a, T b) {
        return b != 0 && !(std::is_signed_v<T> && b == static_cast<T>(-1) && a == std::numeric_limits<T>::min());
    };
    const std::string zero = "setp.eq." + type<T>() + " p, b, 0;\n";
    expect<T, T, T>(zero + "@p bra done; div." + type<T>() + " d, a, b; bra end;\n done: mov.b" +
                        std::to_string(8 * sizeof(T)) + " d, 0;\n end:",
                    [&](T a, T b) { return b == 0          ? T{0}
                                           : defined(a, b) ? static_cast<T>(a / b)
                                                           : a; });
    expect<T, T, T>(zero + "@p bra done; rem." + type<T>() + " d, a, b; bra end;\n done: mov.b" +
                        std::to_string(8 * sizeof(T)) + " d, 0;\n end:",
                    [&](T a, T b) { return defined(a, b) ? static_cast<T>(a % b) : T{0}; });
}

TYPED_TEST(PtxIntegerOf, MinMaxAbsAndSad) {
    using T = TypeParam;
    expect<T, T, T>("min." + type<T>() + " d, a, b;", [](T a, T b) { return a < b ? a : b; });
    expect<T, T, T>("max." + type<T>() + " d, a, b;", [](T a, T b) { return a < b ? b : a; });
    expect<T, T, T, T>("sad." + type<T>() + " d, a, b, c;", [](T a, T b, T c) {
        return static_cast<T>(static_cast<U<T>>(c) +
                              static_cast<U<T>>(a < b ? static_cast<U<T>>(b) - static_cast<U<T>>(a)
                                                      : static_cast<U<T>>(a) - static_cast<U<T>>(b)));
    });
    if constexpr (std::is_signed_v<T>) {
        expect<T, T>("abs." + type<T>() + " d, a;",
                     [](T a) { return a < 0 ? static_cast<T>(U<T>{0} - static_cast<U<T>>(a)) : a; });
        expect<T, T>("neg." + type<T>() + " d, a;", [](T a) { return static_cast<T>(U<T>{0} - static_cast<U<T>>(a)); });
    }
}

TEST(PtxInteger, SaturatingAdditionClamps) {
    const auto clamp = [](s64 x) {
        return static_cast<s32>(x > 2147483647 ? 2147483647 : x < -2147483648ll ? -2147483648ll : x);
    };
    expect<s32, s32, s32>("add.sat.s32 d, a, b;", [&](s64 a, s64 b) { return clamp(a + b); });
    expect<s32, s32, s32>("sub.sat.s32 d, a, b;", [&](s64 a, s64 b) { return clamp(a - b); });
}

TEST(PtxInteger, ACarryChainAddsWideNumbers) {
    // 64 bits as two 32-bit halves: the sum, and the difference
    expect<u64, u64, u64>(
        "{.reg .b32 al, ah, bl, bh; mov.b64 {al, ah}, a; mov.b64 {bl, bh}, b; add.cc.u32 al, al, bl; addc.u32 ah, ah, "
        "bh; mov.b64 d, {al, ah};}",
        [](u64 a, u64 b) { return a + b; });
    expect<u64, u64, u64>(
        "{.reg .b32 al, ah, bl, bh; mov.b64 {al, ah}, a; mov.b64 {bl, bh}, b; sub.cc.u32 al, al, bl; subc.u32 ah, ah, "
        "bh; mov.b64 d, {al, ah};}",
        [](u64 a, u64 b) { return a - b; });
    expect<u64, u32, u32, u64>(
        "{.reg .b32 l, h, m; mov.b64 {l, h}, c; mad.lo.cc.u32 l, a, b, l; madc.hi.u32 h, a, b, h; mov.b64 d, {l, h};}",
        [](u64 a, u64 b, u64 c) { return a * b + c; });
    // The carry out of the highest word
    expect<u32, u32, u32>("add.cc.u32 x, a, b; addc.u32 d, 0, 0;", [](u32 a, u32 b) { return a + b < a ? 1u : 0u; });
}

// nvcc's 128-bit division depends on it.
TEST(PtxInteger, TheCarryOfADifferenceSaysThatNothingWasBorrowed) {
    expect<u32, u32, u32>("sub.cc.u32 x, a, b; addc.u32 d, 0, 0;", [](u32 a, u32 b) { return a < b ? 0u : 1u; });
    expect<u32, u32, u32>("sub.cc.u32 x, a, b; subc.u32 d, 0, 0;", [](u32 a, u32 b) { return a < b ? ~0u : 0u; });
    expect<u32, u32, u32>("add.cc.u32 x, a, b; subc.u32 d, 0, 0;", [](u32 a, u32 b) { return a + b < a ? 0u : ~0u; });
}

TEST(PtxInteger, ReluMakesWhatIsBelowZeroZero) {
    const auto each = [](u32 a, u32 b, auto f) {
        const auto half = [&](u32 x, u32 y) {
            return static_cast<u16>(std::max(0, static_cast<int>(f(static_cast<s16>(x), static_cast<s16>(y)))));
        };
        return static_cast<u32>(half(a >> 16, b >> 16)) << 16 | half(a, b);
    };
    expect<s32, s32, s32>("min.relu.s32 d, a, b;", [](s32 a, s32 b) { return std::max(0, std::min(a, b)); });
    expect<s32, s32, s32>("max.relu.s32 d, a, b;", [](s32 a, s32 b) { return std::max(0, std::max(a, b)); });
    expect<u32, u32, u32>("min.s16x2.relu d, a, b;",
                          [&](u32 a, u32 b) { return each(a, b, [](s16 x, s16 y) { return std::min(x, y); }); });
    expect<u32, u32, u32>("max.s16x2.relu d, a, b;",
                          [&](u32 a, u32 b) { return each(a, b, [](s16 x, s16 y) { return std::max(x, y); }); });
}

TEST(PtxInteger, TheTwentyFourBitProduct) {
    expect<u32, u32, u32>("mul24.lo.u32 d, a, b;",
                          [](u64 a, u64 b) { return static_cast<u32>((a & 0xFFFFFF) * (b & 0xFFFFFF)); });
    expect<u32, u32, u32>("mul24.hi.u32 d, a, b;",
                          [](u64 a, u64 b) { return static_cast<u32>(((a & 0xFFFFFF) * (b & 0xFFFFFF)) >> 16); });
    expect<s32, s32, s32, s32>("mad24.lo.s32 d, a, b, c;", [](s32 a, s32 b, s32 c) {
        const auto low = [](s32 x) { return static_cast<s64>(static_cast<s32>(static_cast<u32>(x) << 8) >> 8); };
        return static_cast<s32>(static_cast<u32>(low(a) * low(b)) + static_cast<u32>(c));
    });
}

TEST(PtxInteger, PackedHalvesDoNotCarryIntoEachOther) {
    const auto each = [](u32 a, u32 b, auto f) {
        return static_cast<u32>(static_cast<u16>(f(a >> 16, b >> 16))) << 16 |
               static_cast<u16>(f(a & 0xFFFF, b & 0xFFFF));
    };
    expect<u32, u32, u32>("add.u16x2 d, a, b;",
                          [&](u32 a, u32 b) { return each(a, b, [](u32 x, u32 y) { return x + y; }); });
    expect<u32, u32, u32>("max.s16x2 d, a, b;", [&](u32 a, u32 b) {
        return each(a, b, [](u32 x, u32 y) { return static_cast<s16>(x) > static_cast<s16>(y) ? x : y; });
    });
    expect<u32, u32, u32>("min.u16x2 d, a, b;",
                          [&](u32 a, u32 b) { return each(a, b, [](u32 x, u32 y) { return x < y ? x : y; }); });
}

}  // namespace
