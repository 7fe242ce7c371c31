// math.h: PTX's approximations. Each is computed in double and rounded once: within the ulp that CUDA documents for it.
#pragma once
#include <cmath>
#include <cstdint>

namespace barcuda::soft {

inline float canonical(float x) {
    return x != x ? __builtin_bit_cast(float, 0x7FFFFFFFu) : x;
}  // the one NaN of f32 instructions
inline double canonical(double x) { return x; }  // f64 instructions keep payloads
inline float flushed(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }
inline double flushed(double x) { return x; }
template <class T> T saturated(T x) { return x > T{0} ? (x < T{1} ? x : T{1}) : T{0}; }  // NaN becomes 0

float exp2_approx(float x);
float log2_approx(float x);
float sin_approx(float x);
float cos_approx(float x);
float tanh_approx(float x);
float rcp_approx(float x);
float rsqrt_approx(float x);
float sqrt_approx(float x);
float div_approx(float x, float y);
double rcp_approx(double x);
double rsqrt_approx(double x);

}  // namespace barcuda::soft
