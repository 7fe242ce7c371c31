// SPDX-License-Identifier: Apache-2.0
// instruction.h: one instruction over many operands, against a function of the CPU.
//
//   expect<u32, u32, u32>("add.u32 d, a, b;", [](u32 a, u32 b) { return a + b; });
//
// The text may use the registers d, a, b, c (of the types' sizes), p and q (predicates), x and y (32 bits), v and w (64
// bits).
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>

#include "tests/soft/machine.h"

namespace barcuda::soft::test {

using u8 = std::uint8_t;
using s8 = std::int8_t;
using u16 = std::uint16_t;
using s16 = std::int16_t;
using u32 = std::uint32_t;
using s32 = std::int32_t;
using u64 = std::uint64_t;
using s64 = std::int64_t;

// Values where instructions go wrong, then random ones of every magnitude.
template <class T> std::vector<T> interesting(std::size_t count, unsigned seed) {
    std::vector<T> v;
    std::mt19937_64 random(seed);
    if constexpr (std::is_integral_v<T>) {
        using L = std::numeric_limits<T>;
        for (int i : {0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 100, 127, 128, 255, 256}) {
            v.push_back(static_cast<T>(i));
            v.push_back(static_cast<T>(-i));
        }
        for (T x : {L::max(), L::min(), static_cast<T>(L::max() - 1), static_cast<T>(L::min() + 1),
                    static_cast<T>(L::max() / 2), static_cast<T>(L::max() / 2 + 1)})
            v.push_back(x);
        while (v.size() < count) v.push_back(static_cast<T>(random() >> (random() % (8 * sizeof(T)))));
    } else {
        using L = std::numeric_limits<T>;
        for (T x : {T(0),
                    T(1),
                    T(2),
                    T(0.5),
                    T(1.5),
                    T(2.5),
                    T(3),
                    T(0.1),
                    T(100.25),
                    T(65504),
                    T(65536),
                    T(2147483520),
                    T(4294967040),
                    T(1e19),
                    T(1e30),
                    L::min(),
                    L::max(),
                    L::denorm_min(),
                    L::min() / 2,
                    L::epsilon(),
                    L::infinity(),
                    T(1) + L::epsilon(),
                    T(1) - L::epsilon()}) {
            v.push_back(x);
            v.push_back(-x);
        }
        v.push_back(L::quiet_NaN());
        while (v.size() < count) {
            const double unit = static_cast<double>(random() >> 11) * 0x1p-53 * 2 - 1;
            const int span = random() % 4 == 0 ? L::max_exponent - 2 : 20;
            v.push_back(std::ldexp(static_cast<T>(unit),
                                   static_cast<int>(random() % (2u * static_cast<unsigned>(span))) - span));
        }
    }
    v.resize(count);
    return v;
}

template <class T> std::string declare(const char* name) {
    constexpr unsigned bytes = sizeof(T) == 1 ? 2 : sizeof(T);
    return "    .reg .b" + std::to_string(bytes * 8) + " " + name + ";\n";
}
template <class T> std::string load(const char* name, int parameter) {
    const std::string bits = std::to_string(sizeof(T) * 8), n = std::to_string(parameter);
    return "    ld.param.u64 %base, [p" + n + "];\n    mad.wide.u32 %at, %i, " + std::to_string(sizeof(T)) +
           ", %base;\n    ld.global." + (sizeof(T) == 1 ? "u" : "b") + bits + " " + name + ", [%at];\n";
}

inline const std::string header = ".version 8.4\n.target sm_90\n.address_size 64\n";

template <class D, class... S> std::string kernel_of(const std::string& text) {
    static constexpr const char* names[] = {"a", "b", "c"};
    std::string ptx =
        header +
        ".visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3, .param .u32 n)\n{\n"
        "    .reg .b64 %base, %at, v, w;\n    .reg .b32 %i, %j, %k, %n, x, y;\n    .reg .pred %out, p, q;\n";
    ptx += declare<D>("d");
    int k = 0;
    ((ptx += declare<S>(names[k++])), ...);
    ptx +=
        "    mov.u32 %i, %ctaid.x;\n    mov.u32 %j, %ntid.x;\n    mov.u32 %k, %tid.x;\n    mad.lo.u32 %i, %i, %j, "
        "%k;\n    ld.param.u32 %n, [n];\n"
        "    setp.ge.u32 %out, %i, %n;\n    @%out exit;\n";
    k = 0;
    const auto add = [&](const std::string& loaded) {
        ptx += loaded;
        ++k;
    };
    (add(load<S>(names[k], k + 1)), ...);
    ptx += "    " + text + "\n    ld.param.u64 %base, [p0];\n    mad.wide.u32 %at, %i, " + std::to_string(sizeof(D)) +
           ", %base;\n    st.global.b" + std::to_string(sizeof(D) * 8) + " [%at], d;\n    ret;\n}\n";
    return ptx;
}

template <class T> std::string shown(T x) {
    char text[80];
    if constexpr (std::is_floating_point_v<T>) {
        u64 bits = 0;
        std::memcpy(&bits, &x, sizeof x);
        std::snprintf(text, sizeof text, "%.9g (0x%llx)", static_cast<double>(x),
                      static_cast<unsigned long long>(bits));
    } else {
        std::snprintf(text, sizeof text, "0x%llx",
                      static_cast<unsigned long long>(static_cast<std::make_unsigned_t<T>>(x)));
    }
    return text;
}

// How far a result may be from the reference: bit for bit, or as the PTX ISA documents the instruction.
struct Within {
    constexpr Within(double units) : ulps(units) {}
    // Of the value, or of `least` where the value is less. What the ISA says is of the exact value: half a unit more.
    static constexpr Within relative(double error, double least = 0) {
        Within w(0.5);
        w.error = error;
        w.least = least;
        return w;
    }
    static constexpr Within any_nan() {  // bit for bit, except for the payload of a NaN
        Within w(0);
        w.nan = true;
        return w;
    }
    template <class T> bool holds(T got, T want) const {
        if (std::memcmp(&got, &want, sizeof(T)) == 0) return true;
        if constexpr (!std::is_floating_point_v<T>) return false;
        else {
            const bool exact = ulps == 0;
            if (got != got || want != want)
                return got != got && want != want &&
                       (nan || !exact || sizeof(T) == 8);  // no double has a canonical NaN
            if (exact) return false;
            if (got == want) return true;
            if (std::isinf(got) || std::isinf(want)) return false;
            using L = std::numeric_limits<T>;
            const double unit = std::max(std::ldexp(1.0, std::ilogb(want == 0 ? L::min() : want) - L::digits + 1),
                                         static_cast<double>(L::denorm_min())),
                         size = std::max(std::fabs(static_cast<double>(want)), least);
            return std::fabs(static_cast<double>(got) - static_cast<double>(want)) <= ulps * unit + error * size;
        }
    }
    double ulps, error = 0, least = 0;
    bool nan = false;
};

template <class D, class... S, class F>
void expect_over(const std::string& text, F reference, Within within, std::vector<S>... operands) {
    std::tuple<std::vector<S>&...> all{operands...};
    const std::size_t n = std::get<0>(all).size();
    std::vector<D> got(n);
    std::vector<Buffer> buffers{bytes_of_vector(got)};
    (buffers.push_back(bytes_of_vector(operands)), ...);
    while (buffers.size() < 4) buffers.push_back(buffers[0]);
    std::vector<D> copy(n);
    for (std::size_t i = 1 + sizeof...(S); i < 4; ++i) buffers[i] = bytes_of_vector(copy);
    try {
        Machine::get().run(kernel_of<D, S...>(text), "k", {static_cast<unsigned>((n + 127) / 128), 128}, buffers,
                           {static_cast<unsigned>(n)});
    } catch (const Failure& failure) { FAIL() << text << ": " << failure.what(); }
    int shown_failures = 0;
    for (std::size_t i = 0; i < n && shown_failures < 4; ++i) {
        const D want = static_cast<D>(reference(operands[i]...));
        if (within.holds(got[i], want)) continue;
        ++shown_failures;
        std::string sources;
        ((sources += " " + shown(operands[i])), ...);
        ADD_FAILURE() << text << " of" << sources << " gave " << shown(got[i]) << ", not " << shown(want);
    }
}

template <class D, class... S, class F> void expect(const std::string& text, F reference, Within within = 0) {
    // Edge values meet each other: the k-th operand walks its values with a stride of its own.
    constexpr std::size_t values = 97, n = sizeof...(S) == 1 ? 400 : values * values;
    unsigned k = 0;
    const auto make = [&]<class T>(T) {
        auto v = interesting<T>(sizeof...(S) == 1 ? n : values, 17 + k);
        std::vector<T> operand(n);
        for (std::size_t i = 0; i < n; ++i)
            operand[i] = k == 0   ? v[i % v.size()]
                         : k == 1 ? v[i / v.size() % v.size()]
                                  : v[(i * 31 + i / v.size() * 7) % v.size()];
        ++k;
        return operand;
    };
    std::tuple<std::vector<S>...> operands{make(S{})...};
    std::apply([&](auto&... o) { expect_over<D, S...>(text, reference, within, o...); }, operands);
}

}  // namespace barcuda::soft::test
