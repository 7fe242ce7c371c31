// SPDX-License-Identifier: Apache-2.0
// small_floats.h: the 8-bit formats e4m3 (no infinity, NaN is 0x7F) and e5m2 (as f16, cut short). Conversions to them
// saturate.
#pragma once
#include "soft-gpu/ptx/half.h"

namespace barcuda::soft {

inline std::uint32_t to_e5m2(double x) {
    if (std::isnan(x)) return 0x7F;
    const std::uint32_t sign = std::signbit(x) ? 0x80 : 0;
    if (std::fabs(x) >= 57344) return sign | 0x7B;  // the largest finite
    return static_cast<std::uint32_t>(to_small<2, 15>(x, Rounding::nearest) & 0x7F) | sign;
}

inline std::uint32_t to_e4m3(double x) {
    if (std::isnan(x)) return 0x7F;
    const std::uint32_t sign = std::signbit(x) ? 0x80 : 0;
    if (std::fabs(x) >= 448) return sign | 0x7E;
    int exponent = 0;
    if (x == 0) return sign;
    const auto n = static_cast<std::uint32_t>(round_to(x, 4, -9, Rounding::nearest, &exponent));
    return sign | (n < 8 ? n : n + (static_cast<std::uint32_t>(exponent + 9) << 3));
}

inline float from_e4m3(std::uint32_t bits) {
    const std::uint32_t exponent = bits >> 3 & 15, fraction = bits & 7;
    if ((bits & 0x7F) == 0x7F) return __builtin_bit_cast(float, 0x7FFFFFFFu);
    const float magnitude = exponent == 0
                                ? static_cast<float>(fraction) * 0x1p-9f
                                : std::ldexp(static_cast<float>(8 + fraction), static_cast<int>(exponent) - 10);
    return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

}  // namespace barcuda::soft
