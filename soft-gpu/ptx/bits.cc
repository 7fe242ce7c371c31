// SPDX-License-Identifier: Apache-2.0
// bits.cc: logic, shifts, bit fields, counts, permutations and dot products of bytes.
#include <bit>
#include <cstdlib>

#include "soft-gpu/ptx/coder.h"
#include "soft-gpu/ptx/select.h"

namespace barcuda::soft {
namespace {

using u32 = std::uint32_t;
using s32 = std::int32_t;
using u64 = std::uint64_t;
using s64 = std::int64_t;

// ---- logic; on predicates it is one operation for the whole warp ----------------------------------------------------

template <int op> Step predicate_logic(Warp& w, const Instr& in, Mask mask) {
    const Mask a = w.predicate(in.a), b = w.predicate(in.b);
    const Mask result = op == 0 ? a & b : op == 1 ? a | b : op == 2 ? a ^ b : ~a;
    Mask& d = w.predicate(in.d);
    d = (d & ~mask) | (result & mask);
    return Step::go;
}

template <int op> void predicate_decode(Coder& c) {
    c.take_type();
    c.count(op == 3 ? 2 : 3, op == 3 ? 2 : 3);
    const Slot d = c.write_predicate(c.operand(0)), a = c.read_predicate(c.operand(1));
    if (c.operand(1).negated || (op != 3 && c.operand(2).negated)) c.refuse();
    c.emit(predicate_logic<op>, d, a, op == 3 ? a : c.read_predicate(c.operand(2)));
}

template <class Pick> void binary(Coder& c, Pick pick) {
    const Type type = c.take_type();
    c.count(3, 3);
    const Slot d = c.write(c.operand(0), type), a = c.read(c.operand(1), type);
    c.emit(by_size(c, bytes_of(type), pick), d, a, c.read(c.operand(2), type));
}
template <class Pick> void unary(Coder& c, Pick pick) {
    const Type type = c.take_type();
    c.count(2, 2);
    const Slot d = c.write(c.operand(0), type);
    c.emit(by_size(c, bytes_of(type), pick), d, c.read(c.operand(1), type));
}

void decode_and(Coder& c) {
    binary(c, []<class T>() { return lanes<T, T, T>([](T a, T b) { return a & b; }); });
}
void decode_or(Coder& c) {
    binary(c, []<class T>() { return lanes<T, T, T>([](T a, T b) { return a | b; }); });
}
void decode_xor(Coder& c) {
    binary(c, []<class T>() { return lanes<T, T, T>([](T a, T b) { return a ^ b; }); });
}
void decode_not(Coder& c) {
    unary(c, []<class T>() { return lanes<T, T>([](T a) { return ~a; }); });
}
void decode_cnot(Coder& c) {
    unary(c, []<class T>() { return lanes<T, T>([](T a) { return a == 0 ? 1 : 0; }); });
}

// Any function of three bits: the table's byte, expanded to an or of minterms.
template <class T> T lop3(T a, T b, T c, u32 table) {
    T d = 0;
    for (u32 i = 0; i < 8; ++i) {
        const T term =
            (i & 4 ? a : static_cast<T>(~a)) & (i & 2 ? b : static_cast<T>(~b)) & (i & 1 ? c : static_cast<T>(~c));
        d |= table >> i & 1 ? term : T{0};
    }
    return d;
}

Step lop3_lanes(Warp& w, const Instr& in, Mask mask) {
    const u32 *const a = w.at<u32>(in.a), *const b = w.at<u32>(in.b), *const c = w.at<u32>(in.c);
    u32* const d = w.at<u32>(in.d);
    const auto table = static_cast<u32>(in.imm);
    switch (table) {  // what nvcc writes most
        case 0x80:
            each(
                mask, [&](int i) __attribute__((always_inline)) { d[i] = a[i] & b[i] & c[i]; });
            break;
        case 0x96:
            each(
                mask, [&](int i) __attribute__((always_inline)) { d[i] = a[i] ^ b[i] ^ c[i]; });
            break;
        case 0xFE:
            each(
                mask, [&](int i) __attribute__((always_inline)) { d[i] = a[i] | b[i] | c[i]; });
            break;
        default:
            each(
                mask, [&](int i) __attribute__((always_inline)) { d[i] = lop3(a[i], b[i], c[i], table); });
    }
    return Step::go;
}

template <int op> Step lop3_predicate(Warp& w, const Instr& in, Mask mask) {  // d|p = (d != 0) op q, after lop3_lanes
    const u32* const d = w.at<u32>(in.a);
    Mask any = 0;
    for (int i = 0; i < lane_count; ++i) any |= static_cast<Mask>(d[i] != 0) << i;
    const Mask q = w.predicate(in.b);
    Mask& p = w.predicate(in.d);
    p = (p & ~mask) | ((op == 0 ? any & q : any | q) & mask);
    return Step::go;
}

void decode_lop3(Coder& c) {
    const bool with_and = c.take("and"), with_or = c.take("or");
    const Type type = c.take_type();
    const bool predicate = with_and || with_or;
    c.count(predicate ? 6 : 5, predicate ? 6 : 5);
    const auto& target = c.operand(0);
    ast::Operand plain = target;
    plain.items.clear();
    const Slot d = c.write(plain, type), x = c.read(c.operand(1), type), y = c.read(c.operand(2), type),
               z = c.read(c.operand(3), type);
    const auto table = c.literal(c.operand(4));
    if (!table || type != Type::b32) c.refuse();
    c.emit(lop3_lanes, d, x, y, z).imm = static_cast<std::int64_t>(*table & 0xFF);
    if (!predicate) return;
    if (target.items.size() != 1 || c.operand(5).negated) c.refuse();
    c.emit(with_and ? lop3_predicate<0> : lop3_predicate<1>, c.write_predicate(target.items[0]), d,
           c.read_predicate(c.operand(5)));
}

// ---- shifts: an amount beyond the width shifts everything out -------------------------------------------------------

template <class T> T shift_left(T a, u32 n) {
    return n >= 8 * sizeof(T) ? T{0} : static_cast<T>(static_cast<u64>(a) << n);
}
template <class T> T shift_right(T a, u32 n) {
    constexpr u32 bits = 8 * sizeof(T);
    if constexpr (std::is_signed_v<T>) return static_cast<T>(a >> (n >= bits ? bits - 1 : n));
    else return n >= bits ? T{0} : static_cast<T>(a >> n);
}

void decode_shl(Coder& c) {
    const Type type = c.take_type();
    c.count(3, 3);
    const Slot d = c.write(c.operand(0), type), a = c.read(c.operand(1), type);
    c.emit(by_size(c, bytes_of(type),
                   []<class T>() { return lanes<T, T, u32>([](T x, u32 n) { return shift_left(x, n); }); }),
           d, a, c.read(c.operand(2), Type::u32));
}

void decode_shr(Coder& c) {
    Type type = c.take_type();
    c.count(3, 3);
    const Slot d = c.write(c.operand(0), type), a = c.read(c.operand(1), type);
    if (type == Type::b16) type = Type::u16;
    if (type == Type::b32) type = Type::u32;
    if (type == Type::b64) type = Type::u64;
    c.emit(
        by_integer(c, type, []<class T>() { return lanes<T, T, u32>([](T x, u32 n) { return shift_right(x, n); }); }),
        d, a, c.read(c.operand(2), Type::u32));
}

void decode_shf(Coder& c) {  // the funnel shift of b:a
    const bool left = c.take("l"), clamp = c.take("clamp");
    c.ignore({"r", "wrap"});
    const Type type = c.take_type();
    c.count(4, 4);
    const Slot d = c.write(c.operand(0), type), a = c.read(c.operand(1), type), b = c.read(c.operand(2), type),
               n = c.read(c.operand(3), Type::u32);
    const Handler run = left ? (clamp ? lanes<u32, u32, u32, u32>([](u64 lo, u64 hi, u32 k) {
        return static_cast<u32>((hi << 32 | lo) >> (32 - std::min(k, 32u)));
    })
                                      : lanes<u32, u32, u32, u32>([](u64 lo, u64 hi, u32 k) {
                                            return static_cast<u32>((hi << 32 | lo) >> (32 - (k & 31)));
                                        }))
                             : (clamp ? lanes<u32, u32, u32, u32>([](u64 lo, u64 hi, u32 k) {
                                   return static_cast<u32>((hi << 32 | lo) >> std::min(k, 32u));
                               })
                                      : lanes<u32, u32, u32, u32>([](u64 lo, u64 hi, u32 k) {
                                            return static_cast<u32>((hi << 32 | lo) >> (k & 31));
                                        }));
    c.emit(run, d, a, b, n);
}

// ---- counts ---------------------------------------------------------------------------------------------------------

template <class Pick> void counting(Coder& c, Pick pick) {  // the result has 32 bits
    const Type type = c.take_type();
    c.count(2, 2);
    const Slot d = c.write(c.operand(0), Type::u32);
    c.emit(pick(type), d, c.read(c.operand(1), type));
}

void decode_popc(Coder& c) {
    counting(c, [](Type t) {
        return bytes_of(t) == 8 ? lanes<u32, u64>([](u64 a) { return std::popcount(a); })
                                : lanes<u32, u32>([](u32 a) { return std::popcount(a); });
    });
}
void decode_clz(Coder& c) {
    counting(c, [](Type t) {
        return bytes_of(t) == 8 ? lanes<u32, u64>([](u64 a) { return std::countl_zero(a); })
                                : lanes<u32, u32>([](u32 a) { return std::countl_zero(a); });
    });
}
// The highest bit that differs from the sign; .shiftamt counts from the top.
template <class T> u32 find_highest(T a, bool amount) {
    using U = std::make_unsigned_t<T>;
    const U bits = a < 0 ? static_cast<U>(~static_cast<U>(a)) : static_cast<U>(a);
    if (bits == 0) return ~0u;
    const auto top = static_cast<u32>(8 * sizeof(T) - 1) - static_cast<u32>(std::countl_zero(bits));
    return amount ? static_cast<u32>(8 * sizeof(T) - 1) - top : top;
}
void decode_bfind(Coder& c) {
    const bool amount = c.take("shiftamt");
    counting(c, [&](Type t) -> Handler {
        return by_integer(c, t, [amount]<class T>() {
            return amount ? lanes<u32, T>([](T a) { return find_highest(a, true); })
                          : lanes<u32, T>([](T a) { return find_highest(a, false); });
        });
    });
}

template <class T> T reversed(T a) {
    T d = 0;
    for (unsigned i = 0; i < 8 * sizeof(T); ++i) d |= (a >> i & 1) << (8 * sizeof(T) - 1 - i);
    return d;
}
void decode_brev(Coder& c) {
    unary(c, []<class T>() { return lanes<T, T>([](T a) { return reversed(a); }); });
}

// The n-th set bit from a base: n > 0 upwards, n < 0 downwards, 0 the base itself.
u32 find_nth(u32 mask, u32 base, s32 n) {
    if (base > 31) return ~0u;
    if (n == 0) return mask >> base & 1 ? base : ~0u;
    const s32 step = n > 0 ? 1 : -1;
    s32 left = n > 0 ? n : -n;
    for (auto at = static_cast<s32>(base); at >= 0 && at < 32; at += step)
        if ((mask >> at & 1) != 0 && --left == 0) return static_cast<u32>(at);
    return ~0u;
}
void decode_fns(Coder& c) {
    const Type type = c.take_type();
    c.count(4, 4);
    const Slot d = c.write(c.operand(0), type), m = c.read(c.operand(1), type), base = c.read(c.operand(2), type);
    c.emit(lanes<u32, u32, u32, s32>([](u32 x, u32 b, s32 n) { return find_nth(x, b, n); }), d, m, base,
           c.read(c.operand(3), Type::s32));
}

// ---- bit fields -----------------------------------------------------------------------------------------------------

// Positions and lengths beyond 255: the PTX ISA takes them modulo 256, and so does the hardware with fields of 32 bits;
// its 64-bit forms (sm_90, driver 580) take them as they are.
template <class T> u32 place(u32 n) { return sizeof(T) == 8 ? std::min(n, 255u) : n & 0xFF; }

template <class T> T extract(T a, u32 position, u32 length) {
    constexpr u32 bits = 8 * sizeof(T);
    using U = std::make_unsigned_t<T>;
    position = place<T>(position);
    length = place<T>(length);
    if (length == 0) return 0;
    const U field = shift_right(static_cast<U>(a), position);
    if constexpr (std::is_signed_v<T>) {
        // Beyond the top the sign is repeated.
        const u32 sign_at = std::min(position + length - 1, bits - 1);
        const bool sign = (static_cast<U>(a) >> sign_at & 1) != 0;
        const U low = length >= bits ? static_cast<U>(~U{0}) : static_cast<U>((U{1} << length) - 1);
        U value = field & low;
        const u32 have = position >= bits ? 0 : std::min(length, bits - position);
        if (sign) value |= have >= bits ? U{0} : static_cast<U>(~U{0} << have);
        return static_cast<T>(value);
    } else {
        return length >= bits ? field : static_cast<T>(field & ((U{1} << length) - 1));
    }
}

void decode_bfe(Coder& c) {
    const Type type = c.take_type();
    c.count(4, 4);
    const Slot d = c.write(c.operand(0), type), a = c.read(c.operand(1), type), p = c.read(c.operand(2), Type::u32);
    c.emit(by_integer(
               c, type,
               []<class T>() { return lanes<T, T, u32, u32>([](T x, u32 at, u32 n) { return extract(x, at, n); }); }),
           d, a, p, c.read(c.operand(3), Type::u32));
}

template <class T> T insert(T a, T b, u32 position, u32 length) {
    constexpr u32 bits = 8 * sizeof(T);
    position = place<T>(position);
    length = place<T>(length);
    if (length == 0 || position >= bits) return b;
    const T field = length >= bits ? static_cast<T>(~T{0}) : static_cast<T>((T{1} << length) - 1);
    const T mask = static_cast<T>(field << position);
    return static_cast<T>((b & ~mask) | (shift_left(a, position) & mask));
}
void decode_bfi(Coder& c) {
    const Type type = c.take_type();
    c.count(5, 5);
    const Slot d = c.write(c.operand(0), type), a = c.read(c.operand(1), type), b = c.read(c.operand(2), type),
               p = c.read(c.operand(3), Type::u32);
    c.emit(by_size(c, bytes_of(type),
                   []<class T>() {
                       return lanes<T, T, T, u32, u32>([](T x, T y, u32 at, u32 n) { return insert(x, y, at, n); });
                   }),
           d, a, b, p, c.read(c.operand(4), Type::u32));
}

void decode_bmsk(Coder& c) {
    const bool clamp = c.take("clamp");
    c.take("wrap");
    const Type type = c.take_type();
    c.count(3, 3);
    const Slot d = c.write(c.operand(0), type), a = c.read(c.operand(1), Type::u32);
    c.emit(clamp ? lanes<u32, u32, u32>([](u32 at, u32 n) {
               return at >= 32 ? 0u : static_cast<u32>(((u64{1} << std::min(n, 32u)) - 1) << at);
           })
                 : lanes<u32, u32, u32>(
                       [](u32 at, u32 n) { return static_cast<u32>(((u64{1} << (n & 31)) - 1) << (at & 31)); }),
           d, a, c.read(c.operand(2), Type::u32));
}

void decode_szext(Coder& c) {  // sign- or zero-extends from the low n bits
    const bool clamp = c.take("clamp");
    c.take("wrap");
    const Type type = c.take_type();
    c.count(3, 3);
    const Slot d = c.write(c.operand(0), type), a = c.read(c.operand(1), type);
    const bool s = is_signed(type);
    c.emit(s ? (clamp ? lanes<s32, s32, u32>([](s32 x, u32 n) { return n >= 32 ? x : extract(x, 0, n); })
                      : lanes<s32, s32, u32>([](s32 x, u32 n) { return extract(x, 0, n & 31); }))
             : (clamp ? lanes<u32, u32, u32>([](u32 x, u32 n) { return n >= 32 ? x : extract(x, 0, n); })
                      : lanes<u32, u32, u32>([](u32 x, u32 n) { return extract(x, 0, n & 31); })),
           d, a, c.read(c.operand(2), Type::u32));
}

// ---- bytes ----------------------------------------------------------------------------------------------------------

u32 permute(u32 a, u32 b, u32 selector) {
    const u64 bytes = static_cast<u64>(b) << 32 | a;
    u32 d = 0;
    for (u32 i = 0; i < 4; ++i) {
        const u32 s = selector >> (4 * i);
        u32 byte = static_cast<u32>(bytes >> (8 * (s & 7))) & 0xFF;
        if ((s & 8) != 0) byte = byte & 0x80 ? 0xFF : 0;  // the sign, spread
        d |= byte << (8 * i);
    }
    return d;
}
template <int mode> u32 permute_mode(u32 a, u32 b, u32 n) {
    static constexpr u32 table[6][4] = {{0x3210, 0x4321, 0x5432, 0x6543}, {0x5670, 0x6701, 0x7012, 0x0123},
                                        {0x0000, 0x1111, 0x2222, 0x3333}, {0x3210, 0x3211, 0x3222, 0x3333},
                                        {0x0000, 0x1110, 0x2210, 0x3210}, {0x1010, 0x3232, 0x1010, 0x3232}};
    return permute(a, b, table[mode][n & 3]);
}
void decode_prmt(Coder& c) {
    Handler run = lanes<u32, u32, u32, u32>([](u32 a, u32 b, u32 s) { return permute(a, b, s); });
    if (c.take("f4e")) run = lanes<u32, u32, u32, u32>([](u32 a, u32 b, u32 s) { return permute_mode<0>(a, b, s); });
    else if (c.take("b4e"))
        run = lanes<u32, u32, u32, u32>([](u32 a, u32 b, u32 s) { return permute_mode<1>(a, b, s); });
    else if (c.take("rc8"))
        run = lanes<u32, u32, u32, u32>([](u32 a, u32 b, u32 s) { return permute_mode<2>(a, b, s); });
    else if (c.take("ecl"))
        run = lanes<u32, u32, u32, u32>([](u32 a, u32 b, u32 s) { return permute_mode<3>(a, b, s); });
    else if (c.take("ecr"))
        run = lanes<u32, u32, u32, u32>([](u32 a, u32 b, u32 s) { return permute_mode<4>(a, b, s); });
    else if (c.take("rc16"))
        run = lanes<u32, u32, u32, u32>([](u32 a, u32 b, u32 s) { return permute_mode<5>(a, b, s); });
    const Type type = c.take_type();
    c.count(4, 4);
    const Slot d = c.write(c.operand(0), type), a = c.read(c.operand(1), type), b = c.read(c.operand(2), type);
    c.emit(run, d, a, b, c.read(c.operand(3), type));
}

template <class A, class B> u32 dot4(u32 a, u32 b, u32 sum) {
    for (int i = 0; i < 4; ++i)
        sum += static_cast<u32>(static_cast<s32>(static_cast<A>(a >> (8 * i))) *
                                static_cast<s32>(static_cast<B>(b >> (8 * i))));
    return sum;
}
template <class A, class B, int half> u32 dot2(u32 a, u32 b, u32 sum) {
    for (int i = 0; i < 2; ++i)
        sum += static_cast<u32>(static_cast<s32>(static_cast<A>(a >> (16 * i))) *
                                static_cast<s32>(static_cast<B>(b >> (8 * (i + 2 * half)))));
    return sum;
}
template <class A, class B> Handler dot4_handler() {
    return lanes<u32, u32, u32, u32>([](u32 a, u32 b, u32 s) { return dot4<A, B>(a, b, s); });
}
template <class A, class B> Handler dot2_handler(bool high) {
    return high ? lanes<u32, u32, u32, u32>([](u32 a, u32 b, u32 s) { return dot2<A, B, 1>(a, b, s); })
                : lanes<u32, u32, u32, u32>([](u32 a, u32 b, u32 s) { return dot2<A, B, 0>(a, b, s); });
}
void decode_dot(Coder& c) {
    const bool four = c.in().name == "dp4a", high = c.take("hi");
    c.take("lo");
    const bool a = is_signed(c.take_type()), b = is_signed(c.take_type());
    c.count(4, 4);
    const Slot d = c.write(c.operand(0), Type::u32), x = c.read(c.operand(1), Type::u32),
               y = c.read(c.operand(2), Type::u32);
    const Handler run =
        four ? (a ? (b ? dot4_handler<std::int8_t, std::int8_t>() : dot4_handler<std::int8_t, std::uint8_t>())
                  : (b ? dot4_handler<std::uint8_t, std::int8_t>() : dot4_handler<std::uint8_t, std::uint8_t>()))
             : (a ? (b ? dot2_handler<std::int16_t, std::int8_t>(high) : dot2_handler<std::int16_t, std::uint8_t>(high))
                  : (b ? dot2_handler<std::uint16_t, std::int8_t>(high)
                       : dot2_handler<std::uint16_t, std::uint8_t>(high)));
    c.emit(run, d, x, y, c.read(c.operand(3), Type::u32));
}

// vabsdiff4: four absolute differences, side by side, or with .add summed onto c. The other video instructions are
// refused.
template <class T> u32 differences(u32 a, u32 b, u32 c, bool sum) {
    u32 d = 0;
    for (int i = 0; i < 32; i += 8) {
        const auto n = static_cast<u32>(
            std::abs(static_cast<s32>(static_cast<T>(a >> i)) - static_cast<s32>(static_cast<T>(b >> i))));
        if (sum) c += n;
        else d |= (n & 0xFF) << i;
    }
    return sum ? c : d;
}
void decode_vabsdiff4(Coder& c) {
    const bool sum = c.take("add");
    const Type to = c.take_type(), type = c.take_type();
    if (c.take_type() != type || bytes_of(type) != 4 || bytes_of(to) != 4) c.refuse();
    c.count(4, 4);
    const Slot d = c.write(c.operand(0), to), a = c.read(c.operand(1), type), b = c.read(c.operand(2), type),
               e = c.read(c.operand(3), to);
    c.emit(is_signed(type) ? (sum ? lanes<u32, u32, u32, u32>(
                                        [](u32 x, u32 y, u32 z) { return differences<std::int8_t>(x, y, z, true); })
                                  : lanes<u32, u32, u32, u32>(
                                        [](u32 x, u32 y, u32 z) { return differences<std::int8_t>(x, y, z, false); }))
                           : (sum ? lanes<u32, u32, u32, u32>(
                                        [](u32 x, u32 y, u32 z) { return differences<std::uint8_t>(x, y, z, true); })
                                  : lanes<u32, u32, u32, u32>(
                                        [](u32 x, u32 y, u32 z) { return differences<std::uint8_t>(x, y, z, false); })),
           d, a, b, e);
}

}  // namespace

void bit_instructions(Decoders& t) {
    t["and"] = decode_and;
    t["or"] = decode_or;
    t["xor"] = decode_xor;
    t["not"] = decode_not;
    t["cnot"] = decode_cnot;
    t["and.p"] = predicate_decode<0>;
    t["or.p"] = predicate_decode<1>;
    t["xor.p"] = predicate_decode<2>;
    t["not.p"] = predicate_decode<3>;
    t["lop3"] = decode_lop3;
    t["shl"] = decode_shl;
    t["shr"] = decode_shr;
    t["shf"] = decode_shf;
    t["popc"] = decode_popc;
    t["clz"] = decode_clz;
    t["brev"] = decode_brev;
    t["bfind"] = decode_bfind;
    t["fns"] = decode_fns;
    t["bfe"] = decode_bfe;
    t["bfi"] = decode_bfi;
    t["bmsk"] = decode_bmsk;
    t["szext"] = decode_szext;
    t["vabsdiff4"] = decode_vabsdiff4;
    t["prmt"] = decode_prmt;
    t["dp4a"] = t["dp2a"] = decode_dot;
}

}  // namespace barcuda::soft
