// SPDX-License-Identifier: Apache-2.0
// ptx_float_test.cc: IEEE arithmetic in every rounding direction, flushing, clamping, NaNs, and approximations within
// their ulp.
#include <cfenv>

#include "tests/soft/instruction.h"

namespace {

using namespace barcuda::soft::test;

float canonical(float x) { return x != x ? __builtin_bit_cast(float, 0x7FFFFFFFu) : x; }
double canonical(double x) { return x; }
float flush(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }
template <class T> T barrier(T x) {
    asm volatile("" : "+m"(x) : : "memory");
    return x;
}
template <class T, class F, class... S> T rounded(int mode, F f, S... s) {
    std::fesetround(mode);
    const T d = barrier(f(barrier(s)...));
    std::fesetround(FE_TONEAREST);
    return canonical(d);
}
constexpr std::pair<const char*, int> directions[] = {
    {"rn", FE_TONEAREST}, {"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}};

template <class T> void arithmetic_in_every_direction(const std::string& type) {
    for (const auto& [name, mode] : directions) {
        const std::string suffix = std::string(".") + name + "." + type;
        expect<T, T, T>("add" + suffix + " d, a, b;", [mode = mode](T a, T b) {
            return rounded<T>(
                mode, [](T x, T y) { return x + y; }, a, b);
        });
        expect<T, T, T>("sub" + suffix + " d, a, b;", [mode = mode](T a, T b) {
            return rounded<T>(
                mode, [](T x, T y) { return x - y; }, a, b);
        });
        expect<T, T, T>("mul" + suffix + " d, a, b;", [mode = mode](T a, T b) {
            return rounded<T>(
                mode, [](T x, T y) { return x * y; }, a, b);
        });
        expect<T, T, T>("div" + suffix + " d, a, b;", [mode = mode](T a, T b) {
            return rounded<T>(
                mode, [](T x, T y) { return x / y; }, a, b);
        });
        expect<T, T>("rcp" + suffix + " d, a;", [mode = mode](T a) {
            return rounded<T>(
                mode, [](T x) { return 1 / x; }, a);
        });
        expect<T, T>("sqrt" + suffix + " d, a;", [mode = mode](T a) {
            return rounded<T>(
                mode, [](T x) { return std::sqrt(x); }, a);
        });
        expect<T, T, T, T>("fma" + suffix + " d, a, b, c;", [mode = mode](T a, T b, T c) {
            return rounded<T>(
                mode, [](T x, T y, T z) { return std::fma(x, y, z); }, a, b, c);
        });
    }
}

TEST(PtxFloat, SingleArithmeticRoundsInEveryDirection) { arithmetic_in_every_direction<float>("f32"); }
TEST(PtxFloat, DoubleArithmeticRoundsInEveryDirection) { arithmetic_in_every_direction<double>("f64"); }

TEST(PtxFloat, FtzFlushesOperandsAndResults) {
    expect<float, float, float>("add.rn.ftz.f32 d, a, b;",
                                [](float a, float b) { return canonical(flush(flush(a) + flush(b))); });
    expect<float, float, float>("mul.rn.ftz.f32 d, a, b;",
                                [](float a, float b) { return canonical(flush(flush(a) * flush(b))); });
    expect<float, float, float, float>("fma.rn.ftz.f32 d, a, b, c;", [](float a, float b, float c) {
        return canonical(flush(std::fma(flush(a), flush(b), flush(c))));
    });
}

TEST(PtxFloat, SatClampsToZeroAndOneAndTurnsNanIntoZero) {
    const auto saturated = [](float x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; };
    expect<float, float, float>("add.sat.f32 d, a, b;", [&](float a, float b) { return saturated(a + b); });
    expect<float, float, float, float>("fma.rn.sat.f32 d, a, b, c;",
                                       [&](float a, float b, float c) { return saturated(std::fma(a, b, c)); });
}

TEST(PtxFloat, MinAndMaxPreferNumbersAndOrderZeros) {
    const auto least = [](auto a, auto b) {
        return a != a ? canonical(b) : b != b ? a : a == b ? (std::signbit(a) ? a : b) : a < b ? a : b;
    };
    const auto most = [](auto a, auto b) {
        return a != a ? canonical(b) : b != b ? a : a == b ? (std::signbit(a) ? b : a) : a > b ? a : b;
    };
    expect<float, float, float>("min.f32 d, a, b;", least);
    expect<float, float, float>("max.f32 d, a, b;", most);
    expect<double, double, double>("min.f64 d, a, b;", least);
    expect<double, double, double>("max.f64 d, a, b;", most);
    expect<float, float, float>("max.NaN.f32 d, a, b;",
                                [&](float a, float b) { return a != a || b != b ? canonical(NAN) : most(a, b); });
}

TEST(PtxFloat, SignsChangeWithoutArithmetic) {
    expect<float, float>(
        "neg.f32 d, a;", [](float a) { return -a; }, Within::any_nan());
    expect<double, double>("abs.f64 d, a;", [](double a) { return std::fabs(a); });
    expect<float, float, float>("copysign.f32 d, a, b;", [](float a, float b) { return std::copysign(b, a); });
}

// The bounds are those of the PTX ISA and of the CUDA programming guide.
TEST(PtxFloat, ApproximationsStayWithinTheirDocumentedError) {
    expect<float, float>(
        "rcp.approx.f32 d, a;", [](float a) { return static_cast<float>(1 / static_cast<double>(a)); }, 1);
    expect<float, float>(
        "sqrt.approx.f32 d, a;", [](float a) { return canonical(std::sqrt(a)); }, Within::relative(0x1p-23));
    expect<float, float>(
        "rsqrt.approx.f32 d, a;", [](float a) { return static_cast<float>(1 / std::sqrt(static_cast<double>(a))); },
        Within::relative(std::exp2(-22.9)));
    expect<float, float>(
        "ex2.approx.f32 d, a;", [](float a) { return static_cast<float>(std::exp2(static_cast<double>(a))); },
        Within::relative(0x1p-22));
    expect<float, float>(
        "lg2.approx.f32 d, a;", [](float a) { return static_cast<float>(std::log2(static_cast<double>(a))); },
        Within::relative(0x1p-22, 1));  // between 0.5 and 2: absolute
    expect<float, float, float>(
        "div.full.f32 d, a, b;", [](float a, float b) { return static_cast<float>(static_cast<double>(a) / b); }, 2);
    expect<double, double>(
        "rcp.approx.ftz.f64 w, a; mov.b64 d, w;",
        [](double a) {
            const auto flushed = [](double x) { return std::fabs(x) < 0x1p-1022 ? std::copysign(0.0, x) : x; };
            return __builtin_bit_cast(double, __builtin_bit_cast(u64, flushed(1 / flushed(a))) & ~u64{0xFFFFFFFF});
        },
        0x1p33);
    expect<double, double>(
        "rsqrt.approx.f64 d, a;", [](double a) { return 1 / std::sqrt(a); }, 1);  // not like .ftz's
}

TEST(PtxFloat, TestpSortsNumbersIntoClasses) {
    expect<u32, float>("testp.finite.f32 p, a; selp.u32 d, 1, 0, p;", [](float a) { return std::isfinite(a); });
    expect<u32, float>("testp.subnormal.f32 p, a; selp.u32 d, 1, 0, p;",
                       [](float a) { return std::fpclassify(a) == FP_SUBNORMAL; });
    expect<u32, double>("testp.notanumber.f64 p, a; selp.u32 d, 1, 0, p;", [](double a) { return std::isnan(a); });
}

}  // namespace
