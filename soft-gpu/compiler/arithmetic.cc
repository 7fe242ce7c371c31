// SPDX-License-Identifier: Apache-2.0
// arithmetic.cc: arithmetic, exactly as the handlers of ptx/ compute it: no contraction, the same NaN, and the same
// results where PTX leaves one open. The handlers compute what is missing here.
#include "soft-gpu/compiler/translator.h"

namespace barcuda::soft::compiler {

bool Translator::compute(const Group& g) { return integers(g) || floats(g) || compares(g) || converts(g) || moves(g); }

static bool whole_number(Type t) { return is_integer(t) && bytes_of(t) >= 2; }

// ---- integers -------------------------------------------------------------------------------------------------------

bool Translator::integers(const Group& g) {
    if (g.last != g.first + 1) return false;
    const auto name = g.in->name;
    const Instr& in = f_.code[g.first];
    Modifiers m(*g.in);
    if (m.take("cc") || m.take("sat") || m.take("relu")) return false;
    const auto binary = [&](Type t, auto&& op) {  // uses what is known about uniform operands
        const unsigned n = bytes_of(t);
        Value v{n};
        V a = scalar(in.a, n), b = scalar(in.b, n);
        if (a != nullptr && b != nullptr) {
            v.scalar = op(a, b);
            v.bits = ir_.splat(v.scalar);
        } else v.bits = op(bits(in.a, n), bits(in.b, n));
        if (v.scalar == nullptr && (name == "add" || name == "sub") && b != nullptr) v.origin = origin(in.a, n);
        if (v.scalar == nullptr && name == "add" && a != nullptr) v.origin = origin(in.b, n);
        write(in.d, v);
        return true;
    };
    const auto least = [&](Type t, bool largest, V a, V b) {
        const auto p = is_signed(t) ? (largest ? LLVMIntSGT : LLVMIntSLT) : (largest ? LLVMIntUGT : LLVMIntULT);
        return ir_.choose(ir_.compare(p, a, b), a, b);
    };
    const auto widened = [&](V v, Type t, unsigned to) {
        T into = LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMVectorTypeKind ? ir_.of(ir_.integer(to)) : ir_.integer(to);
        return is_signed(t) ? LLVMBuildSExt(ir_.at, v, into, "") : LLVMBuildZExt(ir_.at, v, into, "");
    };
    if (name == "add" || name == "sub" || name == "min" || name == "max") {
        const Type t = m.type();
        if (!whole_number(t) || !m.done()) return false;
        return binary(t, [&](V a, V b) {
            return name == "add" ? ir_.add(a, b) : name == "sub" ? ir_.minus(a, b) : least(t, name == "max", a, b);
        });
    }
    if (name == "mul" || name == "mad") {
        const bool wide = m.take("wide"), high = m.take("hi"), sum = name == "mad";
        m.take("lo");
        const Type t = m.type();
        if (!whole_number(t) || !m.done()) return false;
        const unsigned n = bytes_of(t), to = wide ? 2 * n : n;
        if ((wide || high) && n == 8) return false;
        const auto product = [&](V a, V b) {
            if (!wide && !high) return LLVMBuildMul(ir_.at, a, b, "");
            V whole = LLVMBuildMul(ir_.at, widened(a, t, 2 * n), widened(b, t, 2 * n), "");
            if (wide) return whole;
            const bool lone = LLVMGetTypeKind(LLVMTypeOf(a)) != LLVMVectorTypeKind;
            V by = lone ? ir_.number(8 * n, 2 * n) : ir_.all(8 * n, 2 * n);
            return LLVMBuildTrunc(ir_.at, LLVMBuildLShr(ir_.at, whole, by, ""), LLVMTypeOf(a), "");
        };
        Value v{to};
        V a = scalar(in.a, n), b = scalar(in.b, n), c = sum ? scalar(in.c, to) : nullptr;
        V p = nullptr, lone = a != nullptr && b != nullptr ? product(a, b) : nullptr;
        if (lone == nullptr) p = product(bits(in.a, n), bits(in.b, n));
        if (!sum) {
            v.scalar = lone;
            v.bits = lone != nullptr ? ir_.splat(lone) : p;
        } else if (lone != nullptr && c != nullptr) {
            v.scalar = ir_.add(lone, c);
            v.bits = ir_.splat(v.scalar);
        } else {
            v.bits = ir_.add(lone != nullptr ? ir_.splat(lone) : p, bits(in.c, to));
            if (c != nullptr) v.origin = p;
            if (lone != nullptr) v.origin = origin(in.c, to);
        }
        write(in.d, v);
        return true;
    }
    if (name == "neg" || name == "abs") {
        const Type t = m.type();
        if (!whole_number(t) || !m.done()) return false;
        const unsigned n = bytes_of(t);
        V a = bits(in.a, n), minus = ir_.minus(ir_.all(0, n), a);
        if (name == "abs" && is_signed(t)) minus = ir_.choose(ir_.compare(LLVMIntSLT, a, ir_.all(0, n)), minus, a);
        else if (name == "abs") minus = a;
        write_bits(in.d, minus, n);
        return true;
    }
    if (name == "and" || name == "or" || name == "xor" || name == "not") {
        const Type t = m.type();
        if (t == Type::none || !m.done()) return false;
        const auto op = [&](V a, V b) {
            return name == "and"   ? ir_.both(a, b)
                   : name == "or"  ? ir_.either(a, b)
                   : name == "xor" ? LLVMBuildXor(ir_.at, a, b, "")
                                   : LLVMBuildNot(ir_.at, a, "");
        };
        if (t == Type::pred) {
            write_truths(in.d, op(truths(in.a), truths(in.b)));
            return true;
        }
        const unsigned n = std::max(2u, bytes_of(t));
        if (n > 8) return false;
        if (name == "not") {
            write_bits(in.d, op(bits(in.a, n), nullptr), n);
            return true;
        }
        Value v{n};
        V a = scalar(in.a, n), b = scalar(in.b, n);
        if (a != nullptr && b != nullptr) {
            v.scalar = op(a, b);
            v.bits = ir_.splat(v.scalar);
        } else v.bits = op(bits(in.a, n), bits(in.b, n));
        write(in.d, v);
        return true;
    }
    if (name == "lop3") {
        if (m.type() != Type::b32 || !m.done()) return false;
        V s[3] = {bits(in.a, 4), bits(in.b, 4), bits(in.c, 4)}, sum = nullptr;
        const auto table = static_cast<unsigned>(in.imm);
        if (table == 0x96) {
            sum = LLVMBuildXor(ir_.at, LLVMBuildXor(ir_.at, s[0], s[1], ""), s[2], "");
        } else {
            for (unsigned i = 0; i < 8; ++i) {
                if ((table >> i & 1) == 0) continue;
                V term = nullptr;
                for (unsigned k = 0; k < 3; ++k) {
                    V x = (i >> (2 - k) & 1) != 0 ? s[k] : LLVMBuildNot(ir_.at, s[k], "");
                    term = term == nullptr ? x : ir_.both(term, x);
                }
                sum = sum == nullptr ? term : ir_.either(sum, term);
            }
        }
        write_bits(in.d, sum != nullptr ? sum : ir_.all(0, 4), 4);
        return true;
    }
    if (name == "shl" || name == "shr") {
        const Type t = m.type();
        const unsigned n = bytes_of(t);
        if (n < 2 || n > 8 || !m.done()) return false;
        const bool keeps_sign = name == "shr" && is_signed(t);
        V by = bits(in.b, 4), most = ir_.all(8 * n - 1, 4);
        V within = ir_.compare(LLVMIntULE, by, most);
        V amount = ir_.choose(within, by, most);
        T type = ir_.of(ir_.integer(n));
        if (n == 8) amount = LLVMBuildZExt(ir_.at, amount, type, "");
        if (n == 2) amount = LLVMBuildTrunc(ir_.at, amount, type, "");
        V a = bits(in.a, n);
        V d = name == "shl" ? LLVMBuildShl(ir_.at, a, amount, "")
              : keeps_sign  ? LLVMBuildAShr(ir_.at, a, amount, "")
                            : LLVMBuildLShr(ir_.at, a, amount, "");
        if (!keeps_sign) d = ir_.choose(within, d, ir_.all(0, n));
        write_bits(in.d, d, n);
        return true;
    }
    if (name == "popc" || name == "clz" || name == "brev") {
        const Type t = m.type();
        const unsigned n = bytes_of(t);
        if ((n != 4 && n != 8) || !m.done()) return false;
        V a = bits(in.a, n);
        T type = ir_.of(ir_.integer(n));
        if (name == "brev") {
            write_bits(in.d, ir_.intrinsic("llvm.bitreverse", type, {a}), n);
            return true;
        }
        V d = name == "popc" ? ir_.intrinsic("llvm.ctpop", type, {a})
                             : ir_.intrinsic("llvm.ctlz", type, {a, ir_.yes(false)});
        write_bits(in.d, n == 8 ? LLVMBuildTrunc(ir_.at, d, ir_.of(ir_.integer(4)), "") : d, 4);
        return true;
    }
    return false;
}

// ---- floating-point numbers -----------------------------------------------------------------------------------------

V Translator::flushed(V x) {
    V magnitude = ir_.intrinsic("llvm.fabs", LLVMTypeOf(x), {x});
    V zero = ir_.as(ir_.both(ir_.as(x, ir_.of(ir_.integer(4))), ir_.all(0x80000000, 4)), LLVMTypeOf(x));
    return ir_.choose(ir_.compare(LLVMRealOLT, magnitude, ir_.reals(0x1p-126, 4)), zero, x);
}

bool Translator::floats(const Group& g) {
    if (g.last != g.first + 1) return false;
    const auto name = g.in->name;
    const Instr& in = f_.code[g.first];
    Modifiers m(*g.in);
    const bool approximate = m.take("approx") || m.take("full");
    if (m.take("rz") || m.take("rm") || m.take("rp")) return false;
    m.take("rn");
    const bool flush = m.take("ftz"), saturate = m.take("sat"), keeps_nan = m.take("NaN");
    const Type t = m.type();
    if ((t != Type::f32 && t != Type::f64) || !m.done()) return false;
    const unsigned n = bytes_of(t);
    if (n == 8 && (flush || saturate || keeps_nan || approximate)) return false;
    const bool extreme = name == "min" || name == "max", sign = name == "neg" || name == "abs";
    const bool power = name == "ex2" || name == "lg2";
    if (keeps_nan && !extreme) return false;
    const unsigned sources = name == "fma" || name == "mad"                                                ? 3
                             : name == "add" || name == "sub" || name == "mul" || name == "div" || extreme ? 2
                             : name == "rcp" || name == "sqrt" || name == "rsqrt" || sign || power         ? 1
                                                                                                           : 0;
    if (sources == 0 || g.in->operands.size() != sources + 1) return false;
    if ((name == "rsqrt" || power) && n == 8) return false;
    const Slot slots[] = {in.a, in.b, in.c};
    T type = ir_.of(ir_.real(n)), ints = ir_.of(ir_.integer(n));
    V s[3] = {};
    for (unsigned i = 0; i < sources; ++i) {
        s[i] = reals(slots[i], n, !extreme && !sign);
        if (flush) s[i] = flushed(s[i]);
    }
    const auto doubled = [&](V x) { return LLVMBuildFPExt(ir_.at, x, ir_.of(ir_.real(8)), ""); };
    const auto rounded = [&](V x) { return LLVMBuildFPTrunc(ir_.at, x, type, ""); };
    V one = ir_.reals(1, n), d = nullptr;
    if (extreme) {
        const bool maximum = name == "max";
        V a = s[0], b = s[1];
        V sign_of_a = ir_.compare(LLVMIntSLT, ir_.as(a, ints), ir_.all(0, n));
        V tie = maximum ? ir_.choose(sign_of_a, b, a) : ir_.choose(sign_of_a, a, b);
        V more = ir_.compare(LLVMRealOGT, a, b);
        d = maximum ? ir_.choose(more, a, b) : ir_.choose(more, b, a);
        d = ir_.choose(ir_.compare(LLVMRealOEQ, a, b), tie, d);
        V a_is_none = ir_.compare(LLVMRealUNO, a, a), b_is_none = ir_.compare(LLVMRealUNO, b, b);
        d = ir_.choose(b_is_none, a, d);
        d = ir_.choose(a_is_none, b, d);
        if (keeps_nan) d = ir_.choose(ir_.either(a_is_none, b_is_none), ir_.as(ir_.all(0x7FFFFFFF, 4), type), d);
        write_reals(in.d, d, n, n == 4);
        return true;
    }
    if (name == "neg") d = LLVMBuildFNeg(ir_.at, s[0], "");
    if (name == "abs") d = ir_.intrinsic("llvm.fabs", type, {s[0]});
    if (sign) {
        write_reals(in.d, d, n, n == 4);
        return true;
    }
    if (name == "add") d = LLVMBuildFAdd(ir_.at, s[0], s[1], "");
    if (name == "sub") d = LLVMBuildFSub(ir_.at, s[0], s[1], "");
    if (name == "mul") d = LLVMBuildFMul(ir_.at, s[0], s[1], "");
    if (sources == 3) d = ir_.intrinsic("llvm.fma", type, {s[0], s[1], s[2]});
    if (name == "div")
        d = approximate ? rounded(LLVMBuildFDiv(ir_.at, doubled(s[0]), doubled(s[1]), ""))
                        : LLVMBuildFDiv(ir_.at, s[0], s[1], "");
    if (name == "rcp")
        d = approximate ? rounded(LLVMBuildFDiv(ir_.at, ir_.reals(1, 8), doubled(s[0]), ""))
                        : LLVMBuildFDiv(ir_.at, one, s[0], "");
    if (name == "sqrt") d = ir_.intrinsic("llvm.sqrt", type, {s[0]});
    if (name == "rsqrt") {
        if (!approximate) return false;
        V root = ir_.intrinsic("llvm.sqrt", ir_.of(ir_.real(8)), {doubled(s[0])});
        d = rounded(LLVMBuildFDiv(ir_.at, ir_.reals(1, 8), root, ""));
    }
    if (power) d = name == "ex2" ? exp2_of(s[0]) : log2_of(s[0]);
    if (flush) d = flushed(d);
    if (saturate) {  // a NaN becomes 0
        V zero = ir_.reals(0, n);
        d = ir_.choose(ir_.compare(LLVMRealOGT, d, zero), ir_.choose(ir_.compare(LLVMRealOLT, d, one), d, one), zero);
    }
    write_reals(in.d, d, n, n == 4 && !saturate);
    return true;
}

// ---- comparisons and choices ----------------------------------------------------------------------------------------

bool Translator::compares(const Group& g) {
    const auto name = g.in->name;
    const Instr& in = f_.code[g.first];
    Modifiers m(*g.in);
    if (name == "selp") {
        const Type t = m.type();
        const unsigned n = std::max(2u, bytes_of(t));
        if (t == Type::none || n > 8 || !m.done() || g.last != g.first + 1) return false;
        V p = truths(in.c);
        write_bits(
            in.d,
            in.imm != 0 ? ir_.choose(p, bits(in.b, n), bits(in.a, n)) : ir_.choose(p, bits(in.a, n), bits(in.b, n)), n);
        return true;
    }
    if (name != "setp") return false;
    const bool flush = m.take("ftz");
    const int boolean = m.take("and") ? 1 : m.take("or") ? 2 : m.take("xor") ? 3 : 0;
    const Type t = m.type();
    if (m.left().size() != 1) return false;
    const auto relation = m.left()[0];
    const bool real = is_float(t);
    const unsigned n = bytes_of(t);
    if (!real && (n < 2 || n > 8 || facts(t).kind == 'h' || facts(t).kind == 'v' || facts(t).kind == 'p' ||
                  facts(t).kind == 'w' || facts(t).kind == 'q'))
        return false;
    if (n == 8 && flush) return false;
    V holds = nullptr;
    if (real) {
        static const auto& names = *new std::map<std::string_view, LLVMRealPredicate>{
            {"eq", LLVMRealOEQ},  {"ne", LLVMRealONE},  {"lt", LLVMRealOLT},  {"le", LLVMRealOLE},
            {"gt", LLVMRealOGT},  {"ge", LLVMRealOGE},  {"equ", LLVMRealUEQ}, {"neu", LLVMRealUNE},
            {"ltu", LLVMRealULT}, {"leu", LLVMRealULE}, {"gtu", LLVMRealUGT}, {"geu", LLVMRealUGE},
            {"num", LLVMRealORD}, {"nan", LLVMRealUNO}};
        const auto found = names.find(relation);
        if (found == names.end()) return false;
        V a = reals(in.a, n, true), b = reals(in.b, n, true);
        if (flush) {
            a = flushed(a);
            b = flushed(b);
        }
        holds = ir_.compare(found->second, a, b);
    } else {
        const bool s = is_signed(t);
        static const auto& names = *new std::map<std::string_view, std::pair<LLVMIntPredicate, LLVMIntPredicate>>{
            {"eq", {LLVMIntEQ, LLVMIntEQ}},   {"ne", {LLVMIntNE, LLVMIntNE}},   {"lt", {LLVMIntULT, LLVMIntSLT}},
            {"le", {LLVMIntULE, LLVMIntSLE}}, {"gt", {LLVMIntUGT, LLVMIntSGT}}, {"ge", {LLVMIntUGE, LLVMIntSGE}},
            {"lo", {LLVMIntULT, LLVMIntSLT}}, {"ls", {LLVMIntULE, LLVMIntSLE}}, {"hi", {LLVMIntUGT, LLVMIntSGT}},
            {"hs", {LLVMIntUGE, LLVMIntSGE}}};
        const auto found = names.find(relation);
        if (found == names.end()) return false;
        holds = ir_.compare(s ? found->second.second : found->second.first, bits(in.a, n), bits(in.b, n));
    }
    if (g.last == g.first + 1) {
        write_truths(in.d, holds);
        return true;
    }
    if (g.last != g.first + 2) return false;
    const Instr& combined = f_.code[g.first + 1];
    V with = nullptr;
    if (boolean != 0) with = truths(combined.b);
    if (with != nullptr && combined.imm != 0) with = LLVMBuildNot(ir_.at, with, "");
    const auto apply = [&](V x) {
        return boolean == 1   ? ir_.both(x, with)
               : boolean == 2 ? ir_.either(x, with)
               : boolean == 3 ? LLVMBuildXor(ir_.at, x, with, "")
                              : x;
    };
    V p = apply(holds), q = apply(LLVMBuildNot(ir_.at, holds, ""));
    write_truths(combined.d, p);
    if (combined.e != nowhere) write_truths(combined.e, q);
    return true;
}

}  // namespace barcuda::soft::compiler
