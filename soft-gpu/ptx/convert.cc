// SPDX-License-Identifier: Apache-2.0
// convert.cc: cvt between any two scalar types, with its rounding, saturation and packing.
//
// The common conversions are vectors; every other one takes a general path, a lane at a time: read as an integer or a
// double, convert, write at the register's width.
#include <algorithm>
#include <limits>

#include "soft-gpu/ptx/coder.h"
#include "soft-gpu/ptx/math.h"
#include "soft-gpu/ptx/rounding.h"
#include "soft-gpu/ptx/select.h"
#include "soft-gpu/ptx/small_floats.h"

namespace barcuda::soft {
namespace {

using u32 = std::uint32_t;
using s32 = std::int32_t;
using u64 = std::uint64_t;
using s64 = std::int64_t;
__extension__ using i128 = __int128;

struct Conversion {  // packed into Instr::imm
    Type from, to;
    std::uint8_t from_bytes, to_bytes;  // of the registers
    Rounding rounding;
    bool integral, flush;   // integral: .rni .rzi .rmi .rpi
    std::uint8_t saturate;  // 1 .sat, 2 .relu, 3 both a relu and a .satfinite ...
};
static_assert(sizeof(Conversion) == sizeof(s64));

u64 raw(Warp& w, Slot slot, unsigned bytes, int i) {
    return bytes == 2 ? w.at<std::uint16_t>(slot)[i] : bytes == 4 ? w.at<u32>(slot)[i] : w.at<u64>(slot)[i];
}
void put(Warp& w, Slot slot, unsigned bytes, int i, u64 value) {
    if (bytes == 2) w.at<std::uint16_t>(slot)[i] = static_cast<std::uint16_t>(value);
    else if (bytes == 4) w.at<u32>(slot)[i] = static_cast<u32>(value);
    else w.at<u64>(slot)[i] = value;
}

u64 extended(u64 value, Type type) {  // from the type's width to 64 bits
    const unsigned shift = 64 - 8 * bytes_of(type);
    return is_signed(type) ? static_cast<u64>(static_cast<s64>(value << shift) >> shift) : value << shift >> shift;
}
i128 integer_of(u64 value, Type type) {
    const u64 wide = extended(value, type);
    return is_signed(type) ? static_cast<i128>(static_cast<s64>(wide)) : static_cast<i128>(wide);
}
i128 least(Type t) { return is_signed(t) ? -(i128{1} << (8 * bytes_of(t) - 1)) : 0; }
i128 most(Type t) { return (i128{1} << (8 * bytes_of(t) - (is_signed(t) ? 1 : 0))) - 1; }

double real_of(u64 value, Type type, bool flush) {
    switch (type) {
        case Type::f16: return half_to_float(static_cast<std::uint16_t>(value));
        case Type::bf16: return bfloat_to_float(static_cast<std::uint16_t>(value));
        case Type::f32: {
            const float x = __builtin_bit_cast(float, static_cast<u32>(value));
            return flush ? flushed(x) : x;
        }
        default: return __builtin_bit_cast(double, value);
    }
}

double to_integral(double x, Rounding r) {
    switch (r) {
        case Rounding::nearest: return std::nearbyint(x);
        case Rounding::zero: return std::trunc(x);
        case Rounding::down: return std::floor(x);
        default: return std::ceil(x);
    }
}

u64 real_to_integer(double x, const Conversion& c) {
    if (std::isnan(x)) return c.from != Type::f64 && bytes_of(c.to) < 8 ? 0 : u64{1} << (8 * bytes_of(c.to) - 1);
    x = to_integral(x, c.rounding);
    const double low = static_cast<double>(least(c.to)), high = static_cast<double>(most(c.to));
    const i128 n = x <= low ? least(c.to) : x >= high ? most(c.to) : static_cast<i128>(x);
    return static_cast<u64>(n);
}

// The PTX ISA leaves the result for a NaN open. As on hardware, a NaN of f64 keeps its sign and the upper part of its
// payload in f32 and f16, and one of bf16 has the same bits in f32; every other conversion gives the canonical one.
u64 real_to_real(double x, const Conversion& c) {
    if (c.integral) x = to_integral(x, c.rounding);
    if (c.saturate == 1) x = std::isnan(x) ? 0 : saturated(x);
    if (c.saturate == 2 && !std::isnan(x)) x = x > 0 ? x : 0;
    switch (c.to) {
        case Type::f16:
            if (std::isnan(x) && c.from == Type::f64)
                return (__builtin_bit_cast(u64, x) >> 48 & 0x8000) | 0x7E00 |
                       (__builtin_bit_cast(u64, x) >> 42 & 0x1FF);
            return to_half(x, c.rounding);
        case Type::bf16: return to_bfloat(x, c.rounding);
        case Type::f32: {
            float f;
            if (c.rounding == Rounding::nearest) {
                f = static_cast<float>(x);
            } else {
                const Rounded mode(c.rounding);
                f = opaque(static_cast<float>(opaque(x)));
            }
            f = c.flush ? flushed(f) : f;
            return __builtin_bit_cast(u32, c.from == Type::f64 ? f : canonical(f));
        }
        default: return __builtin_bit_cast(u64, x);
    }
}

u64 integer_to_real(i128 n, const Conversion& c) {
    const Rounded mode(c.to == Type::f32 || c.to == Type::f64 ? c.rounding : Rounding::nearest);
    if (c.to == Type::f32 || c.to == Type::f64) {
        const bool wide = c.to == Type::f64;
        if (is_signed(c.from)) {
            const s64 v = opaque(static_cast<s64>(n));
            return wide ? __builtin_bit_cast(u64, opaque(static_cast<double>(v)))
                        : __builtin_bit_cast(u32, opaque(static_cast<float>(v)));
        }
        if (n <= std::numeric_limits<s64>::max()) {
            const s64 v = opaque(static_cast<s64>(n));
            return wide ? __builtin_bit_cast(u64, opaque(static_cast<double>(v)))
                        : __builtin_bit_cast(u32, opaque(static_cast<float>(v)));
        }
        // Halve it and keep what is lost as a sticky bit: the rounding sees the same.
        const auto v = opaque(static_cast<s64>((static_cast<u64>(n) >> 1) | (static_cast<u64>(n) & 1)));
        return wide ? __builtin_bit_cast(u64, opaque(static_cast<double>(v)) * 2)
                    : __builtin_bit_cast(u32, opaque(static_cast<float>(v)) * 2);
    }
    // To 16 bits through a double, which must not round: bits beyond its 53 become a sticky one.
    const bool negative = n < 0;
    u64 magnitude = static_cast<u64>(negative ? -n : n);
    if (magnitude >> 53 != 0) magnitude = (magnitude >> 11 | ((magnitude & 0x7FF) != 0 ? 1 : 0)) << 11;
    const double x = negative ? -static_cast<double>(magnitude) : static_cast<double>(magnitude);
    return c.to == Type::f16 ? to_half(x, c.rounding) : to_bfloat(x, c.rounding);
}

Step general(Warp& w, const Instr& in, Mask mask) {
    const auto c = __builtin_bit_cast(Conversion, in.imm);
    for (Mask m = mask; m != 0; m &= m - 1) {
        const int i = __builtin_ctz(m);
        const u64 value = raw(w, in.a, c.from_bytes, i);
        u64 result;
        if (is_integer(c.from)) {
            i128 n = integer_of(value, c.from);
            if (is_integer(c.to)) {
                if (c.saturate == 1) n = std::clamp(n, least(c.to), most(c.to));
                result = extended(static_cast<u64>(n), c.to);
            } else {
                result = integer_to_real(n, c);
            }
        } else {
            const double x = real_of(value, c.from, c.flush);
            result = is_integer(c.to) ? extended(real_to_integer(x, c), c.to) : real_to_real(x, c);
        }
        put(w, in.d, c.to_bytes, i, result);
    }
    return Step::go;
}

// ---- the common ones ------------------------------------------------------------------------------------------------

// Integers: shift the source's sign into place, then the target's. imm: two shifts and two signs.
template <class A, class D> Step widths(Warp& w, const Instr& in, Mask mask) {
    const A* const a = w.at<A>(in.a);
    D* const d = w.at<D>(in.d);
    const auto from = static_cast<unsigned>(in.imm & 0xFF), to = static_cast<unsigned>(in.imm >> 8 & 0xFF);
    const bool from_signed = (in.imm >> 16 & 1) != 0, to_signed = (in.imm >> 17 & 1) != 0;
    const auto shifted = [](u64 v, unsigned s, bool sign) {
        return sign ? static_cast<u64>(static_cast<s64>(v << s) >> s) : v << s >> s;
    };
    each(
        mask, [&](int i) __attribute__((always_inline)) {
            d[i] = static_cast<D>(shifted(shifted(a[i], from, from_signed), to, to_signed));
        });
    return Step::go;
}

template <class A> Handler widths_to(unsigned d) {
    return d == 2 ? widths<A, std::uint16_t> : d == 4 ? widths<A, u32> : widths<A, u64>;
}

template <class D> D truncated(float x) {  // .rzi with saturation; NaN is 0
    constexpr float low = static_cast<float>(std::numeric_limits<D>::min()),
                    high = static_cast<float>(std::numeric_limits<D>::max());
    if (x != x) return 0;
    return x <= low ? std::numeric_limits<D>::min() : x >= high ? std::numeric_limits<D>::max() : static_cast<D>(x);
}

Handler vector_form(const Conversion& c) {
    if (c.saturate != 0 || c.from_bytes != std::max(2u, bytes_of(c.from)) || c.to_bytes != std::max(2u, bytes_of(c.to)))
        return nullptr;
    const bool nearest = c.rounding == Rounding::nearest && !c.integral;
    if (c.from == Type::f32 && c.to == Type::s32 && c.rounding == Rounding::zero && !c.flush)
        return lanes<s32, float>([](float x) { return truncated<s32>(x); });
    if (c.from == Type::f32 && c.to == Type::u32 && c.rounding == Rounding::zero && !c.flush)
        return lanes<u32, float>([](float x) { return truncated<u32>(x); });
    if (!nearest || c.flush) return nullptr;
    if (c.from == Type::s32 && c.to == Type::f32) return lanes<float, s32>([](s32 x) { return static_cast<float>(x); });
    if (c.from == Type::u32 && c.to == Type::f32) return lanes<float, u32>([](u32 x) { return static_cast<float>(x); });
    if (c.from == Type::s32 && c.to == Type::f64)
        return lanes<double, s32>([](s32 x) { return static_cast<double>(x); });
    if (c.from == Type::u32 && c.to == Type::f64)
        return lanes<double, u32>([](u32 x) { return static_cast<double>(x); });
    if (c.from == Type::f32 && c.to == Type::f64)
        return lanes<double, float>([](float x) { return static_cast<double>(x); });
    if (c.from == Type::f64 && c.to == Type::f32)
        return lanes<float, double>([](double x) { return static_cast<float>(x); });
    if (c.from == Type::f32 && c.to == Type::f16)
        return lanes<std::uint16_t, float>([](float x) { return half_from_float(x); });
    if (c.from == Type::f32 && c.to == Type::bf16)
        return lanes<std::uint16_t, float>([](float x) { return bfloat_from_float(x); });
    if (c.from == Type::f16 && c.to == Type::f32)
        return lanes<float, std::uint16_t>([](std::uint16_t x) { return canonical(half_to_float(x)); });
    if (c.from == Type::bf16 && c.to == Type::f32)
        return lanes<u32, std::uint16_t>([](std::uint16_t x) { return u32{x} << 16; });
    return nullptr;
}

// ---- packing --------------------------------------------------------------------------------------------------------

// Two f32 to a pair, the first operand above.
template <Type to, Rounding r, bool relu> u32 pair_of(float high, float low) {
    const auto part = [](float x) -> u32 {
        if (relu && !(x > 0) && x == x) x = 0;
        return to == Type::f16x2 ? to_half(x, r) : to_bfloat(x, r);
    };
    return part(high) << 16 | part(low);
}
template <Type to> Handler pair_handler(Rounding r, bool relu) {
    if (r == Rounding::zero)
        return relu ? lanes<u32, float, float>([](float a, float b) { return pair_of<to, Rounding::zero, true>(a, b); })
                    : lanes<u32, float, float>(
                          [](float a, float b) { return pair_of<to, Rounding::zero, false>(a, b); });
    return relu
               ? lanes<u32, float, float>([](float a, float b) { return pair_of<to, Rounding::nearest, true>(a, b); })
               : lanes<u32, float, float>([](float a, float b) { return pair_of<to, Rounding::nearest, false>(a, b); });
}

// cvt.pack.sat.u8.s32.b32: two saturated integers under the low bits of the third operand
template <class T> u32 pack_two(s32 a, s32 b, u32 below) {
    const auto clip = [](s32 x) {
        return static_cast<u32>(static_cast<std::make_unsigned_t<T>>(
            std::clamp<s32>(x, std::numeric_limits<T>::min(), std::numeric_limits<T>::max())));
    };
    constexpr int bits = 8 * sizeof(T);
    const u32 both = clip(a) << bits | clip(b);
    return bits == 16 ? both : below << 16 | both;
}

void decode_pack(Coder& c) {
    if (!c.take("sat")) c.refuse();
    const Type to = c.take_type(), from = c.take_type();
    const bool three = c.take("b32");
    c.count(three ? 4 : 3, three ? 4 : 3);
    if (from != Type::s32 || three == (bytes_of(to) == 2)) c.refuse();
    const Slot d = c.write(c.operand(0), Type::b32), a = c.read(c.operand(1), from), b = c.read(c.operand(2), from);
    const Slot below = three ? c.read(c.operand(3), Type::b32) : c.constant(0, 4);
    const Handler run =
        to == Type::u8 ? lanes<u32, s32, s32, u32>([](s32 x, s32 y, u32 z) { return pack_two<std::uint8_t>(x, y, z); })
        : to == Type::s8 ? lanes<u32, s32, s32, u32>([](s32 x, s32 y, u32 z) { return pack_two<std::int8_t>(x, y, z); })
        : to == Type::u16
            ? lanes<u32, s32, s32, u32>([](s32 x, s32 y, u32 z) { return pack_two<std::uint16_t>(x, y, z); })
            : lanes<u32, s32, s32, u32>([](s32 x, s32 y, u32 z) { return pack_two<std::int16_t>(x, y, z); });
    c.emit(run, d, a, b, below);
}

void decode_pair(Coder& c, Type to, Rounding rounding) {
    const bool relu = c.take("relu"), satfinite = c.take("satfinite");
    const Type from = c.take_type();
    const bool e4m3 = to == Type::e4m3x2;
    if (facts(to).kind == 'q') {
        if (!satfinite || relu || rounding != Rounding::nearest) c.refuse();
        if (from == Type::f32) {
            const Slot d = c.write(c.operand(0), Type::b16), a = c.read(c.operand(1), from),
                       b = c.read(c.operand(2), from);
            c.emit(
                e4m3
                    ? lanes<std::uint16_t, float, float>([](float x, float y) { return to_e4m3(x) << 8 | to_e4m3(y); })
                    : lanes<std::uint16_t, float, float>([](float x, float y) { return to_e5m2(x) << 8 | to_e5m2(y); }),
                d, a, b);
            return;
        }
        if (from != Type::f16x2) c.refuse();
        const Slot d = c.write(c.operand(0), Type::b16), a = c.read(c.operand(1), from);
        c.emit(e4m3 ? lanes<std::uint16_t, u32>([](u32 x) {
                   return to_e4m3(half_to_float(static_cast<std::uint16_t>(x >> 16))) << 8 |
                          to_e4m3(half_to_float(static_cast<std::uint16_t>(x)));
               })
                    : lanes<std::uint16_t, u32>([](u32 x) {
                          return to_e5m2(half_to_float(static_cast<std::uint16_t>(x >> 16))) << 8 |
                                 to_e5m2(half_to_float(static_cast<std::uint16_t>(x)));
                      }),
               d, a);
        return;
    }
    if (satfinite) c.refuse();
    if (facts(from).kind == 'q') {
        if (to != Type::f16x2 || relu) c.refuse();
        const Slot d = c.write(c.operand(0), to), a = c.read(c.operand(1), Type::b16);
        c.emit(from == Type::e4m3x2
                   ? lanes<u32, std::uint16_t>([](u32 x) {
                         return static_cast<u32>(to_half(from_e4m3(x >> 8))) << 16 | to_half(from_e4m3(x));
                     })
                   : lanes<u32, std::uint16_t>([](u32 x) { return (x & 0xFF00) << 16 | (x & 0xFF) << 8; }),
               d, a);
        return;
    }
    if (from != Type::f32 || (rounding != Rounding::nearest && rounding != Rounding::zero)) c.refuse();
    c.count(3, 3);
    const Slot d = c.write(c.operand(0), to), a = c.read(c.operand(1), from), b = c.read(c.operand(2), from);
    c.emit(to == Type::f16x2 ? pair_handler<Type::f16x2>(rounding, relu) : pair_handler<Type::bf16x2>(rounding, relu),
           d, a, b);
}

void decode_cvt(Coder& c) {
    if (c.take("pack")) return decode_pack(c);
    Conversion v{};
    static constexpr std::pair<std::string_view, Rounding> roundings[] = {
        {"rn", Rounding::nearest}, {"rz", Rounding::zero}, {"rm", Rounding::down}, {"rp", Rounding::up}};
    static constexpr std::pair<std::string_view, Rounding> integrals[] = {
        {"rni", Rounding::nearest}, {"rzi", Rounding::zero}, {"rmi", Rounding::down}, {"rpi", Rounding::up}};
    for (const auto& [name, r] : roundings)
        if (c.take(name)) v.rounding = r;
    for (const auto& [name, r] : integrals)
        if (c.take(name)) {
            v.rounding = r;
            v.integral = true;
        }
    const bool away = c.take("rna");
    v.flush = c.take("ftz");
    v.to = c.take_type();
    if (v.to == Type::tf32) {
        if (!away || c.take_type() != Type::f32) c.refuse();
        const Slot d = c.write(c.operand(0), Type::b32);
        c.emit(lanes<u32, u32>([](u32 x) {
                   return (x & 0x7FFFFFFF) > 0x7F800000    ? 0x7FFFFFFFu
                          : (x & 0x7F800000) == 0x7F800000 ? x
                                                           : (x + 0x1000) & ~0x1FFFu;
               }),
               d, c.read(c.operand(1), Type::b32));
        return;
    }
    if (away) c.refuse();
    if (facts(v.to).kind == 'v' || facts(v.to).kind == 'q') return decode_pair(c, v.to, v.rounding);
    v.saturate = c.take("sat") ? 1 : 0;
    if (c.take("relu")) v.saturate = 2;
    v.from = c.take_type();
    c.count(2, 2);
    const auto usable = [](Type t) { return is_integer(t) || is_float(t) || facts(t).kind == 'h'; };
    if (!usable(v.from) || !usable(v.to)) c.refuse();
    unsigned from = 0, to = 0;
    const Slot a = c.read_wide(c.operand(1), v.from, &from), d = c.write_wide(c.operand(0), v.to, &to);
    v.from_bytes = static_cast<std::uint8_t>(from);
    v.to_bytes = static_cast<std::uint8_t>(to);
    if (is_integer(v.from) && is_integer(v.to) && v.saturate == 0) {
        const Handler run = from == 2   ? widths_to<std::uint16_t>(to)
                            : from == 4 ? widths_to<u32>(to)
                                        : widths_to<u64>(to);
        c.emit(run, d, a).imm = (64 - 8 * bytes_of(v.from)) | (64 - 8 * bytes_of(v.to)) << 8 |
                                (is_signed(v.from) ? 1 << 16 : 0) | (is_signed(v.to) ? 1 << 17 : 0);
        return;
    }
    const Handler run = vector_form(v);
    c.emit(run != nullptr ? run : general, d, a).imm = __builtin_bit_cast(s64, v);
}

}  // namespace

void convert_instructions(Decoders& t) { t["cvt"] = decode_cvt; }

}  // namespace barcuda::soft
