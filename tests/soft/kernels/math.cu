// SPDX-License-Identifier: Apache-2.0
// math.cu: the functions of CUDA's math library and its intrinsics, within the errors that its documentation gives
// (CUDA C++ Programming Guide, "Mathematical Functions Appendix"), of f32 and f64.
#include "suite.h"

using f32 = float;
using f64 = double;
constexpr Exact pi = 3.14159265358979323846264338327950288L;

// What the CPU has no function for.
static Exact power_of_ten(Exact x) { return std::pow(Exact(10), x); }
static Exact sine_of_pi(Exact x) {
    const Exact r = std::remainder(x, Exact(2));
    return std::sin(pi * (std::fabs(r) > 0.5 ? std::copysign(Exact(1), r) - r : r));
}
static Exact cosine_of_pi(Exact x) { return std::sin(pi * (Exact(0.5) - std::fabs(std::remainder(x, Exact(2))))); }
static Exact power(Exact x, Exact y) {
    return std::isinf(x) ? std::pow(static_cast<f64>(x), static_cast<f64>(y)) : std::pow(x, y);
}  // glibc errs there
static Exact scaled_erfc(Exact x) {  // e^(x*x) * erfc(x); for large x by its continued fraction
    if (x < 10) return std::exp(x * x) * std::erfc(x);
    if (std::isinf(x)) return 0;
    Exact f = 0;
    for (int k = 60; k > 0; --k) f = k / (2 * (x + f));
    return 1 / ((x + f) * std::sqrt(pi));
}
static Exact normal(Exact x) { return std::erfc(-x / std::sqrt(Exact(2))) / 2; }
static Exact inverse_of(Exact (*f)(Exact), Exact y, Exact low, Exact high) {  // of a function that grows
    for (int i = 0; i < 200; ++i) (f((low + high) / 2) < y ? low : high) = (low + high) / 2;
    return (low + high) / 2;
}
static Exact inverse_erf(Exact y) {
    return std::fabs(y) > 1 || y != y ? NAN
           : std::fabs(y) == 1        ? std::copysign(INFINITY, y)
                                      : inverse_of(std::erf, y, -10, 10);
}

void f32_functions() {
    NEAR(2, f32, rsqrtf(a), 1 / std::sqrt(Exact(a)), f32);
    NEAR(1, f32, cbrtf(a), std::cbrt(Exact(a)), f32);
    NEAR(1, f32, rcbrtf(a), 1 / std::cbrt(Exact(a)), f32);
    NEAR(3, f32, hypotf(a, b), std::hypot(Exact(a), Exact(b)), f32, f32);
    NEAR(2, f32, expf(a), std::exp(Exact(a)), f32);
    NEAR(2, f32, exp2f(a), std::exp2(Exact(a)), f32);
    NEAR(2, f32, exp10f(a), power_of_ten(a), f32);
    NEAR(1, f32, expm1f(a), std::expm1(Exact(a)), f32);
    NEAR(1, f32, logf(a), std::log(Exact(a)), f32);
    NEAR(1, f32, log2f(a), std::log2(Exact(a)), f32);
    NEAR(2, f32, log10f(a), std::log10(Exact(a)), f32);
    NEAR(1, f32, log1pf(a), std::log1p(Exact(a)), f32);
    NEAR(2, f32, sinf(a), std::sin(Exact(a)), f32);
    NEAR(2, f32, cosf(a), std::cos(Exact(a)), f32);
    NEAR(4, f32, tanf(a), std::tan(Exact(a)), f32);
    NEAR(1, f32, sinpif(a), sine_of_pi(a), f32);
    NEAR(1, f32, cospif(a), cosine_of_pi(a), f32);
    NEAR(2, f32, asinf(a), std::asin(Exact(a)), f32);
    NEAR(2, f32, acosf(a), std::acos(Exact(a)), f32);
    NEAR(2, f32, atanf(a), std::atan(Exact(a)), f32);
    NEAR(3, f32, atan2f(a, b), std::atan2(Exact(a), Exact(b)), f32, f32);
    NEAR(3, f32, sinhf(a), std::sinh(Exact(a)), f32);
    NEAR(2, f32, coshf(a), std::cosh(Exact(a)), f32);
    NEAR(2, f32, tanhf(a), std::tanh(Exact(a)), f32);
    NEAR(3, f32, asinhf(a), std::asinh(Exact(a)), f32);
    NEAR(4, f32, acoshf(a), std::acosh(Exact(a)), f32);
    NEAR(3, f32, atanhf(a), std::atanh(Exact(a)), f32);
    NEAR(4, f32, powf(a, b), power(a, b), f32, f32);
    NEAR(2, f32, erff(a), std::erf(Exact(a)), f32);
    NEAR(4, f32, erfcf(a), std::erfc(Exact(a)), f32);
    NEAR(2, f32, erfinvf(a), inverse_erf(a), f32);
    NEAR(4, f32, erfcxf(fabsf(a)), scaled_erfc(std::fabs(a)), f32);
    NEAR(5, f32, normcdff(a), normal(a), f32);
    NEAR(5, f32, tgammaf(a), std::tgamma(Exact(a)), f32);
    NEAR(6, f32, lgammaf(fabsf(a)), std::lgamma(std::fabs(Exact(a))), f32);
}

void f64_functions() {
    NEAR(1, f64, rsqrt(a), 1 / std::sqrt(Exact(a)), f64);
    NEAR(1, f64, cbrt(a), std::cbrt(Exact(a)), f64);
    NEAR(2, f64, hypot(a, b), std::hypot(Exact(a), Exact(b)), f64, f64);
    NEAR(1, f64, exp(a), std::exp(Exact(a)), f64);
    NEAR(1, f64, exp2(a), std::exp2(Exact(a)), f64);
    NEAR(1, f64, expm1(a), std::expm1(Exact(a)), f64);
    NEAR(1, f64, log(a), std::log(Exact(a)), f64);
    NEAR(1, f64, log2(a), std::log2(Exact(a)), f64);
    NEAR(1, f64, log10(a), std::log10(Exact(a)), f64);
    NEAR(1, f64, log1p(a), std::log1p(Exact(a)), f64);
    NEAR(2, f64, sin(a), std::sin(Exact(a)), f64);
    NEAR(2, f64, cos(a), std::cos(Exact(a)), f64);
    NEAR(2, f64, tan(a), std::tan(Exact(a)), f64);
    NEAR(2, f64, asin(a), std::asin(Exact(a)), f64);
    NEAR(2, f64, acos(a), std::acos(Exact(a)), f64);
    NEAR(2, f64, atan2(a, b), std::atan2(Exact(a), Exact(b)), f64, f64);
    NEAR(2, f64, sinh(a), std::sinh(Exact(a)), f64);
    NEAR(1, f64, tanh(a), std::tanh(Exact(a)), f64);
    NEAR(3, f64, asinh(a), std::asinh(Exact(a)), f64);
    NEAR(2, f64, atanh(a), std::atanh(Exact(a)), f64);
    NEAR(2, f64, pow(a, b), power(a, b), f64, f64);
    NEAR(2, f64, erf(a), std::erf(Exact(a)), f64);
    NEAR(5, f64, erfc(a), std::erfc(Exact(a)), f64);
    NEAR(10, f64, tgamma(a), std::tgamma(Exact(a)), f64);
    NEAR(4, f64, lgamma(fabs(a)), std::lgamma(std::fabs(Exact(a))), f64);
}

// The intrinsics: quick, with an absolute error where the argument is small.
void intrinsics() {
    WITHIN(std::ldexp(1.0, -21), f32, __sinf(fmodf(a, 3.14f)), std::sin(Exact(std::fmod(a, 3.14f))), f32);
    WITHIN(std::ldexp(1.0, -21), f32, __cosf(fmodf(a, 3.14f)), std::cos(Exact(std::fmod(a, 3.14f))), f32);
    WITHIN((2.5 + std::floor(std::fabs(1.173 * std::log(x)))) * unit<f32>(x), f32, __expf(fmodf(a, 80)),
           std::exp(Exact(std::fmod(a, 80.f))), f32);
    WITHIN(std::max(std::ldexp(1.0L, -21), 3.5 * unit<f32>(x)), f32, __logf(fabsf(fmodf(a, 1e9f)) + 0.25f),
           std::log(Exact(std::fabs(std::fmod(a, 1e9f)) + 0.25f)), f32);
    WITHIN(std::max(std::ldexp(1.0L, -22), 2.5 * unit<f32>(x)), f32, __log2f(fabsf(fmodf(a, 1e9f)) + 0.25f),
           std::log2(Exact(std::fabs(std::fmod(a, 1e9f)) + 0.25f)), f32);
    NEAR(2, f32, __fdividef(a, fmodf(b, 1e5f) + 2e5f), Exact(a) / (std::fmod(b, 1e5f) + 2e5f), f32, f32);
    NEAR(2, f32, __frsqrt_rn(a), 1 / std::sqrt(Exact(a)), f32);
}

int main() {
    f32_functions();
    f64_functions();
    intrinsics();
    return verdict();
}
