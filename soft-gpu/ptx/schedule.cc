// SPDX-License-Identifier: Apache-2.0
// schedule.cc: which lanes of a warp run next.
//
// A warp runs one fragment at a time: the deepest call first, then the lowest instruction. PTX is roughly in the order
// of the flow, so lanes that are behind catch up with those ahead and join them at the first common instruction. That
// is only a preference: a fragment that has used up the warp's budget yields to the one that has waited longest, so
// lanes that spin on a lock let its holder run.
#include "soft-gpu/ptx/schedule.h"

#include <cuda.h>

#include <algorithm>

#include "soft-gpu/ptx/native.h"

namespace barcuda::soft {

// ---- frames ---------------------------------------------------------------------------------------------------------

Frame* new_frame(Block& block, const Function& f) {
    if (block.free_frames.size() <= f.index) block.free_frames.resize(f.index + 1);
    auto& unused = block.free_frames[f.index];
    Frame* frame;
    if (unused.empty()) {
        block.frames.push_back(std::make_unique<Frame>());
        frame = block.frames.back().get();
        block.storage.push_back(std::make_unique<std::byte[]>(f.register_bytes + 64));
        const auto at = reinterpret_cast<std::uintptr_t>(block.storage.back().get());
        frame->registers = reinterpret_cast<std::byte*>((at + 63) & ~std::uintptr_t{63});
    } else {
        frame = unused.back();
        unused.pop_back();
    }
    frame->function = &f;
    return frame;
}

static void place_stack(Frame& frame, std::uint32_t base) {
    frame.stack_base = base;
    auto* lanes = reinterpret_cast<std::uint64_t*>(frame.registers);  // register 0
    std::fill_n(lanes, lane_count, base);
}

void begin_warp(Warp& w, const Function& entry, Mask lanes) {
    Frame* frame = new_frame(*w.block, entry);
    frame->caller = nullptr;
    frame->call = nullptr;
    frame->depth = 0;
    frame->live = lanes;
    place_stack(*frame, 0);
    w.fragments.assign(1, Fragment{frame, 0, lanes, Fragment::ready, 0, 0, 0});
    w.mask = 0;
    w.exited = ~lanes;
    w.turn = 0;
    w.meets = false;
}

static void free_frame(Block& block, Frame* frame) { block.free_frames[frame->function->index].push_back(frame); }

static std::byte* place_of(Warp& w, const Frame& frame, const Place& place, int lane, std::uint32_t bytes) {
    if (place.in_register) return frame.registers + (place.at & ~Slot{3}) + static_cast<std::size_t>(lane) * bytes;
    return w.stacks + static_cast<std::size_t>(lane) * w.block->stack_stride + frame.stack_base + place.at;
}

static void copy_values(Warp& w, Mask lanes, const Frame& from, const std::vector<Place>& source, const Frame& to,
                        const std::vector<Place>& target) {
    for (std::size_t i = 0; i < std::min(source.size(), target.size()); ++i) {
        const auto bytes = std::min(source[i].bytes, target[i].bytes);
        for (Mask m = lanes; m != 0; m &= m - 1) {
            const int lane = __builtin_ctz(m);
            std::memcpy(place_of(w, to, target[i], lane, target[i].bytes),
                        place_of(w, from, source[i], lane, source[i].bytes), bytes);
        }
    }
}

void enter(Warp& w, const Function& callee, const Call& call, Mask lanes) {
    Frame& caller = *w.frame;
    const auto base = caller.stack_base + caller.function->stack_bytes;
    if (base + callee.stack_bytes > w.block->stack_bytes)
        throw Fault{CUDA_ERROR_LAUNCH_FAILED,
                    "stack overflow: the stack of " + std::to_string(w.block->stack_bytes) +
                        " bytes is exhausted in a call of '" + callee.name + "'",
                    __builtin_ctz(lanes)};
    Frame* frame = new_frame(*w.block, callee);
    frame->caller = &caller;
    frame->call = &call;
    frame->return_pc = w.pc;
    frame->live = lanes;
    frame->depth = caller.depth + 1;
    place_stack(*frame, base);
    copy_values(w, lanes, caller, call.arguments, *frame, callee.parameters);
    w.mask &= ~lanes;
    w.fragments.push_back({frame, 0, lanes, Fragment::ready, 0, 0, ++w.turn});
}

void leave_call(Warp& w, Mask lanes) {
    Frame* frame = w.frame;
    if (frame->caller == nullptr) return leave_threads(w, lanes);
    copy_values(w, lanes, *frame, frame->function->results, *frame->caller, frame->call->results);
    w.mask &= ~lanes;
    w.fragments.push_back({frame->caller, frame->return_pc, lanes, Fragment::ready, 0, 0, ++w.turn});
    frame->live &= ~lanes;
    if (frame->live == 0) free_frame(*w.block, frame);
}

// ---- threads that wait or end ---------------------------------------------------------------------------------------

void park(Warp& w, Mask lanes, std::uint32_t pc, Fragment::State state, unsigned barrier, Mask members) {
    w.mask &= ~lanes;
    w.fragments.push_back({w.frame, pc, lanes, state, static_cast<std::uint8_t>(barrier), members, ++w.turn});
}

void leave_threads(Warp& w, Mask lanes) {
    w.mask &= ~lanes;
    w.exited |= lanes;
    for (Frame* frame = w.frame; frame != nullptr;) {
        Frame* const caller = frame->caller;
        frame->live &= ~lanes;
        if (frame->live == 0) free_frame(*w.block, frame);
        frame = caller;
    }
    for (auto& f : w.fragments)  // fragments that wait for these lanes check again
        if (f.state == Fragment::at_sync) f.state = Fragment::ready;
    w.block->live -= static_cast<unsigned>(__builtin_popcount(lanes));
    for (unsigned i = 0; i < w.block->barriers.size(); ++i) complete_barrier(*w.block, i);
}

// Releases all threads at the barrier when all have arrived.
void complete_barrier(Block& block, unsigned id) {
    Barrier& b = block.barriers[id];
    if (b.arrived == 0 || b.arrived < (b.expected != 0 ? b.expected : block.live)) return;
    for (auto& w : block.warps) {
        if (id == 0) w.meets = false;
        for (auto& f : w.fragments)
            if (f.state == Fragment::at_barrier && f.barrier == id) f.state = Fragment::ready;
    }
    b.result_population = b.population;
    b.result_all = b.all;
    b.result_any = b.any;
    b.arrived = b.expected = b.population = 0;
    b.all = true;
    b.any = false;
}

bool meet_block(Warp& w) {
    if (!w.fragments.empty() || w.mask != ~w.exited) return false;
    Barrier& b = w.block->barriers[0];
    b.arrived += static_cast<unsigned>(__builtin_popcount(w.mask));
    b.expected = 0;
    w.meets = true;
    complete_barrier(*w.block, 0);
    return true;
}

// ---- the choice -----------------------------------------------------------------------------------------------------

static void join_equals(std::vector<Fragment>& fragments) {
    for (std::size_t i = 0; i < fragments.size(); ++i) {
        if (fragments[i].state != Fragment::ready) continue;
        for (std::size_t j = fragments.size() - 1; j > i; --j) {
            if (fragments[j].state != Fragment::ready || fragments[j].frame != fragments[i].frame ||
                fragments[j].pc != fragments[i].pc)
                continue;
            fragments[i].mask |= fragments[j].mask;
            fragments[i].turn = std::min(fragments[i].turn, fragments[j].turn);
            fragments[j] = fragments.back();
            fragments.pop_back();
        }
    }
}

// Makes the best ready fragment the running one; false if none is ready.
static bool pick(Warp& w, bool longest_waiting) {
    if (w.mask != 0) {
        if (w.fragments.empty()) {
            w.stop = nowhere;
            return true;
        }
        w.fragments.push_back({w.frame, w.pc, w.mask, Fragment::ready, 0, 0, ++w.turn});
        w.mask = 0;
    }
    if (w.fragments.size() > 1) join_equals(w.fragments);
    Fragment* best = nullptr;
    for (auto& f : w.fragments) {
        if (f.state != Fragment::ready) continue;
        const bool better =
            best == nullptr || (longest_waiting                        ? f.turn < best->turn
                                : f.frame->depth != best->frame->depth ? f.frame->depth > best->frame->depth
                                                                       : f.pc < best->pc);
        if (better) best = &f;
    }
    if (best == nullptr) return false;
    w.frame = best->frame;
    w.pc = best->pc;
    w.mask = best->mask;
    w.bank[registers_bank] = w.frame->registers;
    w.bank[constants_bank] = const_cast<std::byte*>(w.frame->function->constants.data());
    *best = w.fragments.back();
    w.fragments.pop_back();
    w.stop = nowhere;
    for (const auto& f : w.fragments)
        if (f.state == Fragment::ready && f.frame == w.frame && f.pc > w.pc) w.stop = std::min(w.stop, f.pc);
    return true;
}

Progress run_warp(Warp& w, std::int64_t budget) {
    bool fair = w.budget <= 0;  // its budget has stopped it: now another fragment's turn
    w.budget = budget;
    while (!w.meets && pick(w, fair)) {
        fair = false;
        const Instr* const code = w.frame->function->code.data();
        const auto lanes = static_cast<unsigned>(__builtin_popcount(w.mask));
        const auto before = w.instructions;
        const Function& f = *w.frame->function;
        if (has_native(f, w.mask)) {
            run_native(w);
            w.block->instructions += w.instructions - before;
            w.block->lane_instructions += (w.instructions - before) * lanes;
            if (w.budget <= 0) return Progress::ran;
            continue;
        }
        const Mask whole = w.mask;
        do {
            const Instr& in = code[w.pc++];
            Mask mask = w.mask;
            --w.budget;
            ++w.instructions;
            if (in.guard != nowhere) {
                mask &= w.predicate(in.guard) ^ in.flip;
                if (mask == 0) continue;
            }
            if (in.run(w, in, mask) == Step::leave) break;
        } while (w.pc < w.stop);
        w.block->instructions += w.instructions - before;
        w.block->lane_instructions += (w.instructions - before) * lanes;
        note_interpreted(f, whole, w.instructions - before);
        if (w.budget <= 0) return Progress::ran;
    }
    return w.exited == all_lanes ? Progress::finished : w.budget == budget ? Progress::waits : Progress::ran;
}

}  // namespace barcuda::soft
