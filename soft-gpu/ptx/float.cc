// SPDX-License-Identifier: Apache-2.0
// float.cc: f32 and f64 arithmetic: add, sub, mul, fma, div, rcp, sqrt, rsqrt, min, max, neg, abs, copysign, and the
// approximations.
#include <algorithm>

#include "soft-gpu/ptx/coder.h"
#include "soft-gpu/ptx/math.h"
#include "soft-gpu/ptx/rounding.h"

namespace barcuda::soft {
namespace {

struct Add {
    static constexpr int sources = 2;
    template <class T> static T f(T a, T b) { return a + b; }
};
struct Sub {
    static constexpr int sources = 2;
    template <class T> static T f(T a, T b) { return a - b; }
};
struct Mul {
    static constexpr int sources = 2;
    template <class T> static T f(T a, T b) { return a * b; }
};
struct Div {
    static constexpr int sources = 2;
    template <class T> static T f(T a, T b) { return a / b; }
};
struct Rcp {
    static constexpr int sources = 1;
    template <class T> static T f(T a) { return T{1} / a; }
};
struct Sqrt {
    static constexpr int sources = 1;
    static float f(float a) { return __builtin_sqrtf(a); }
    static double f(double a) { return __builtin_sqrt(a); }
};
struct Fma {
    static constexpr int sources = 3;
    static float f(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
    static double f(double a, double b, double c) { return __builtin_fma(a, b, c); }
};

// To nearest: vectors. The input and the result may be flushed, the result clamped.
template <class Op, class T, bool flush, bool saturate> struct Nearest {
    static T in(T x) { return flush ? flushed(x) : x; }
    static T out(T x) {
        x = flush ? flushed(x) : x;
        return saturate ? saturated(x) : canonical(x);
    }
    static Handler handler() {
        if constexpr (Op::sources == 1) return lanes<T, T>([](T a) { return out(Op::f(in(a))); });
        else if constexpr (Op::sources == 2) return lanes<T, T, T>([](T a, T b) { return out(Op::f(in(a), in(b))); });
        else return lanes<T, T, T, T>([](T a, T b, T c) { return out(Op::f(in(a), in(b), in(c))); });
    }
};

// In another direction: lane by lane under the host's rounding mode. imm: rounding, flush << 8, saturate << 9
template <class Op, class T> Step directed(Warp& w, const Instr& in, Mask mask) {
    const bool flush = (in.imm >> 8 & 1) != 0, saturate = (in.imm >> 9 & 1) != 0;
    T* const d = w.at<T>(in.d);
    const T* const a = w.at<T>(in.a);
    const T* const b = Op::sources > 1 ? w.at<T>(in.b) : a;
    const T* const c = Op::sources > 2 ? w.at<T>(in.c) : a;
    const Rounded mode(static_cast<Rounding>(in.imm & 0xFF));
    for (Mask m = mask; m != 0; m &= m - 1) {
        const int i = __builtin_ctz(m);
        const T x = opaque(flush ? flushed(a[i]) : a[i]), y = opaque(flush ? flushed(b[i]) : b[i]),
                z = opaque(flush ? flushed(c[i]) : c[i]);
        T result;
        if constexpr (Op::sources == 1) result = opaque(Op::f(x));
        else if constexpr (Op::sources == 2) result = opaque(Op::f(x, y));
        else result = opaque(Op::f(x, y, z));
        (void)y;
        (void)z;
        if (flush) result = flushed(result);
        d[i] = saturate ? saturated(result) : canonical(result);
    }
    return Step::go;
}

template <class Op, class T> Handler nearest_handler(bool flush, bool saturate) {
    if constexpr (sizeof(T) == 8) {
        return saturate ? Nearest<Op, T, false, true>::handler() : Nearest<Op, T, false, false>::handler();
    } else {
        return flush ? (saturate ? Nearest<Op, T, true, true>::handler() : Nearest<Op, T, true, false>::handler())
                     : (saturate ? Nearest<Op, T, false, true>::handler() : Nearest<Op, T, false, false>::handler());
    }
}

std::optional<Rounding> take_rounding(Coder& c) {
    if (c.take("rn")) return Rounding::nearest;
    if (c.take("rz")) return Rounding::zero;
    if (c.take("rm")) return Rounding::down;
    if (c.take("rp")) return Rounding::up;
    return std::nullopt;
}

template <class Op> void arithmetic(Coder& c) {
    const auto rounding = take_rounding(c).value_or(Rounding::nearest);
    const bool flush = c.take("ftz"), saturate = c.take("sat");
    const Type type = c.take_type();
    c.count(Op::sources + 1, Op::sources + 1);
    const Slot d = c.write(c.operand(0), type);
    Slot s[3] = {nowhere, nowhere, nowhere};
    for (std::size_t i = 0; i < Op::sources; ++i) s[i] = c.read(c.operand(i + 1), type);
    const bool wide = type == Type::f64;
    if (rounding == Rounding::nearest) {
        c.emit(wide ? nearest_handler<Op, double>(flush, saturate) : nearest_handler<Op, float>(flush, saturate), d,
               s[0], s[1], s[2]);
    } else {
        c.emit(wide ? directed<Op, double> : directed<Op, float>, d, s[0], s[1], s[2]).imm =
            static_cast<std::int64_t>(rounding) | (flush ? 1 << 8 : 0) | (saturate ? 1 << 9 : 0);
    }
}

// ---- approximations -------------------------------------------------------------------------------------------------

// f32; the .ftz form flushes subnormal operands and results
template <float (*f)(float)> void approximate(Coder& c) {
    c.take("approx");
    const bool flush = c.take("ftz");
    const Type type = c.take_type();
    if (type != Type::f32) c.refuse();
    c.count(2, 2);
    const Slot d = c.write(c.operand(0), type);
    c.emit(flush ? lanes<float, float>([](float x) { return canonical(flushed(f(flushed(x)))); })
                 : lanes<float, float>([](float x) { return canonical(f(x)); }),
           d, c.read(c.operand(1), type));
}

void approximate_f64(Coder& c, Handler run) {
    c.take("approx");
    c.take("ftz");
    const Type type = c.take_type();
    c.count(2, 2);
    const Slot d = c.write(c.operand(0), type);
    c.emit(run, d, c.read(c.operand(1), type));
}

bool is_f64(Coder& c) { return c.has("f64"); }

void decode_div(Coder& c) {
    if (!c.take("approx") && !c.take("full")) return arithmetic<Div>(c);
    const bool flush = c.take("ftz");
    const Type type = c.take_type();
    if (type != Type::f32) c.refuse();
    c.count(3, 3);
    const Slot d = c.write(c.operand(0), type), a = c.read(c.operand(1), type);
    c.emit(flush ? lanes<float, float, float>(
                       [](float x, float y) { return canonical(flushed(div_approx(flushed(x), flushed(y)))); })
                 : lanes<float, float, float>([](float x, float y) { return canonical(div_approx(x, y)); }),
           d, a, c.read(c.operand(2), type));
}

void decode_rcp(Coder& c) {
    if (!c.has("approx")) return arithmetic<Rcp>(c);
    if (is_f64(c)) return approximate_f64(c, lanes<double, double>([](double x) { return rcp_approx(x); }));
    approximate<rcp_approx>(c);
}
void decode_sqrt(Coder& c) { c.has("approx") ? approximate<sqrt_approx>(c) : arithmetic<Sqrt>(c); }
void decode_rsqrt(Coder& c) {
    if (!is_f64(c)) return approximate<rsqrt_approx>(c);
    // Only .ftz is the quick one; without it, this is CUDA's rsqrt(), which is off by one unit at most.
    approximate_f64(c, c.has("ftz") ? lanes<double, double>([](double x) { return rsqrt_approx(x); })
                                    : lanes<double, double>([](double x) { return 1.0 / std::sqrt(x); }));
}

// ---- min, max, signs ------------------------------------------------------------------------------------------------

// A NaN loses against a number; .NaN: it wins. -0 is less than +0.
template <bool maximum, bool keeps_nan, class T> T extreme(T a, T b) {
    if (keeps_nan && (a != a || b != b)) return canonical(std::numeric_limits<T>::quiet_NaN());
    if (a != a) return canonical(b);
    if (b != b) return a;
    if (a == b) return std::signbit(a) == maximum ? b : a;
    return (a > b) == maximum ? a : b;
}

template <bool maximum> void decode_extreme(Coder& c) {
    const bool flush = c.take("ftz"), keeps = c.take("NaN"), magnitude = c.take("xorsign"), absolute = c.take("abs");
    const Type type = c.take_type();
    c.count(3, 4);
    const Slot d = c.write(c.operand(0), type), a = c.read(c.operand(1), type), b = c.read(c.operand(2), type);
    if (magnitude != absolute || (type == Type::f64 && (flush || keeps || magnitude))) c.refuse();
    if (type == Type::f64) {
        c.emit(lanes<double, double, double>([](double x, double y) { return extreme<maximum, false>(x, y); }), d, a,
               b);
        return;
    }
    Slot x = a, y = b;
    if (magnitude) {  // of the magnitudes, with the xor of the signs
        x = c.scratch(4);
        y = c.scratch(4);
        c.emit(lanes<float, float>([](float v) { return std::fabs(v); }), x, a);
        c.emit(lanes<float, float>([](float v) { return std::fabs(v); }), y, b);
    }
    const Slot to = magnitude ? c.scratch(4) : d;
    const auto step = [&](Slot into, Slot p, Slot q) {
        c.emit(
            keeps
                ? (flush ? lanes<float, float, float>(
                               [](float v, float u) { return extreme<maximum, true>(flushed(v), flushed(u)); })
                         : lanes<float, float, float>([](float v, float u) { return extreme<maximum, true>(v, u); }))
                : (flush ? lanes<float, float, float>(
                               [](float v, float u) { return extreme<maximum, false>(flushed(v), flushed(u)); })
                         : lanes<float, float, float>([](float v, float u) { return extreme<maximum, false>(v, u); })),
            into, p, q);
    };
    if (c.operand_count() == 4) {
        if (magnitude) c.refuse();
        const Slot z = c.read(c.operand(3), type), between = c.scratch(4);
        step(between, x, y);
        step(d, between, z);
        return;
    }
    step(to, x, y);
    if (magnitude)
        c.emit(lanes<float, float, float, float>([](float v, float p, float q) {
                   return v != v ? v : std::copysign(v, std::signbit(p) != std::signbit(q) ? -1.0f : 1.0f);
               }),
               d, to, a, b);
}

// The PTX ISA leaves the result for a NaN in f32 open, and hardware makes the canonical one.
template <bool negate> void decode_sign(Coder& c) {
    const bool flush = c.take("ftz");
    const Type type = c.take_type();
    c.count(2, 2);
    const Slot d = c.write(c.operand(0), type), a = c.read(c.operand(1), type);
    if (type == Type::f64)
        c.emit(negate ? lanes<double, double>([](double x) { return -x; })
                      : lanes<double, double>([](double x) { return std::fabs(x); }),
               d, a);
    else if (flush)
        c.emit(negate ? lanes<float, float>([](float x) { return canonical(-flushed(x)); })
                      : lanes<float, float>([](float x) { return canonical(std::fabs(flushed(x))); }),
               d, a);
    else
        c.emit(negate ? lanes<float, float>([](float x) { return canonical(-x); })
                      : lanes<float, float>([](float x) { return canonical(std::fabs(x)); }),
               d, a);
}

void decode_copysign(Coder& c) {  // the sign of a, the magnitude of b
    const Type type = c.take_type();
    c.count(3, 3);
    const Slot d = c.write(c.operand(0), type), a = c.read(c.operand(1), type), b = c.read(c.operand(2), type);
    c.emit(type == Type::f64 ? lanes<double, double, double>([](double x, double y) { return std::copysign(y, x); })
                             : lanes<float, float, float>([](float x, float y) { return std::copysign(y, x); }),
           d, a, b);
}

void decode_fma(Coder& c) { arithmetic<Fma>(c); }

}  // namespace

void float_instructions(Decoders& t) {
    t["add.f"] = arithmetic<Add>;
    t["sub.f"] = arithmetic<Sub>;
    t["mul.f"] = arithmetic<Mul>;
    t["fma.f"] = t["mad.f"] = decode_fma;
    t["div.f"] = decode_div;
    t["rcp.f"] = decode_rcp;
    t["sqrt.f"] = decode_sqrt;
    t["rsqrt.f"] = decode_rsqrt;
    t["sin.f"] = approximate<sin_approx>;
    t["cos.f"] = approximate<cos_approx>;
    t["lg2.f"] = approximate<log2_approx>;
    t["ex2.f"] = approximate<exp2_approx>;
    t["tanh.f"] = approximate<tanh_approx>;
    t["min.f"] = decode_extreme<false>;
    t["max.f"] = decode_extreme<true>;
    t["neg.f"] = decode_sign<true>;
    t["abs.f"] = decode_sign<false>;
    t["copysign.f"] = decode_copysign;
}

}  // namespace barcuda::soft
