// SPDX-License-Identifier: Apache-2.0
// ptx_half_test.cc: f16 and bf16, over all values. The reference is the compiler's own _Float16 if it has one,
// otherwise exact arithmetic rounded once.
#include <immintrin.h>

#include "tests/soft/instruction.h"

namespace {

using namespace barcuda::soft::test;

// Independent of the engine: searches for the nearest of all of the format's values.
struct Table {
    std::vector<std::pair<double, u16>> sorted;  // nonnegative finite values
    double (*value)(u16);
    u16 infinity;
};
double half_value(u16 x) {
    const int e = x >> 10 & 31, f = x & 1023;
    const double m = e == 31 ? (f != 0 ? NAN : INFINITY) : e == 0 ? std::ldexp(f, -24) : std::ldexp(1024 + f, e - 25);
    return (x & 0x8000) != 0 ? -m : m;
}
double bfloat_value(u16 x) {
    const int e = x >> 7 & 255, f = x & 127;
    const double m = e == 255 ? (f != 0 ? NAN : INFINITY) : e == 0 ? std::ldexp(f, -133) : std::ldexp(128 + f, e - 134);
    return (x & 0x8000) != 0 ? -m : m;
}
// The exact value is v + rest, with rest far below v's last place.
u16 nearest(long double v, double (*value)(u16), u16 infinity) {
    if (v != v) return 0x7FFF;
    const u16 sign = std::signbit(v) ? 0x8000 : 0;
    const long double m = std::fabs(v);
    u32 low = 0, high = infinity;  // value(low) <= m
    while (high - low > 1) {
        const u32 middle = (low + high) / 2;
        (value(static_cast<u16>(middle)) <= m ? low : high) = middle;
    }
    if (m == INFINITY) return sign | infinity;
    const long double below = value(static_cast<u16>(low)),
                      step = low == 0 ? value(1) : below - value(static_cast<u16>(low - 1));
    const long double above = high == infinity ? below + step : static_cast<long double>(value(static_cast<u16>(high)));
    const long double down = m - below, up = above - m;
    const u32 n = down < up || (down == up && (low & 1) == 0) ? low : high;
    return static_cast<u16>(sign | n);
}
std::vector<u16> every_value() {
    std::vector<u16> v(65536);
    for (u32 i = 0; i < 65536; ++i) v[i] = static_cast<u16>(i);
    return v;
}
std::vector<u16> other_values(unsigned seed) {
    std::mt19937 random(seed);
    std::vector<u16> v(65536);
    for (auto& x : v) x = static_cast<u16>(random());
    return v;
}

TEST(PtxHalf, EveryHalfBecomesTheSameSingle) {
    expect_over<float, u16>(
        "cvt.f32.f16 d, a;",
        [](u16 a) {
            const auto x = static_cast<float>(half_value(a));
            return x != x ? __builtin_bit_cast(float, 0x7FFFFFFFu) : x;
        },
        0, every_value());
    expect_over<float, u16>(
        "cvt.f32.bf16 d, a;",
        [](u16 a) {  // an H200 leaves a NaN, which is not specified, unchanged
            const auto x = static_cast<float>(bfloat_value(a));
            return x != x ? __builtin_bit_cast(float, u32{a} << 16) : x;
        },
        0, every_value());
}

TEST(PtxHalf, SinglesRoundToTheNearestHalf) {
    expect<u16, float>("cvt.rn.f16.f32 d, a;", [](float a) { return nearest(a, half_value, 0x7C00); });
    expect<u16, float>("cvt.rn.bf16.f32 d, a;", [](float a) { return nearest(a, bfloat_value, 0x7F80); });
    expect<u16, double>("cvt.rn.f16.f64 d, a;", [](double a) {  // an H200 keeps the upper part of a NaN's payload
        return a != a ? u16{0x7E00} : nearest(a, half_value, 0x7C00);
    });
    expect<u16, s32>("cvt.rn.f16.s32 d, a;", [](s32 a) { return nearest(a, half_value, 0x7C00); });
    expect<u32, float, float>("cvt.rn.f16x2.f32 d, a, b;", [](float a, float b) {
        return static_cast<u32>(nearest(a, half_value, 0x7C00)) << 16 | nearest(b, half_value, 0x7C00);
    });
}

TEST(PtxHalf, ArithmeticRoundsOnce) {
    expect_over<u16, u16, u16>(
        "add.f16 d, a, b;",
        [](u16 a, u16 b) {
            return nearest(static_cast<long double>(half_value(a)) + half_value(b), half_value, 0x7C00);
        },
        0, every_value(), other_values(1));
    expect_over<u16, u16, u16>(
        "mul.f16 d, a, b;",
        [](u16 a, u16 b) {
            return nearest(static_cast<long double>(half_value(a)) * half_value(b), half_value, 0x7C00);
        },
        0, every_value(), other_values(2));
    expect_over<u16, u16, u16, u16>(
        "fma.rn.f16 d, a, b, c;",
        [](u16 a, u16 b, u16 c) {
            return nearest(static_cast<long double>(half_value(a)) * half_value(b) + half_value(c), half_value, 0x7C00);
        },
        0, every_value(), other_values(3), other_values(4));
    expect_over<u16, u16, u16>(
        "add.rn.bf16 d, a, b;",
        [](u16 a, u16 b) {
            return nearest(static_cast<long double>(bfloat_value(a)) + bfloat_value(b), bfloat_value, 0x7F80);
        },
        0, every_value(), other_values(5));
}

TEST(PtxHalf, PairsAreTwoHalves) {
    const auto add = [](u16 a, u16 b) {
        return nearest(static_cast<long double>(half_value(a)) + half_value(b), half_value, 0x7C00);
    };
    expect<u32, u32, u32>("add.f16x2 d, a, b;", [&](u32 a, u32 b) {
        return static_cast<u32>(add(static_cast<u16>(a >> 16), static_cast<u16>(b >> 16))) << 16 |
               add(static_cast<u16>(a), static_cast<u16>(b));
    });
    expect<u32, u32>("neg.f16x2 d, a;", [](u32 a) {  // an H200 makes any NaN the canonical one
        const auto negated = [](u32 x) -> u32 { return (x & 0x7FFF) > 0x7C00 ? 0x7FFF : x ^ 0x8000; };
        return negated(a >> 16) << 16 | negated(a & 0xFFFF);
    });
}

TEST(PtxHalf, ComparisonsFollowTheValues) {
    expect_over<u32, u16, u16>(
        "setp.lt.f16 p, a, b; selp.u32 d, 1, 0, p;", [](u16 a, u16 b) { return half_value(a) < half_value(b); }, 0,
        every_value(), other_values(6));
    expect_over<u32, u16, u16>(
        "setp.geu.bf16 p, a, b; selp.u32 d, 1, 0, p;",
        [](u16 a, u16 b) { return !(bfloat_value(a) < bfloat_value(b)); }, 0, every_value(), other_values(7));
    expect_over<u16, u16, u16>(
        "max.f16 d, a, b;",
        [](u16 a, u16 b) {
            const double x = half_value(a), y = half_value(b);
            return x != x && y != y ? u16{0x7FFF}
                   : x != x         ? b
                   : y != y         ? a
                   : x == y         ? ((a & 0x8000) != 0 ? b : a)
                   : x > y          ? a
                                    : b;
        },
        0, every_value(), other_values(8));
}

}  // namespace
