// SPDX-License-Identifier: Apache-2.0
// math.h: PTX's approximations. Each is computed in double and rounded once: within the ulp that CUDA documents for it.
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>

namespace barcuda::soft {

inline float canonical(float x) {
    return x != x ? __builtin_bit_cast(float, 0x7FFFFFFFu) : x;
}  // the one NaN of f32 instructions
inline double canonical(double x) { return x; }  // f64 instructions keep payloads
inline float flushed(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }
inline double flushed(double x) { return x; }
template <class T> T saturated(T x) { return x > T{0} ? (x < T{1} ? x : T{1}) : T{0}; }  // NaN becomes 0

// Functions that the compiler can vectorize are here, because the loops over lanes gain from it.
inline float rcp_approx(float x) { return static_cast<float>(1.0 / static_cast<double>(x)); }
inline float rsqrt_approx(float x) { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(x))); }
inline float sqrt_approx(float x) { return std::sqrt(x); }
inline float div_approx(float x, float y) {
    return static_cast<float>(static_cast<double>(x) / static_cast<double>(y));
}

// 2^x = 2^n * 2^f with f of at most a half: n goes into the exponent, 2^f is its series. In f64 no f32 is out of range.
inline float exp2_approx(float x) {
    constexpr double round = 0x1.8p52;  // a number so large that adding it leaves no fraction
    const double y = x > -1000.0f ? (x < 1000.0f ? x : 1000.0) : x != x ? x : -1000.0;
    const double shifted = y + round, f = (y - (shifted - round)) * 0.693147180559945309417;
    const double series =
        1 +
        f * (1 + f * (1.0 / 2 + f * (1.0 / 6 + f * (1.0 / 24 + f * (1.0 / 120 +
                                                                    f * (1.0 / 720 + f * (1.0 / 5040 + f / 40320)))))));
    const auto n = __builtin_bit_cast(std::uint64_t, shifted) << 52;
    return static_cast<float>(__builtin_bit_cast(double, __builtin_bit_cast(std::uint64_t, series) + n));
}

// log2(2^n * m) = n + log2(m), m near 1 by the series of the inverse hyperbolic tangent.
inline float log2_approx(float x) {
    constexpr std::uint64_t root = 0x3FE6A09E667F3BCD;  // bits of sqrt(1/2): m lies from there to sqrt(2)
    const auto above = __builtin_bit_cast(std::uint64_t, static_cast<double>(x)) - root;
    const double m = __builtin_bit_cast(double, (above & 0xFFFFFFFFFFFFF) + root);
    // above / 2^52, signed, by the bits of 2^52 + 2048 + n
    const double n = __builtin_bit_cast(double, (((above >> 52) ^ 0x800) | 0x4330000000000000)) - (0x1p52 + 0x800);
    const double s = (m - 1) / (m + 1), q = s * s;
    const double series =
        2 + q * (2.0 / 3 + q * (2.0 / 5 + q * (2.0 / 7 + q * (2.0 / 9 + q * (2.0 / 11 + q * (2.0 / 13))))));
    const double y = n + s * series * 1.44269504088896340736;
    const auto infinity = std::numeric_limits<double>::infinity();
    return static_cast<float>(x > 0    ? (x < infinity ? y : infinity)
                              : x == 0 ? -infinity
                                       : std::numeric_limits<double>::quiet_NaN());
}

float sin_approx(float x);
float cos_approx(float x);
float tanh_approx(float x);
double rcp_approx(double x);
double rsqrt_approx(double x);

}  // namespace barcuda::soft
