// SPDX-License-Identifier: Apache-2.0
// integer.cc: add, sub, mul, mad, div, rem, min, max, neg, abs, sad, and the carry chain.
#include <algorithm>
#include <limits>

#include "soft-gpu/ptx/coder.h"
#include "soft-gpu/ptx/select.h"

namespace barcuda::soft {
namespace {

using u64 = std::uint64_t;

template <class T> using Wider =
    std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, std::int32_t, std::uint32_t>,
                       std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>;
template <class T> using Unsigned = std::make_unsigned_t<T>;
__extension__ using i128 = __int128;
__extension__ using u128 = unsigned __int128;

template <class T> T multiply_high(T a, T b) {
    if constexpr (sizeof(T) == 8)
        return static_cast<T>((static_cast<std::conditional_t<std::is_signed_v<T>, i128, u128>>(a) * b) >> 64);
    else return static_cast<T>((static_cast<Wider<T>>(a) * b) >> (8 * sizeof(T)));
}
template <class T> T multiply_low(T a, T b) { return static_cast<T>(static_cast<u64>(a) * static_cast<u64>(b)); }
template <class T> T add(T a, T b) {
    return static_cast<T>(static_cast<Unsigned<T>>(static_cast<Unsigned<T>>(a) + static_cast<Unsigned<T>>(b)));
}
template <class T> T subtract(T a, T b) {
    return static_cast<T>(static_cast<Unsigned<T>>(static_cast<Unsigned<T>>(a) - static_cast<Unsigned<T>>(b)));
}
template <class T> T saturate(std::int64_t v) {
    return static_cast<T>(std::clamp<std::int64_t>(v, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
}

// Division by zero gives all ones, as the hardware does; PTX leaves it undefined.
template <class T> T divide(T a, T b) {
    if (b == 0) return static_cast<T>(~T{0});
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return static_cast<T>(0 - static_cast<Unsigned<T>>(a));
    return static_cast<T>(a / b);
}
template <class T> T remainder(T a, T b) {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
}

void binary(Coder& c, Type type, Handler run) {
    c.count(3, 3);
    const Slot d = c.write(c.operand(0), type);
    const Slot a = c.read(c.operand(1), type);
    c.emit(run, d, a, c.read(c.operand(2), type));
}

void unary(Coder& c, Type type, Handler run) {
    c.count(2, 2);
    const Slot d = c.write(c.operand(0), type);
    c.emit(run, d, c.read(c.operand(1), type));
}

// ---- packed halves: add.u16x2, min.s16x2 ----------------------------------------------------------------------------

template <class T, bool relu, class F> Handler halves(F) {
    return lanes<std::uint32_t, std::uint32_t, std::uint32_t>([](std::uint32_t a, std::uint32_t b) {
        const auto half = [](auto x, auto y) -> std::uint32_t {
            const int r = F{}(static_cast<T>(x), static_cast<T>(y));
            return static_cast<std::uint16_t>(relu && r < 0 ? 0 : r);
        };
        return half(a >> 16, b >> 16) << 16 | half(a, b);
    });
}

void packed(Coder& c) {
    const bool relu = c.take("relu");
    const Type type = c.take_type();
    const auto pick = [&](auto f) {
        if (type == Type::u16x2) return relu ? nullptr : halves<std::uint16_t, false>(f);
        return relu ? halves<std::int16_t, true>(f) : halves<std::int16_t, false>(f);
    };
    const auto name = c.in().name;
    const Handler run = name == "add"   ? pick([](int x, int y) { return x + y; })
                        : name == "min" ? pick([](int x, int y) { return std::min(x, y); })
                                        : pick([](int x, int y) { return std::max(x, y); });
    if (run == nullptr || (relu && name == "add")) c.refuse();
    binary(c, type, run);
}

// ---- decoders -------------------------------------------------------------------------------------------------------

void decode_add(Coder& c) {
    const bool saturating = c.take("sat");
    const Type type = c.take_type();
    if (saturating) {
        if (type != Type::s32) c.refuse();
        return binary(c, type, lanes<std::int32_t, std::int32_t, std::int32_t>([](std::int64_t a, std::int64_t b) {
                          return saturate<std::int32_t>(a + b);
                      }));
    }
    binary(c, type, by_integer(c, type, []<class T>() { return lanes<T, T, T>([](T a, T b) { return add(a, b); }); }));
}

void decode_sub(Coder& c) {
    const bool saturating = c.take("sat");
    const Type type = c.take_type();
    if (saturating) {
        if (type != Type::s32) c.refuse();
        return binary(c, type, lanes<std::int32_t, std::int32_t, std::int32_t>([](std::int64_t a, std::int64_t b) {
                          return saturate<std::int32_t>(a - b);
                      }));
    }
    binary(c, type,
           by_integer(c, type, []<class T>() { return lanes<T, T, T>([](T a, T b) { return subtract(a, b); }); }));
}

constexpr Type twice(Type type) {
    switch (type) {
        case Type::u16: return Type::u32;
        case Type::s16: return Type::s32;
        case Type::u32: return Type::u64;
        default: return Type::s64;
    }
}

void decode_mul(Coder& c) {
    const bool wide = c.take("wide"), high = c.take("hi");
    c.take("lo");
    const Type type = c.take_type();
    if (wide) {
        c.count(3, 3);
        if (bytes_of(type) != 2 && bytes_of(type) != 4) c.refuse();
        const Slot d = c.write(c.operand(0), twice(type)), a = c.read(c.operand(1), type),
                   b = c.read(c.operand(2), type);
        const Handler run =
            type == Type::u32 ? lanes<u64, std::uint32_t, std::uint32_t>([](u64 x, u64 y) { return x * y; })
            : type == Type::s32
                ? lanes<std::int64_t, std::int32_t, std::int32_t>([](std::int64_t x, std::int64_t y) { return x * y; })
            : type == Type::u16
                ? lanes<std::uint32_t, std::uint16_t, std::uint16_t>(
                      [](std::uint32_t x, std::uint32_t y) { return x * y; })
                : lanes<std::int32_t, std::int16_t, std::int16_t>([](std::int32_t x, std::int32_t y) { return x * y; });
        c.emit(run, d, a, b);
        return;
    }
    binary(c, type, by_integer(c, type, [&]<class T>() {
               return high ? lanes<T, T, T>([](T a, T b) { return multiply_high(a, b); })
                           : lanes<T, T, T>([](T a, T b) { return multiply_low(a, b); });
           }));
}

void decode_mad(Coder& c) {
    const bool wide = c.take("wide"), high = c.take("hi"), saturating = c.take("sat");
    c.take("lo");
    const Type type = c.take_type();
    c.count(4, 4);
    const Slot a = c.read(c.operand(1), type), b = c.read(c.operand(2), type);
    if (wide) {
        if (bytes_of(type) != 2 && bytes_of(type) != 4) c.refuse();
        const Slot d = c.write(c.operand(0), twice(type)), e = c.read(c.operand(3), twice(type));
        const Handler run =
            type == Type::u32
                ? lanes<u64, std::uint32_t, std::uint32_t, u64>([](u64 x, u64 y, u64 z) { return x * y + z; })
            : type == Type::s32 ? lanes<u64, std::int32_t, std::int32_t, u64>(
                                      [](std::int64_t x, std::int64_t y, u64 z) { return static_cast<u64>(x * y) + z; })
            : type == Type::u16 ? lanes<std::uint32_t, std::uint16_t, std::uint16_t, std::uint32_t>(
                                      [](std::uint32_t x, std::uint32_t y, std::uint32_t z) { return x * y + z; })
                                : lanes<std::uint32_t, std::int16_t, std::int16_t, std::uint32_t>(
                                      [](std::int32_t x, std::int32_t y, std::uint32_t z) {
                                          return static_cast<std::uint32_t>(x * y) + z;
                                      });
        c.emit(run, d, a, b, e);
        return;
    }
    const Slot d = c.write(c.operand(0), type), e = c.read(c.operand(3), type);
    Handler run;
    if (saturating) {
        if (type != Type::s32 || !high) c.refuse();
        run = lanes<std::int32_t, std::int32_t, std::int32_t, std::int32_t>(
            [](std::int64_t x, std::int64_t y, std::int64_t z) { return saturate<std::int32_t>(((x * y) >> 32) + z); });
    } else {
        run = by_integer(c, type, [&]<class T>() {
            return high ? lanes<T, T, T, T>([](T x, T y, T z) { return add(multiply_high(x, y), z); })
                        : lanes<T, T, T, T>([](T x, T y, T z) { return add(multiply_low(x, y), z); });
        });
    }
    c.emit(run, d, a, b, e);
}

// The product of the low 24 bits: its low or its next 32 bits.
void decode_24(Coder& c) {
    const bool high = c.take("hi"), mad = c.in().name == "mad24";
    c.take("lo");
    const Type type = c.take_type();
    c.count(mad ? 4 : 3, mad ? 4 : 3);
    if (bytes_of(type) != 4 || c.has("sat")) c.refuse();
    const Slot d = c.write(c.operand(0), type), a = c.read(c.operand(1), type), b = c.read(c.operand(2), type);
    const Slot e = mad ? c.read(c.operand(3), type) : c.constant(0, 4);
    const bool s = is_signed(type);
    const Handler run =
        s ? (high ? lanes<std::uint32_t, std::int32_t, std::int32_t, std::uint32_t>([](std::int32_t x, std::int32_t y,
                                                                                       std::uint32_t z) {
            return static_cast<std::uint32_t>((static_cast<std::int64_t>(x << 8 >> 8) * (y << 8 >> 8)) >> 16) + z;
        })
                  : lanes<std::uint32_t, std::int32_t, std::int32_t, std::uint32_t>([](std::int32_t x, std::int32_t y,
                                                                                       std::uint32_t z) {
                        return static_cast<std::uint32_t>(static_cast<std::int64_t>(x << 8 >> 8) * (y << 8 >> 8)) + z;
                    }))
          : (high
                 ? lanes<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>([](u64 x, u64 y, std::uint32_t z) {
                       return static_cast<std::uint32_t>(((x & 0xFFFFFF) * (y & 0xFFFFFF)) >> 16) + z;
                   })
                 : lanes<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>([](u64 x, u64 y, std::uint32_t z) {
                       return static_cast<std::uint32_t>((x & 0xFFFFFF) * (y & 0xFFFFFF)) + z;
                   }));
    c.emit(run, d, a, b, e);
}

template <class Pick> void plain_binary(Coder& c, Pick pick) {
    const Type type = c.take_type();
    binary(c, type, by_integer(c, type, pick));
}
void decode_div(Coder& c) {
    plain_binary(c, []<class T>() { return lanes<T, T, T>([](T a, T b) { return divide(a, b); }); });
}
void decode_rem(Coder& c) {
    plain_binary(c, []<class T>() { return lanes<T, T, T>([](T a, T b) { return remainder(a, b); }); });
}
// The smaller or the larger; with .relu, never less than 0.
template <class F> void extreme(Coder& c, F) {
    const bool relu = c.take("relu");
    if (relu && !c.has("s32")) c.refuse();
    plain_binary(c, [relu]<class T>() {
        return relu ? lanes<T, T, T>([](T a, T b) { return std::max(F{}(a, b), T{0}); })
                    : lanes<T, T, T>([](T a, T b) { return F{}(a, b); });
    });
}
void decode_min(Coder& c) {
    extreme(c, [](auto a, auto b) { return std::min(a, b); });
}
void decode_max(Coder& c) {
    extreme(c, [](auto a, auto b) { return std::max(a, b); });
}
void decode_neg(Coder& c) {
    const Type type = c.take_type();
    unary(c, type, by_integer(c, type, []<class T>() { return lanes<T, T>([](T a) { return subtract(T{0}, a); }); }));
}
void decode_abs(Coder& c) {
    const Type type = c.take_type();
    unary(c, type, by_integer(c, type, []<class T>() {
              return lanes<T, T>([](T a) { return a < 0 ? subtract(T{0}, a) : a; });
          }));
}
void decode_sad(Coder& c) {
    const Type type = c.take_type();
    c.count(4, 4);
    const Slot d = c.write(c.operand(0), type), a = c.read(c.operand(1), type), b = c.read(c.operand(2), type);
    c.emit(by_integer(c, type,
                      []<class T>() {
                          return lanes<T, T, T, T>(
                              [](T x, T y, T z) { return add(z, x < y ? subtract(y, x) : subtract(x, y)); });
                      }),
           d, a, b, c.read(c.operand(3), type));
}

// ---- the carry chain: the condition code is a predicate register that the coder keeps -------------------------------

// a - b is a + ~b + 1, and the code is the carry of that sum: after a subtraction it is set if nothing was borrowed.
// The PTX ISA calls it the borrow, which makes no difference while subc follows sub; but nvcc's own 128-bit division
// reads it with addc.
template <class T, bool subtracts, bool reads, bool writes> Step carry(Warp& w, const Instr& in, Mask mask) {
    T* const d = w.at<T>(in.d);
    const T *const a = w.at<T>(in.a), *const b = w.at<T>(in.b);
    Mask& code = w.predicate(in.e);
    Mask out = 0;
    for (Mask m = mask; m != 0; m &= m - 1) {
        const int i = __builtin_ctz(m);
        const T y = subtracts ? static_cast<T>(~b[i]) : b[i];
        const u128 sum = static_cast<u128>(a[i]) + y + (reads ? code >> i & 1 : subtracts);
        d[i] = static_cast<T>(sum);
        out |= static_cast<Mask>(sum >> (8 * sizeof(T)) & 1) << i;
    }
    if (writes) code = (code & ~mask) | out;
    return Step::go;
}

template <class T, bool subtracts> Handler carry_handler(bool reads, bool writes) {
    return reads ? (writes ? carry<T, subtracts, true, true> : carry<T, subtracts, true, false>)
                 : carry<T, subtracts, false, true>;
}

void decode_carry(Coder& c) {  // add.cc, addc, sub.cc, subc
    const bool reads = c.in().name == "addc" || c.in().name == "subc", subtracts = c.in().name.starts_with("sub");
    const bool writes = c.take("cc");
    const Type type = c.take_type();
    c.count(3, 3);
    if (bytes_of(type) < 4) c.refuse();
    const Slot d = c.write(c.operand(0), type), a = c.read(c.operand(1), type), b = c.read(c.operand(2), type);
    const bool wide = bytes_of(type) == 8;
    const Handler run =
        subtracts
            ? (wide ? carry_handler<u64, true>(reads, writes) : carry_handler<std::uint32_t, true>(reads, writes))
            : (wide ? carry_handler<u64, false>(reads, writes) : carry_handler<std::uint32_t, false>(reads, writes));
    c.emit(run, d, a, b, nowhere, c.condition_code());
}

// mad.lo.cc, madc.hi.cc: the product first, then the sum with carry.
void decode_mad_carry(Coder& c) {
    const bool reads = c.in().name == "madc", high = c.take("hi"), writes = c.take("cc");
    c.take("lo");
    const Type type = c.take_type();
    c.count(4, 4);
    if (bytes_of(type) < 4) c.refuse();
    const Slot product = c.scratch(bytes_of(type));
    const Slot d = c.write(c.operand(0), type), a = c.read(c.operand(1), type), b = c.read(c.operand(2), type),
               e = c.read(c.operand(3), type);
    c.emit(by_integer(c, type,
                      [&]<class T>() {
                          return high ? lanes<T, T, T>([](T x, T y) { return multiply_high(x, y); })
                                      : lanes<T, T, T>([](T x, T y) { return multiply_low(x, y); });
                      }),
           product, a, b);
    c.emit(bytes_of(type) == 8 ? carry_handler<u64, false>(reads, writes)
                               : carry_handler<std::uint32_t, false>(reads, writes),
           d, product, e, nowhere, c.condition_code());
}

}  // namespace

void integer_instructions(Decoders& t) {
    t["add.i"] = [](Coder& c) { c.has("cc") ? decode_carry(c) : decode_add(c); };
    t["sub.i"] = [](Coder& c) { c.has("cc") ? decode_carry(c) : decode_sub(c); };
    t["addc.i"] = t["subc.i"] = decode_carry;
    t["mul.i"] = decode_mul;
    t["mad.i"] = [](Coder& c) { c.has("cc") ? decode_mad_carry(c) : decode_mad(c); };
    t["madc.i"] = decode_mad_carry;
    t["mul24.i"] = t["mad24.i"] = decode_24;
    t["div.i"] = decode_div;
    t["rem.i"] = decode_rem;
    t["min.i"] = decode_min;
    t["max.i"] = decode_max;
    t["neg.i"] = decode_neg;
    t["abs.i"] = decode_abs;
    t["sad.i"] = decode_sad;
    t["add.w"] = t["min.w"] = t["max.w"] = packed;
}

}  // namespace barcuda::soft
