// SPDX-License-Identifier: Apache-2.0
// half.cc: f16 and bf16 arithmetic, single and in pairs. A sum or a product is computed in f32, whose 24 bits are
// enough to make the second rounding harmless; fma is computed in f64 and first rounded to odd.
#include "soft-gpu/ptx/half.h"

#include "soft-gpu/ptx/coder.h"
#include "soft-gpu/ptx/math.h"

namespace barcuda::soft {
namespace {

using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

struct Half {
    static float load(u16 x) { return half_to_float(x); }
    static u16 store(float x) { return half_from_float(x); }
    static u16 store(double x) { return to_half(x); }
    static u16 flush(u16 x) { return (x & 0x7C00) == 0 ? x & 0x8000 : x; }
    static constexpr u16 one = 0x3C00;
    static bool is_nan(u16 x) { return (x & 0x7FFF) > 0x7C00; }
};
struct Bfloat {
    static float load(u16 x) { return bfloat_to_float(x); }
    static u16 store(float x) { return bfloat_from_float(x); }
    static u16 store(double x) { return to_bfloat(x); }
    static u16 flush(u16 x) { return (x & 0x7F80) == 0 ? x & 0x8000 : x; }
    static constexpr u16 one = 0x3F80;
    static bool is_nan(u16 x) { return (x & 0x7FFF) > 0x7F80; }
};

// a * b + c with the product exact and the sum rounded to odd: rounding it once more is rounding the exact value.
double fma_odd(double a, double b, double c) {
    const double product = a * b, sum = product + c;
    if (!std::isfinite(sum)) return sum;
    const double back = sum - product, error = (product - (sum - back)) + (c - back);
    const auto bits = __builtin_bit_cast(u64, sum);
    if (error == 0 || (bits & 1) != 0) return sum;
    return __builtin_bit_cast(double, (error > 0) == (sum > 0) ? bits + 1 : bits - 1);
}

struct HalfAdd {
    static constexpr int sources = 2;
    template <class F> static u16 f(u16 a, u16 b) { return F::store(F::load(a) + F::load(b)); }
};
struct HalfSub {
    static constexpr int sources = 2;
    template <class F> static u16 f(u16 a, u16 b) { return F::store(F::load(a) - F::load(b)); }
};
struct HalfMul {
    static constexpr int sources = 2;
    template <class F> static u16 f(u16 a, u16 b) { return F::store(F::load(a) * F::load(b)); }
};
struct HalfFma {
    static constexpr int sources = 3;
    template <class F> static u16 f(u16 a, u16 b, u16 c) {
        return F::store(fma_odd(F::load(a), F::load(b), F::load(c)));
    }
};
struct Neg {  // the PTX ISA leaves the result for a NaN open, and hardware makes the canonical one
    static constexpr int sources = 1;
    template <class F> static u16 f(u16 a) { return F::is_nan(a) ? 0x7FFF : a ^ 0x8000; }
};
struct Abs {
    static constexpr int sources = 1;
    template <class F> static u16 f(u16 a) { return F::is_nan(a) ? 0x7FFF : a & 0x7FFF; }
};
struct Exp2 {
    static constexpr int sources = 1;
    template <class F> static u16 f(u16 a) { return F::store(exp2_approx(F::load(a))); }
};
struct Tanh {
    static constexpr int sources = 1;
    template <class F> static u16 f(u16 a) { return F::store(tanh_approx(F::load(a))); }
};
template <bool maximum, bool keeps_nan, bool xorsign> struct HalfExtreme {
    static constexpr int sources = 2;
    template <class F> static u16 f(u16 a, u16 b) {
        const u16 sign = (a ^ b) & 0x8000;
        if (keeps_nan && (F::is_nan(a) || F::is_nan(b))) return 0x7FFF;
        if (xorsign) {
            a &= 0x7FFF;
            b &= 0x7FFF;
        }
        u16 d;
        if (F::is_nan(a) && F::is_nan(b)) return 0x7FFF;
        if (F::is_nan(a)) d = b;
        else if (F::is_nan(b)) d = a;
        else if (F::load(a) == F::load(b)) d = ((a & 0x8000) != 0) == maximum ? b : a;
        else d = (F::load(a) > F::load(b)) == maximum ? a : b;
        return xorsign ? static_cast<u16>(d | sign) : d;
    }
};

enum After : int { plain, flushes, saturates, flushes_saturates, relu };

template <class F, class Op, int after> struct Once {
    static u16 in(u16 x) { return after == flushes || after == flushes_saturates ? F::flush(x) : x; }
    static u16 out(u16 x) {
        if (after == flushes || after == flushes_saturates) x = F::flush(x);
        if (after == saturates || after == flushes_saturates)
            return F::is_nan(x) || (x & 0x8000) != 0 ? 0 : F::load(x) > 1 ? F::one : x;
        if (after == relu) return F::is_nan(x) ? 0x7FFF : (x & 0x8000) != 0 ? 0 : x;
        return x;
    }
    template <class... S> static u16 f(S... s) { return out(Op::template f<F>(in(s)...)); }
    template <class... S> static u32 pair(S... s) {
        return static_cast<u32>(f(static_cast<u16>(s >> 16)...)) << 16 | f(static_cast<u16>(s)...);
    }
    static Handler handler(bool two) {
        if constexpr (Op::sources == 1)
            return two ? lanes<u32, u32>([](u32 a) { return pair(a); }) : lanes<u16, u16>([](u16 a) { return f(a); });
        else if constexpr (Op::sources == 2)
            return two ? lanes<u32, u32, u32>([](u32 a, u32 b) { return pair(a, b); })
                       : lanes<u16, u16, u16>([](u16 a, u16 b) { return f(a, b); });
        else
            return two ? lanes<u32, u32, u32, u32>([](u32 a, u32 b, u32 c) { return pair(a, b, c); })
                       : lanes<u16, u16, u16, u16>([](u16 a, u16 b, u16 c) { return f(a, b, c); });
    }
};

template <class F, class Op> Handler by_after(int after, bool two) {
    switch (after) {
        case flushes: return Once<F, Op, flushes>::handler(two);
        case saturates: return Once<F, Op, saturates>::handler(two);
        case flushes_saturates: return Once<F, Op, flushes_saturates>::handler(two);
        case relu: return Once<F, Op, relu>::handler(two);
        default: return Once<F, Op, plain>::handler(two);
    }
}

template <class Op> void emit(Coder& c, Type type, int after) {
    c.count(Op::sources + 1, Op::sources + 1);
    const bool two = facts(type).kind == 'v', brain = type == Type::bf16 || type == Type::bf16x2;
    const Slot d = c.write(c.operand(0), type);
    Slot s[3] = {nowhere, nowhere, nowhere};
    for (std::size_t i = 0; i < Op::sources; ++i) s[i] = c.read(c.operand(i + 1), type);
    c.emit(brain ? by_after<Bfloat, Op>(after, two) : by_after<Half, Op>(after, two), d, s[0], s[1], s[2]);
}

template <class Op> void decode(Coder& c) {
    c.ignore({"rn", "approx"});
    const bool flush = c.take("ftz"), saturate = c.take("sat");
    const bool positive = Op::sources == 3 && c.take("relu");
    if (positive && (flush || saturate)) c.refuse();
    const Type type = c.take_type();
    if (!c.left().empty() && type_named(c.left())) c.refuse();  // mixed precision
    emit<Op>(c, type,
             positive   ? relu
             : flush    ? (saturate ? flushes_saturates : flushes)
             : saturate ? saturates
                        : plain);
}

template <bool maximum> void decode_extreme(Coder& c) {
    const bool flush = c.take("ftz"), keeps = c.take("NaN"), sign = c.take("xorsign");
    if (sign && !c.take("abs")) c.refuse();
    const Type type = c.take_type();
    const int after = flush ? flushes : plain;
    if (keeps)
        sign ? emit<HalfExtreme<maximum, true, true>>(c, type, after)
             : emit<HalfExtreme<maximum, true, false>>(c, type, after);
    else
        sign ? emit<HalfExtreme<maximum, false, true>>(c, type, after)
             : emit<HalfExtreme<maximum, false, false>>(c, type, after);
}

}  // namespace

void half_instructions(Decoders& t) {
    t["add.h"] = decode<HalfAdd>;
    t["sub.h"] = decode<HalfSub>;
    t["mul.h"] = decode<HalfMul>;
    t["fma.h"] = decode<HalfFma>;
    t["neg.h"] = decode<Neg>;
    t["abs.h"] = decode<Abs>;
    t["ex2.h"] = decode<Exp2>;
    t["tanh.h"] = decode<Tanh>;
    t["min.h"] = decode_extreme<false>;
    t["max.h"] = decode_extreme<true>;
}

}  // namespace barcuda::soft
