// SPDX-License-Identifier: Apache-2.0
// flow.cc: the shape of the compiled function. A block begins wherever a fragment may stand: at branches' targets,
// after branches, and at and after every instruction that may leave lanes waiting. Each end of a block counts its
// instructions. The scheduler decides how to continue when lanes that were behind are met, when lanes part, and in
// loops when the warp's budget is used up: at the same instructions as in the interpreter.
#include <algorithm>
#include <cstddef>

#include "soft-gpu/compiler/translator.h"

namespace barcuda::soft::compiler {

Translator::Translator(Ir& ir, const ToCompile& what)
    : ir_(ir),
      f_(*what.function),
      whole_(what.variant == whole_warp),
      uniform_(what.uniform, what.uniform + what.uniforms),
      across_(what.across, what.across + what.of_across) {
    for (std::uint32_t i = 0; i < f_.code.size();) {
        std::uint32_t end = i + 1;
        while (end < f_.code.size() && f_.written[end] == f_.written[i] && f_.written[i] != nullptr) ++end;
        groups_.push_back({f_.written[i], i, end});
        i = end;
    }
}

bool Translator::translate() {
    find_leaders();
    find_live();
    find_shapes();
    T number8 = ir_.integer(8);
    ir_.function = LLVMAddFunction(ir_.module, "run", LLVMFunctionType(ir_.integer(4), &number8, 1, false));
    B entry = ir_.block("entry");
    lost_ = ir_.block("lost");
    for (auto& [leader, b] : blocks_) b = ir_.block(("at" + std::to_string(leader)).c_str());
    ir_.go(entry);
    running_ = LLVMGetParam(ir_.function, 0);
    registers_ = field(offsetof(Running, registers), ir_.integer(8));
    constants_ = field(offsetof(Running, constants), ir_.integer(8));
    specials_ = field(offsetof(Running, specials), ir_.integer(8));
    shared_ = field(offsetof(Running, shared), ir_.integer(8));
    shared_bytes_ = field(offsetof(Running, shared_bytes), ir_.integer(8));
    sites_at_ = field(offsetof(Running, sites), ir_.integer(8));
    generation_ = field(offsetof(Running, generation), ir_.integer(8));
    V pc = field(offsetof(Running, pc), ir_.integer(4), 4);
    V where = LLVMBuildSwitch(ir_.at, pc, lost_, static_cast<unsigned>(blocks_.size()));
    for (auto& [leader, b] : blocks_) LLVMAddCase(where, ir_.number(leader, 4), b);
    ir_.go(lost_);
    leave(ir_.number(static_cast<std::uint32_t>(Went::lost), 4));
    for (auto& [leader, b] : blocks_) {
        find_live_within(leader);
        ir_.go(b);
        block(leader);
    }
    careful_ = true;
    for (auto& [index, b] : careful_at_) {
        ir_.go(b);
        block(index);
    }
    return true;
}

// Switches to the careful form of a block at this point: nothing is done twice.
void Translator::unless(V fine, std::uint32_t index) {
    B on = ir_.block(), out = ir_.block();
    B& careful = careful_at_[index];
    if (careful == nullptr) careful = ir_.block();
    ir_.fork(fine, on, out);
    ir_.go(out);
    for (const Slot s : live_at_[index]) {
        const auto known = known_.find(s);
        if (known == known_.end() || !known->second.dirty) continue;
        Value copy = known->second;
        put(s, copy);
    }
    const auto counted = counted_;
    count();
    counted_ = counted;
    ir_.jump(careful);
    ir_.go(on);
}

// Begins at a leader, or, in the careful form, where the quick form of a block leaves it.
void Translator::block(std::uint32_t from) {
    const auto leader = std::prev(blocks_.upper_bound(from))->first;
    known_.clear();
    patterns_.clear();
    spans_.clear();
    guard_ = guard_truths_ = nullptr;
    counted_ = 0;
    ended_ = false;
    live_out_ = live_in_[leader | 0x80000000u];
    mask_ = whole_ ? nullptr : field(offsetof(Running, mask), ir_.integer(4), 4);
    std::uint32_t at = from;
    const auto next_leader = blocks_.upper_bound(leader);
    auto end = next_leader == blocks_.end() ? static_cast<std::uint32_t>(f_.code.size()) : next_leader->first;
    B further = nullptr;  // another entry of the careful form
    if (const auto more = careful_at_.upper_bound(from); careful_ && more != careful_at_.end() && more->first < end) {
        end = more->first;
        further = more->second;
    }
    block_end_ = end;
    auto g = std::upper_bound(groups_.begin(), groups_.end(), from,
                              [](std::uint32_t x, const Group& y) { return x < y.last; });
    for (; !ended_ && at < end; ++g) {
        group({g->in, std::max(at, g->first), std::min(g->last, end)});
        at = std::min(g->last, end);
    }
    if (ended_) return;
    write_back(further != nullptr ? live_at_[end] : live_out_);
    count();
    if (further != nullptr) ir_.jump(further);
    else edge(end, false);
}

void Translator::group(const Group& g) {
    const Instr& in = f_.code[g.first];
    guard_ = guard_truths_ = nullptr;
    if (g.in != nullptr && g.in->name == "bra") return branch(in, g.first);
    if (g.in == nullptr || !stays(g.in->name)) {
        if (g.in != nullptr && (exchanges(g) || meets(g))) return;
        return leaving(g.first, g.in);
    }
    if (in.guard != nowhere) {
        guard_truths_ = truths(in.guard);
        guard_ = predicate(in.guard);
        if (in.flip != 0) {
            guard_truths_ = LLVMBuildNot(ir_.at, guard_truths_, "");
            guard_ = LLVMBuildNot(ir_.at, guard_, "");
        }
    }
    if (accesses(g)) return;
    if (compute(g)) return void(counted_ += g.last - g.first);
    handler(g);
}

// ---- the end of a block ---------------------------------------------------------------------------------------------

void Translator::count() {
    if (counted_ == 0) return;
    const auto change = [&](std::size_t offset, bool up) {
        V old = field(offset, ir_.integer(8)), n = ir_.number(counted_, 8);
        ir_.store(field_address(offset), up ? ir_.add(old, n) : ir_.minus(old, n), 8);
    };
    change(offsetof(Running, budget), false);
    change(offsetof(Running, instructions), true);
    counted_ = 0;
}

void Translator::leave(V how) {
    LLVMBuildRet(ir_.at, how);
    ended_ = true;
}

// Continues in another block, unless the scheduler must decide.
void Translator::edge(std::uint32_t to, bool back) {
    B out = ir_.block();
    V stop = field(offsetof(Running, stop), ir_.integer(4), 4);
    V on = ir_.compare(LLVMIntULT, ir_.number(to, 4), stop);
    if (back)
        on = ir_.both(on, ir_.compare(LLVMIntSGT, field(offsetof(Running, budget), ir_.integer(8)), ir_.number(0, 8)));
    const auto there = blocks_.find(to);
    if (there == blocks_.end()) ir_.jump(out);
    else ir_.fork(on, there->second, out);
    ir_.go(out);
    set_field(offsetof(Running, pc), ir_.number(to, 4));
    leave(ir_.number(static_cast<std::uint32_t>(Went::left), 4));
}

void Translator::branch(const Instr& in, std::uint32_t index) {
    const bool back = in.target <= index;
    ++counted_;
    if (in.guard == nowhere) {
        write_back(live_out_);
        count();
        return edge(in.target, back);
    }
    V jumps = predicate(in.guard);
    if (in.flip != 0) jumps = LLVMBuildNot(ir_.at, jumps, "");
    jumps = ir_.both(jumps, mask());
    write_back(live_out_);
    count();
    B taken = ir_.block(), not_all = ir_.block(), none = ir_.block(), parted = ir_.block();
    ir_.fork(ir_.compare(LLVMIntEQ, jumps, mask()), taken, not_all);
    ir_.go(taken);
    edge(in.target, back);
    ir_.go(not_all);
    ir_.fork(ir_.compare(LLVMIntEQ, jumps, ir_.number(0, 4)), none, parted);
    ir_.go(none);
    edge(index + 1, false);
    ir_.go(parted);
    call_step(index, jumps);
    leave(ir_.number(static_cast<std::uint32_t>(Went::left), 4));
}

// ---- the interpreter's handlers -------------------------------------------------------------------------------------

V Translator::call_step(std::uint32_t index, V mask) {
    T parameters[] = {ir_.integer(8), ir_.integer(4), ir_.integer(4)};
    T type = LLVMFunctionType(ir_.integer(4), parameters, 3, false);
    V f = ir_.pointer(field(offsetof(Running, step), ir_.integer(8)), type);
    V arguments[] = {running_, ir_.number(index, 4), mask};
    return LLVMBuildCall2(ir_.at, type, f, arguments, 3, "");
}

void Translator::leave_unless_fine(V result) {
    B fine = ir_.block(), out = ir_.block();
    ir_.fork(ir_.compare(LLVMIntEQ, result, ir_.number(0, 4)), fine, out);
    ir_.go(out);
    LLVMBuildRet(ir_.at, ir_.number(static_cast<std::uint32_t>(Went::left), 4));
    ir_.go(fine);
}

// Instructions that this compiler does not know: their registers go into the frame, and back.
void Translator::handler(const Group& g) {
    const auto slots = named(g);
    V lanes = active();
    write_back(slots);
    B behind = guard_ != nullptr ? ir_.block() : nullptr;
    if (behind != nullptr) {
        B some = ir_.block();
        ir_.fork(ir_.compare(LLVMIntEQ, lanes, ir_.number(0, 4)), behind, some);
        ir_.go(some);
    }
    for (auto i = g.first; i < g.last; ++i) leave_unless_fine(call_step(i, lanes));
    if (behind != nullptr) {
        ir_.jump(behind);
        ir_.go(behind);
    }
    forget(slots);
    counted_ += g.last - g.first;
}

// The same for instructions that may park, part or end lanes: all live registers go into the frame, and the next
// instruction begins a block.
void Translator::leaving(std::uint32_t index, const ast::Instruction* written) {
    const Instr& in = f_.code[index];
    ++counted_;
    auto slots = named({written, index, index + 1});
    slots.insert(live_out_.begin(), live_out_.end());
    V lanes = mask();
    if (in.guard != nowhere) {
        lanes = predicate(in.guard);
        if (in.flip != 0) lanes = LLVMBuildNot(ir_.at, lanes, "");
        lanes = ir_.both(lanes, mask());
    }
    write_back(slots);
    count();
    B next = ir_.block();
    if (in.guard != nowhere) {
        B some = ir_.block();
        ir_.fork(ir_.compare(LLVMIntEQ, lanes, ir_.number(0, 4)), next, some);
        ir_.go(some);
    }
    leave_unless_fine(call_step(index, lanes));
    if (whole_) {  // some lanes may have ended: the rest continues in the other form
        B moved = ir_.block();
        ir_.fork(ir_.compare(LLVMIntEQ, field(offsetof(Running, mask), ir_.integer(4), 4), ir_.number(~0u, 4)), next,
                 moved);
        ir_.go(moved);
        set_field(offsetof(Running, pc), ir_.number(index + 1, 4));
        LLVMBuildRet(ir_.at, ir_.number(static_cast<std::uint32_t>(Went::moved), 4));
    } else {
        ir_.jump(next);
    }
    ir_.go(next);
    edge(index + 1, false);
}

// bar.sync 0 of all threads, the barrier of most blocks. The warp's lanes are counted where all of them are checked.
bool Translator::meets(const Group& g) {
    const Instr& in = f_.code[g.first];
    if (g.in->name != "bar" && g.in->name != "barrier") return false;
    Modifiers m(*g.in);
    m.ignore({"cta", "aligned"});
    if (!m.take("sync") || !m.done() || g.last != g.first + 1 || g.in->operands.size() != 1) return false;
    std::uint32_t id = 1;
    if ((in.a & 3) == constants_bank) std::memcpy(&id, f_.constants.data() + (in.a & ~Slot{3}), sizeof id);
    if (id != 0 || in.guard != nowhere) return false;
    ++counted_;
    write_back(live_out_);
    count();
    set_field(offsetof(Running, pc), ir_.number(g.first + 1, 4));
    leave(ir_.number(static_cast<std::uint32_t>(Went::meets), 4));
    return true;
}

}  // namespace barcuda::soft::compiler
