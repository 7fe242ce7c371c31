// SPDX-License-Identifier: Apache-2.0
// analysis.cc: what is known about a function before it is compiled: where its blocks begin, which registers live, and
// how the values of half a warp relate.
#include "soft-gpu/compiler/translator.h"

namespace barcuda::soft::compiler {

// Instructions whose handlers neither park lanes nor change which lanes run. Nothing is assumed of the others.
bool stays(std::string_view name) {
    static const auto& names = *new std::set<std::string_view>{
        "abs",       "activemask", "add",  "addc", "and",   "applypriority", "atom",  "bfe",  "bfi",
        "bfind",     "bmsk",       "brev", "clz",  "cnot",  "copysign",      "cos",   "cvt",  "cvta",
        "discard",   "div",        "dp2a", "dp4a", "ex2",   "fence",         "fma",   "fns",  "isspacep",
        "ld",        "ldu",        "lg2",  "lop3", "mad",   "mad24",         "madc",  "mapa", "max",
        "membar",    "min",        "mov",  "mul",  "mul24", "neg",           "not",   "or",   "popc",
        "prefetch",  "prefetchu",  "prmt", "rcp",  "red",   "rem",           "rsqrt", "sad",  "selp",
        "set",       "setp",       "shf",  "shl",  "shr",   "sin",           "slct",  "sqrt", "st",
        "sub",       "subc",       "suld", "sust", "szext", "tanh",          "testp", "tex",  "tld4",
        "vabsdiff4", "xor"};
    return names.contains(name);
}
// Those of them whose first operand is not a destination.
static bool stores(std::string_view name) {
    static const auto& names = *new std::set<std::string_view>{
        "st", "red", "prefetch", "prefetchu", "discard", "applypriority", "fence", "membar", "sust"};
    return names.contains(name);
}

void Translator::find_leaders() {
    std::set<std::uint32_t> leaders{0};
    for (const auto& g : groups_) {
        if (g.in != nullptr && stays(g.in->name)) continue;
        for (auto i = g.first; i < g.last; ++i) {
            if (g.in == nullptr || g.in->name != "bra") leaders.insert(i);
            leaders.insert(i + 1);
        }
        if (g.in != nullptr && g.in->name == "bra") leaders.insert(f_.code[g.first].target);
        if (g.in != nullptr && g.in->name == "brx") {
            const auto* table = f_.lists.data() + f_.code[g.first].target;
            leaders.insert(table + 1, table + 1 + table[0]);
        }
    }
    leaders.erase(static_cast<std::uint32_t>(f_.code.size()));
    for (const auto l : leaders) blocks_[l] = nullptr;
}

template <class F> static void each_register(const ast::Operand& o, F&& f) {
    if (o.kind == ast::Operand::reg) f(o.index);
    for (const auto& item : o.items) each_register(item, f);
}

// All registers that a group's handlers may read or write.
std::set<Slot> Translator::named(const Group& g) const {
    std::set<Slot> slots;
    const auto add = [&](Slot s) {
        if (s != nowhere && (s & 3) == registers_bank) slots.insert(s);
    };
    for (auto i = g.first; i < g.last; ++i)
        for (const Slot s : {f_.code[i].a, f_.code[i].b, f_.code[i].c, f_.code[i].d, f_.code[i].guard}) add(s);
    if (g.in != nullptr)
        for (const auto& o : g.in->operands)
            each_register(o, [&](int r) { add(f_.slots[static_cast<std::size_t>(r)]); });
    return slots;
}

// The registers that a group reads and writes. A guarded write may keep the old value.
std::pair<std::set<Slot>, std::set<Slot>> Translator::touches(const Group& g) const {
    std::set<Slot> reads, writes;
    if (g.in != nullptr && stays(g.in->name) && !stores(g.in->name) && g.in->guard < 0 && !g.in->operands.empty())
        each_register(g.in->operands[0], [&](int r) { writes.insert(f_.slots[static_cast<std::size_t>(r)]); });
    if (g.in == nullptr || writes.empty()) return {named(g), writes};
    for (std::size_t k = 1; k < g.in->operands.size(); ++k)
        each_register(g.in->operands[k], [&](int r) { reads.insert(f_.slots[static_cast<std::size_t>(r)]); });
    for (auto i = g.first; i < g.last; ++i)  // slots without a register of the text: carries, scratch
        for (const Slot s : {f_.code[i].a, f_.code[i].b, f_.code[i].c, f_.code[i].e})
            if (s != nowhere && (s & 3) == registers_bank && !writes.contains(s)) reads.insert(s);
    return {reads, writes};
}

// The expected shapes of half a warp's values, as in most kernels: values that do not depend on the thread's x are
// equal, and their sums and products with x form a row. If the quick form of a block finds addresses of that shape, it
// continues without other paths; otherwise the careful form runs. Nothing is expected of values that were loaded from a
// lane's own address.
void Translator::find_shapes() {
    static const auto& linear =
        *new std::set<std::string_view>{"mov", "cvt", "cvta", "add", "sub", "mul", "mad", "shl", "or"};
    for (bool changed = true; changed;) {
        changed = false;
        for (const auto& g : groups_) {
            if (g.in == nullptr || stores(g.in->name)) continue;
            unsigned most = 0;
            for (auto i = g.first; i < g.last; ++i)
                for (const Slot s : {f_.code[i].a, f_.code[i].b, f_.code[i].c})
                    if (s != nowhere && across_.contains(s)) most = 1;
            for (std::size_t k = 1; k < g.in->operands.size(); ++k)
                each_register(g.in->operands[k], [&](int r) { most = std::max(most, lane_shapes_[r]); });
            if (most == 1 && !linear.contains(g.in->name)) most = 2;
            if (most == 0 || g.in->operands.empty()) continue;
            each_register(g.in->operands[0], [&](int r) {
                if (lane_shapes_[r] < most) {
                    lane_shapes_[r] = most;
                    changed = true;
                }
            });
        }
    }
}

Translator::Shape Translator::expected_shape(int reg, bool load) const {
    const auto at = lane_shapes_.find(reg);
    const unsigned n = at == lane_shapes_.end() ? 0 : at->second;
    return n == 2 ? Shape::any : n == 1 ? Shape::row : load ? Shape::same : Shape::any;
}

// Which registers each block reads before it writes them, computed backwards until nothing changes. A guarded write
// keeps the register live.
void Translator::find_live() {
    struct Of {
        std::set<Slot> uses, kills;
        std::vector<std::uint32_t> next;
    };
    std::map<std::uint32_t, Of> of;
    Of* now = nullptr;
    for (const auto& g : groups_) {
        for (auto i = g.first; i < g.last; ++i)
            if (blocks_.contains(i)) {
                auto& begun = of[i];
                if (now != nullptr) now->next.push_back(i);
                now = &begun;
            }
        if (now == nullptr) continue;  // 0 is a leader
        const auto [reads, writes] = touches(g);
        for (const Slot s : reads)
            if (!now->kills.contains(s)) now->uses.insert(s);
        now->kills.insert(writes.begin(), writes.end());
        if (g.in != nullptr && g.in->name == "bra") now->next.push_back(f_.code[g.first].target);
        if (g.in != nullptr && g.in->name == "brx") {
            const auto* table = f_.lists.data() + f_.code[g.first].target;
            now->next.insert(now->next.end(), table + 1, table + 1 + table[0]);
        }
    }
    for (auto& [leader, b] : of) live_in_[leader] = b.uses;
    for (bool changed = true; changed;) {
        changed = false;
        for (auto b = of.rbegin(); b != of.rend(); ++b) {
            auto& in = live_in_[b->first];
            const auto before = in.size();
            for (const auto next : b->second.next)
                for (const Slot s : live_in_[next])
                    if (!b->second.kills.contains(s)) in.insert(s);
            changed |= in.size() != before;
        }
    }
    for (auto& [leader, b] : of) {
        auto& out = live_in_[leader | 0x80000000u];
        for (const auto next : b.next) out.insert(live_in_[next].begin(), live_in_[next].end());
    }
}

// Which registers live at a block's loads and stores.
void Translator::find_live_within(std::uint32_t leader) {
    auto live = live_in_[leader | 0x80000000u];
    const auto next = blocks_.upper_bound(leader);
    const auto end = next == blocks_.end() ? static_cast<std::uint32_t>(f_.code.size()) : next->first;
    for (auto g = groups_.rbegin(); g != groups_.rend(); ++g) {
        if (g->first >= end) continue;
        if (g->first < leader) break;
        const auto [reads, writes] = touches(*g);
        for (const Slot s : writes) live.erase(s);
        live.insert(reads.begin(), reads.end());
        if (g->in != nullptr && (g->in->name == "ld" || g->in->name == "st")) live_at_[g->first] = live;
    }
}

}  // namespace barcuda::soft::compiler
