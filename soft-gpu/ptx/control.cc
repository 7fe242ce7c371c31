// SPDX-License-Identifier: Apache-2.0
// control.cc: branches, calls, returns, and the functions that CUDA itself provides to kernels.
#include <cuda.h>

#include "soft-gpu/ptx/builtins.h"
#include "soft-gpu/ptx/coder.h"
#include "soft-gpu/ptx/module.h"
#include "soft-gpu/ptx/schedule.h"

namespace barcuda::soft {
namespace {

// Some lanes jump, the others stay: two fragments.
Step branch(Warp& w, const Instr& in, Mask mask) {
    const auto here = w.pc;
    if (mask == w.mask) {
        w.pc = in.target;
        if (in.target >= here) return Step::go;
        // A loop lets other warps run once the budget is used up.
        return w.budget <= 0 ? Step::leave : Step::go;
    }
    w.fragments.push_back({w.frame, here, w.mask & ~mask, Fragment::ready, 0, 0, ++w.turn});
    w.mask = mask;
    w.pc = in.target;
    return Step::leave;
}

// brx.idx: each lane has its own entry of the table.
Step branch_table(Warp& w, const Instr& in, Mask mask) {
    const std::uint32_t* const table = w.frame->function->lists.data() + in.target;
    const auto* index = w.at<std::uint32_t>(in.a);
    for (Mask rest = mask; rest != 0;) {
        const int first = __builtin_ctz(rest);
        Mask same = 0;
        for (Mask m = rest; m != 0; m &= m - 1)
            if (const int i = __builtin_ctz(m); index[i] == index[first]) same |= Mask{1} << i;
        if (index[first] >= table[0])
            throw Fault{CUDA_ERROR_ILLEGAL_INSTRUCTION,
                        "index " + std::to_string(index[first]) + " of a branch table of " + std::to_string(table[0]) +
                            " targets",
                        first};
        w.fragments.push_back({w.frame, table[1 + index[first]], same, Fragment::ready, 0, 0, ++w.turn});
        rest &= ~same;
        w.mask &= ~same;
    }
    return Step::leave;
}

Step exit_threads(Warp& w, const Instr&, Mask mask) {
    leave_threads(w, mask);
    return w.mask == 0 ? Step::leave : Step::go;
}

Step return_from_call(Warp& w, const Instr&, Mask mask) {
    leave_call(w, mask);
    return Step::leave;
}

Step call(Warp& w, const Instr& in, Mask mask) {
    const Call& site = w.frame->function->calls[in.target];
    if (!site.callee->refusal.empty())
        throw Fault{site.callee->refusal_code, site.callee->refusal, __builtin_ctz(mask)};
    enter(w, *site.callee, site, mask);
    return Step::leave;
}

// The lanes of one callee call together.
Step call_indirect(Warp& w, const Instr& in, Mask mask) {
    const Call& site = w.frame->function->calls[in.target];
    const auto* address = w.at<std::uint64_t>(in.a);
    for (Mask rest = mask; rest != 0;) {
        const int first = __builtin_ctz(rest);
        Mask same = 0;
        for (Mask m = rest; m != 0; m &= m - 1)
            if (const int i = __builtin_ctz(m); address[i] == address[first]) same |= Mask{1} << i;
        if (!w.block->grid->code->is_function(address[first]))
            throw Fault{CUDA_ERROR_ILLEGAL_INSTRUCTION, "a call of something that is not a function of this program",
                        first};
        const auto& callee = *reinterpret_cast<const Function*>(address[first]);
        if (!callee.refusal.empty()) throw Fault{callee.refusal_code, callee.refusal, first};
        if (callee.entry || callee.parameters.size() != site.arguments.size())
            throw Fault{CUDA_ERROR_ILLEGAL_INSTRUCTION,
                        "an indirect call of '" + callee.name + "' with other parameters than it has", first};
        enter(w, callee, site, same);
        rest &= ~same;
    }
    return Step::leave;
}

Step call_builtin(Warp& w, const Instr& in, Mask mask) {
    const Call& site = w.frame->function->calls[in.target];
    reinterpret_cast<Builtin>(static_cast<std::uintptr_t>(in.imm))(w, site, mask);
    return w.mask == 0 ? Step::leave : Step::go;
}

Step trap(Warp&, const Instr&, Mask mask) {
    throw Fault{CUDA_ERROR_LAUNCH_FAILED, "the kernel executed a trap", __builtin_ctz(mask)};
}
Step nothing(Warp&, const Instr&, Mask) { return Step::go; }

Step sleep(Warp& w, const Instr&, Mask) {  // other warps run meanwhile, which is the purpose of a sleep
    w.budget = 0;
    return Step::leave;
}

// ---- decoding -------------------------------------------------------------------------------------------------------

void decode_branch(Coder& c) {
    c.take("uni");
    c.count(1, 1);
    const auto& o = c.operand(0);
    if (o.kind != ast::Operand::name) c.refuse();
    auto& in = c.emit(branch);
    c.branch_to(in, o.name_text);
}

void decode_branch_table(Coder& c) {
    c.take("uni");
    if (!c.take("idx")) c.refuse();
    c.count(2, 2);
    const Slot index = c.read(c.operand(0), Type::u32);
    auto& in = c.emit(branch_table, nowhere, index);
    in.target = c.branch_table(c.operand(1).name_text);
}

void decode_exit(Coder& c) { c.emit(exit_threads); }

void decode_return(Coder& c) {
    c.take("uni");
    c.emit(c.function_out().entry ? exit_threads : return_from_call);
}

// call (result), name, (a, b);   call (result), register, (a, b), prototype;   the lists may be missing
void decode_call(Coder& c) {
    c.take("uni");
    std::size_t at = 0;
    Call site;
    const auto places = [&](const ast::Operand& list, std::vector<Place>& out) {
        for (const auto& item : list.items) out.push_back(c.place(item));
    };
    if (c.operand(0).kind == ast::Operand::list) places(c.operand(at++), site.results);
    const auto& callee = c.operand(at++);
    if (at < c.operand_count() && c.operand(at).kind == ast::Operand::list) places(c.operand(at++), site.arguments);
    Function& f = c.function_out();
    const auto emit = [&](Handler run) -> Instr& {
        auto& in = c.emit(run);
        in.target = static_cast<std::uint32_t>(f.calls.size());
        f.calls.push_back(std::move(site));
        return in;
    };
    if (callee.kind == ast::Operand::reg) {
        const Slot address = c.read(callee, Type::b64);
        emit(call_indirect).a = address;
        f.calls_indirectly = true;
        return;
    }
    if (callee.kind != ast::Operand::name) c.refuse();
    const Symbol symbol = c.symbols().find(callee.name_text);
    if (symbol.kind == Symbol::code) {
        if (symbol.function->entry) c.refuse();
        const auto* written = c.symbols().written(callee.name_text);
        if (written == nullptr || written->parameters.size() != site.arguments.size())
            throw invalid(c.in().line, "the arguments of '" + std::string(callee.name_text) + "'");
        site.callee = symbol.function;
        f.callees.push_back(symbol.function);
        emit(call);
        return;
    }
    const BuiltinFacts* builtin = find_builtin(callee.name_text);
    if (builtin == nullptr) c.refuse("a call of the function '" + std::string(callee.name_text) + "'");
    if (site.arguments.size() != builtin->arguments || site.results.size() > 1) c.refuse();
    for (const auto* list : {&site.arguments, &site.results})
        for (const auto& p : *list)
            if (p.in_register) c.refuse();
    emit(call_builtin).imm = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(builtin->run));
}

void decode_sleep(Coder& c) {
    c.take_type();
    c.read(c.operand(0), Type::u32);
    c.emit(sleep);
}

void decode_pmevent(Coder& c) {
    c.take("mask");
    c.emit(nothing);
}

}  // namespace

void control_instructions(Decoders& t) {
    t["bra"] = decode_branch;
    t["brx"] = decode_branch_table;
    t["exit"] = decode_exit;
    t["ret"] = decode_return;
    t["call"] = decode_call;
    t["trap"] = [](Coder& c) { c.emit(trap); };
    t["brkpt"] = [](Coder& c) { c.emit(trap); };
    t["nanosleep"] = t["nanosleep.i"] = decode_sleep;
    t["pmevent"] = decode_pmevent;
}

}  // namespace barcuda::soft
