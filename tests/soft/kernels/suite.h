// SPDX-License-Identifier: Apache-2.0
// suite.h: what the programs of the suite share. A form is one expression: it is computed by the GPU and by the CPU for
// thousands of operands (corner cases, and what a generator gives), and both must agree, bit for bit unless said.
//
//   SAME(R, expression, A, B)      of type R, the same C++ on both; a, b, c are its operands, of the types that follow
//   FORM(R, gpu, cpu, A, B)        an intrinsic, and what it means
//   NEAR(ulp, R, gpu, cpu, A, B)   within so many units in the last place of what the CPU computes in long double,
//   rounded WITHIN(allowed, R, ...)        an absolute error, which may depend on x, the exact result
//
// A program says PASSED at its end. It is a CUDA program like any other, and passes on a real GPU too.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "check.h"

using s8 = signed char;
using u8 = unsigned char;
using s16 = short;
using u16 = unsigned short;
using s32 = int;
using u32 = unsigned;
using s64 = long long;
using u64 = unsigned long long;

inline int forms_run = 0, forms_wrong = 0;

inline void* to_gpu(const void* from, std::size_t bytes) {
    void* at;
    CHECK(cudaMalloc(&at, bytes));
    CHECK(cudaMemcpy(at, from, bytes, cudaMemcpyHostToDevice));
    return at;
}
inline void from_gpu(void* to, const void* from, std::size_t bytes) {
    CHECK(cudaGetLastError());  // of the launch
    CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost));
}
// Where the results of every form come to lie.
inline void* results() {
    static void* const at = [] {
        void* p;
        CHECK(cudaMalloc(&p, 4096 * 16));
        return p;
    }();
    return at;
}

// ---- operands -------------------------------------------------------------------------------------------------------
inline u64 scramble(u64 x) {
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ x >> 27) * 0x94D049BB133111EBull;
    return x ^ x >> 31;
}

template <class T, class Bits> T from_bits(Bits bits) {
    T value;
    static_assert(sizeof value <= sizeof bits, "");
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
template <class T> u64 bits_of(const T& value) {
    u64 bits = 0;
    std::memcpy(&bits, &value, std::min(sizeof value, sizeof bits));
    return bits;
}

// The bits of operand number i of a type: an edge, or anything.
template <class T> T operand(u64 i, u64 seed) {
    const u64 random = scramble(seed * 1000003 + i);
    if constexpr (std::is_floating_point_v<T>) {
        using L = std::numeric_limits<T>;
        static const T edges[] = {0,
                                  1,
                                  T(0.5),
                                  T(1.5),
                                  2,
                                  T(2.5),
                                  T(3.5),
                                  3,
                                  T(0.1),
                                  T(1) / 3,
                                  10,
                                  100,
                                  T(127.5),
                                  128,
                                  255,
                                  256,
                                  32767,
                                  32768,
                                  65504,
                                  65535,
                                  65536,
                                  16777215,
                                  16777216,
                                  T(16777217),
                                  T(2147483520),
                                  T(2147483647),
                                  T(2147483648.0),
                                  T(4294967295.0),
                                  T(4294967296.0),
                                  T(9223372036854775807.0),
                                  T(18446744073709551615.0),
                                  T(1e-5),
                                  T(1e-20),
                                  T(1e20),
                                  L::min(),
                                  L::max(),
                                  L::denorm_min(),
                                  L::min() / 3,
                                  L::epsilon(),
                                  1 + L::epsilon(),
                                  1 - L::epsilon() / 2,
                                  L::infinity(),
                                  L::quiet_NaN(),
                                  T(3.14159265358979)};
        constexpr u64 count = sizeof edges / sizeof *edges;
        if (i < 2 * count) return i % 2 ? -edges[i / 2] : edges[i / 2];
        if (i % 3 == 0) return sizeof(T) == 4 ? from_bits<T>(random) : from_bits<T>(random);  // any exponent
        const T near = static_cast<T>(static_cast<double>(static_cast<s64>(random)) / 9223372036854775808.0);
        return i % 3 == 1 ? near * 8 : near * static_cast<T>(1000);
    } else {
        static const u64 edges[] = {0,
                                    1,
                                    2,
                                    3,
                                    5,
                                    7,
                                    10,
                                    15,
                                    16,
                                    31,
                                    32,
                                    33,
                                    63,
                                    64,
                                    65,
                                    100,
                                    127,
                                    128,
                                    255,
                                    256,
                                    0x7FFF,
                                    0x8000,
                                    0xFFFF,
                                    0x10000,
                                    0x00FFFFFF,
                                    0x7FFFFFFF,
                                    0x80000000,
                                    0x80000001,
                                    0xFFFFFFFE,
                                    0xFFFFFFFF,
                                    0x100000000,
                                    0x5555555555555555,
                                    0x7FFFFFFFFFFFFFFF,
                                    0x8000000000000000};
        constexpr u64 count = sizeof edges / sizeof *edges;
        const u64 bits = i < 2 * count ? (i % 2 ? ~edges[i / 2] : edges[i / 2])
                         : i % 3       ? random >> (random & 63)
                                       : random;
        return static_cast<T>(bits);
    }
}

// Column number `which` of the operands of a type, on both sides. Column 0 is for forms of one operand; in the others
// edges meet edges.
constexpr unsigned rows = 4096;
template <class T> struct Column {
    T* cpu = nullptr;
    T* gpu = nullptr;
};
template <class T> const Column<T>& column(u64 which) {
    static Column<T> columns[4];
    Column<T>& c = columns[which];
    if (c.cpu == nullptr) {
        c.cpu = static_cast<T*>(std::malloc(rows * sizeof(T)));
        for (u64 i = 0; i < rows; ++i)
            c.cpu[i] = operand<T>(which == 0 ? i : scramble(i * 8 + which) % (i % 4 ? 96 : rows), which);
        c.gpu = static_cast<T*>(to_gpu(c.cpu, rows * sizeof(T)));
    }
    return c;
}

// ---- comparing ------------------------------------------------------------------------------------------------------
template <class R> bool same(const R& gpu, const R& cpu) {
    if constexpr (std::is_floating_point_v<R>)
        if (gpu != gpu && cpu != cpu) return true;  // any NaN
    return std::memcmp(&gpu, &cpu, sizeof gpu) == 0;
}

template <class T> std::string text(const T& value) {
    char s[64];
    if constexpr (std::is_floating_point_v<T>)
        std::snprintf(s, sizeof s, "%.17g (%llx)", static_cast<double>(value), bits_of(value));
    else std::snprintf(s, sizeof s, "0x%llx", bits_of(value));
    return s;
}

using Exact = long double;  // what a result is compared with where it need not be the same

// One unit in the last place of type R near x.
template <class R> Exact unit(Exact x) {
    using L = std::numeric_limits<R>;
    const int exponent = x == 0 || std::isinf(x) ? L::min_exponent - 1 : std::max(std::ilogb(x), L::min_exponent - 1);
    return std::ldexp(Exact(1), std::min(exponent, L::max_exponent - 1) - L::digits + 1);
}
template <class R> bool close(R gpu, Exact exact, Exact allowed) {
    if (exact != exact || gpu != gpu) return exact != exact && gpu != gpu;
    if (gpu == static_cast<R>(exact)) return true;
    const Exact beyond = std::ldexp(Exact(1), std::numeric_limits<R>::max_exponent);  // where infinity begins
    const Exact g = std::isinf(gpu) ? std::copysign(beyond, gpu) : gpu;
    const Exact e = std::fabs(exact) > beyond ? std::copysign(beyond, exact) : exact;
    return std::fabs(g - e) <= allowed;
}

// Compares a column of results, and shows the first that differ.
struct Shown {
    const void* values;
    std::string (*text)(const void*, unsigned);
};
template <class T> std::string text_at(const void* values, unsigned i) {
    return text(static_cast<const T*>(values)[i]);
}
template <class T> Shown shown(const T* values) { return {values, text_at<T>}; }

inline void show(const char* what, const Shown* operands, unsigned count, Shown gpu, Shown cpu, unsigned i) {
    std::string list;
    for (unsigned k = 0; k < count; ++k) list += (k ? ", " : "") + operands[k].text(operands[k].values, i);
    std::printf("FAILED: %s of %s: the GPU says %s, the CPU %s\n", what, list.c_str(), gpu.text(gpu.values, i).c_str(),
                cpu.text(cpu.values, i).c_str());
}
template <class R, class E, class V>
void compare(const char* what, const Shown* operands, unsigned count, const R* gpu, const E* cpu, V agree) {
    unsigned differ = 0;
    for (unsigned i = 0; i < rows && differ < 3; ++i)
        if (!agree(gpu[i], cpu[i])) {
            show(what, operands, count, shown(gpu), shown(cpu), i);
            ++differ;
        }
    ++forms_run;
    forms_wrong += differ != 0;
}
template <class R, class E, class V>
void judge(const char* what, const Shown* operands, unsigned count, const E* cpu, V agree) {
    static R gpu[rows];
    from_gpu(gpu, results(), sizeof gpu);
    compare(what, operands, count, gpu, cpu, agree);
}

// ---- running --------------------------------------------------------------------------------------------------------
template <class R, class F, class A> __global__ void each(F f, R* out, const A* a) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = f(a[i]);
}
template <class R, class F, class A, class B> __global__ void each(F f, R* out, const A* a, const B* b) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = f(a[i], b[i]);
}
template <class R, class F, class A, class B, class C>
__global__ void each(F f, R* out, const A* a, const B* b, const C* c) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = f(a[i], b[i], c[i]);
}

constexpr unsigned block = 128;
// R: what the GPU gives; E: what the CPU gives (the same, or double)
template <class R, class E, class A, class V, class G, class C> void form(const char* what, V agree, G gpu, C cpu) {
    static E expected[rows];
    const auto& a = column<A>(0);
    each<R, G, A><<<rows / block, block>>>(gpu, static_cast<R*>(results()), a.gpu);
    for (unsigned i = 0; i < rows; ++i) expected[i] = cpu(a.cpu[i]);
    const Shown operands[] = {shown(a.cpu)};
    judge<R>(what, operands, 1, expected, agree);
}
template <class R, class E, class A, class B, class V, class G, class C>
void form(const char* what, V agree, G gpu, C cpu) {
    static E expected[rows];
    const auto& a = column<A>(1);
    const auto& b = column<B>(2);
    each<R, G, A, B><<<rows / block, block>>>(gpu, static_cast<R*>(results()), a.gpu, b.gpu);
    for (unsigned i = 0; i < rows; ++i) expected[i] = cpu(a.cpu[i], b.cpu[i]);
    const Shown operands[] = {shown(a.cpu), shown(b.cpu)};
    judge<R>(what, operands, 2, expected, agree);
}
template <class R, class E, class A, class B, class C, class V, class G, class H>
void form(const char* what, V agree, G gpu, H cpu) {
    static E expected[rows];
    const auto& a = column<A>(1);
    const auto& b = column<B>(2);
    const auto& c = column<C>(3);
    each<R, G, A, B, C><<<rows / block, block>>>(gpu, static_cast<R*>(results()), a.gpu, b.gpu, c.gpu);
    for (unsigned i = 0; i < rows; ++i) expected[i] = cpu(a.cpu[i], b.cpu[i], c.cpu[i]);
    const Shown operands[] = {shown(a.cpu), shown(b.cpu), shown(c.cpu)};
    judge<R>(what, operands, 3, expected, agree);
}

#define PARAMETERS_1(A) A a
#define PARAMETERS_2(A, B) A a, B b
#define PARAMETERS_3(A, B, C) A a, B b, C c
#define PICK_PARAMETERS(_1, _2, _3, which, ...) which
#define PARAMETERS(...) PICK_PARAMETERS(__VA_ARGS__, PARAMETERS_3, PARAMETERS_2, PARAMETERS_1)(__VA_ARGS__)
#define FORM(R, gpu, cpu, ...)                                                      \
    form<R, R, __VA_ARGS__>(                                                        \
        #gpu, same<R>, [] __device__(PARAMETERS(__VA_ARGS__)) -> R { return gpu; }, \
        [](PARAMETERS(__VA_ARGS__)) -> R { return cpu; })
#define SAME(R, expression, ...) FORM(R, (expression), (expression), __VA_ARGS__)
#define WITHIN(allowed, R, gpu, cpu, ...)                                     \
    form<R, Exact, __VA_ARGS__>(                                              \
        #gpu, [](R result, Exact x) { return close<R>(result, x, allowed); }, \
        [] __device__(PARAMETERS(__VA_ARGS__)) -> R { return gpu; },          \
        [](PARAMETERS(__VA_ARGS__)) -> Exact { return cpu; })
#define NEAR(ulp, R, gpu, cpu, ...) WITHIN((ulp + 0.5) * unit<R>(x), R, gpu, cpu, __VA_ARGS__)

// ---- what is no form -----------------------------------------------------------------------------------------------
// Something else than a form that either holds or does not.
inline void holds(bool yes, const char* what) {
    ++forms_run;
    if (yes) return;
    ++forms_wrong;
    std::printf("FAILED: %s\n", what);
}
#define HOLDS(...) holds((__VA_ARGS__), #__VA_ARGS__)
// All of n elements are what f(i) says.
template <class T, class F> void all_are(const char* what, const T* values, unsigned n, F f) {
    unsigned i = 0;
    while (i < n && same(values[i], static_cast<T>(f(i)))) ++i;
    ++forms_run;
    if (i == n) return;
    ++forms_wrong;
    std::printf("FAILED: %s: number %u is %s, not %s\n", what, i, text(values[i]).c_str(),
                text(static_cast<T>(f(i))).c_str());
}
// Memory of both sides, all zeros.
template <class T> T* common(std::size_t n) {
    T* at;
    CHECK(cudaMallocManaged(&at, n * sizeof(T)));
    std::memset(static_cast<void*>(at), 0, n * sizeof(T));
    return at;
}
inline void finish() {
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
}
inline int capability() {  // of the device, as 75 for 7.5
    int major, minor;
    CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
    CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
    return 10 * major + minor;
}

inline int verdict() {
    if (forms_wrong) std::printf("FAILED: %d of %d forms\n", forms_wrong, forms_run);
    else std::printf("%d forms\nPASSED\n", forms_run);
    return forms_wrong != 0;
}
