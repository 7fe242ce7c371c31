// SPDX-License-Identifier: Apache-2.0
// float.cu: f32 and f64: what IEEE 754 and C++ define to the last bit: arithmetic in four roundings, comparisons,
// integers from them and to them, and the functions that are exact.
#include <cfenv>

#include "suite.h"

using f32 = float;
using f64 = double;

// The CPU in another rounding. (No optimization moves the arithmetic out: nvcc compiles the host's side without any.)
template <class F> auto rounded(int mode, F f) {
    std::fesetround(mode);
    volatile auto result = f();
    std::fesetround(FE_TONEAREST);
    return static_cast<decltype(f())>(result);
}
#define UP(e) rounded(FE_UPWARD, [&] { return e; })
#define DOWN(e) rounded(FE_DOWNWARD, [&] { return e; })
#define ZERO(e) rounded(FE_TOWARDZERO, [&] { return e; })

// PTX: -0 is less than +0, and a number is preferred to a NaN.
template <class T> T smaller(T a, T b) {
    return a != a ? b : b != b ? a : a == b ? (std::signbit(a) ? a : b) : a < b ? a : b;
}
template <class T> T larger(T a, T b) {
    return a != a ? b : b != b ? a : a == b ? (std::signbit(a) ? b : a) : a < b ? b : a;
}

// PTX clamps; a NaN is 0, but the least number where 64 bits are involved.
template <class I, class F> I to_integer(F x, F (*round)(F)) {
    using L = std::numeric_limits<I>;
    if (x != x) return sizeof(I) == 8 || sizeof(F) == 8 ? static_cast<I>(I(1) << (8 * sizeof(I) - 1)) : 0;
    const F y = round(x);
    if (y >= std::ldexp(F(1), L::digits)) return L::max();
    if (y < static_cast<F>(L::min())) return L::min();
    return static_cast<I>(y);
}
template <class T> __host__ __device__ int relations(T a, T b) {
    return (a < b) | (a <= b) << 1 | (a == b) << 2 | (a != b) << 3 | (a > b) << 4 | (a >= b) << 5 | !(a < b) << 6 |
           !(a >= b) << 7;
}
template <class T> __host__ __device__ int kind_of(T a) {
    using namespace std;
    return (isnan(a) ? 1 : 0) | (isinf(a) ? 2 : 0) | (isfinite(a) ? 4 : 0) | (signbit(a) ? 8 : 0);
}

void arithmetic() {
    SAME(f32, a + b, f32, f32);
    SAME(f32, a - b, f32, f32);
    SAME(f32, a * b, f32, f32);
    SAME(f32, a / b, f32, f32);
    SAME(f64, a + b, f64, f64);
    SAME(f64, a - b, f64, f64);
    SAME(f64, a * b, f64, f64);
    SAME(f64, a / b, f64, f64);
    FORM(f32, fmaf(a, b, c), std::fma(a, b, c), f32, f32, f32);
    FORM(f64, fma(a, b, c), std::fma(a, b, c), f64, f64, f64);
    FORM(f32, sqrtf(a), std::sqrt(a), f32);
    FORM(f64, sqrt(a), std::sqrt(a), f64);
    SAME(f32, -a, f32);
    SAME(f64, -a * b, f64, f64);
}

void roundings() {
    FORM(f32, __fadd_rn(__fmul_rn(a, b), c), a * b + c, f32, f32, f32);
    FORM(f32, __fadd_rz(a, b), ZERO(a + b), f32, f32);
    FORM(f32, __fsub_ru(a, b), UP(a - b), f32, f32);
    FORM(f32, __fmul_rd(a, b), DOWN(a * b), f32, f32);
    FORM(f32, __fmul_ru(a, b), UP(a * b), f32, f32);
    FORM(f32, __fmaf_rz(a, b, c), ZERO(std::fma(a, b, c)), f32, f32, f32);
    FORM(f32, __fmaf_ru(a, b, c), UP(std::fma(a, b, c)), f32, f32, f32);
    FORM(f32, __fdiv_rd(a, b), DOWN(a / b), f32, f32);
    FORM(f32, __fdiv_rz(a, b), ZERO(a / b), f32, f32);
    FORM(f32, __frcp_rn(a), 1 / a, f32);
    FORM(f32, __frcp_ru(a), UP(1 / a), f32);
    FORM(f32, __fsqrt_rd(a), DOWN(std::sqrt(a)), f32);
    FORM(f32, __fsqrt_ru(a), UP(std::sqrt(a)), f32);
    FORM(f64, __dadd_rd(a, b), DOWN(a + b), f64, f64);
    FORM(f64, __dsub_rz(a, b), ZERO(a - b), f64, f64);
    FORM(f64, __dmul_ru(a, b), UP(a * b), f64, f64);
    FORM(f64, __fma_rd(a, b, c), DOWN(std::fma(a, b, c)), f64, f64, f64);
    FORM(f64, __ddiv_ru(a, b), UP(a / b), f64, f64);
    FORM(f64, __drcp_rz(a), ZERO(1 / a), f64);
    FORM(f64, __dsqrt_ru(a), UP(std::sqrt(a)), f64);
}

void comparisons() {
    SAME(s32, relations(a, b), f32, f32);
    SAME(s32, relations(a, b), f64, f64);
    SAME(s32, kind_of(a), f32);
    SAME(s32, kind_of(a), f64);
    SAME(f32, a < b ? a : c, f32, f32, f32);
    SAME(f64, a < b || b != c ? b : c, f64, f64, f64);
    FORM(f32, fminf(a, b), smaller(a, b), f32, f32);
    FORM(f32, fmaxf(a, b), larger(a, b), f32, f32);
    FORM(f64, fmin(a, b), smaller(a, b), f64, f64);
    FORM(f64, fmax(a, b), larger(a, b), f64, f64);
    FORM(f32, __saturatef(a) + 0.f, a != a ? 0 : std::min(std::max(a, 0.f), 1.f) + 0.f, f32);
}

void integers() {
    SAME(f32, a, s32);
    SAME(f32, a, u32);
    SAME(f32, a, s64);
    SAME(f32, a, u64);
    SAME(f64, a, s32);
    SAME(f64, a, u64);
    SAME(f64, a, s64);
    SAME(f32, s8(a), u32);
    SAME(f64, u16(a), u32);
    FORM(f32, __int2float_rd(a), DOWN(f32(a)), s32);
    FORM(f32, __uint2float_ru(a), UP(f32(a)), u32);
    FORM(f32, __ll2float_rz(a), ZERO(f32(a)), s64);
    FORM(f32, __ull2float_rz(a), ZERO(f32(Exact(a))), u64);
    FORM(f64, __ll2double_ru(a), UP(f64(a)), s64);
    FORM(f64, __ull2double_rd(a), DOWN(f64(Exact(a))), u64);
    FORM(s32, __float2int_rn(a), (to_integer<s32, f32>(a, std::nearbyint)), f32);
    FORM(s32, __float2int_ru(a), (to_integer<s32, f32>(a, std::ceil)), f32);
    FORM(u32, __float2uint_rd(a), (to_integer<u32, f32>(a, std::floor)), f32);
    FORM(s64, __float2ll_rz(a), (to_integer<s64, f32>(a, std::trunc)), f32);
    FORM(u64, __float2ull_rn(a), (to_integer<u64, f32>(a, std::nearbyint)), f32);
    FORM(s32, __double2int_rz(a), (to_integer<s32, f64>(a, std::trunc)), f64);
    FORM(u32, __double2uint_rn(a), (to_integer<u32, f64>(a, std::nearbyint)), f64);
    FORM(s64, __double2ll_rd(a), (to_integer<s64, f64>(a, std::floor)), f64);
    FORM(u64, __double2ull_ru(a), (to_integer<u64, f64>(a, std::ceil)), f64);
    SAME(s32, a > -1e9f && a < 1e9f ? s32(a) : 7, f32);
    SAME(u8, a >= 0 && a < 256 ? u8(a) : 7, f32);
    SAME(s16, a > -32000 && a < 32000 ? s16(a) : 7, f64);
    FORM(s32, __float_as_int(a), s32(bits_of(a)), f32);
    FORM(f32, __uint_as_float(a), from_bits<f32>(a), u32);
    FORM(s64, __double_as_longlong(a), s64(bits_of(a)), f64);
    SAME(f32, f32(a), f64);
    SAME(f64, f64(a), f32);
    FORM(f32, __double2float_ru(a), UP(f32(a)), f64);
    FORM(f32, __double2float_rz(a), ZERO(f32(a)), f64);
}

__host__ __device__ static f64 fraction(f64 a) {
    int exponent = 0;
    const f64 m = frexp(a, &exponent);
    return isfinite(a) && a != 0 ? ldexp(m, exponent & 15) : 0;
}
__host__ __device__ static f32 rest(f32 a) {
    f32 whole = 0;
    const f32 r = modff(a, &whole);
    return whole == 3 ? 100 : r;
}

void exact_functions() {
    SAME(f32, fabsf(a), f32);
    SAME(f64, copysign(a, b), f64, f64);
    SAME(f32, floorf(a), f32);
    SAME(f32, ceilf(a), f32);
    SAME(f32, truncf(a), f32);
    SAME(f32, rintf(a), f32);
    SAME(f32, nearbyintf(a), f32);
    SAME(f32, roundf(a), f32);
    SAME(f64, floor(a), f64);
    SAME(f64, ceil(a), f64);
    SAME(f64, trunc(a), f64);
    SAME(f64, rint(a), f64);
    SAME(f64, round(a), f64);
    SAME(s64, fabs(a) < 1e18 ? llrint(a) : 0, f64);
    SAME(s64, fabsf(a) < 1e18f ? llroundf(a) : 0, f32);
    SAME(f32, fmodf(a, b), f32, f32);
    SAME(f64, fmod(a, b), f64, f64);
    SAME(f32, remainderf(a, b), f32, f32);
    SAME(f64, remainder(a, b), f64, f64);
    SAME(f32, fdimf(a, b), f32, f32);
    SAME(f64, fdim(a, b), f64, f64);
    SAME(f32, ldexpf(a, s32(b % 300)), f32, s32);
    SAME(f64, scalbn(a, s32(b % 2200)), f64, s32);
    SAME(f32, logbf(a), f32);
    SAME(s32, a == 0 || !isfinite(a) ? 0 : ilogb(a), f64);
    SAME(f32, nextafterf(a, b), f32, f32);
    SAME(f64, nextafter(a, b), f64, f64);
    SAME(f64, fraction(a), f64);
    SAME(f32, rest(a), f32);
}

int main() {
    arithmetic();
    roundings();
    comparisons();
    integers();
    exact_functions();
    return verdict();
}
