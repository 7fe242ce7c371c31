// SPDX-License-Identifier: Apache-2.0
// lanes.h: turns a function of one lane's values into a handler of a warp.
//
// A handler is compiled twice, for any x86-64 and for AVX2 + FMA, and chosen once, when the program is prepared: the
// loop over 32 lanes is then four to eight vector operations, and fma is an instruction instead of a call.
#pragma once
#include "soft-gpu/ptx/machine.h"

namespace barcuda::soft {

#if defined(__x86_64__)
#define BARCUDA_WIDE [[gnu::target("avx2,fma,f16c,bmi,bmi2,lzcnt,popcnt")]]
inline const bool wide_cpu =
    __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
#else
#define BARCUDA_WIDE
inline const bool wide_cpu = false;
#endif

template <class F, class D, class... S> struct Lanes {
    template <std::size_t... I>
    [[gnu::always_inline]] static inline Step body(Warp& w, const Instr& in, Mask mask, std::index_sequence<I...>) {
        D* const d = w.at<D>(in.d);
        const Slot slots[] = {in.a, in.b, in.c, in.e};
        const std::tuple<const S*...> s{w.at<S>(slots[I])...};
        each(
            mask, [&](int i) __attribute__((always_inline)) { d[i] = static_cast<D>(F{}(std::get<I>(s)[i]...)); });
        return Step::go;
    }
    static Step narrow(Warp& w, const Instr& in, Mask mask) {
        return body(w, in, mask, std::index_sequence_for<S...>{});
    }
    BARCUDA_WIDE static Step wide(Warp& w, const Instr& in, Mask mask) {
        return body(w, in, mask, std::index_sequence_for<S...>{});
    }
};

// The handler d = f(a, b, ...) for a stateless function; S are the sources' types.
template <class D, class... S, class F> Handler lanes(F) {
    return wide_cpu ? Lanes<F, D, S...>::wide : Lanes<F, D, S...>::narrow;
}

// The same for a predicate: one bit a lane.
template <class F, class... S> struct LanesToBits {
    template <std::size_t... I>
    [[gnu::always_inline]] static inline Step body(Warp& w, const Instr& in, Mask mask, std::index_sequence<I...>) {
        const Slot slots[] = {in.a, in.b, in.c, in.e};
        const std::tuple<const S*...> s{w.at<S>(slots[I])...};
        Mask bits = 0;
        if (mask == all_lanes) {
            for (int i = 0; i < lane_count; ++i) bits |= static_cast<Mask>(F{}(std::get<I>(s)[i]...)) << i;
        } else {
            for (Mask m = mask; m != 0; m &= m - 1) {
                const int i = __builtin_ctz(m);
                bits |= static_cast<Mask>(F{}(std::get<I>(s)[i]...)) << i;
            }
        }
        Mask& d = w.predicate(in.d);
        d = (d & ~mask) | (bits & mask);
        return Step::go;
    }
    static Step narrow(Warp& w, const Instr& in, Mask mask) {
        return body(w, in, mask, std::index_sequence_for<S...>{});
    }
    BARCUDA_WIDE static Step wide(Warp& w, const Instr& in, Mask mask) {
        return body(w, in, mask, std::index_sequence_for<S...>{});
    }
};
template <class... S, class F> Handler lanes_to_bits(F) {
    return wide_cpu ? LanesToBits<F, S...>::wide : LanesToBits<F, S...>::narrow;
}

}  // namespace barcuda::soft
