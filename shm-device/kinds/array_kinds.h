// SPDX-License-Identifier: Apache-2.0
// array_kinds.h: the kinds (kinds.h) of parameters that are arrays: those that the driver fills, and those that it
// reads.
#pragma once
#include "shm-device/kinds/kinds.h"

namespace barcuda::kind {

// An array that the driver fills; *parameter N is its room, then how much of it was used. Parts are named as above. A
// null array asks for the number alone. Where parameter N is a number it is the room, and what the driver leaves of it
// stays as it was.
template <std::size_t N, std::size_t Whole> struct several {
    template <class T, std::size_t I> struct As : Plain {
        using Element = std::remove_pointer_t<T>;
        static constexpr bool names = std::is_pointer_v<Element>;
        static constexpr Life life = names ? Life::names : Life::none;
        static constexpr std::size_t most = max_list_bytes / sizeof(Element);
        std::uint64_t capacity = 0;
        T value = nullptr;
        template <class Args> static constexpr bool told = std::is_pointer_v<std::tuple_element_t<N, Args>>;
        template <class Args> static std::uint64_t wanted(const Args& args) {
            std::uint64_t count = 0;
            if constexpr (told<Args>) count = std::get<N>(args) ? *std::get<N>(args) : 0;
            else count = std::get<N>(args);
            return std::get<I>(args) ? count < most ? count : most : 0;
        }
        template <class Args> static CUresult valid(const Args& args, auto&) {
            if constexpr (told<Args>)  // a list cut short would look whole
                return std::get<I>(args) && std::get<N>(args) && *std::get<N>(args) > most ? CUDA_ERROR_NOT_SUPPORTED
                                                                                           : CUDA_SUCCESS;
            else return usable(std::get<I>(args) || std::get<N>(args) == 0);
        }
        static constexpr Pointed points = Pointed::read;
        static std::size_t room(const auto&) { return 8; }
        static std::size_t room_back(const auto& args) { return 8 + padded(wanted(args) * sizeof(Element)); }
        static void send(Writer& w, const auto& args, auto&) { w.put(wanted(args)); }
        bool read(Reader& r, auto&) { return r.get(capacity); }
        Verdict check(auto& params, auto& host) {
            if (capacity > most) return a_lie;
            if (std::get<N>(params).value < capacity) return a_lie;
            if (capacity == 0 && !by_number(params)) return fine;
            std::get<N>(params).value = static_cast<Count<decltype(params)>>(capacity);
            if (capacity == 0) return fine;
            if constexpr (names)
                if (const Verdict verdict = host.template room<Element>(); !verdict.ok()) return verdict;
            return (value = static_cast<T>(host.scratch(capacity * sizeof(Element)))) ? fine : bad_value;
        }
        T pass() { return value; }
        template <class Params> using Count = decltype(std::get<N>(std::declval<Params>()).value);
        // (What the host sees: a value that it passes by its address is one that the driver changes.)
        static constexpr bool by_number(auto& params) {
            return !std::is_pointer_v<decltype(std::get<N>(params).pass())>;
        }
        void publish(Writer& w, auto& params, auto& host) {
            const std::uint64_t said = std::get<N>(params).value;
            std::uint64_t used = said < capacity ? said : capacity;
            if constexpr (names)
                while (by_number(params) && used && !value[used - 1]) --used;
            if constexpr (names)
                for (std::size_t i = 0; i < used; ++i)
                    value[i] = std::bit_cast<Element>(std::uint64_t{host.name(value[i], std::get<Whole>(params).id)});
            w.put(used);
            w.put_bytes(value, used * sizeof(Element));
        }
        template <class Args> static void receive(Reader& r, const Args& args, auto&) {
            std::uint64_t used = 0;
            const std::uint64_t capacity = wanted(args);
            if (!r.get(used) || used > capacity) return;
            const std::byte* from = r.skip(used * sizeof(Element));
            for (std::size_t i = 0; from && i < (told<Args> ? capacity : used); ++i) {
                Element e{};
                if (i < used) std::memcpy(&e, from + i * sizeof e, sizeof e);
                std::get<I>(args)[i] = e;
            }
        }
    };
};

// const Element*; parameter N counts the elements. Optional: null stands for as many defaults.
template <class Element, std::size_t N, bool Optional = false> struct list {
    template <class T, std::size_t I> struct As : Plain {
        std::uint64_t count = 0;
        const std::byte* bytes = nullptr;
        Element* value = nullptr;
        static std::uint64_t sent(const auto& args) { return std::get<I>(args) ? std::get<N>(args) : 0; }
        static CUresult valid(const auto& args, auto&) {
            return usable(Optional || std::get<I>(args) != nullptr || std::get<N>(args) == 0);
        }
        static constexpr Pointed points = Pointed::read;
        static std::size_t room(const auto& args) { return 8 + padded(sent(args) * sizeof(Element)); }
        static void send(Writer& w, const auto& args, auto& guest) {
            const std::uint64_t count = sent(args);
            w.put(count);
            std::byte* const to = w.skip(count * sizeof(Element));
            for (std::size_t i = 0; to && i < count; ++i) {
                const Element e = Crossing<Element>::sent(std::get<I>(args)[i], guest);
                std::memcpy(to + i * sizeof e, &e, sizeof e);
            }
        }
        static constexpr bool touches = Crossing<Element>::touches;
        static void touched(const auto& args, auto&& touch) {
            for (std::size_t i = 0; i < sent(args); ++i) Crossing<Element>::touched(std::get<I>(args)[i], touch);
        }
        bool read(Reader& r, auto&) {
            return r.get(count) && count <= r.left() / sizeof(Element) && (bytes = r.skip(count * sizeof(Element)));
        }
        Verdict check(auto& params, auto& host) {
            if (count != std::get<N>(params).value && !(Optional && count == 0)) return a_lie;
            value = static_cast<Element*>(host.scratch(count * sizeof(Element)));
            if (!value) return bad_value;
            if (count) std::memcpy(value, bytes, count * sizeof(Element));
            for (std::size_t i = 0; i < count; ++i)
                if (Verdict v = Crossing<Element>::admit(value[i], host); !v.ok()) return v;
            return fine;
        }
        T pass() { return count ? value : nullptr; }
    };
};

template <std::size_t N> using access = list<CUmemAccessDesc, N>;
template <std::size_t N> using memory_operations = list<CUstreamBatchMemOpParams, N>;
template <std::size_t N> using operations = list<CUatomicOperation, N>;
template <std::size_t N> using nodes = list<CUgraphNode, N>;
template <std::size_t N> using edges = list<CUgraphEdgeData, N, true>;
using heads = several<5, 3>;  // of a capture: nodes of the graph that is being made
using functions = several<1, 2>;
template <std::size_t N> using all = several<N, 0>;  // of parts of parameter 0

}  // namespace barcuda::kind
