// SPDX-License-Identifier: Apache-2.0
// mbarrier.cc: barriers that are objects in shared memory. A phase ends when all expected arrivals and bytes have come.
//
// The 64-bit object is opaque to programs. Here: bit 63 is the phase's parity, bits 42..61 the arrivals that a phase
// expects, 22..41 those still pending, 0..21 the pending bytes (signed). One host thread runs a block, so plain memory
// is enough.
#include <cuda.h>

#include "soft-gpu/ptx/coder.h"
#include "soft-gpu/ptx/memory.h"
#include "soft-gpu/ptx/memory_decode.h"

namespace barcuda::soft {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

struct BarrierObject {
    u32 expected = 0, pending = 0;
    std::int32_t bytes = 0;
    bool parity = false;

    static BarrierObject of(u64 bits) {
        return {static_cast<u32>(bits >> 42 & 0xFFFFF), static_cast<u32>(bits >> 22 & 0xFFFFF),
                static_cast<std::int32_t>(bits << 42 >> 32) >> 10, bits >> 63 != 0};
    }
    u64 bits() const {
        return static_cast<u64>(parity) << 63 | static_cast<u64>(expected & 0xFFFFF) << 42 |
               static_cast<u64>(pending & 0xFFFFF) << 22 | (static_cast<u32>(bytes) & 0x3FFFFF);
    }
    void settle() {
        if (pending == 0 && bytes == 0) {
            parity = !parity;
            pending = expected;
        }
    }
};

enum class Op : std::uint8_t { init, inval, arrive, drop, expect, expect_arrive, complete, test, test_parity };

// a: address + imm. b: count, bytes, state or parity. d: state or predicate
template <Op op, class A> Step run(Warp& w, const Instr& in, Mask mask) {
    refresh_ranges(*w.block);
    const A* const a = w.at<A>(in.a);
    Mask passed = 0;
    for (Mask m = mask; m != 0; m &= m - 1) {
        const int i = __builtin_ctz(m);
        const u64 address = a[i] + static_cast<u64>(in.imm);
        std::byte* const at = in.target == 1 ? resolve<Space::generic>(w, i, address, 8, 8, true)
                                             : resolve<Space::shared>(w, i, address, 8, 8, true);
        u64 before;
        std::memcpy(&before, at, 8);
        BarrierObject object = BarrierObject::of(before);
        const auto take = [&](u32 n) {
            if (n > object.pending)
                throw Fault{CUDA_ERROR_LAUNCH_FAILED, "more arrivals at an mbarrier than it expects", i};
            object.pending -= n;
        };
        if constexpr (op == Op::init) object = {w.at<u32>(in.b)[i], w.at<u32>(in.b)[i], 0, false};
        if constexpr (op == Op::inval) object = {};
        if constexpr (op == Op::arrive) take(w.at<u32>(in.b)[i]);
        if constexpr (op == Op::drop) {
            object.expected -= w.at<u32>(in.b)[i];
            take(w.at<u32>(in.b)[i]);
        }
        if constexpr (op == Op::expect || op == Op::expect_arrive)
            object.bytes += static_cast<std::int32_t>(w.at<u32>(in.b)[i]);
        if constexpr (op == Op::expect_arrive) take(1);
        if constexpr (op == Op::complete) object.bytes -= static_cast<std::int32_t>(w.at<u32>(in.b)[i]);
        if constexpr (op == Op::arrive || op == Op::drop || op == Op::expect_arrive || op == Op::complete)
            object.settle();
        // A phase has passed if the current one is different.
        if constexpr (op == Op::test)
            passed |= static_cast<Mask>((w.at<u64>(in.b)[i] >> 63 != 0) != object.parity) << i;
        if constexpr (op == Op::test_parity)
            passed |= static_cast<Mask>(((w.at<u32>(in.b)[i] & 1) != 0) != object.parity) << i;
        const u64 now = object.bits();
        if (op != Op::test && op != Op::test_parity) std::memcpy(at, &now, 8);
        if constexpr (op == Op::arrive || op == Op::drop || op == Op::expect_arrive)
            if (in.d != nowhere) w.at<u64>(in.d)[i] = before;
    }
    if constexpr (op == Op::test || op == Op::test_parity) {
        Mask& d = w.predicate(in.d);
        d = (d & ~mask) | passed;
        if (passed != mask) w.budget -= 16 * look_cost;  // the lane will ask again: let the others arrive
    }
    return Step::go;
}

template <Op op> void emit(Coder& c, const ast::Operand& place, Slot d, Slot b) {
    Space space = Space::shared;
    const auto a = c.address(place, space);
    auto& in = c.emit(a.bytes == 4 ? run<op, u32> : run<op, u64>, d, a.base, b);
    in.imm = a.offset;
    in.target = c.has("shared") || c.has("shared::cta") || c.has("shared::cluster") ? 0 : 1;
}

void decode(Coder& c) {
    const bool no_complete = c.take("noComplete"), expects = c.take("expect_tx"), parity = c.take("parity");
    take_order(c);
    take_space(c);
    c.take("b64");
    const auto state = [&]() -> Slot {
        return c.operand(0).kind == ast::Operand::sink ? nowhere : c.write(c.operand(0), Type::b64);
    };
    const auto number = [&](std::size_t i) { return c.read(c.operand(i), Type::u32); };
    if (c.take("init")) return emit<Op::init>(c, c.operand(0), nowhere, number(1));
    if (c.take("inval")) return emit<Op::inval>(c, c.operand(0), nowhere, c.constant(0, 4));
    if (c.take("complete_tx")) return emit<Op::complete>(c, c.operand(0), nowhere, number(1));
    const bool test = c.take("test_wait") || c.take("try_wait");
    if (test) {
        c.count(3, 4);
        const Slot d = c.write_predicate(c.operand(0));
        if (parity) return emit<Op::test_parity>(c, c.operand(1), d, number(2));
        return emit<Op::test>(c, c.operand(1), d, c.read(c.operand(2), Type::b64));
    }
    const bool arrive = c.take("arrive"), drop = c.take("arrive_drop");
    if (arrive || drop) {
        const bool returns = !c.operand(0).address;
        const std::size_t at = returns ? 1 : 0;
        const Slot d = returns ? state() : nowhere;
        const Slot n = c.operand_count() > at + 1 ? number(at + 1) : c.constant(1, 4);
        (void)no_complete;
        if (expects) {
            if (drop) c.refuse();
            return emit<Op::expect_arrive>(c, c.operand(at), d, n);
        }
        return drop ? emit<Op::drop>(c, c.operand(at), d, n) : emit<Op::arrive>(c, c.operand(at), d, n);
    }
    if (expects) return emit<Op::expect>(c, c.operand(0), nowhere, number(1));
    if (c.take("pending_count")) {
        c.emit(lanes<u32, u64>([](u64 s) { return static_cast<u32>(s >> 22 & 0xFFFFF); }),
               c.write(c.operand(0), Type::b32), c.read(c.operand(1), Type::b64));
        return;
    }
    c.refuse();
}

// ---- cp.async.bulk: done at once; its bytes count for the barrier as if they had come later -------------------------

// a: destination, b: source, c: bytes; their offsets are in the list. All three are multiples of 16.
template <bool to_shared, class S> Step bulk_copy(Warp& w, const Instr& in, Mask mask) {
    refresh_ranges(*w.block);
    const auto* const offsets = w.frame->function->lists.data() + in.target;
    for (Mask m = mask; m != 0; m &= m - 1) {
        const int i = __builtin_ctz(m);
        const u32 bytes = w.at<u32>(in.c)[i];
        const auto at = [&](Slot slot, u32 offset, bool shared) {
            return (shared ? w.at<S>(slot)[i] : w.at<u64>(slot)[i]) +
                   static_cast<u64>(static_cast<std::int32_t>(offset));
        };
        if (bytes % 16 != 0) misaligned(i, bytes, 16);
        if (bytes == 0) continue;
        const u64 to = at(in.a, offsets[0], to_shared), from = at(in.b, offsets[1], !to_shared);
        constexpr Space shared = Space::shared, global = Space::global;
        std::memcpy(resolve < to_shared ? shared : global > (w, i, to, bytes, 16, true),
                    resolve < to_shared ? global : shared > (w, i, from, bytes, 16, false), bytes);
    }
    return Step::go;
}

}  // namespace

void decode_bulk_copy(Coder& c) {
    const auto nothing = [](Warp&, const Instr&, Mask) { return Step::go; };
    c.take("bulk");
    if (c.take("commit_group") || c.take("wait_group")) {
        c.take("read");
        return void(c.emit(nothing));
    }
    if (c.has("tensor") || c.has("prefetch") || c.has("multicast::cluster")) c.refuse();
    take_hints(c);
    const bool shared = c.take("shared::cluster") || c.take("shared::cta");
    if (!c.take("global")) c.refuse();  // from one block's shared memory to another's
    const bool counted = c.take("mbarrier::complete_tx::bytes");
    if (!counted && !c.take("bulk_group")) c.refuse();
    const bool to_shared = counted;
    if (!shared) c.refuse();
    c.count(counted ? 4 : 3, counted ? 5 : 4);  // one more: a cache policy
    Space to_space = to_shared ? Space::shared : Space::global, from_space = to_shared ? Space::global : Space::shared;
    const auto to = c.address(c.operand(0), to_space), from = c.address(c.operand(1), from_space);
    const Slot bytes = c.read(c.operand(2), Type::u32);
    const bool narrow = (to_shared ? to : from).bytes == 4;
    if ((to_shared ? from : to).bytes != 8) c.refuse();
    auto& in = c.emit(to_shared ? (narrow ? bulk_copy<true, u32> : bulk_copy<true, u64>)
                                : (narrow ? bulk_copy<false, u32> : bulk_copy<false, u64>),
                      nowhere, to.base, from.base, bytes);
    in.target = c.list({static_cast<u32>(to.offset), static_cast<u32>(from.offset)});
    if (!counted) return;
    Space space = Space::shared;
    const auto barrier = c.address(c.operand(3), space);
    auto& complete =
        c.emit(barrier.bytes == 4 ? run<Op::complete, u32> : run<Op::complete, u64>, nowhere, barrier.base, bytes);
    complete.imm = barrier.offset;
    complete.target = 0;
}

// cp.async.mbarrier.arrive{.noinc}: this thread's copies are done already. Without .noinc the arrival is not counted in
// advance: nothing changes.
void decode_copy_arrive(Coder& c) {
    c.take("mbarrier");
    c.take("arrive");
    c.take("b64");
    const bool counted = c.take("noinc");
    take_space(c);
    c.count(1, 1);
    if (counted) return emit<Op::arrive>(c, c.operand(0), nowhere, c.constant(1, 4));
    c.emit([](Warp&, const Instr&, Mask) { return Step::go; });
}

void mbarrier_instructions(Decoders& t) { t["mbarrier"] = decode; }

}  // namespace barcuda::soft
