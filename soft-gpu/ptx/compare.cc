// SPDX-License-Identifier: Apache-2.0
// compare.cc: setp, set, selp, slct, testp.
#include <cmath>

#include "soft-gpu/ptx/coder.h"
#include "soft-gpu/ptx/half.h"
#include "soft-gpu/ptx/select.h"

namespace barcuda::soft {
namespace {

enum class Relation : std::uint8_t { eq, ne, lt, le, gt, ge, equ, neu, ltu, leu, gtu, geu, num, nan };

template <Relation r, class T> bool holds(T a, T b) {
    if constexpr (r == Relation::eq) return a == b;
    if constexpr (r == Relation::lt) return a < b;
    if constexpr (r == Relation::le) return a <= b;
    if constexpr (r == Relation::gt) return a > b;
    if constexpr (r == Relation::ge) return a >= b;
    if constexpr (std::is_integral_v<T>) return a != b;
    // Ordered: false with a NaN. Unordered: true with a NaN.
    if constexpr (r == Relation::ne) return a < b || a > b;
    if constexpr (r == Relation::equ) return !(a < b || a > b);
    if constexpr (r == Relation::neu) return !(a == b);
    if constexpr (r == Relation::ltu) return !(a >= b);
    if constexpr (r == Relation::leu) return !(a > b);
    if constexpr (r == Relation::gtu) return !(a <= b);
    if constexpr (r == Relation::geu) return !(a < b);
    if constexpr (r == Relation::num) return a == a && b == b;
    if constexpr (r == Relation::nan) return !(a == a && b == b);
}

// How a type is stored in a register, and what it is compared as.
struct Plain {
    template <class T> static T value(T x) { return x; }
};
struct Flushed {
    static float value(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }
};
struct FromHalf {
    static float value(std::uint16_t x) { return half_to_float(x); }
};
struct FromBfloat {
    static float value(std::uint16_t x) { return bfloat_to_float(x); }
};

template <class T, class View, Relation r> Handler comparison() {
    return lanes_to_bits<T, T>([](T a, T b) { return holds<r>(View::value(a), View::value(b)); });
}

template <class T, class View> Handler by_relation(Coder& c, Relation r) {
    switch (r) {
        case Relation::eq: return comparison<T, View, Relation::eq>();
        case Relation::ne: return comparison<T, View, Relation::ne>();
        case Relation::lt: return comparison<T, View, Relation::lt>();
        case Relation::le: return comparison<T, View, Relation::le>();
        case Relation::gt: return comparison<T, View, Relation::gt>();
        case Relation::ge: return comparison<T, View, Relation::ge>();
        default: break;
    }
    if constexpr (!std::is_integral_v<decltype(View::value(T{}))>) {
        switch (r) {
            case Relation::equ: return comparison<T, View, Relation::equ>();
            case Relation::neu: return comparison<T, View, Relation::neu>();
            case Relation::ltu: return comparison<T, View, Relation::ltu>();
            case Relation::leu: return comparison<T, View, Relation::leu>();
            case Relation::gtu: return comparison<T, View, Relation::gtu>();
            case Relation::geu: return comparison<T, View, Relation::geu>();
            case Relation::num: return comparison<T, View, Relation::num>();
            default: return comparison<T, View, Relation::nan>();
        }
    }
    c.refuse();
}

Relation take_relation(Coder& c, Type type) {
    static constexpr std::string_view names[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
                                                 "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};
    const bool real = is_float(type) || is_half(type);
    // lo, ls, hi, hs: unsigned comparisons' other names
    if (c.take("lo")) return Relation::lt;
    if (c.take("ls")) return Relation::le;
    if (c.take("hi")) return Relation::gt;
    if (c.take("hs")) return Relation::ge;
    for (std::size_t i = 0; i < std::size(names); ++i)
        if (c.take(names[i])) {
            if (i >= 6 && !real) c.refuse();
            return static_cast<Relation>(i);
        }
    c.refuse();
}

Handler compare_handler(Coder& c, Type type, Relation r, bool flush) {
    switch (type) {
        case Type::u16:
        case Type::b16: return by_relation<std::uint16_t, Plain>(c, r);
        case Type::u32:
        case Type::b32: return by_relation<std::uint32_t, Plain>(c, r);
        case Type::u64:
        case Type::b64: return by_relation<std::uint64_t, Plain>(c, r);
        case Type::s16: return by_relation<std::int16_t, Plain>(c, r);
        case Type::s32: return by_relation<std::int32_t, Plain>(c, r);
        case Type::s64: return by_relation<std::int64_t, Plain>(c, r);
        case Type::f32: return flush ? by_relation<float, Flushed>(c, r) : by_relation<float, Plain>(c, r);
        case Type::f64: return by_relation<double, Plain>(c, r);
        case Type::f16: return by_relation<std::uint16_t, FromHalf>(c, r);
        case Type::bf16: return by_relation<std::uint16_t, FromBfloat>(c, r);
        default: c.refuse();
    }
}

// p = raw op c, q = !raw op c. imm: 0 none, 1 and, 2 or, 3 xor
template <int op> Step combine(Warp& w, const Instr& in, Mask mask) {
    const Mask raw = w.predicate(in.a), with = w.predicate(in.b) ^ (in.imm != 0 ? all_lanes : 0);
    const auto apply = [&](Mask x) { return op == 1 ? x & with : op == 2 ? x | with : op == 3 ? x ^ with : x; };
    const Mask p = apply(raw), q = apply(~raw);
    Mask& d = w.predicate(in.d);
    d = (d & ~mask) | (p & mask);
    if (in.e != nowhere) {
        Mask& e = w.predicate(in.e);
        e = (e & ~mask) | (q & mask);
    }
    return Step::go;
}

int take_boolean(Coder& c) { return c.take("and") ? 1 : c.take("or") ? 2 : c.take("xor") ? 3 : 0; }
Handler combine_handler(int boolean) {
    static constexpr Handler table[] = {combine<0>, combine<1>, combine<2>, combine<3>};
    return table[boolean];
}

// f16x2: the two halves give p and q
template <bool high> Slot one_half(Coder& c, Slot from) {
    const Slot part = c.scratch(2);
    c.emit(lanes<std::uint16_t, std::uint32_t>([](std::uint32_t x) { return x >> (high ? 16 : 0); }), part, from);
    return part;
}

void decode_setp(Coder& c) {
    const bool flush = c.take("ftz");
    const int boolean = take_boolean(c);
    const Type type = c.take_type();
    const Relation r = take_relation(c, type);
    c.count(boolean != 0 ? 4 : 3, boolean != 0 ? 4 : 3);
    const auto& target = c.operand(0);
    ast::Operand first = target;
    first.items.clear();
    const Slot d = c.write_predicate(first), e = target.items.empty() ? nowhere : c.write_predicate(target.items[0]);
    const Slot a = c.read(c.operand(1), type), b = c.read(c.operand(2), type);
    const Slot with = boolean != 0 ? c.read_predicate(c.operand(3)) : c.constant(0, 4);
    const bool negated = boolean != 0 && c.operand(3).negated;
    if (facts(type).kind == 'v') {
        if (e == nowhere) c.refuse();
        const Type part = type == Type::f16x2 ? Type::f16 : Type::bf16;
        const Handler run = compare_handler(c, part, r, flush);
        const Slot al = one_half<false>(c, a), bl = one_half<false>(c, b), ah = one_half<true>(c, a),
                   bh = one_half<true>(c, b);
        const Slot low = c.scratch(4), high = c.scratch(4);
        c.emit(run, low, al, bl);
        c.emit(run, high, ah, bh);
        c.emit(combine_handler(boolean), d, low, with).imm = negated;
        c.emit(combine_handler(boolean), e, high, with).imm = negated;
        return;
    }
    const Handler run = compare_handler(c, type, r, flush);
    if (boolean == 0 && e == nowhere) return void(c.emit(run, d, a, b));
    const Slot raw = c.scratch(4);
    c.emit(run, raw, a, b);
    c.emit(combine_handler(boolean), d, raw, with, nowhere, e).imm = negated;
}

// d = p ? all ones or 1.0 : 0
template <class T> Step from_predicate(Warp& w, const Instr& in, Mask mask) {
    const Mask p = w.predicate(in.a);
    T* const d = w.at<T>(in.d);
    const T yes = static_cast<T>(in.imm);
    each(
        mask, [&](int i) __attribute__((always_inline)) { d[i] = (p >> i & 1) != 0 ? yes : T{0}; });
    return Step::go;
}

void decode_set(Coder& c) {
    const bool flush = c.take("ftz");
    const int boolean = take_boolean(c);
    const Type to = c.take_type(), type = c.take_type();
    const Relation r = take_relation(c, type);
    c.count(boolean != 0 ? 4 : 3, boolean != 0 ? 4 : 3);
    const Slot d = c.write(c.operand(0), to), a = c.read(c.operand(1), type), b = c.read(c.operand(2), type);
    const Slot with = boolean != 0 ? c.read_predicate(c.operand(3)) : c.constant(0, 4);
    const bool negated = boolean != 0 && c.operand(3).negated;
    const auto one = [&](Type t) -> std::int64_t {
        return t == Type::f32 ? 0x3F800000 : t == Type::f16 ? 0x3C00 : t == Type::bf16 ? 0x3F80 : -1;
    };
    if (facts(type).kind == 'v') {  // two results side by side
        const Type part = type == Type::f16x2 ? Type::f16 : Type::bf16;
        const Handler run = compare_handler(c, part, r, flush);
        const std::int64_t yes = to == Type::f16x2 ? 0x3C00 : to == Type::bf16x2 ? 0x3F80 : 0xFFFF;
        const Slot al = one_half<false>(c, a), bl = one_half<false>(c, b), ah = one_half<true>(c, a),
                   bh = one_half<true>(c, b);
        const Slot low = c.scratch(4), high = c.scratch(4), x = c.scratch(4), y = c.scratch(4);
        c.emit(run, low, al, bl);
        c.emit(run, high, ah, bh);
        c.emit(combine_handler(boolean), low, low, with).imm = negated;
        c.emit(combine_handler(boolean), high, high, with).imm = negated;
        c.emit(from_predicate<std::uint32_t>, x, low).imm = yes;
        c.emit(from_predicate<std::uint32_t>, y, high).imm = yes << 16;
        c.emit(lanes<std::uint32_t, std::uint32_t, std::uint32_t>([](auto p, auto q) { return p | q; }), d, x, y);
        return;
    }
    const Slot raw = c.scratch(4);
    c.emit(compare_handler(c, type, r, flush), raw, a, b);
    if (boolean != 0) c.emit(combine_handler(boolean), raw, raw, with).imm = negated;
    if (bytes_of(to) == 2) c.emit(from_predicate<std::uint16_t>, d, raw).imm = one(to);
    else if (bytes_of(to) == 4) c.emit(from_predicate<std::uint32_t>, d, raw).imm = one(to);
    else c.refuse();
}

template <class T> Step choose(Warp& w, const Instr& in, Mask mask) {
    const Mask p = w.predicate(in.c) ^ (in.imm != 0 ? all_lanes : 0);
    const T *const a = w.at<T>(in.a), *const b = w.at<T>(in.b);
    T* const d = w.at<T>(in.d);
    each(
        mask, [&](int i) __attribute__((always_inline)) { d[i] = (p >> i & 1) != 0 ? a[i] : b[i]; });
    return Step::go;
}

template <class T> struct ChooseOf { static constexpr Handler run = choose<T>; };

void decode_selp(Coder& c) {
    const Type type = c.take_type();
    c.count(4, 4);
    const Slot d = c.write(c.operand(0), type), a = c.read(c.operand(1), type), b = c.read(c.operand(2), type);
    const Slot p = c.read_predicate(c.operand(3));
    c.emit(by_size(c, bytes_of(type), []<class T>() { return ChooseOf<T>::run; }), d, a, b, p).imm =
        c.operand(3).negated;
}

void decode_slct(Coder& c) {  // d = c >= 0 ? a : b
    const bool flush = c.take("ftz");
    const Type type = c.take_type(), by = c.take_type();
    c.count(4, 4);
    const Slot d = c.write(c.operand(0), type), a = c.read(c.operand(1), type), b = c.read(c.operand(2), type),
               x = c.read(c.operand(3), by);
    const Slot p = c.scratch(4), zero = c.constant(0, 4);
    if (by != Type::s32 && by != Type::f32) c.refuse();
    c.emit(compare_handler(c, by, Relation::ge, flush), p, x, zero);
    c.emit(by_size(c, bytes_of(type), []<class T>() { return ChooseOf<T>::run; }), d, a, b, p);
}

void decode_testp(Coder& c) {
    static constexpr std::string_view names[] = {"finite", "infinite", "number", "notanumber", "normal", "subnormal"};
    std::size_t which = 0;
    while (which < std::size(names) && !c.take(names[which])) ++which;
    const Type type = c.take_type();
    c.count(2, 2);
    const Slot d = c.write_predicate(c.operand(0)), a = c.read(c.operand(1), type);
    const auto pick = [&]<class T>() -> Handler {
        switch (which) {
            case 0: return lanes_to_bits<T>([](T x) { return std::isfinite(x); });
            case 1: return lanes_to_bits<T>([](T x) { return std::isinf(x); });
            case 2: return lanes_to_bits<T>([](T x) { return !std::isnan(x); });
            case 3: return lanes_to_bits<T>([](T x) { return std::isnan(x); });
            case 4: return lanes_to_bits<T>([](T x) { return std::isnormal(x); });
            case 5: return lanes_to_bits<T>([](T x) { return std::fpclassify(x) == FP_SUBNORMAL; });
            default: c.refuse();
        }
    };
    c.emit(type == Type::f64 ? pick.template operator()<double>() : pick.template operator()<float>(), d, a);
}

}  // namespace

void compare_instructions(Decoders& t) {
    t["setp"] = decode_setp;
    t["set"] = decode_set;
    t["selp"] = decode_selp;
    t["slct"] = decode_slct;
    t["testp"] = decode_testp;
}

}  // namespace barcuda::soft
