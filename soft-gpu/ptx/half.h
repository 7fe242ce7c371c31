// SPDX-License-Identifier: Apache-2.0
// half.h: f16 and bf16 as bits; conversions round as asked.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

namespace barcuda::soft {

enum class Rounding : std::uint8_t { nearest, zero, down, up, away };  // .rn .rz .rm .rp .rna

inline float bfloat_to_float(std::uint16_t bits) {
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
}

inline float half_to_float(std::uint16_t bits) {
    const std::uint32_t sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31, fraction = bits & 0x3FF;
    if (exponent == 31) return __builtin_bit_cast(float, sign | 0x7F800000 | fraction << 13);
    if (exponent == 0) {
        const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
        return sign != 0 ? -magnitude : magnitude;
    }
    return __builtin_bit_cast(float, sign | (exponent + 112) << 23 | fraction << 13);
}

// A finite double to a format of `digits` significant bits (hidden one included) and exponents from `least`: the value
// as an integer multiple of its last place, rounded. Returns the magnitude; `exponent` is that of the last place.
inline std::uint64_t round_to(double value, int digits, int least, Rounding rounding, int* exponent) {
    int e = 0;
    std::frexp(value, &e);  // value = f * 2^e, f in [0.5, 1)
    *exponent = std::max(e - digits, least);
    const double scaled = std::ldexp(std::fabs(value), -*exponent);  // exact: a power of two, and within range
    auto n = static_cast<std::uint64_t>(scaled);
    const double rest = scaled - static_cast<double>(n);
    const bool negative = std::signbit(value);
    const bool up = rounding == Rounding::nearest ? rest > 0.5 || (rest == 0.5 && (n & 1) != 0)
                    : rounding == Rounding::away  ? rest >= 0.5
                    : rounding == Rounding::zero  ? false
                                                  : rest > 0 && negative == (rounding == Rounding::down);
    return n + up;
}

// NaN is canonical: 0x7FFF, as the hardware makes it.
template <int fraction_bits, int bias> std::uint16_t to_small(double value, Rounding rounding) {
    constexpr std::uint16_t infinity = static_cast<std::uint16_t>((2 * bias + 1) << fraction_bits);
    if (std::isnan(value)) return 0x7FFF;
    const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    if (std::isinf(value)) return sign | infinity;
    if (value == 0) return sign;
    int exponent = 0;
    const std::uint64_t n = round_to(value, fraction_bits + 1, 1 - bias - fraction_bits, rounding, &exponent);
    // Adding the exponent to the fraction carries over by itself, from subnormals to normals and on to infinity.
    std::uint64_t bits;
    if (n < (std::uint64_t{1} << fraction_bits)) bits = n;
    else bits = n + (static_cast<std::uint64_t>(exponent - (1 - bias - fraction_bits)) << fraction_bits);
    if (bits >= infinity) {
        const bool to_infinity =
            rounding == Rounding::nearest || rounding == Rounding::away || (sign != 0) == (rounding == Rounding::down);
        bits = to_infinity && rounding != Rounding::zero ? infinity : infinity - 1;
    }
    return static_cast<std::uint16_t>(sign | bits);
}

// To nearest, from a float: without branches that a vector could not take.
inline std::uint16_t half_from_float(float x) {
    const auto bits = __builtin_bit_cast(std::uint32_t, x);
    const std::uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
    // Below 2^-14 an addition of 0.5 makes the float's last place that of a subnormal half.
    const std::uint32_t small =
        __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(float, magnitude) + 0.5f) - 0x3F000000;
    const std::uint32_t normal = (magnitude + 0xFFF + (magnitude >> 13 & 1) - 0x38000000) >> 13;
    const std::uint32_t value = magnitude > 0x7F800000    ? 0x7FFFu
                                : magnitude >= 0x477FF000 ? 0x7C00u
                                : magnitude < 0x38800000  ? small
                                                          : normal;
    return static_cast<std::uint16_t>(magnitude > 0x7F800000 ? value : value | sign);
}
inline std::uint16_t bfloat_from_float(float x) {
    const auto bits = __builtin_bit_cast(std::uint32_t, x);
    return static_cast<std::uint16_t>((bits & 0x7FFFFFFF) > 0x7F800000 ? 0x7FFF
                                                                       : (bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

inline std::uint16_t to_half(double value, Rounding rounding = Rounding::nearest) {
    return to_small<10, 15>(value, rounding);
}
inline std::uint16_t to_bfloat(double value, Rounding rounding = Rounding::nearest) {
    return to_small<7, 127>(value, rounding);
}

}  // namespace barcuda::soft
