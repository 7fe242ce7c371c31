// SPDX-License-Identifier: Apache-2.0
// atomic.cc: atom and red of every operation and type: real atomics of the host, because other blocks and the CPU's
// threads may take part.
#include <algorithm>

#include "soft-gpu/ptx/coder.h"
#include "soft-gpu/ptx/half.h"
#include "soft-gpu/ptx/math.h"
#include "soft-gpu/ptx/memory.h"
#include "soft-gpu/ptx/memory_decode.h"

namespace barcuda::soft {
namespace {

using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

// ---- operations: the new value from the old one and the operands; over a type's bits --------------------------------

struct AtomicAdd {
    template <class T> static T f(T old, T b, T) { return static_cast<T>(static_cast<u64>(old) + static_cast<u64>(b)); }
};
struct And {
    template <class T> static T f(T old, T b, T) { return old & b; }
};
struct Or {
    template <class T> static T f(T old, T b, T) { return old | b; }
};
struct Xor {
    template <class T> static T f(T old, T b, T) { return old ^ b; }
};
struct Min {
    template <class T> static T f(T old, T b, T) { return std::min(old, b); }
};
struct Max {
    template <class T> static T f(T old, T b, T) { return std::max(old, b); }
};
struct Inc {
    template <class T> static T f(T old, T b, T) { return old >= b ? T{0} : static_cast<T>(old + 1); }
};
struct Dec {
    template <class T> static T f(T old, T b, T) { return old == 0 || old > b ? b : static_cast<T>(old - 1); }
};
struct Exchange {
    template <class T> static T f(T, T b, T) { return b; }
};
struct Compare {
    template <class T> static T f(T old, T b, T c) { return old == b ? c : old; }
};
struct AddFloat {
    static u32 f(u32 old, u32 b, u32) {
        return __builtin_bit_cast(u32, canonical(__builtin_bit_cast(float, old) + __builtin_bit_cast(float, b)));
    }
};
// In global memory the hardware's f32 additions flush subnormal operands and results.
struct AddFloatFlushed {
    static u32 f(u32 old, u32 b, u32) {
        return __builtin_bit_cast(
            u32, canonical(flushed(flushed(__builtin_bit_cast(float, old)) + flushed(__builtin_bit_cast(float, b)))));
    }
};
struct AddDouble {
    static u64 f(u64 old, u64 b, u64) {
        return __builtin_bit_cast(u64, __builtin_bit_cast(double, old) + __builtin_bit_cast(double, b));
    }
};
struct AddHalf {
    static u16 f(u16 old, u16 b, u16) { return to_half(static_cast<double>(half_to_float(old)) + half_to_float(b)); }
};
struct AddBfloat {
    static u16 f(u16 old, u16 b, u16) {
        return to_bfloat(static_cast<double>(bfloat_to_float(old)) + bfloat_to_float(b));
    }
};
template <class Half> struct Pair {
    static u32 f(u32 old, u32 b, u32) {
        return static_cast<u32>(Half::f(static_cast<u16>(old >> 16), static_cast<u16>(b >> 16), 0)) << 16 |
               Half::f(static_cast<u16>(old), static_cast<u16>(b), 0);
    }
};
template <class Half, bool maximum> struct Extreme {
    static u16 f(u16 old, u16 b, u16) {
        const float x = Half::value(old), y = Half::value(b);
        return x != x ? b : y != y ? old : (maximum ? y > x : y < x) ? b : old;
    }
};
struct HalfValue {
    static float value(u16 x) { return half_to_float(x); }
};
struct BfloatValue {
    static float value(u16 x) { return bfloat_to_float(x); }
};

struct alignas(8) Wide {  // .b128: a lane's place may not be aligned to 16 bytes, an atomic's must be
    u64 low, high;
};
__extension__ using u128 = unsigned __int128;
u128 compare_and_swap(u128* at, u128 expected, u128 wanted) {
#if defined(__x86_64__)  // in assembly: compilers would call a library
    u64 low = static_cast<u64>(expected), high = static_cast<u64>(expected >> 64);
    asm volatile("lock cmpxchg16b %0"
                 : "+m"(*at), "+a"(low), "+d"(high)
                 : "b"(static_cast<u64>(wanted)), "c"(static_cast<u64>(wanted >> 64))
                 : "cc", "memory");
    return static_cast<u128>(high) << 64 | low;
#else
    return __sync_val_compare_and_swap(at, expected, wanted);
#endif
}
template <class Op> u128 update_wide(u128* at, u128 b, u128 c) {
    u128 old = 0, seen = 0;  // a guess: if it is wrong, the comparison fails and returns the real value
    do old = seen;
    while ((seen = compare_and_swap(at, old, std::is_same_v<Op, Exchange> ? b : old == b ? c : old)) != old);
    return old;
}

template <class T, class Op> T update(std::byte* at, T b, T c) {
    T* const p = reinterpret_cast<T*>(at);
    if constexpr (std::is_same_v<T, Wide>) {
        const auto whole = [](Wide x) { return __builtin_bit_cast(u128, x); };
        return __builtin_bit_cast(Wide, update_wide<Op>(reinterpret_cast<u128*>(at), whole(b), whole(c)));
    } else if constexpr (std::is_same_v<Op, AtomicAdd>) return __atomic_fetch_add(p, b, __ATOMIC_SEQ_CST);
    else if constexpr (std::is_same_v<Op, Exchange>) return __atomic_exchange_n(p, b, __ATOMIC_SEQ_CST);
    else {
        T old = __atomic_load_n(p, __ATOMIC_RELAXED);
        T next;
        do next = Op::f(old, b, c);
        while (!__atomic_compare_exchange_n(p, &old, next, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
        return old;
    }
}

// imm: offset. b, c: operands. d: the old value, or nowhere (red)
template <Space space, class T, class A, class Op> Step atomic(Warp& w, const Instr& in, Mask mask) {
    if constexpr (space != Space::shared) refresh_ranges(*w.block);
    const A* const a = w.at<A>(in.a);
    const T* const b = w.at<T>(in.b);
    const T* const c = in.c == nowhere ? b : w.at<T>(in.c);
    T* const d = in.d == nowhere ? nullptr : w.at<T>(in.d);
    for (Mask m = mask; m != 0; m &= m - 1) {
        const int i = __builtin_ctz(m);
        const T old =
            update<T, Op>(resolve<space>(w, i, a[i] + static_cast<A>(in.imm), sizeof(T), sizeof(T), true), b[i], c[i]);
        if (d != nullptr) d[i] = old;
    }
    if constexpr (std::is_same_v<Op, Compare> || std::is_same_v<Op, Exchange>) looked(w);
    else w.budget -= 4;
    return Step::go;
}

template <class T, class Op> Handler handler(Space space, unsigned address) {
    if (space == Space::shared)
        return address == 4 ? atomic<Space::shared, T, u32, Op> : atomic<Space::shared, T, u64, Op>;
    return space == Space::global ? atomic<Space::global, T, u64, Op> : atomic<Space::generic, T, u64, Op>;
}

// ---- decoding -------------------------------------------------------------------------------------------------------

template <class T> Handler bitwise(Coder& c, std::string_view op, Space space, unsigned address) {
    if (op == "and") return handler<T, And>(space, address);
    if (op == "or") return handler<T, Or>(space, address);
    if (op == "xor") return handler<T, Xor>(space, address);
    if (op == "exch") return handler<T, Exchange>(space, address);
    if (op == "cas") return handler<T, Compare>(space, address);
    c.refuse();
}

template <class T> Handler integer(Coder& c, std::string_view op, Space space, unsigned address) {
    if (op == "add") return handler<T, AtomicAdd>(space, address);
    if (op == "min") return handler<T, Min>(space, address);
    if (op == "max") return handler<T, Max>(space, address);
    if constexpr (std::is_unsigned_v<T>) {
        if (op == "inc") return handler<T, Inc>(space, address);
        if (op == "dec") return handler<T, Dec>(space, address);
        return bitwise<T>(c, op, space, address);
    } else {
        return bitwise<std::make_unsigned_t<T>>(c, op, space, address);
    }
}

template <class Add16, class Value>
Handler half(Coder& c, std::string_view op, bool pair, Space space, unsigned address) {
    if (op == "add") return pair ? handler<u32, Pair<Add16>>(space, address) : handler<u16, Add16>(space, address);
    if (op == "min")
        return pair ? handler<u32, Pair<Extreme<Value, false>>>(space, address)
                    : handler<u16, Extreme<Value, false>>(space, address);
    if (op == "max")
        return pair ? handler<u32, Pair<Extreme<Value, true>>>(space, address)
                    : handler<u16, Extreme<Value, true>>(space, address);
    c.refuse();
}

Handler choose(Coder& c, std::string_view op, Type type, Space space, unsigned address) {
    switch (type) {
        case Type::b16:
        case Type::u16: return bitwise<u16>(c, op, space, address);
        case Type::b32: return bitwise<u32>(c, op, space, address);
        case Type::b64: return bitwise<u64>(c, op, space, address);
        case Type::b128:
            if (op == "exch") return handler<Wide, Exchange>(space, address);
            if (op == "cas") return handler<Wide, Compare>(space, address);
            c.refuse();
        case Type::u32: return integer<u32>(c, op, space, address);
        case Type::s32: return integer<std::int32_t>(c, op, space, address);
        case Type::u64: return integer<u64>(c, op, space, address);
        case Type::s64: return integer<std::int64_t>(c, op, space, address);
        case Type::f32:
            if (op == "exch") return handler<u32, Exchange>(space, address);
            if (op != "add") c.refuse();
            return space == Space::shared ? handler<u32, AddFloat>(space, address)
                                          : handler<u32, AddFloatFlushed>(space, address);
        case Type::f64:
            if (op == "exch") return handler<u64, Exchange>(space, address);
            if (op != "add") c.refuse();
            return handler<u64, AddDouble>(space, address);
        case Type::f16:
        case Type::f16x2: return half<AddHalf, HalfValue>(c, op, type == Type::f16x2, space, address);
        case Type::bf16:
        case Type::bf16x2: return half<AddBfloat, BfloatValue>(c, op, type == Type::bf16x2, space, address);
        default: c.refuse();
    }
}

void decode_atomic(Coder& c) {
    const bool returns = c.in().name == "atom";
    if (c.has("async")) c.refuse();
    take_order(c);
    Space space = take_space(c);
    take_hints(c);
    c.ignore({"noftz"});
    static constexpr std::string_view names[] = {"add", "cas", "exch", "and", "or", "xor", "min", "max", "inc", "dec"};
    std::string_view op;
    for (const auto name : names)
        if (op.empty() && c.take(name)) op = name;
    const unsigned n = take_vector(c);
    const Type type = c.take_type();
    if (op.empty()) c.refuse();
    const std::size_t first = returns ? 1 : 0, sources = op == "cas" ? 2 : 1;
    c.count(first + 1 + sources, first + 2 + sources);  // one more: a cache policy
    const auto a = c.address(c.operand(first), space);
    if (space != Space::shared && space != Space::global && space != Space::generic) c.refuse();
    if (space != Space::shared && a.bytes != 8) c.refuse();
    const Handler run = choose(c, op, type, space, a.bytes);
    if (n == 1) {
        const Slot d = !returns || c.operand(0).kind == ast::Operand::sink ? nowhere : c.write(c.operand(0), type);
        const Slot b = c.read(c.operand(first + 1), type);
        c.emit(run, d, a.base, b, sources == 2 ? c.read(c.operand(first + 2), type) : nowhere).imm = a.offset;
        return;
    }
    // A vector is several atomics, not one: CUDA promises no more.
    const auto& values = c.operand(first + 1).items;
    if (values.size() != n || sources == 2 || (returns && c.operand(0).items.size() != n)) c.refuse();
    for (unsigned k = 0; k < n; ++k) {
        const Slot d = returns && c.operand(0).items[k].kind != ast::Operand::sink
                           ? c.write(c.operand(0).items[k], type)
                           : nowhere;
        c.emit(run, d, a.base, c.read(values[k], type)).imm = a.offset + k * bytes_of(type);
    }
}

}  // namespace

void atomic_instructions(Decoders& t) { t["atom"] = t["red"] = decode_atomic; }

}  // namespace barcuda::soft
