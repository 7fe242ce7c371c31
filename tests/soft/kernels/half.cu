// SPDX-License-Identifier: Apache-2.0
// half.cu: f16, bf16 and the eight-bit floats: arithmetic, comparisons, conversions, and pairs of them in a register.
// Operands are bits: u16 for a half, u32 for a pair.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "suite.h"

using f32 = float;
using f64 = double;
using bf16 = __nv_bfloat16;

// A format of `e` bits of exponent and `m` of fraction, to and from long double. Every operation on two numbers of
// these formats is exact enough there to be rounded once.
template <int e, int m> struct Format {
    static constexpr int bias = (1 << (e - 1)) - 1, least = 1 - bias - m;
    static Exact value(u32 bits) {
        const int exponent = bits >> m & ((1 << e) - 1), fraction = bits & ((1 << m) - 1);
        const Exact sign = bits >> (e + m) & 1 ? -1 : 1;
        if (exponent == (1 << e) - 1) return fraction ? NAN : sign * INFINITY;
        return sign * std::ldexp(Exact(exponent ? fraction | 1 << m : fraction), std::max(exponent, 1) - bias - m);
    }
    static u16 nearest(Exact x) {
        constexpr u32 infinity = ((1u << e) - 1) << m;
        if (x != x) return (1u << (e + m)) - 1;  // the NaN that instructions make
        const u32 sign = std::signbit(x) ? 1u << (e + m) : 0;
        if (x == 0) return sign;
        if (std::isinf(x)) return sign | infinity;
        const int power = std::max(std::ilogb(x) - m, least);
        const u64 units = static_cast<u64>(std::nearbyint(std::ldexp(std::fabs(x), -power)));
        return sign | std::min<u64>(infinity, units + (static_cast<u64>(power - least) << m));
    }
};
using Half = Format<5, 10>;
using Brain = Format<8, 7>;

template <class F> bool nan(u32 bits) {
    const Exact x = F::value(bits & 0xFFFF);
    return x != x;
}
// Any NaN will do.
template <class F> u16 plain(u16 bits) { return nan<F>(bits) ? F::nearest(NAN) : bits; }
template <class F, class Op> u32 pair(u32 a, u32 b, Op op) {
    return static_cast<u32>(F::nearest(op(F::value(a >> 16), F::value(b >> 16)))) << 16 |
           F::nearest(op(F::value(a & 0xFFFF), F::value(b & 0xFFFF)));
}

__device__ static __half h(u16 bits) { return __ushort_as_half(bits); }
__device__ static bf16 b16(u16 bits) { return __ushort_as_bfloat16(bits); }
__device__ static __half2 hh(u32 bits) {
    return __half2(__ushort_as_half(bits & 0xFFFF), __ushort_as_half(bits >> 16));
}
__device__ static __nv_bfloat162 bb(u32 bits) {
    return __nv_bfloat162(__ushort_as_bfloat16(bits & 0xFFFF), __ushort_as_bfloat16(bits >> 16));
}
__device__ static u16 bits(__half x) { return __hisnan(x) ? 0x7FFF : __half_as_ushort(x); }
__device__ static u16 bits(bf16 x) { return __hisnan(x) ? 0x7FFF : __bfloat16_as_ushort(x); }
__device__ static u32 bits(__half2 x) { return u32(bits(__high2half(x))) << 16 | bits(__low2half(x)); }
__device__ static u32 bits(__nv_bfloat162 x) { return u32(bits(__high2bfloat16(x))) << 16 | bits(__low2bfloat16(x)); }
__device__ static bf16 fused(bf16 a, bf16 b, bf16 c) {
#if __CUDA_ARCH__ >= 800
    return __hfma(a, b, c);
#else  // CUDA has none: rounded twice
    return __float2bfloat16(fmaf(__bfloat162float(a), __bfloat162float(b), __bfloat162float(c)));
#endif
}
#define H(x) Half::value(x)
#define B(x) Brain::value(x)

static Exact less(Exact a, Exact b) {
    return a != a ? b : b != b ? a : a == b ? (std::signbit(a) ? a : b) : std::min(a, b);
}
static Exact more(Exact a, Exact b) {
    return a != a ? b : b != b ? a : a == b ? (std::signbit(a) ? b : a) : std::max(a, b);
}

void halves() {
    FORM(u16, bits(h(a) + h(b)), Half::nearest(H(a) + H(b)), u16, u16);
    FORM(u16, bits(h(a) - h(b)), Half::nearest(H(a) - H(b)), u16, u16);
    FORM(u16, bits(h(a) * h(b)), Half::nearest(H(a) * H(b)), u16, u16);
    FORM(u16, bits(h(a) / h(b)), Half::nearest(H(a) / H(b)), u16, u16);
    FORM(u16, bits(__hfma(h(a), h(b), h(c))), Half::nearest(H(a) * H(b) + H(c)), u16, u16, u16);
    FORM(u16, bits(__hfma_relu(h(a), h(b), h(c))),
         Half::nearest(H(a) * H(b) + H(c) != H(a) * H(b) + H(c) ? NAN : std::max<Exact>(0, H(a) * H(b) + H(c))), u16,
         u16, u16);
    FORM(u16, bits(__hadd_sat(h(a), h(b))) & 0x7FFF,
         H(a) + H(b) != H(a) + H(b) ? 0 : Half::nearest(std::min<Exact>(1, std::max<Exact>(0, H(a) + H(b)))), u16, u16);
    FORM(u16, bits(__hneg(h(a))), Half::nearest(-H(a)), u16);
    FORM(u16, bits(__habs(h(a))), Half::nearest(std::fabs(H(a))), u16);
    FORM(u16, bits(hsqrt(h(a))), Half::nearest(std::sqrt(H(a))), u16);
    FORM(u16, bits(hrcp(h(a))), Half::nearest(1 / H(a)), u16);
    FORM(u16, bits(__hmin(h(a), h(b))), Half::nearest(less(H(a), H(b))), u16, u16);
    FORM(u16, bits(__hmax(h(a), h(b))), Half::nearest(more(H(a), H(b))), u16, u16);
    FORM(u16, bits(__hmax_nan(h(a), h(b))), Half::nearest(H(a) != H(a) || H(b) != H(b) ? NAN : more(H(a), H(b))), u16,
         u16);
    FORM(s32, (h(a) < h(b)) + 2 * (h(a) == h(b)) + 4 * (h(a) != h(b)) + 8 * (h(a) >= h(b)) + 16 * __hltu(h(a), h(b)),
         (H(a) < H(b)) + 2 * (H(a) == H(b)) + 4 * !(H(a) == H(b)) + 8 * (H(a) >= H(b)) + 16 * !(H(a) >= H(b)), u16,
         u16);
    FORM(u16, bits(hfloor(h(a))), Half::nearest(std::floor(H(a))), u16);
    FORM(u16, bits(hrint(h(a))), Half::nearest(std::nearbyint(H(a))), u16);
    FORM(u16, bits(htrunc(h(a))), Half::nearest(std::trunc(H(a))), u16);
}

// Two in a register; each half is its own sum.
void pairs() {
    FORM(u32, bits(hh(a) + hh(b)), pair<Half>(a, b, [](Exact x, Exact y) { return x + y; }), u32, u32);
    FORM(u32, bits(hh(a) * hh(b)), pair<Half>(a, b, [](Exact x, Exact y) { return x * y; }), u32, u32);
    FORM(u32, bits(__hfma2(hh(a), hh(b), hh(a))), pair<Half>(a, b, [](Exact x, Exact y) { return x * y + x; }), u32,
         u32);
    FORM(u32, bits(__hmin2(hh(a), hh(b))), pair<Half>(a, b, less), u32, u32);
    FORM(u32, bits(__hneg2(hh(a))), pair<Half>(a, a, [](Exact x, Exact) { return -x; }), u32);
    FORM(u32, bits(__lowhigh2highlow(hh(a))), pair<Half>(a << 16 | a >> 16, 0, [](Exact x, Exact) { return x; }), u32);
    FORM(s32, __hbeq2(hh(a), hh(b)) + 2 * __hblt2(hh(a), hh(b)),
         (H(a & 0xFFFF) == H(b & 0xFFFF) && H(a >> 16) == H(b >> 16)) +
             2 * (H(a & 0xFFFF) < H(b & 0xFFFF) && H(a >> 16) < H(b >> 16)),
         u32, u32);
    FORM(u32, __hgt2_mask(hh(a), hh(b)),
         (H(a & 0xFFFF) > H(b & 0xFFFF) ? 0xFFFFu : 0) | (H(a >> 16) > H(b >> 16) ? 0xFFFF0000u : 0), u32, u32);
    FORM(u32, bits(bb(a) + bb(b)), pair<Brain>(a, b, [](Exact x, Exact y) { return x + y; }), u32, u32);
    FORM(u32, bits(bb(a) * bb(b)), pair<Brain>(a, b, [](Exact x, Exact y) { return x * y; }), u32, u32);
    FORM(u32, bits(__hmax2(bb(a), bb(b))), pair<Brain>(a, b, more), u32, u32);
}

void brain_floats() {
    FORM(u16, bits(b16(a) + b16(b)), Brain::nearest(B(a) + B(b)), u16, u16);
    FORM(u16, bits(b16(a) - b16(b)), Brain::nearest(B(a) - B(b)), u16, u16);
    FORM(u16, bits(b16(a) * b16(b)), Brain::nearest(B(a) * B(b)), u16, u16);
    FORM(u16, bits(__hmin(b16(a), b16(b))), Brain::nearest(less(B(a), B(b))), u16, u16);
    FORM(u16, bits(__hneg(b16(a))), Brain::nearest(-B(a)), u16);
    FORM(s32, (b16(a) < b16(b)) + 2 * (b16(a) == b16(b)) + 4 * (b16(a) > b16(b)),
         (B(a) < B(b)) + 2 * (B(a) == B(b)) + 4 * (B(a) > B(b)), u16, u16);
    WITHIN(std::ldexp(unit<f32>(x), 16), f32, __bfloat162float(fused(b16(a), b16(b), b16(c))),
           B(Brain::nearest(B(a) * B(b) + B(c))), u16, u16, u16);
}

void conversions() {
    FORM(f32, __half2float(h(a)), f32(H(a)), u16);
    FORM(u16, bits(__float2half_rn(a)), Half::nearest(a), f32);
    FORM(u16, bits(__double2half(a)), Half::nearest(a), f64);
    FORM(s32, __half2float(__float2half_rz(a)) <= fabsf(a) || a != a, 1, f32);
    FORM(s32, a != a || (__half2float(__float2half_ru(a)) >= a && __half2float(__float2half_rd(a)) <= a), 1, f32);
    FORM(u16, bits(__int2half_rn(a)), Half::nearest(a), s32);
    FORM(u16, bits(__ull2half_rn(a)), Half::nearest(a), u64);
    FORM(s32, __half2int_rz(h(a)),
         H(a) != H(a) ? 0 : s32(std::min<Exact>(std::max<Exact>(std::trunc(H(a)), INT32_MIN), INT32_MAX)), u16);
    FORM(u16, __half2ushort_rn(h(a)),
         H(a) != H(a) ? 0 : u16(std::min<Exact>(std::max<Exact>(std::nearbyint(H(a)), 0), 65535)), u16);
    FORM(f32, __bfloat162float(b16(a)), f32(B(a)), u16);
    FORM(u16, bits(__float2bfloat16_rn(a)), Brain::nearest(a), f32);
    FORM(u16, bits(__int2bfloat16_rn(a)), Brain::nearest(a), s32);
    FORM(s32, __bfloat162int_rz(b16(a)),
         B(a) != B(a) ? 0 : s32(std::min<Exact>(std::max<Exact>(std::trunc(B(a)), INT32_MIN), INT32_MAX)), u16);
    FORM(u32, bits(__floats2half2_rn(a, b)), u32(Half::nearest(b)) << 16 | Half::nearest(a), f32, f32);
    FORM(u32, bits(__floats2bfloat162_rn(a, b)), u32(Brain::nearest(b)) << 16 | Brain::nearest(a), f32, f32);
}

static Exact e4m3(u8 bits) {  // its largest exponent is one like any other, except for the NaN
    const Exact sign = bits & 0x80 ? -1 : 1;
    if ((bits & 0x7F) == 0x7F) return NAN;
    return (bits & 0x78) == 0x78 ? sign * std::ldexp(Exact(8 | (bits & 7)), 5) : Format<4, 3>::value(bits);
}
// e4m3 has no infinity: it clamps to 448. (The reference is the header's own code for the CPU.)
void eight_bits() {
    SAME(u8, __nv_cvt_float_to_fp8(a, __NV_SATFINITE, __NV_E4M3), f32);
    SAME(u8, __nv_cvt_float_to_fp8(a, __NV_SATFINITE, __NV_E5M2), f32);
    FORM(u16, bits(__half(__nv_cvt_fp8_to_halfraw(a, __NV_E5M2))), plain<Half>(u16(a << 8)), u8);
    FORM(u16, bits(__half(__nv_cvt_fp8_to_halfraw(a, __NV_E4M3))), Half::nearest(e4m3(a)), u8);
}

void functions() {
    WITHIN(std::ldexp(unit<f32>(x), 14), f32, __half2float(hexp(h(a))), H(Half::nearest(std::exp(H(a)))), u16);
    WITHIN(std::ldexp(unit<f32>(x), 14), f32, __half2float(hlog(h(a))), H(Half::nearest(std::log(H(a)))), u16);
    WITHIN(std::ldexp(1.0, -10), f32, __half2float(hsin(h(a))), std::sin(H(a)), u16);
    WITHIN(std::ldexp(1.0, -10), f32, __half2float(htanh(h(a))), std::tanh(H(a)), u16);
    WITHIN(std::ldexp(unit<f32>(x), 14), f32, __half2float(hrsqrt(h(a))), H(Half::nearest(1 / std::sqrt(H(a)))), u16);
    WITHIN(std::ldexp(unit<f32>(x), 17), f32, __bfloat162float(hexp2(b16(a))), B(Brain::nearest(std::exp2(B(a)))), u16);
}

int main() {
    halves();
    pairs();
    brain_floats();
    conversions();
    eight_bits();
    functions();
    return verdict();
}
