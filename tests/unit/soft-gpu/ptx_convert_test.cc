// SPDX-License-Identifier: Apache-2.0
// ptx_convert_test.cc: cvt between all types.
#include <cfenv>

#include "tests/soft/instruction.h"

namespace {

using namespace barcuda::soft::test;
__extension__ using i128 = __int128;

template <class T> std::string name() {
    if constexpr (std::is_floating_point_v<T>) return "f" + std::to_string(8 * sizeof(T));
    else return (std::is_signed_v<T> ? "s" : "u") + std::to_string(8 * sizeof(T));
}
template <class D, class S> void between_integers() {
    expect<D, S>("cvt." + name<D>() + "." + name<S>() + " d, a;", [](S a) { return static_cast<D>(a); });
    // ptxas takes .sat only where there is something to saturate
    using L = std::numeric_limits<D>;
    using K = std::numeric_limits<S>;
    if (static_cast<i128>(K::min()) >= static_cast<i128>(L::min()) &&
        static_cast<i128>(K::max()) <= static_cast<i128>(L::max()))
        return;
    expect<D, S>("cvt.sat." + name<D>() + "." + name<S>() + " d, a;", [](S a) {
        const auto low = static_cast<i128>(std::numeric_limits<D>::min()),
                   high = static_cast<i128>(std::numeric_limits<D>::max()), x = static_cast<i128>(a);
        return static_cast<D>(x < low ? low : x > high ? high : x);
    });
}
template <class S> void to_integers() {
    between_integers<u8, S>();
    between_integers<s8, S>();
    between_integers<u16, S>();
    between_integers<s16, S>();
    between_integers<u32, S>();
    between_integers<s32, S>();
    between_integers<u64, S>();
    between_integers<s64, S>();
}

constexpr std::pair<const char*, int> directions[] = {
    {"rn", FE_TONEAREST}, {"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}};
template <class T> T barrier(T x) {
    asm volatile("" : "+m"(x) : : "memory");
    return x;
}

template <class D, class S> void integer_to_float() {
    for (const auto& [direction, mode] : directions)
        expect<D, S>(std::string("cvt.") + direction + "." + name<D>() + "." + name<S>() + " d, a;",
                     [mode = mode](S a) {
                         if (a == 0) return D{0};  // clang makes -0 of a u64 that it rounds down
                         std::fesetround(mode);
                         const D d = barrier(static_cast<D>(barrier(a)));
                         std::fesetround(FE_TONEAREST);
                         return d;
                     });
}
template <class D, class S> void float_to_integer() {
    for (const auto& [direction, mode] : directions)
        expect<D, S>(
            std::string("cvt.") + direction + "i." + name<D>() + "." + name<S>() + " d, a;", [mode = mode](S a) {
                if (a != a)
                    return sizeof(S) == 8 || sizeof(D) == 8 ? static_cast<D>(u64{1} << (8 * sizeof(D) - 1)) : D{0};
                std::fesetround(mode);
                const S x = barrier(std::nearbyint(barrier(a)));
                std::fesetround(FE_TONEAREST);
                if (x <= static_cast<S>(std::numeric_limits<D>::min())) return std::numeric_limits<D>::min();
                if (x >= static_cast<S>(std::numeric_limits<D>::max())) return std::numeric_limits<D>::max();
                return static_cast<D>(x);
            });
}

TEST(PtxConvert, IntegersExtendTruncateAndSaturate) {
    to_integers<u8>();
    to_integers<s8>();
    to_integers<u16>();
    to_integers<s16>();
    to_integers<u32>();
    to_integers<s32>();
    to_integers<u64>();
    to_integers<s64>();
}

TEST(PtxConvert, IntegersToFloatsRoundInEveryDirection) {
    integer_to_float<float, s32>();
    integer_to_float<float, u32>();
    integer_to_float<float, s64>();
    integer_to_float<float, u64>();
    integer_to_float<float, s16>();
    integer_to_float<float, u8>();
    integer_to_float<double, s32>();
    integer_to_float<double, u32>();
    integer_to_float<double, s64>();
    integer_to_float<double, u64>();
}

TEST(PtxConvert, FloatsToIntegersRoundSaturateAndGiveNanItsValue) {
    float_to_integer<s32, float>();
    float_to_integer<u32, float>();
    float_to_integer<s64, float>();
    float_to_integer<u64, float>();
    float_to_integer<s16, float>();
    float_to_integer<u8, float>();
    float_to_integer<s32, double>();
    float_to_integer<u32, double>();
    float_to_integer<s64, double>();
    float_to_integer<u64, double>();
}

TEST(PtxConvert, BetweenFloats) {
    expect<double, float>("cvt.f64.f32 d, a;", [](float a) { return static_cast<double>(a); });
    for (const auto& [direction, mode] : directions)
        expect<float, double>(std::string("cvt.") + direction + ".f32.f64 d, a;", [mode = mode](double a) {
            std::fesetround(mode);
            const float d = barrier(static_cast<float>(barrier(a)));
            std::fesetround(FE_TONEAREST);
            return d != d ? __builtin_bit_cast(float, 0x7FC00000u) : d;  // an H200 keeps the payload's upper part
        });
    expect<float, float>("cvt.rni.f32.f32 d, a;",
                         [](float a) { return a != a ? __builtin_bit_cast(float, 0x7FFFFFFFu) : std::nearbyint(a); });
    expect<double, double>("cvt.rmi.f64.f64 d, a;", [](double a) { return std::floor(a); });
    expect<float, float>("cvt.sat.f32.f32 d, a;", [](float a) { return a > 0 ? (a < 1 ? a : 1.0f) : 0.0f; });
}

TEST(PtxConvert, AWiderRegisterIsExtendedByTheTypesSign) {
    expect<u32, u32>("cvt.s32.s8 d, a;", [](u32 a) { return static_cast<u32>(static_cast<s32>(static_cast<s8>(a))); });
    expect<u64, u32>("cvt.u64.u16 d, a;", [](u32 a) { return static_cast<u64>(static_cast<u16>(a)); });
    expect<float, u32>("cvt.rn.f32.u8 d, a;", [](u32 a) { return static_cast<float>(static_cast<u8>(a)); });
}

TEST(PtxConvert, PacksSaturatedIntegers) {
    const auto clip = [](s32 x, s32 low, s32 high) { return x < low ? low : x > high ? high : x; };
    expect<u32, s32, s32>("cvt.pack.sat.s16.s32 d, a, b;", [&](s32 a, s32 b) {
        return static_cast<u32>(clip(a, -32768, 32767)) << 16 | static_cast<u16>(clip(b, -32768, 32767));
    });
    expect<u32, s32, s32, u32>("cvt.pack.sat.u8.s32.b32 d, a, b, c;", [&](s32 a, s32 b, u32 c) {
        return c << 16 | static_cast<u32>(clip(a, 0, 255)) << 8 | static_cast<u32>(clip(b, 0, 255));
    });
}

}  // namespace
