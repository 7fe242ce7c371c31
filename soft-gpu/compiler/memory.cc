// SPDX-License-Identifier: Apache-2.0
// memory.cc: loads and stores. Most of them read or write a row of memory with each half of a warp, or read one place:
// these are compiled, with the checks of ptx/memory.h. The handler does everything else, and every fault.
//
// One check finds whether addresses form a row, for all addresses that differ from each other by the same number in
// every lane: the elements of an unrolled loop, the same place in several arrays.
#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

#include "soft-gpu/compiler/access.h"

namespace barcuda::soft::compiler {

constexpr unsigned half_lanes = 16;

// A load or a store of shared or global memory, or of one of the kernel's parameters.
bool Translator::read_access(const Group& g, Access& a, bool& parameter) const {
    const auto name = g.in->name;
    a.load = name == "ld" || name == "ldu";
    if ((!a.load && name != "st") || g.last != g.first + 1) return false;
    const Instr& in = f_.code[g.first];
    a.in = &in;
    Modifiers m(*g.in);
    a.looks = m.take("volatile");
    for (const auto order : {"relaxed", "acquire", "release", "mmio"})
        if (m.take(order)) return false;
    m.ignore({"weak", "nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "unified"});
    while (!m.left().empty() && (m.left()[0].starts_with("L1::") || m.left()[0].starts_with("L2::")))
        m.take(m.left()[0]);
    const auto& place = g.in->operands[a.load ? 1 : 0];
    const bool shared = m.take("shared") || m.take("shared::cta") || m.take("shared::cluster");
    const bool global = m.take("global") || m.take("const");
    parameter = m.take("param") || m.take("param::entry");
    a.local = m.take("local");
    if (m.take("param::func") || (a.local && parameter)) return false;
    const unsigned n = m.take("v2") ? 2 : m.take("v4") ? 4 : m.take("v8") ? 8 : 1;
    const Type t = m.type();
    if (!m.done() || t == Type::none || bytes_of(t) > 8 || bytes_of(t) == 0) return false;
    if (a.looks && (!shared || n != 1)) return false;  // other threads of this machine may not see a partial access
    a.global = !shared && !a.local;
    a.generic = a.global && !global;
    a.bytes = bytes_of(t);
    a.sign = is_signed(t);
    const auto& data = g.in->operands[a.load ? 0 : 1];
    const auto reg = [&](const ast::Operand& o) {
        return o.kind == ast::Operand::reg && o.index >= 0 ? register_bytes(o.index) : 0;
    };
    if (n == 1) {
        a.slots = {a.load ? in.d : in.b};
        a.reg = reg(data);
        if (!a.load && data.kind != ast::Operand::reg) a.reg = std::max(2u, a.bytes);
    } else {
        const Slot* const list = f_.lists.data() + in.target;
        a.slots.assign(list, list + n);
        for (const auto& item : data.items) a.reg = std::max(a.reg, reg(item));
    }
    if (a.reg < a.bytes || a.reg == 0 || a.reg > 8 || a.together() > 32) return false;  // 32: see Running::nowhere
    const bool of_kernel = place.kind == ast::Operand::variable && (in.a & 3) == specials_bank;
    if (parameter || of_kernel) return parameter = of_kernel && a.load && n == 1;
    if (place.kind == ast::Operand::variable || (place.kind == ast::Operand::name && !shared && !global)) return false;
    if (place.kind == ast::Operand::reg) {
        a.base = place.index;
        a.address = register_bytes(place.index);
    }
    return a.address == 8 || (a.address == 4 && !a.global);
}

bool Translator::accesses(const Group& g) {
    Access a;
    bool parameter = false;
    if (!read_access(g, a, parameter)) return false;
    if (parameter) {
        V from = ir_.add(field(offsetof(Running, parameters), ir_.integer(8)),
                         ir_.number(static_cast<std::uint64_t>(a.in->imm), 8));
        V x = ir_.load(from, ir_.integer(a.bytes), 1);
        if (a.bytes < a.reg)
            x = a.sign ? LLVMBuildSExt(ir_.at, x, ir_.integer(a.reg), "")
                       : LLVMBuildZExt(ir_.at, x, ir_.integer(a.reg), "");
        write(a.in->d, {a.reg, ir_.splat(x), nullptr, x, nullptr, false, false});
        ++counted_;
        return true;
    }
    if (a.local) locally(g, a);
    else fast_and_slow(g, a);
    return true;
}

// The offsets from the same addresses that this block will also read, or write: if one check finds all of them valid,
// each one is. None of them is guarded: if one is invalid, the kernel will fault there.
std::pair<std::int64_t, std::int64_t> Translator::offsets_ahead(const Group& g, const Access& a) const {
    std::int64_t low = a.in->imm, high = a.in->imm;
    if (guard_ != nullptr || low % a.together() != 0) return {low, high};
    for (auto next = std::upper_bound(groups_.begin(), groups_.end(), g.first,
                                      [](std::uint32_t x, const Group&y) { return x < y.first; });
         next != groups_.end() && next->first < block_end_; ++next) {
        if (next->in == nullptr) break;
        Access other;
        bool parameter = false;
        if (next->in->guard < 0 && read_access(*next, other, parameter) && !parameter && other.in->a == a.in->a &&
            other.load == a.load && other.global == a.global && !other.local && other.together() == a.together() &&
            other.in->imm % a.together() == 0) {
            low = std::min(low, other.in->imm);
            high = std::max(high, other.in->imm);
        }
        const auto changed = [&](const ast::Operand& o) {
            return o.kind == ast::Operand::reg && f_.slots[static_cast<std::size_t>(o.index)] == a.in->a;
        };
        const auto& first = next->in->operands.empty() ? ast::Operand{} : next->in->operands[0];
        if (!first.address && (changed(first) || std::any_of(first.items.begin(), first.items.end(), changed))) break;
        if (high - low > 1 << 16) break;
    }
    return {low, high};
}

// The addresses of one half, from the lowest offset to the highest: whether they are valid, whether they form a row,
// and where it begins.
Translator::Half Translator::half(const Access& a, std::int64_t low, std::int64_t high, unsigned h, const Range& range,
                                  Shape shape) {
    const unsigned n = a.address, step = a.together();
    V addresses = bits(a.in->a, n), from = origin(a.in->a, n), one = scalar(a.in->a, n);
    Half x{};
    V same = nullptr, regular = nullptr;
    if (one != nullptr) {
        x.row = ir_.yes(false);
        same = ir_.yes(true);
    } else {
        auto& seen = patterns_[{from, step, h}];
        if (seen.first == nullptr) {
            V part = ir_.lanes(from, h * half_lanes, half_lanes);
            V apart = ir_.minus(part, ir_.splat(ir_.element(part, 0), half_lanes));
            const auto none = [&](V v) {
                return ir_.compare(LLVMIntEQ, ir_.intrinsic("llvm.vector.reduce.or", LLVMTypeOf(v), {v}),
                                   ir_.number(0, n));
            };
            seen.first = none(LLVMBuildXor(ir_.at, apart, ir_.ramp(step, n, half_lanes), ""));
            seen.second = none(apart);
        }
        x.row = seen.first;
        same = seen.second;
        if (shape == Shape::same) x.row = ir_.yes(false);
        if (shape == Shape::row) {
            same = ir_.yes(false);
            regular = x.row;
            x.row = ir_.yes(true);
        }
    }
    V first = one != nullptr ? one : ir_.element(addresses, h * half_lanes);
    first = ir_.add(first, ir_.number(static_cast<std::uint64_t>(low), n));
    if (n == 4) first = LLVMBuildZExt(ir_.at, first, ir_.integer(8), "");
    const auto more = static_cast<std::uint64_t>(high - low);
    V bytes = ir_.choose(x.row, ir_.number(step * half_lanes + more, 8), ir_.number(step + more, 8));
    x.fine = regular != nullptr ? regular : a.load ? ir_.either(x.row, same) : x.row;
    if (step > 1)
        x.fine = ir_.both(x.fine, ir_.compare(LLVMIntEQ, ir_.both(first, ir_.number(step - 1, 8)), ir_.number(0, 8)));
    V offset = range.base != nullptr ? ir_.minus(first, range.base) : first;
    x.fine = ir_.both(x.fine, ir_.compare(LLVMIntULE, offset, range.size));
    x.fine = ir_.both(x.fine, ir_.compare(LLVMIntUGE, ir_.minus(range.size, offset), bytes));
    if (!a.load && range.writable != nullptr) x.fine = ir_.both(x.fine, range.writable);
    x.address = range.base != nullptr ? first : ir_.add(first, shared_);
    return x;
}

Translator::Range Translator::range_of(const Access& a) {
    if (!a.global) return {nullptr, shared_bytes_, nullptr};
    V range = ir_.add(sites_at_, ir_.number(a.site * sizeof(AddressSpace::Range), 8));
    const auto part = [&](std::size_t offset, unsigned bytes) {
        return ir_.load(ir_.add(range, ir_.number(offset, 8)), ir_.integer(bytes), bytes);
    };
    return {
        part(offsetof(AddressSpace::Range, base), 8), part(offsetof(AddressSpace::Range, size), 8),
        a.load ? nullptr : ir_.compare(LLVMIntNE, part(offsetof(AddressSpace::Range, writable), 1), ir_.number(0, 1))};
}

void Translator::fast_and_slow(const Group& g, const Access& given) {
    Access a = given;
    const auto n = static_cast<unsigned>(a.slots.size());
    V fine = nullptr, full = nullptr;
    const bool all = whole_ && guard_ == nullptr;
    V lanes = active(), addresses = bits(a.in->a, a.address);
    // Whether the block's quick form continues only if the first check finds the expected shape.
    const Shape shape = careful_ || guard_ != nullptr || !(a.load || all) ? Shape::any : expected_shape(a.base, a.load);
    const bool straight = shape != Shape::any;
    const auto key = std::make_tuple(addresses, a.together(), a.load, a.global, straight, guard_);
    auto found = spans_.find(key);
    bool looked_at = true;
    if (found == spans_.end() || a.in->imm < found->second.low || a.in->imm > found->second.high ||
        (a.in->imm - found->second.low) % a.together() != 0) {
        Span s;
        looked_at = false;
        if (a.global) {
            s.site = site_of(g.first);
            s.seen = field(offsetof(Running, generation_seen), ir_.integer(8));
        }
        a.site = s.site;
        std::tie(s.low, s.high) = offsets_ahead(g, a);
        const Range range = range_of(a);
        for (unsigned h = 0; h < 2; ++h) {
            s.halves[h] = half(a, s.low, s.high, h, range, shape);
            V ok = s.halves[h].fine;
            if (!all) {
                V part = ir_.both(lanes, ir_.number(0xFFFFull << (16 * h), 4));
                ok = ir_.either(ok, ir_.compare(LLVMIntEQ, part, ir_.number(0, 4)));
                s.halves[h].row = ir_.both(s.halves[h].row, s.halves[h].fine);
            }
            s.fine = s.fine == nullptr ? ok : ir_.both(s.fine, ok);
        }
        found = spans_.insert_or_assign(key, s).first;
    }
    const Span span = found->second;
    a.site = span.site;
    fine = span.fine;
    if (a.global && !(straight && looked_at)) {
        V now = ir_.load(generation_, ir_.integer(8), 8);
        LLVMSetVolatile(now, true);
        fine = ir_.both(fine, ir_.compare(LLVMIntEQ, now, span.seen));
    }
    V nobody = ir_.add(running_, ir_.number(offsetof(Running, nowhere), 8));
    Half halves[2];
    for (unsigned h = 0; h < 2; ++h) {
        halves[h] = span.halves[h];
        halves[h].address = ir_.add(halves[h].address, ir_.number(static_cast<std::uint64_t>(a.in->imm - span.low), 8));
        if (!all) halves[h].address = ir_.choose(halves[h].fine, halves[h].address, nobody);
    }
    const bool masks = !a.load && !all && n == 1 && a.bytes >= 4;
    if (!a.load && !all) {
        full = ir_.compare(LLVMIntEQ, lanes, ir_.number(~0u, 4));
        if (!masks) fine = ir_.both(fine, full);
    }
    // What the handler will read must have memory's format before the paths part.
    std::vector<V> data;
    if (!a.load)
        for (const Slot s : a.slots) data.push_back(bits(s, a.reg));
    B quick = nullptr, slow = nullptr, behind = nullptr;
    if (straight) {
        if (!looked_at) unless(fine, g.first);
    } else {
        quick = ir_.block();
        slow = ir_.block();
        behind = ir_.block();
        ir_.fork(fine, quick, slow);
        ir_.go(quick);
    }
    if (a.looks) look();
    T element = ir_.integer(a.bytes);
    std::vector<V> loaded;
    std::vector<std::pair<std::vector<V>, B>> ways;  // what was loaded, and on which path
    const bool one_place = a.load && scalar(a.in->a, a.address) != nullptr;
    if (a.load) {
        V parts[2];
        for (unsigned h = 0; h < (one_place ? 1 : 2); ++h) {
            const Half& x = halves[h];
            std::vector<V> spread;
            for (unsigned i = 0; i < n * half_lanes; ++i) spread.push_back(ir_.number(i % n, 4));
            V one = ir_.load(x.address, ir_.of(element, n), a.bytes);
            V same = LLVMBuildShuffleVector(ir_.at, one, LLVMGetUndef(LLVMTypeOf(one)),
                                            LLVMConstVector(spread.data(), n * half_lanes), "");
            if (!one_place) {
                V row = ir_.load(ir_.choose(x.row, x.address, nobody), ir_.of(element, n * half_lanes), a.bytes);
                same = ir_.choose(x.row, row, same);
            }
            parts[h] = same;
        }
        if (one_place) parts[1] = parts[0];
        for (unsigned k = 0; k < n; ++k) {
            V whole = n == 1 ? ir_.joined(parts[0], parts[1])
                             : ir_.joined(ir_.lanes(parts[0], k, half_lanes, n), ir_.lanes(parts[1], k, half_lanes, n));
            loaded.push_back(extended(a, whole));
        }
        if (!straight) ir_.jump(behind);
    } else {
        V parts[2];
        for (unsigned h = 0; h < 2; ++h) {
            std::vector<V> of;
            for (unsigned k = 0; k < n; ++k) {
                V x = ir_.lanes(data[k], h * half_lanes, half_lanes);
                of.push_back(a.bytes < a.reg ? LLVMBuildTrunc(ir_.at, x, ir_.of(element, half_lanes), "") : x);
            }
            parts[h] = in_order_of_memory(std::move(of), half_lanes);
        }
        B some = nullptr;
        if (masks) {
            B whole = ir_.block();
            some = ir_.block();
            ir_.fork(full, whole, some);
            ir_.go(whole);
        }
        for (unsigned h = 0; h < 2; ++h) ir_.store(halves[h].address, parts[h], a.bytes);
        if (!straight) ir_.jump(behind);
        if (masks) {
            ir_.go(some);
            for (unsigned h = 0; h < 2; ++h) {
                T type = LLVMTypeOf(parts[h]);
                T over[] = {type, LLVMPointerType(type, 0)};
                const char name[] = "llvm.masked.store";
                const unsigned id = LLVMLookupIntrinsicID(name, sizeof name - 1);
                V f = LLVMGetIntrinsicDeclaration(ir_.module, id, over, 2);
                V arguments[] = {parts[h], ir_.pointer(halves[h].address, type), ir_.number(a.bytes, 4),
                                 ir_.lanes(truths_of(lanes), h * half_lanes, half_lanes)};
                LLVMBuildCall2(ir_.at, LLVMIntrinsicGetType(ir_.context, id, over, 2), f, arguments, 4, "");
            }
            ir_.jump(behind);
        }
    }
    if (straight) return finish(a, loaded, one_place && all);
    ways.emplace_back(loaded, quick);
    ir_.go(slow);
    slowly(g, a, data, behind, ways);
}

}  // namespace barcuda::soft::compiler
