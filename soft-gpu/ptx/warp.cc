// SPDX-License-Identifier: Apache-2.0
// warp.cc: instructions among the lanes of a warp: shfl, vote, match, redux, elect, activemask, bar.warp.sync.
#include <cuda.h>

#include <algorithm>

#include "soft-gpu/ptx/coder.h"
#include "soft-gpu/ptx/math.h"
#include "soft-gpu/ptx/sync.h"

namespace barcuda::soft {

static Mask equal_to(Mask mask, const std::uint32_t* values, std::uint32_t value) {
    Mask same = 0;
    for (Mask m = mask; m != 0; m &= m - 1)
        if (const int i = __builtin_ctz(m); values[i] == value) same |= Mask{1} << i;
    return same;
}

// Some lanes of a group are missing. If others of it wait at this instruction, all check again together; otherwise they
// wait.
static void wait_for(Warp& w, Mask lanes, Mask members, bool anywhere) {
    const auto here = w.pc - 1;
    Mask gathered = lanes;
    bool joined = false;
    for (auto& f : w.fragments) {
        if (f.state != Fragment::at_sync) continue;
        if (f.frame == w.frame && f.pc == here) {
            f.state = Fragment::ready;
            joined = true;
        } else if (f.members == members) gathered |= f.mask;
    }
    park(w, lanes, here, joined ? Fragment::ready : Fragment::at_sync, 0, members);
    if (joined || gathered == lanes || (members & ~w.exited & ~gathered) != 0) return;
    if (!anywhere)
        throw Fault{CUDA_ERROR_ILLEGAL_INSTRUCTION, "the lanes of one member mask meet at different instructions",
                    __builtin_ctz(lanes)};
    for (auto& f : w.fragments)
        if (f.state == Fragment::at_sync && f.members == members) {
            f.state = Fragment::ready;
            ++f.pc;
        }
}

Mask meet(Warp& w, Mask mask, const std::uint32_t* members, bool anywhere) {
    Mask ready = 0;
    for (Mask rest = mask; rest != 0;) {
        const std::uint32_t group = members[__builtin_ctz(rest)];
        const Mask same = equal_to(rest, members, group);
        rest &= ~same;
        if ((group & ~w.exited & ~same) == 0) ready |= same;
        else wait_for(w, same, group, anywhere);
    }
    return ready;
}

namespace {

using u32 = std::uint32_t;

Step after(const Warp& w) { return w.mask == 0 ? Step::leave : Step::go; }

void set_bits(Warp& w, Slot slot, Mask mask, Mask bits) {
    Mask& d = w.predicate(slot);
    d = (d & ~mask) | (bits & mask);
}

// ---- shfl -----------------------------------------------------------------------------------------------------------

enum class Shuffle : std::uint8_t { up, down, bfly, idx };

// The value of a lane that does not take part (not in the mask, ended, or elsewhere) is undefined in PTX; here it is 0,
// whatever that lane's register contains. lists[target]: the member masks
template <Shuffle kind> Step shuffle(Warp& w, const Instr& in, Mask mask) {
    const u32* const members = w.at<u32>(w.frame->function->lists[in.target]);
    mask = meet(w, mask, members);
    if (mask == 0) return after(w);
    u32 a[lane_count] = {};  // a copy: d may be a
    const u32* const source = w.at<u32>(in.a);
    each(
        mask, [&](int i) __attribute__((always_inline)) { a[i] = source[i]; });
    const u32 *const b = w.at<u32>(in.b), *const c = w.at<u32>(in.c);
    u32* const d = w.at<u32>(in.d);
    Mask inside = 0;
    for (Mask m = mask; m != 0; m &= m - 1) {
        const int lane = __builtin_ctz(m);
        const int by = static_cast<int>(b[lane] & 31), clamp = static_cast<int>(c[lane] & 31),
                  segment = static_cast<int>(c[lane] >> 8 & 31);
        const int bound = (lane & segment) | (clamp & ~segment);
        int from = kind == Shuffle::up     ? lane - by
                   : kind == Shuffle::down ? lane + by
                   : kind == Shuffle::bfly ? lane ^ by
                                           : (lane & segment) | (by & ~segment);
        const bool in_range = kind == Shuffle::up ? from >= bound : from <= bound;
        if (!in_range) from = lane;
        inside |= static_cast<Mask>(in_range) << lane;
        d[lane] = a[from];
    }
    if (in.e != nowhere) set_bits(w, in.e, mask, inside);
    return after(w);
}

void decode_shfl(Coder& c) {
    if (!c.take("sync")) c.refuse();
    const Handler run = c.take("up")     ? shuffle<Shuffle::up>
                        : c.take("down") ? shuffle<Shuffle::down>
                        : c.take("bfly") ? shuffle<Shuffle::bfly>
                        : c.take("idx")  ? shuffle<Shuffle::idx>
                                         : nullptr;
    const Type type = c.take_type();
    c.count(5, 5);
    if (run == nullptr || bytes_of(type) != 4) c.refuse();
    ast::Operand target = c.operand(0);
    target.items.clear();
    const Slot d = c.write(target, type),
               e = c.operand(0).items.empty() ? nowhere : c.write_predicate(c.operand(0).items[0]);
    const Slot a = c.read(c.operand(1), type), b = c.read(c.operand(2), Type::u32),
               clamp = c.read(c.operand(3), Type::u32);
    const Slot members = c.read(c.operand(4), Type::u32);
    c.emit(run, d, a, b, clamp, e).target = c.list({members});
}

// ---- vote -----------------------------------------------------------------------------------------------------------

enum class Vote : std::uint8_t { all, any, uni, ballot };

template <Vote kind> Step vote(Warp& w, const Instr& in, Mask mask) {
    const u32* const members = w.at<u32>(in.b);
    mask = meet(w, mask, members);
    const Mask p = w.predicate(in.a) ^ (in.imm != 0 ? all_lanes : 0);
    for (Mask rest = mask; rest != 0;) {
        const Mask group = equal_to(rest, members, members[__builtin_ctz(rest)]);
        rest &= ~group;
        const Mask yes = p & group;
        if constexpr (kind == Vote::ballot) {
            u32* const d = w.at<u32>(in.d);
            for (Mask m = group; m != 0; m &= m - 1) d[__builtin_ctz(m)] = yes;
        } else {
            const bool holds = kind == Vote::all   ? yes == group
                               : kind == Vote::any ? yes != 0
                                                   : yes == 0 || yes == group;
            set_bits(w, in.d, group, holds ? all_lanes : 0);
        }
    }
    return after(w);
}

void decode_vote(Coder& c) {
    if (!c.take("sync")) c.refuse();
    const bool ballot = c.take("ballot");
    const Handler run = ballot          ? vote<Vote::ballot>
                        : c.take("all") ? vote<Vote::all>
                        : c.take("any") ? vote<Vote::any>
                        : c.take("uni") ? vote<Vote::uni>
                                        : nullptr;
    const Type type = c.take_type();
    c.count(3, 3);
    if (run == nullptr || ballot != (type == Type::b32)) c.refuse();
    const Slot d = ballot ? c.write(c.operand(0), type) : c.write_predicate(c.operand(0));
    const Slot p = c.read_predicate(c.operand(1));
    c.emit(run, d, p, c.read(c.operand(2), Type::u32)).imm = c.operand(1).negated;
}

Step active(Warp& w, const Instr& in, Mask mask) {
    u32* const d = w.at<u32>(in.d);
    each(
        mask, [&](int i) __attribute__((always_inline)) { d[i] = mask; });
    return Step::go;
}

// ---- match, redux, elect --------------------------------------------------------------------------------------------

template <class T, bool all> Step match(Warp& w, const Instr& in, Mask mask) {
    const u32* const members = w.at<u32>(in.b);
    mask = meet(w, mask, members);
    const T* const a = w.at<T>(in.a);
    u32* const d = w.at<u32>(in.d);
    u32 results[lane_count] = {};
    Mask same_everywhere = 0;
    for (Mask m = mask; m != 0; m &= m - 1) {
        const int i = __builtin_ctz(m);
        const Mask group = mask & members[i];
        Mask same = 0;
        for (Mask g = group; g != 0; g &= g - 1)
            if (const int k = __builtin_ctz(g); a[k] == a[i]) same |= Mask{1} << k;
        results[i] = !all || same == group ? same : 0;
        same_everywhere |= static_cast<Mask>(same == group) << i;
    }
    for (Mask m = mask; m != 0; m &= m - 1) d[__builtin_ctz(m)] = results[__builtin_ctz(m)];
    if (all && in.e != nowhere) set_bits(w, in.e, mask, same_everywhere);
    return after(w);
}

void decode_match(Coder& c) {
    const bool all = c.take("all");
    c.take("any");
    if (!c.take("sync")) c.refuse();
    const Type type = c.take_type();
    c.count(3, 3);
    ast::Operand target = c.operand(0);
    target.items.clear();
    const Slot d = c.write(target, Type::b32),
               e = c.operand(0).items.empty() ? nowhere : c.write_predicate(c.operand(0).items[0]);
    const Slot a = c.read(c.operand(1), type);
    const bool wide = bytes_of(type) == 8;
    c.emit(all ? (wide ? match<std::uint64_t, true> : match<u32, true>)
               : (wide ? match<std::uint64_t, false> : match<u32, false>),
           d, a, c.read(c.operand(2), Type::u32), nowhere, e);
}

template <class T, class F> Step reduce(Warp& w, const Instr& in, Mask mask) {
    const u32* const members = w.at<u32>(in.b);
    mask = meet(w, mask, members);
    const T* const a = w.at<T>(in.a);
    T* const d = w.at<T>(in.d);
    for (Mask rest = mask; rest != 0;) {
        const Mask group = equal_to(rest, members, members[__builtin_ctz(rest)]);
        rest &= ~group;
        T value = a[__builtin_ctz(group)];
        for (Mask m = group & (group - 1); m != 0; m &= m - 1) value = F{}(value, a[__builtin_ctz(m)]);
        for (Mask m = group; m != 0; m &= m - 1) d[__builtin_ctz(m)] = value;
    }
    return after(w);
}
template <class T, class F> Handler reduction(F) { return reduce<T, F>; }

void decode_redux(Coder& c) {
    if (!c.take("sync")) c.refuse();
    const bool absolute = c.take("abs"), keeps_nan = c.take("NaN");
    static constexpr std::string_view names[] = {"add", "min", "max", "and", "or", "xor"};
    std::size_t op = 0;
    while (op < std::size(names) && !c.take(names[op])) ++op;
    const Type type = c.take_type();
    c.count(3, 3);
    const bool s = type == Type::s32;
    Handler run = nullptr;
    if (type == Type::f32) {
        if (absolute || keeps_nan || (op != 1 && op != 2)) c.refuse();
        const auto less = [](float a, float b) {
            return a != a ? b : b != b ? a : a < b || (a == b && std::signbit(a)) ? a : b;
        };
        const auto more = [](float a, float b) {
            return a != a ? b : b != b ? a : a > b || (a == b && !std::signbit(a)) ? a : b;
        };
        run = op == 1 ? reduction<float>(less) : reduction<float>(more);
    } else {
        switch (op) {
            case 0: run = reduction<u32>([](u32 a, u32 b) { return a + b; }); break;
            case 1:
                run = s ? reduction<std::int32_t>([](auto a, auto b) { return std::min(a, b); })
                        : reduction<u32>([](auto a, auto b) { return std::min(a, b); });
                break;
            case 2:
                run = s ? reduction<std::int32_t>([](auto a, auto b) { return std::max(a, b); })
                        : reduction<u32>([](auto a, auto b) { return std::max(a, b); });
                break;
            case 3: run = reduction<u32>([](u32 a, u32 b) { return a & b; }); break;
            case 4: run = reduction<u32>([](u32 a, u32 b) { return a | b; }); break;
            case 5: run = reduction<u32>([](u32 a, u32 b) { return a ^ b; }); break;
            default: c.refuse();
        }
    }
    const Slot d = c.write(c.operand(0), type), a = c.read(c.operand(1), type);
    c.emit(run, d, a, c.read(c.operand(2), Type::u32));
}

Step elect(Warp& w, const Instr& in, Mask mask) {  // the lowest lane of each group
    const u32* const members = w.at<u32>(in.b);
    mask = meet(w, mask, members);
    u32* const d = w.at<u32>(in.d);
    Mask leaders = 0;
    for (Mask m = mask; m != 0; m &= m - 1) {
        const int i = __builtin_ctz(m);
        const Mask group = mask & members[i];
        const int leader = group != 0 ? __builtin_ctz(group) : i;
        d[i] = static_cast<u32>(leader);
        leaders |= static_cast<Mask>(leader == i) << i;
    }
    set_bits(w, in.e, mask, leaders);
    return after(w);
}

void decode_elect(Coder& c) {
    if (!c.take("sync")) c.refuse();
    c.count(2, 2);
    ast::Operand target = c.operand(0);
    if (target.items.size() != 1) c.refuse();
    const Slot e = c.write_predicate(target.items[0]);
    target.items.clear();
    const Slot d = c.write(target, Type::b32);
    c.emit(elect, d, nowhere, c.read(c.operand(1), Type::u32), nowhere, e);
}

}  // namespace

Step warp_barrier(Warp& w, const Instr& in, Mask mask) {
    meet(w, mask, w.at<u32>(in.a), true);
    return after(w);
}

void warp_instructions(Decoders& t) {
    t["shfl"] = decode_shfl;
    t["vote"] = t["vote.p"] = decode_vote;
    t["match"] = decode_match;
    t["redux"] = t["redux.i"] = t["redux.f"] = decode_redux;
    t["elect"] = decode_elect;
    t["activemask"] = [](Coder& c) {
        const Type type = c.take_type();
        c.emit(active, c.write(c.operand(0), type));
    };
}

}  // namespace barcuda::soft
