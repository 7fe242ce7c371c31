// SPDX-License-Identifier: Apache-2.0
// moves.cc: changes of a value's place or representation: conversions, moves, addresses of symbols, and exchanges of
// lanes.
#include <cmath>

#include "soft-gpu/compiler/translator.h"

namespace barcuda::soft::compiler {

// ---- conversions ----------------------------------------------------------------------------------------------------

bool Translator::converts(const Group& g) {
    if (g.in->name != "cvt" || g.last != g.first + 1) return false;
    const Instr& in = f_.code[g.first];
    Modifiers m(*g.in);
    static constexpr struct {
        std::string_view name;
        const char* whole;
    } integrals[] = {{"rni", "llvm.nearbyint"}, {"rzi", "llvm.trunc"}, {"rmi", "llvm.floor"}, {"rpi", "llvm.ceil"}};
    const char* to_whole = nullptr;  // the function that makes a number integral
    for (const auto& i : integrals)
        if (m.take(i.name)) to_whole = i.whole;
    const bool nearest = m.take("rn"), flush = m.take("ftz");
    const Type to = m.type(), from = m.type();
    if (!m.done() || from == Type::none) return false;
    const auto width_of = [&](const ast::Operand& o, Type t) {  // of the register, which may be wider
        if (o.kind != ast::Operand::reg) return std::max(2u, bytes_of(t));
        for (const unsigned n : {2u, 4u, 8u, 16u})
            if (o.index >= 0 && register_bytes(o.index) == n) return n;
        return 0u;
    };
    const unsigned a = width_of(g.in->operands[1], from), d = width_of(g.in->operands[0], to);
    if (a == 0 || d == 0 || a > 8 || d > 8 || a < bytes_of(from) || d < bytes_of(to)) return false;
    const auto whole = [&](Type t) { return is_integer(t); };
    const auto real = [&](Type t) { return t == Type::f32 || t == Type::f64; };
    const auto resized = [&](V v, unsigned have, Type t, unsigned want) {  // to t's width, by its sign to `want`
        const unsigned n = bytes_of(t);
        if (n < have) v = LLVMBuildTrunc(ir_.at, v, ir_.of(ir_.integer(n)), "");
        const unsigned now = std::min(n, have);
        if (now < want)
            v = is_signed(t) ? LLVMBuildSExt(ir_.at, v, ir_.of(ir_.integer(want)), "")
                             : LLVMBuildZExt(ir_.at, v, ir_.of(ir_.integer(want)), "");
        return v;
    };
    if (whole(from) && whole(to) && !nearest && !flush && to_whole == nullptr) {
        V wide = resized(bits(in.a, a), a, from, 8);
        V low = bytes_of(to) == 8 ? wide : LLVMBuildTrunc(ir_.at, wide, ir_.of(ir_.integer(bytes_of(to))), "");
        write_bits(in.d, resized(low, bytes_of(to), to, d), d);
        return true;
    }
    if ((real(from) && a != bytes_of(from)) || (real(to) && d != bytes_of(to))) return false;
    if (whole(from) && real(to) && !flush && to_whole == nullptr) {
        if (!nearest && (d == 4 || bytes_of(from) == 8)) return false;
        T type = ir_.of(ir_.real(d));
        V x = resized(bits(in.a, a), a, from, std::max(4u, bytes_of(from)));
        const bool sign = is_signed(from) || bytes_of(from) < 4;
        write_reals(in.d, sign ? LLVMBuildSIToFP(ir_.at, x, type, "") : LLVMBuildUIToFP(ir_.at, x, type, ""), d);
        return true;
    }
    if (from == Type::f32 && to == Type::f64 && !nearest && !flush && to_whole == nullptr) {
        write_reals(in.d, LLVMBuildFPExt(ir_.at, reals(in.a, 4), ir_.of(ir_.real(8)), ""), 8);
        return true;
    }
    if (from == Type::f64 && to == Type::f32 && nearest && !flush) {
        write_reals(in.d, LLVMBuildFPTrunc(ir_.at, reals(in.a, 8), ir_.of(ir_.real(4)), ""), 4);
        return true;
    }
    if (from != Type::f32 || to_whole == nullptr || nearest) return false;
    V x = reals(in.a, 4, true);
    if (flush) x = flushed(x);
    if (to == Type::f32) {
        write_reals(in.d, ir_.intrinsic(to_whole, LLVMTypeOf(x), {x}), 4, true);  // none of these is subnormal
        return true;
    }
    if (!whole(to) || bytes_of(to) > 4) return false;
    // It saturates; a NaN is 0. The bounds are powers of two, or 0: numbers of f32.
    const unsigned n = 8 * bytes_of(to);
    const bool sign = is_signed(to), widest = n == 32 && !sign;
    const double low = sign ? -std::ldexp(1, static_cast<int>(n) - 1) : 0,
                 high = std::ldexp(1, static_cast<int>(n - sign));
    V least = ir_.reals(low, 4), most = ir_.reals(high, 4), none = ir_.reals(0, 4);
    x = ir_.intrinsic(to_whole, LLVMTypeOf(x), {x});
    V fits = ir_.both(ir_.compare(LLVMRealOGT, x, least), ir_.compare(LLVMRealOLT, x, most));
    V inside = ir_.choose(fits, x, none);
    T ints = ir_.of(ir_.integer(4));
    V y = widest ? LLVMBuildFPToUI(ir_.at, inside, ints, "") : LLVMBuildFPToSI(ir_.at, inside, ints, "");
    y = ir_.choose(ir_.compare(LLVMRealOLE, x, least), ir_.all(sign ? ~0ull << (n - 1) : 0, 4), y);
    y = ir_.choose(ir_.compare(LLVMRealOGE, x, most), ir_.all((1ull << (n - sign)) - 1, 4), y);
    write_bits(in.d, resized(y, 4, to, d), d);
    return true;
}

// ---- moves ----------------------------------------------------------------------------------------------------------

bool Translator::moves(const Group& g) {
    if (g.last != g.first + 1) return false;
    const Instr& in = f_.code[g.first];
    const auto name = g.in->name;
    if (name != "mov" && name != "cvta") return false;
    Modifiers m(*g.in);
    if (name == "cvta")
        m.ignore(
            {"to", "param", "param::entry", "global", "shared", "shared::cta", "shared::cluster", "local", "const"});
    const Type t = m.type();
    if (!m.done() || t == Type::none) return false;
    const unsigned n = std::max(2u, bytes_of(t));
    const auto& from = g.in->operands[1];
    if (t == Type::pred) {
        V p = truths(in.a);
        write_truths(in.d, in.imm != 0 ? LLVMBuildNot(ir_.at, p, "") : p);
        return true;
    }
    if (n > 8) return false;
    if (from.kind == ast::Operand::list || g.in->operands[0].kind == ast::Operand::list) {
        const bool packing = from.kind == ast::Operand::list;
        const Slot* const parts = f_.lists.data() + in.target;
        const auto part = static_cast<unsigned>(in.imm);
        T type = ir_.of(ir_.integer(n));
        if (packing) {
            V whole = nullptr;
            for (unsigned k = 0; k < in.e; ++k) {
                V x = LLVMBuildZExt(ir_.at, bits(parts[k], part), type, "");
                if (k != 0) x = LLVMBuildShl(ir_.at, x, ir_.all(8 * part * k, n), "");
                whole = whole == nullptr ? x : ir_.either(whole, x);
            }
            write_bits(in.d, whole, n);
        } else {
            V whole = bits(in.a, n);
            for (unsigned k = 0; k < in.e; ++k)
                write_bits(parts[k],
                           LLVMBuildTrunc(ir_.at, LLVMBuildLShr(ir_.at, whole, ir_.all(8 * part * k, n), ""),
                                          ir_.of(ir_.integer(part)), ""),
                           part);
        }
        return true;
    }
    if (from.kind == ast::Operand::special &&
        (from.name_text.starts_with("clock") || from.name_text.starts_with("globaltimer")))
        return false;
    Value v{n};
    if (in.b != nowhere) {  // the address of something: a base and an offset of 8 bytes
        V offset = scalar(in.b, 8), base = scalar(in.a, n);
        if (offset == nullptr) return false;
        if (n == 4) offset = LLVMBuildTrunc(ir_.at, offset, ir_.integer(4), "");
        if (base != nullptr) {
            v.scalar = ir_.add(base, offset);
            v.bits = ir_.splat(v.scalar);
        } else {
            v.bits = ir_.add(bits(in.a, n), ir_.splat(offset));
            v.origin = origin(in.a, n);
        }
    } else {
        v = value(in.a, n);
        v.dirty = false;
        if (v.scalar == nullptr && v.origin == nullptr && v.bits != nullptr) v.origin = v.bits;
    }
    write(in.d, v);
    return true;
}

// ---- the lanes of a warp exchange values ----------------------------------------------------------------------------

// If all lanes are active no lane waits, and with constant distances it is known which lane reads from which:
// ptx/warp.cc. The handlers do the other exchanges.
bool Translator::exchanges(const Group& g) {
    const Instr& in = f_.code[g.first];
    if (!whole_ || in.guard != nowhere || g.last != g.first + 1) return false;
    const auto constant = [&](Slot slot, std::uint32_t* value) {
        if ((slot & 3) != constants_bank) return false;
        std::memcpy(value, f_.constants.data() + (slot & ~Slot{3}), sizeof *value);
        return true;
    };
    std::uint32_t members = 0, b = 0, c = 0;
    if (g.in->name == "bar" && std::ranges::count(g.in->modifiers, "warp") != 0 && constant(in.a, &members) &&
        members == all_lanes) {
        ++counted_;
        return true;
    }
    if (g.in->name != "shfl" || !constant(f_.lists[in.target], &members) || members != all_lanes ||
        !constant(in.b, &b) || !constant(in.c, &c))
        return false;
    Modifiers m(*g.in);
    m.take("sync");
    const bool up = m.take("up"), down = m.take("down"), butterfly = m.take("bfly");
    m.take("idx");
    const int by = static_cast<int>(b & 31), clamp = static_cast<int>(c & 31), segment = static_cast<int>(c >> 8 & 31);
    std::vector<V> from;
    std::uint32_t inside = 0;
    for (int lane = 0; lane < lane_count; ++lane) {
        const int bound = (lane & segment) | (clamp & ~segment);
        const int other = up          ? lane - by
                          : down      ? lane + by
                          : butterfly ? lane ^ by
                                      : (lane & segment) | (by & ~segment);
        const bool reaches = up ? other >= bound : other <= bound;
        inside |= static_cast<std::uint32_t>(reaches) << lane;
        from.push_back(ir_.number(static_cast<std::uint64_t>(reaches ? other : lane), 4));
    }
    V a = bits(in.a, 4);
    write_bits(in.d,
               LLVMBuildShuffleVector(ir_.at, a, LLVMGetUndef(LLVMTypeOf(a)), LLVMConstVector(from.data(), 32), ""), 4);
    if (in.e != nowhere) write_predicate(in.e, ir_.number(inside, 4));
    ++counted_;
    return true;
}

}  // namespace barcuda::soft::compiler
