// SPDX-License-Identifier: Apache-2.0
// integer.cu: integers of 8 to 128 bits: arithmetic, products, division, shifts, logic, comparisons, bits, bytes.
#include "suite.h"

template <class T> T bits_reversed(T x) {
    T y = 0;
    for (unsigned i = 0; i < 8 * sizeof x; ++i) y = static_cast<T>(y << 1 | (x >> i & 1));
    return y;
}
template <class T> int leading_zeros(T x) {
    int n = 0;
    for (int i = 8 * sizeof x - 1; i >= 0 && (x >> i & 1) == 0; --i) ++n;
    return n;
}
template <class T> int first_set(T x) {
    for (unsigned i = 0; i < 8 * sizeof x; ++i)
        if (x >> i & 1) return static_cast<int>(i) + 1;
    return 0;
}
static u32 permuted(u32 a, u32 b, u32 s) {
    const u64 both = static_cast<u64>(b) << 32 | a;
    u32 y = 0;
    for (int i = 0; i < 4; ++i) y |= static_cast<u32>(both >> 8 * (s >> 4 * i & 7) & 0xFF) << 8 * i;
    return y;
}
// The bytes or halves of three words, one after the other.
template <class T, class F> u32 lanes_of(u32 a, u32 b, F f) {
    u32 y = 0;
    for (unsigned i = 0; i < 4; i += sizeof(T)) {
        const auto r = f(static_cast<T>(a >> 8 * i), static_cast<T>(b >> 8 * i));
        y |= static_cast<u32>(static_cast<std::make_unsigned_t<T>>(r)) << 8 * i;
    }
    return y;
}
template <class T> int clamped(int x) {
    return std::min<int>(std::max<int>(x, std::numeric_limits<T>::min()), std::numeric_limits<T>::max());
}

void arithmetic() {
    SAME(u8, u8(a + b), u8, u8);
    SAME(s8, s8(a * b), s8, s8);
    SAME(s16, s16(a - b), s16, s16);
    SAME(u16, u16(a * b + c), u16, u16, u16);
    SAME(u32, a + b, u32, u32);
    SAME(u64, a - b, u64, u64);
    SAME(u32, a * b, u32, u32);
    SAME(u64, a * b, u64, u64);
    SAME(u32, a * b + c, u32, u32, u32);
    SAME(u64, a * b + c, u64, u64, u64);
    SAME(s64, s64(a) * b + c, s32, s32, s32);
    SAME(u64, u64(a) * b + c, u32, u32, u64);
    SAME(u32, a / (b | 1), u32, u32);
    SAME(u32, a % (b | 1), u32, u32);
    SAME(u64, a / (b | 1), u64, u64);
    SAME(u64, a % (b | 1), u64, u64);
    SAME(s32, b == 0 || b == -1 ? 0 : a / b, s32, s32);
    SAME(s32, b == 0 || b == -1 ? 0 : a % b, s32, s32);
    SAME(s64, b == 0 || b == -1 ? 0 : a / b, s64, s64);
    SAME(s64, b == 0 || b == -1 ? 0 : a % b, s64, s64);
    SAME(s8, s8(b == 0 || b == -1 ? 0 : a % b), s8, s8);
    SAME(u16, u16(b == 0 ? 0 : a / b), u16, u16);
    SAME(s32, a / 7, s32);
    SAME(u64, a % 1000003, u64);
    SAME(s64, s64(0 - u64(a)), s64);
    SAME(s32, a < 0 ? 0u - u32(a) : u32(a), s32);
    FORM(u32, u32(abs(a)), a < 0 ? 0u - u32(a) : u32(a), s32);
    FORM(u64, u64(llabs(a)), a < 0 ? 0ull - u64(a) : u64(a), s64);
    FORM(s32, min(a, b), std::min(a, b), s32, s32);
    FORM(u32, max(a, b), std::max(a, b), u32, u32);
    FORM(u64, min(a, b), std::min(a, b), u64, u64);
    FORM(s64, max(a, b), std::max(a, b), s64, s64);
    FORM(u32, __umulhi(a, b), u32(u64(a) * b >> 32), u32, u32);
    FORM(s32, __mulhi(a, b), s32(s64(a) * b >> 32), s32, s32);
    FORM(u64, __umul64hi(a, b), u64((unsigned __int128)a * b >> 64), u64, u64);
    FORM(s64, __mul64hi(a, b), s64((__int128)a * b >> 64), s64, s64);
    FORM(u32, __umul24(a, b), (a & 0xFFFFFF) * (b & 0xFFFFFF), u32, u32);
    FORM(s32, __mul24(a, b), s32(u32(s32(u32(a) << 8) >> 8) * u32(s32(u32(b) << 8) >> 8)), s32, s32);
    FORM(s32, __sad(a, b, c), u32(a < b ? s64(b) - a : s64(a) - b) + c, s32, s32, u32);
    FORM(u32, __usad(a, b, c), (a < b ? b - a : a - b) + c, u32, u32, u32);
    FORM(s32, __hadd(a, b), s32((s64(a) + b) >> 1), s32, s32);
    FORM(s32, __rhadd(a, b), s32((s64(a) + b + 1) >> 1), s32, s32);
    FORM(u32, __uhadd(a, b), u32((u64(a) + b) >> 1), u32, u32);
    FORM(u32, __urhadd(a, b), u32((u64(a) + b + 1) >> 1), u32, u32);
}

// Carries cross words here.
void wide() {
    SAME(u64, u64(((unsigned __int128)a * b + c) >> 64), u64, u64, u64);
    SAME(u64, u64((((unsigned __int128)a << 64 | b) + ((unsigned __int128)b << 64 | c)) >> 64), u64, u64, u64);
    SAME(u64, u64((((unsigned __int128)a << 64 | b) - ((unsigned __int128)b << 64 | c)) >> 64), u64, u64, u64);
    SAME(u64, u64(((unsigned __int128)a << 64 | b) / (c | 1)), u64, u64, u64);
    SAME(s64, s64((((__int128)a << 64) + b) >> (c & 127)), s64, u64, u32);
    SAME(u64, ((unsigned __int128)a * b) < ((unsigned __int128)b * c), u64, u64, u64);
}

void logic() {
    SAME(u32, a & b, u32, u32);
    SAME(u64, a | ~b, u64, u64);
    SAME(u32, (a & b) ^ c, u32, u32, u32);
    SAME(u32, (a & b) | (b & c) | (a & c), u32, u32, u32);
    SAME(u64, a ^ b ^ c, u64, u64, u64);
    SAME(u8, u8(~a & b), u8, u8);
    SAME(s32, !a, u32);
    SAME(s32, bool(a) != (b > 3 && c < 9), u32, u32, u32);
    SAME(u32, a << (b & 31), u32, u32);
    SAME(u32, a >> (b & 31), u32, u32);
    SAME(s32, a >> (b & 31), s32, u32);
    SAME(u64, a << (b & 63), u64, u32);
    SAME(u64, a >> (b & 63), u64, u32);
    SAME(s64, a >> (b & 63), s64, u32);
    SAME(s16, s16(a >> (b & 15)), s16, u32);
    SAME(u8, u8(a << (b & 7)), u8, u32);
}

void comparisons() {
    SAME(s32, (a < b) + 2 * (a <= b) + 4 * (a == b) + 8 * (a != b), s32, s32);
    SAME(s32, (a > b) + 2 * (a >= b) + 4 * (a == b) + 8 * (a != b), u32, u32);
    SAME(s32, (a < b) + 2 * (a <= b) + 4 * (a > b) + 8 * (a >= b), s64, s64);
    SAME(s32, (a < b) + 2 * (a <= b) + 4 * (a > b) + 8 * (a >= b), u64, u64);
    SAME(s32, (a < b) + 2 * (a <= b) + 4 * (a == b), s16, s16);
    SAME(s32, (a < b) + 2 * (a <= b) + 4 * (a == b), u16, u16);
    SAME(s32, (a < b) + 2 * (a <= b) + 4 * (a == b), s8, s8);
    SAME(s32, a < b ? b : c, s32, s32, s32);
    SAME(u64, a < b && b < c ? a : c, u64, u64, u64);
    SAME(s32, a < b || (b == c && a > 100) ? 1 : a == c ? 2 : 3, s32, s32, s32);
    SAME(u16, u16(a > b ? a : c), u16, u16, u16);
}

void conversions() {
    SAME(s64, s64(a), s8);
    SAME(u64, u64(a), s16);
    SAME(s32, s32(u8(a)), u64);
    SAME(u32, u32(s8(a)), u32);
    SAME(u64, u64(s32(a)), u64);
    SAME(s16, s16(a), s64);
    SAME(s64, s64(u32(a)), s32);
    FORM(s64, __double2loint(__longlong_as_double(a)), s32(a), s64);
    FORM(s64, __double2hiint(__longlong_as_double(a)), s32(a >> 32), s64);
    FORM(u64, u64(__double_as_longlong(__hiloint2double(s32(a), s32(b)))), u64(a) << 32 | b, u32, u32);
}

void bits() {
    FORM(s32, __popc(a), __builtin_popcount(a), u32);
    FORM(s32, __popcll(a), __builtin_popcountll(a), u64);
    FORM(s32, __clz(s32(a)), leading_zeros(a), u32);
    FORM(s32, __clzll(s64(a)), leading_zeros(a), u64);
    FORM(s32, __ffs(s32(a)), first_set(a), u32);
    FORM(s32, __ffsll(s64(a)), first_set(a), u64);
    FORM(u32, __brev(a), bits_reversed(a), u32);
    FORM(u64, __brevll(a), bits_reversed(a), u64);
    FORM(u32, __byte_perm(a, b, c), permuted(a, b, c), u32, u32, u32);
    FORM(u32, __funnelshift_l(a, b, c), u32((u64(b) << 32 | a) << (c & 31) >> 32), u32, u32, u32);
    FORM(u32, __funnelshift_r(a, b, c), u32((u64(b) << 32 | a) >> (c & 31)), u32, u32, u32);
    FORM(u32, __funnelshift_lc(a, b, c), u32((u64(b) << 32 | a) << std::min(c, 31u) << (c > 31) >> 32), u32, u32, u32);
    FORM(u32, __funnelshift_rc(a, b, c), u32((u64(b) << 32 | a) >> std::min(c, 32u)), u32, u32, u32);
    SAME(u32, a << 7 | a >> 25, u32);
    SAME(u64, a << (b & 63) | a >> (-b & 63), u64, u32);
    SAME(u32, (a >> 5) & 0x1FF, u32);
    SAME(s32, s32(a << 9) >> 20, u32);
    SAME(u32, (a & ~0x3F00u) | ((b & 0x3F) << 8), u32, u32);
    SAME(u32, (a >> (b & 31)) & ((1u << (c & 31)) - 1), u32, u32, u32);
}

// Members narrower than a byte, read and written.
struct Fields {
    u32 flag : 1, small : 5;
    s32 number : 11;
    u64 large : 37;
};
__host__ __device__ static u64 through_fields(u64 a, u32 b) {
    Fields f;
    f.flag = a & 1, f.small = static_cast<u32>(a >> 3) & 31, f.number = static_cast<s32>(b << 4) >> 21,
    f.large = (a ^ b) & 0x1FFFFFFFFFull;
    f.number = (f.number + 5) & 0x1FF, f.large = (f.large + f.small) & 0x1FFFFFFFFFull;
    return f.large * 3 + static_cast<u64>(static_cast<s64>(f.number)) * 5 + f.small + f.flag;
}

void bytes() {
    SAME(u64, through_fields(a, b), u64, u32);
    FORM(s32, __dp4a(a, b, c),
         s32(u32(c) + u32(s8(a) * s8(b)) + u32(s8(a >> 8) * s8(b >> 8)) + u32(s8(a >> 16) * s8(b >> 16)) +
             u32(s8(a >> 24) * s8(b >> 24))),
         s32, s32, s32);
    FORM(u32, __dp4a(a, b, c),
         c + u8(a) * u8(b) + u8(a >> 8) * u8(b >> 8) + u8(a >> 16) * u8(b >> 16) + u8(a >> 24) * u8(b >> 24), u32, u32,
         u32);
    FORM(s32, __dp2a_lo(a, b, c), s32(u32(c) + u32(s16(a) * s8(b)) + u32(s16(a >> 16) * s8(b >> 8))), s32, s32, s32);
    FORM(u32, __dp2a_hi(a, b, c), c + u16(a) * u8(b >> 16) + u16(a >> 16) * u8(b >> 24), u32, u32, u32);
    FORM(u32, __vadd4(a, b), lanes_of<u8>(a, b, [](int x, int y) { return x + y; }), u32, u32);
    FORM(u32, __vsub2(a, b), lanes_of<u16>(a, b, [](int x, int y) { return x - y; }), u32, u32);
    FORM(u32, __vaddss2(a, b), lanes_of<s16>(a, b, [](int x, int y) { return clamped<s16>(x + y); }), u32, u32);
    FORM(u32, __vaddus4(a, b), lanes_of<u8>(a, b, [](int x, int y) { return clamped<u8>(x + y); }), u32, u32);
    FORM(u32, __vsubss4(a, b), lanes_of<s8>(a, b, [](int x, int y) { return clamped<s8>(x - y); }), u32, u32);
    FORM(u32, __vabsdiffu4(a, b), lanes_of<u8>(a, b, [](int x, int y) { return abs(x - y); }), u32, u32);
    FORM(u32, __vabsdiffs2(a, b), lanes_of<s16>(a, b, [](int x, int y) { return abs(x - y); }), u32, u32);
    FORM(u32, __vmaxs2(a, b), lanes_of<s16>(a, b, [](int x, int y) { return std::max(x, y); }), u32, u32);
    FORM(u32, __vminu4(a, b), lanes_of<u8>(a, b, [](int x, int y) { return std::min(x, y); }), u32, u32);
    FORM(u32, __vavgs2(a, b), lanes_of<s16>(a, b, [](int x, int y) { return (x + y + (x + y >= 0)) >> 1; }), u32, u32);
    FORM(u32, __vavgu4(a, b), lanes_of<u8>(a, b, [](int x, int y) { return (x + y + 1) >> 1; }), u32, u32);
    FORM(u32, __vcmpgts4(a, b), lanes_of<s8>(a, b, [](int x, int y) { return x > y ? -1 : 0; }), u32, u32);
    FORM(u32, __vcmpleu2(a, b), lanes_of<u16>(a, b, [](int x, int y) { return x <= y ? -1 : 0; }), u32, u32);
    FORM(u32, __vseteq4(a, b), lanes_of<u8>(a, b, [](int x, int y) { return x == y; }), u32, u32);
    FORM(u32, __vabsss4(a), lanes_of<s8>(a, 0, [](int x, int) { return clamped<s8>(abs(x)); }), u32);
    FORM(u32, __vneg2(a), lanes_of<s16>(a, 0, [](int x, int) { return -x; }), u32);
    FORM(s32, __vimax3_s32(a, b, c), std::max(a, std::max(b, c)), s32, s32, s32);
    FORM(s32, __viaddmax_s32_relu(a, b, c), std::max(0, std::max(s32(u32(a) + u32(b)), c)), s32, s32, s32);
    FORM(u32, __vimin_s16x2_relu(a, b), lanes_of<s16>(a, b, [](int x, int y) { return std::max(0, std::min(x, y)); }),
         u32, u32);
}

int main() {
    arithmetic();
    wide();
    logic();
    comparisons();
    conversions();
    bits();
    bytes();
    return verdict();
}
