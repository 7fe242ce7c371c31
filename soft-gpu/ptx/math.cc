// SPDX-License-Identifier: Apache-2.0
// math.cc: the approximations that cannot be vectorized.
#include "soft-gpu/ptx/math.h"

namespace barcuda::soft {

float sin_approx(float x) { return static_cast<float>(std::sin(static_cast<double>(x))); }
float cos_approx(float x) { return static_cast<float>(std::cos(static_cast<double>(x))); }
float tanh_approx(float x) { return static_cast<float>(std::tanh(static_cast<double>(x))); }

// The f64 approximations give the upper 20 bits of the fraction; the lower 32 bits of the result are zero.
static double upper_half(double x) {
    return std::isnan(x) ? x : __builtin_bit_cast(double, __builtin_bit_cast(std::uint64_t, x) & 0xFFFFFFFF00000000ull);
}
static double flush(double x) { return std::fabs(x) < 0x1p-1022 ? std::copysign(0.0, x) : x; }
double rcp_approx(double x) { return upper_half(flush(1.0 / flush(x))); }
double rsqrt_approx(double x) { return upper_half(1.0 / std::sqrt(flush(x))); }

}  // namespace barcuda::soft
