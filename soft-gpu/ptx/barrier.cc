// SPDX-License-Identifier: Apache-2.0
// barrier.cc: barriers of a block's threads, fences, and the asynchronous copies, which are done at once.
#include <cuda.h>

#include "soft-gpu/ptx/coder.h"
#include "soft-gpu/ptx/memory.h"
#include "soft-gpu/ptx/memory_decode.h"
#include "soft-gpu/ptx/schedule.h"

namespace barcuda::soft {

Step warp_barrier(Warp& w, const Instr& in, Mask mask);  // warp.cc
void decode_copy_arrive(Coder& c);                       // mbarrier.cc
void decode_bulk_copy(Coder& c);

namespace {

using u32 = std::uint32_t;

// a: barrier, b: threads or nowhere, c: predicate of a reduction or nowhere
void arrive(Warp& w, const Instr& in, Mask lanes, bool waits) {
    const int first = __builtin_ctz(lanes);
    const u32 id = w.at<u32>(in.a)[first];
    if (id >= 16)
        throw Fault{CUDA_ERROR_ILLEGAL_INSTRUCTION, "barrier " + std::to_string(id) + ": there are 16", first};
    Barrier& b = w.block->barriers[id];
    const u32 expected = in.b == nowhere ? 0 : w.at<u32>(in.b)[first];
    if (expected % lane_count != 0)
        throw Fault{CUDA_ERROR_ILLEGAL_INSTRUCTION,
                    "a barrier of " + std::to_string(expected) + " threads: not whole warps", first};
    // A counted barrier counts warps: a warp counts if all of its live lanes are here.
    const Mask alive = ~w.exited;
    b.arrived += expected != 0 && lanes == alive ? lane_count : static_cast<unsigned>(__builtin_popcount(lanes));
    b.expected = expected;
    if (in.c != nowhere) {
        const Mask yes = (w.predicate(in.c) ^ (in.imm != 0 ? all_lanes : 0)) & lanes;
        b.population += static_cast<unsigned>(__builtin_popcount(yes));
        b.all &= yes == lanes;
        b.any |= yes != 0;
    }
    if (waits) park(w, lanes, w.pc, Fragment::at_barrier, id, 0);
    complete_barrier(*w.block, id);
}

template <bool waits> Step barrier(Warp& w, const Instr& in, Mask mask) {
    const u32* const ids = w.at<u32>(in.a);
    while (mask != 0) {  // lanes may name different barriers
        Mask same = 0;
        for (Mask m = mask; m != 0; m &= m - 1)
            if (const int i = __builtin_ctz(m); ids[i] == ids[__builtin_ctz(mask)]) same |= Mask{1} << i;
        arrive(w, in, same, waits);
        mask &= ~same;
    }
    return w.mask == 0 ? Step::leave : Step::go;
}

// The result of a reduction, read after its barrier has released the lane. imm: 0 popc, 1 and, 2 or
Step reduction_result(Warp& w, const Instr& in, Mask mask) {
    const Barrier& b = w.block->barriers[w.at<u32>(in.a)[__builtin_ctz(mask)] & 15];
    if (in.imm == 0) {
        u32* const d = w.at<u32>(in.d);
        for (Mask m = mask; m != 0; m &= m - 1) d[__builtin_ctz(m)] = b.result_population;
    } else {
        Mask& d = w.predicate(in.d);
        d = (in.imm == 1 ? b.result_all : b.result_any) ? d | mask : d & ~mask;
    }
    return Step::go;
}

Step fence(Warp&, const Instr&, Mask) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return Step::go;
}
Step nothing(Warp&, const Instr&, Mask) { return Step::go; }

// bar.sync a{, b}   bar.arrive a, b   bar.red.op.type d, a{, b}, {!}c   bar.warp.sync mask
void decode_bar(Coder& c) {
    if (c.take("warp")) {
        if (!c.take("sync")) c.refuse();
        c.count(1, 1);
        c.emit(warp_barrier, nowhere, c.read(c.operand(0), Type::u32));
        return;
    }
    c.ignore({"cta", "aligned"});
    if (c.take("red")) {
        const int op = c.take("popc") ? 0 : c.take("and") ? 1 : c.take("or") ? 2 : 3;
        const Type type = c.take_type();
        c.count(3, 4);
        if (op == 3 || (op == 0) != (type == Type::u32)) c.refuse();
        const Slot d = op == 0 ? c.write(c.operand(0), type) : c.write_predicate(c.operand(0));
        const Slot a = c.read(c.operand(1), Type::u32),
                   b = c.operand_count() == 4 ? c.read(c.operand(2), Type::u32) : nowhere;
        const auto& p = c.operand(c.operand_count() - 1);
        c.emit(barrier<true>, nowhere, a, b, c.read_predicate(p)).imm = p.negated;
        c.emit(reduction_result, d, a).imm = op;
        return;
    }
    const bool sync = c.take("sync");
    if (!sync && !c.take("arrive")) c.refuse();
    c.count(sync ? 1 : 2, 2);
    const Slot a = c.read(c.operand(0), Type::u32),
               b = c.operand_count() == 2 ? c.read(c.operand(1), Type::u32) : nowhere;
    c.emit(sync ? barrier<true> : barrier<false>, nowhere, a, b);
}

// A full fence is at least as strong as any requested one.
void decode_fence(Coder& c) {
    const bool proxy = c.take("proxy");
    if (proxy)
        c.ignore({"alias", "async", "async.global", "async.shared::cta", "tensormap::generic", "global", "shared::cta",
                  "shared::cluster"});
    c.ignore({"sc", "acq_rel", "acquire", "release", "cta", "cluster", "gpu", "sys", "gl", "mbarrier_init",
              "sync_restrict::shared::cta", "sync_restrict::shared::cluster"});
    c.emit(fence);
}

// ---- cp.async -------------------------------------------------------------------------------------------------------

// imm: bytes. c: bytes to read, the rest are zeros; e: a predicate that says "all zeros"
template <class D, class S> Step copy(Warp& w, const Instr& in, Mask mask) {
    refresh_ranges(*w.block);
    const auto* const offsets = w.frame->function->lists.data() + in.target;  // destination, source offsets
    const auto bytes = static_cast<unsigned>(in.imm);
    for (Mask m = mask; m != 0; m &= m - 1) {
        const int i = __builtin_ctz(m);
        const std::uint64_t to = w.at<D>(in.a)[i] + static_cast<std::int64_t>(static_cast<std::int32_t>(offsets[0]));
        const std::uint64_t from = w.at<S>(in.b)[i] + static_cast<std::int64_t>(static_cast<std::int32_t>(offsets[1]));
        unsigned count = in.c == nowhere ? bytes : std::min(bytes, w.at<u32>(in.c)[i]);
        if (in.e != nowhere && (w.predicate(in.e) >> i & 1) != 0) count = 0;
        std::byte* const target = resolve<Space::shared>(w, i, to, bytes, bytes, true);
        if (count != 0) std::memcpy(target, resolve<Space::global>(w, i, from, count, bytes, false), count);
        std::memset(target + count, 0, bytes - count);
    }
    return Step::go;
}

void decode_cp(Coder& c) {
    if (!c.take("async")) c.refuse();
    if (c.has("bulk")) return decode_bulk_copy(c);
    if (c.take("commit_group") || c.take("wait_group") || c.take("wait_all"))
        return void(c.emit(nothing));  // the copies are done
    if (c.has("mbarrier")) return decode_copy_arrive(c);
    c.ignore({"ca", "cg"});
    take_hints(c);
    if (!(c.take("shared") || c.take("shared::cta") || c.take("shared::cluster")) || !c.take("global")) c.refuse();
    c.count(3, 5);
    Space shared = Space::shared, global = Space::global;
    const auto to = c.address(c.operand(0), shared), from = c.address(c.operand(1), global);
    const auto bytes = c.literal(c.operand(2));
    if (!bytes || (*bytes != 4 && *bytes != 8 && *bytes != 16) || from.bytes != 8) c.refuse();
    Slot size = nowhere, ignore = nowhere;
    if (c.operand_count() > 3) {
        const auto& o = c.operand(3);
        const bool predicate =
            o.kind == ast::Operand::reg && c.written().registers[static_cast<std::size_t>(o.index)] == Type::pred;
        if (predicate) {
            if (o.negated) c.refuse();
            ignore = c.read_predicate(o);
        } else {
            size = c.read(o, Type::u32);
        }
        if (c.operand_count() > 4 && !c.has("L2::cache_hint")) c.refuse();
    }
    auto& in = c.emit(to.bytes == 4 ? copy<u32, std::uint64_t> : copy<std::uint64_t, std::uint64_t>, nowhere, to.base,
                      from.base, size, ignore);
    in.imm = static_cast<std::int64_t>(*bytes);
    in.target = c.list({static_cast<u32>(to.offset), static_cast<u32>(from.offset)});
}

void decode_policy(Coder& c) {  // a cache policy: any number will do
    for (const auto m : c.in().modifiers) c.take(m);
    c.emit(lanes<std::uint64_t, std::uint64_t>([](std::uint64_t a) { return a; }), c.write(c.operand(0), Type::b64),
           c.constant(0, 8));
}

}  // namespace

void barrier_instructions(Decoders& t) {
    t["bar"] = t["bar.p"] = t["bar.i"] = decode_bar;
    t["barrier"] = t["barrier.p"] = t["barrier.i"] = decode_bar;
    t["membar"] = t["fence"] = decode_fence;
    t["cp"] = decode_cp;
    t["createpolicy"] = decode_policy;
    t["griddepcontrol"] = [](Coder& c) {  // grids run one after the other
        c.ignore({"wait", "launch_dependents"});
        c.emit(nothing);
    };
}

}  // namespace barcuda::soft
