// SPDX-License-Identifier: Apache-2.0
// scattered.cc: loads and stores whose lanes have unrelated addresses, and local memory, which is a different place in
// each lane. All addresses are checked together, as ptx/memory.h checks each; if one is invalid, the handler does the
// whole access.
#include <cstddef>
#include <string_view>
#include <utility>

#include "soft-gpu/compiler/access.h"
#include "soft-gpu/ptx/memory.h"

namespace barcuda::soft::compiler {

V Translator::extended(const Access& a, V x) {
    if (a.bytes == a.reg) return x;
    T to = ir_.of(ir_.integer(a.reg));
    return a.sign ? LLVMBuildSExt(ir_.at, x, to, "") : LLVMBuildZExt(ir_.at, x, to, "");
}

void Translator::look() {
    V left = field(offsetof(Running, budget), ir_.integer(8));
    ir_.store(field_address(offsetof(Running, budget)), ir_.minus(left, ir_.number(look_cost, 8)), 8);
}

// A function of the module that copies, for each lane of a mask, `bytes` between its place and its data in `Running`.
// It handles one lane after the other, because usually few take part.
V Translator::copy_lanes(bool load, unsigned bytes) {
    V& f = copy_lanes_[{load, bytes}];
    if (f != nullptr) return f;
    B before = ir_.here();
    T parameters[] = {ir_.integer(8), ir_.integer(8), ir_.integer(4)};
    f = LLVMAddFunction(ir_.module, load ? "gather" : "scatter",
                        LLVMFunctionType(LLVMVoidTypeInContext(ir_.context), parameters, 3, false));
    LLVMSetLinkage(f, LLVMInternalLinkage);
    const char noinline_name[] = "noinline";
    const unsigned kind = LLVMGetEnumAttributeKindForName(noinline_name, sizeof noinline_name - 1);
    LLVMAddAttributeAtIndex(f, static_cast<LLVMAttributeIndex>(LLVMAttributeFunctionIndex),
                            LLVMCreateEnumAttribute(ir_.context, kind, 0));
    const auto block = [&] { return LLVMAppendBasicBlockInContext(ir_.context, f, ""); };
    B entry = block(), loop = block(), end = block();
    ir_.go(entry);
    ir_.jump(loop);
    ir_.go(loop);
    V rest = LLVMBuildPhi(ir_.at, ir_.integer(4), "");
    V lane =
        LLVMBuildZExt(ir_.at, ir_.intrinsic("llvm.cttz", ir_.integer(4), {rest, ir_.yes(true)}), ir_.integer(8), "");
    const auto row = [&](unsigned from, unsigned step) {
        return ir_.add(LLVMGetParam(f, from), LLVMBuildMul(ir_.at, lane, ir_.number(step, 8), ""));
    };
    V there = ir_.load(row(0, 8), ir_.integer(8), 8), here = row(1, bytes);
    T type = bytes > 8 ? ir_.of(ir_.integer(1), bytes) : ir_.integer(bytes);
    ir_.store(load ? here : there, ir_.load(load ? there : here, type, 1), 1);
    V fewer = ir_.both(rest, ir_.minus(rest, ir_.number(1, 4)));
    V all = LLVMGetParam(f, 2);
    LLVMAddIncoming(rest, &all, &entry, 1);
    LLVMAddIncoming(rest, &fewer, &loop, 1);
    ir_.fork(ir_.compare(LLVMIntEQ, fewer, ir_.number(0, 4)), end, loop);
    ir_.go(end);
    LLVMBuildRetVoid(ir_.at);
    ir_.go(before);
    return f;
}

// Orders the elements of a vector, each for `lanes` lanes: those of the first lane, then those of the second.
V Translator::in_order_of_memory(std::vector<V> of, unsigned lanes) {
    const auto n = static_cast<unsigned>(of.size());
    if (n == 1) return of[0];
    while (of.size() > 1) {
        std::vector<V> fewer;
        for (std::size_t k = 0; k < of.size(); k += 2) fewer.push_back(ir_.joined(of[k], of[k + 1]));
        of = fewer;
    }
    std::vector<V> order;
    for (unsigned i = 0; i < n * lanes; ++i) order.push_back(ir_.number(i % n * lanes + i / n, 4));
    return LLVMBuildShuffleVector(ir_.at, of[0], LLVMGetUndef(LLVMTypeOf(of[0])),
                                  LLVMConstVector(order.data(), n * lanes), "");
}

// Copies the elements that the lanes load from, or store to, their places.
std::vector<V> Translator::copied(const Access& a, V where, V lanes, const std::vector<V>& data) {
    const auto n = static_cast<unsigned>(a.slots.size());
    T element = ir_.integer(a.bytes);
    V places = field_address(offsetof(Running, lane_places)), memory = field_address(offsetof(Running, lane_data));
    ir_.store(places, where, 64);
    if (!a.load) {
        std::vector<V> of;
        of.reserve(data.size());
        for (V x : data) of.push_back(a.bytes < a.reg ? LLVMBuildTrunc(ir_.at, x, ir_.of(element), "") : x);
        ir_.store(memory, in_order_of_memory(std::move(of), lane_count), 64);
    }
    V f = copy_lanes(a.load, a.together());
    T parameters[] = {ir_.integer(8), ir_.integer(8), ir_.integer(4)};
    V arguments[] = {places, memory, lanes};
    LLVMBuildCall2(ir_.at, LLVMFunctionType(LLVMVoidTypeInContext(ir_.context), parameters, 3, false), f, arguments, 3,
                   "");
    std::vector<V> values;
    if (!a.load) return values;
    V all = ir_.load(memory, ir_.of(element, n * lane_count), 64);
    for (unsigned k = 0; k < n; ++k) values.push_back(extended(a, n == 1 ? all : ir_.lanes(all, k, lane_count, n)));
    return values;
}

// Each lane's address in this process, checked by itself. `fine`: the addresses of all active lanes are valid.
V Translator::places(const Access& a, V lanes, V* fine) {
    V where = ir_.add(bits(a.in->a, a.address), ir_.all(static_cast<std::uint64_t>(a.in->imm), a.address));
    if (a.address == 4) where = LLVMBuildZExt(ir_.at, where, ir_.of(ir_.integer(8)), "");
    const unsigned step = a.together();
    V step8 = ir_.number(step, 8), given = where, good = nullptr;
    const auto within = [&](V offsets, V size, V also) {
        V fits = ir_.compare(LLVMIntULE, offsets, ir_.splat(ir_.minus(size, step8)));
        V any = ir_.compare(LLVMIntUGE, size, step8);
        if (also != nullptr) any = ir_.both(any, also);
        return ir_.both(fits, ir_.splat(any));
    };
    if (!a.local) {
        const Range range = range_of(a);
        V also = range.writable;
        if (a.global) {
            V now = ir_.load(generation_, ir_.integer(8), 8);
            LLVMSetVolatile(now, true);
            V same = ir_.compare(LLVMIntEQ, now, field(offsetof(Running, generation_seen), ir_.integer(8)));
            also = also != nullptr ? ir_.both(also, same) : same;
        }
        good = within(range.base != nullptr ? ir_.minus(given, ir_.splat(range.base)) : given, range.size, also);
        if (!a.global) where = ir_.add(given, ir_.splat(shared_));
    }
    if (a.local || a.generic) {
        V stack_bytes = field(offsetof(Running, stack_bytes), ir_.integer(8));
        V stacks = field(offsetof(Running, stacks), ir_.integer(8));
        V stride = field(offsetof(Running, stack_stride), ir_.integer(8));
        V offsets =
            a.local ? given : ir_.minus(given, ir_.splat(field(offsetof(Running, local_window), ir_.integer(8))));
        V own = ir_.add(LLVMBuildMul(ir_.at, ir_.splat(stride), ir_.ramp(1, 8, 32), ""), ir_.splat(stacks));
        V near = within(offsets, stack_bytes, nullptr), there = ir_.add(own, offsets);
        where = a.local ? there : ir_.choose(near, there, where);
        good = a.local ? near : ir_.either(near, good);
    }
    if (step > 1) good = ir_.both(good, ir_.compare(LLVMIntEQ, ir_.both(given, ir_.all(step - 1, 8)), ir_.all(0, 8)));
    V bad = ir_.both(LLVMBuildNot(ir_.at, bits_of(good), ""), lanes);
    *fine = ir_.compare(LLVMIntEQ, bad, ir_.number(0, 4));
    return where;
}

void Translator::locally(const Group& g, const Access& a) {
    std::vector<V> data;
    if (!a.load)
        for (const Slot s : a.slots) data.push_back(bits(s, a.reg));
    (void)bits(a.in->a, a.address);  // both paths have it
    slowly(g, a, data, ir_.block(), {});
}

// Each lane by itself, and, if that fails, the handler. Then all paths meet.
void Translator::slowly(const Group& g, const Access& a, const std::vector<V>& data, B behind,
                        std::vector<std::pair<std::vector<V>, B>> ways) {
    const auto n = static_cast<unsigned>(a.slots.size());
    const bool one_place = a.load && !a.local && scalar(a.in->a, a.address) != nullptr;
    const bool all = whole_ && guard_ == nullptr;
    V lanes = active();
    T reg = ir_.integer(a.reg);
    if (guard_ != nullptr) {  // result unused
        B some = ir_.block(), none = ir_.block();
        ir_.fork(ir_.compare(LLVMIntEQ, lanes, ir_.number(0, 4)), none, some);
        ir_.go(none);
        ways.emplace_back(std::vector<V>(a.load ? n : 0, LLVMGetUndef(ir_.of(reg))), none);
        ir_.jump(behind);
        ir_.go(some);
    }
    if (!one_place || a.generic) {
        V fine = nullptr, where = places(a, lanes, &fine);
        B each = ir_.block(), other = ir_.block();
        ir_.fork(fine, each, other);
        ir_.go(each);
        if (a.looks) look();
        const auto values = copied(a, where, lanes, data);
        ways.emplace_back(values, each);
        ir_.jump(behind);
        ir_.go(other);
    }
    std::set<Slot> sources{a.in->a};
    if (!a.load) sources.insert(a.slots.begin(), a.slots.end());
    for (const Slot s : sources) {
        const auto known = known_.find(s);
        if (known == known_.end() || !known->second.dirty) continue;
        Value copy = known->second;
        put(s, copy);
    }
    if (a.global) {
        T parameters[] = {ir_.integer(8), ir_.integer(4), ir_.integer(4), ir_.integer(4)};
        T type = LLVMFunctionType(ir_.integer(4), parameters, 4, false);
        V f = ir_.pointer(field(offsetof(Running, access), ir_.integer(8)), type);
        V arguments[] = {running_, ir_.number(g.first, 4), lanes, ir_.number(a.site, 4)};
        leave_unless_fine(LLVMBuildCall2(ir_.at, type, f, arguments, 4, ""));
    } else {
        leave_unless_fine(call_step(g.first, lanes));
    }
    std::vector<V> reloaded;
    if (a.load)
        for (const Slot s : a.slots) reloaded.push_back(ir_.load(address(s), ir_.of(reg), 32));
    ways.emplace_back(reloaded, ir_.here());
    ir_.jump(behind);

    ir_.go(behind);
    std::vector<V> merged;
    for (unsigned k = 0; a.load && k < n; ++k) {
        V phi = LLVMBuildPhi(ir_.at, ir_.of(reg), "");
        for (auto& [values, from] : ways) LLVMAddIncoming(phi, &values[k], &from, 1);
        merged.push_back(phi);
    }
    finish(a, merged, one_place && all && !a.generic);
}

void Translator::finish(const Access& a, const std::vector<V>& loaded, bool one_place) {
    for (std::size_t k = 0; k < loaded.size(); ++k) {
        Value v{a.reg, loaded[k]};
        if (one_place) {
            v.scalar = ir_.element(loaded[k], 0);
            v.bits = ir_.splat(v.scalar);
        }
        write(a.slots[k], v);
    }
    ++counted_;
}

}  // namespace barcuda::soft::compiler
