// SPDX-License-Identifier: Apache-2.0
// makers.h: what a hostile client that means well puts into a parameter of each kind (shm-device/kinds/kinds.h), in
// three steps:
//
//   number   the plain values; they come first, since memory and lists are as large as they say
//   rest     handles, memory, structs, lists
//   learn    what the reply has taught: new objects, and those that are gone
//
// Where that is not enough for a row to succeed, honest.h helps.
#pragma once
#include <bit>
#include <tuple>
#include <type_traits>

#include "tests/hostile/generator.h"
#include "tests/hostile/values.h"

namespace barcuda::hostile {

template <class... Kind> struct Kinds {
    static constexpr std::size_t count = sizeof...(Kind);
    template <std::size_t I> using at = std::tuple_element_t<I, std::tuple<Kind...>>;
};
template <class Prototype, How how, class... Kind> Kinds<Kind...> kinds_of(const Row<Prototype, how, Kind...>*);
template <Op op> using KindsOf = decltype(kinds_of(static_cast<const RowOf<op>*>(nullptr)));
template <Op op> using ArgumentsOf = typename RowOf<op>::Arguments;
template <Op op, std::size_t I> using ArgumentOf = std::tuple_element_t<I, ArgumentsOf<op>>;

// Which parameter counts what this kind sends, and how far a client that means well lets that go.
template <std::size_t N, std::size_t Most> struct CountedBy { static constexpr std::size_t by = N, most = Most; };
template <class> struct Counted : CountedBy<~std::size_t(0), 0> {};
template <std::size_t N> struct Counted<kind::region<N>> : CountedBy<N, 4096> {};
template <std::size_t N> struct Counted<kind::image<N>> : CountedBy<N, 4096> {};
template <std::size_t N, std::size_t U> struct Counted<kind::device<N, U>> : CountedBy<N, 4096> {};
template <std::size_t N> struct Counted<kind::blob<N>> : CountedBy<N, 256> {};
template <std::size_t N> struct Counted<kind::fill<N>> : CountedBy<N, 256> {};
template <std::size_t N, std::size_t W> struct Counted<kind::several<N, W>> : CountedBy<N, 16> {};
template <class E, std::size_t N, bool O> struct Counted<kind::list<E, N, O>> : CountedBy<N, 2> {};

template <Op op, std::size_t I> constexpr std::size_t most_of() {  // 0: it counts nothing
    std::size_t most = 0;
    [&]<std::size_t... K>(std::index_sequence<K...>) {
        const auto look = [&]<class Kind>(std::type_identity<Kind>) {
            if (Counted<Kind>::by == I && (most == 0 || Counted<Kind>::most < most)) most = Counted<Kind>::most;
        };
        (look(std::type_identity<typename KindsOf<op>::template at<K>>{}), ...);
    }
    (std::make_index_sequence<KindsOf<op>::count>{});
    return most;
}
template <Op op> constexpr bool has_result() {
    return []<std::size_t... K>(std::index_sequence<K...>) {
        return (std::is_same_v<typename KindsOf<op>::template at<K>, kind::result> || ...);
    }
    (std::make_index_sequence<KindsOf<op>::count>{});
}
template <class T> constexpr Tag type_tag() { return tag<std::remove_pointer_t<std::remove_const_t<T>>*>(); }
template <> constexpr Tag type_tag<CUmemGenericAllocationHandle>() { return tag<CUmemGenericAllocationHandle>(); }

// ---- numbers
struct Plainly {
    template <Op, std::size_t> static void number(Generator&, Pending&, auto&) {}
    template <Op, std::size_t> static void rest(Generator&, Pending&, auto&) {}
    template <Op, std::size_t> static void learn(Generator&, auto&, bool) {}
    static constexpr bool makes = false, drops = false;
};
template <class Kind> struct Maker : Plainly {  // in, and what is one: fence, captures, size, step, choice
    template <Op op, std::size_t I> static void number(Generator& g, Pending&, auto& args) {
        using T = ArgumentOf<op, I>;
        constexpr std::size_t most = most_of<op, I>();
        if constexpr (std::is_integral_v<T> && library_of(op)) std::get<I>(args) = T{4};
        else if constexpr (std::is_integral_v<T> && most == 2)
            std::get<I>(args) = static_cast<T>(g.random.chance(70) ? 0 : g.random.between(1, 2));
        else if constexpr (std::is_integral_v<T> && most != 0) std::get<I>(args) = static_cast<T>(g.words(most));
        else std::get<I>(args) = Value<T>::make(g);
    }
};
template <bool Optional> struct Maker<kind::Out<Optional>> : Plainly {
    template <Op op, std::size_t I> static void rest(Generator& g, Pending& p, auto& args) {
        using T = ArgumentOf<op, I>;
        if (Optional && g.random.chance(20)) return;
        std::get<I>(args) = static_cast<T>(p.take(sizeof(std::remove_pointer_t<T>)));
    }
};
template <> struct Maker<kind::told> : Maker<kind::out> {};
template <> struct Maker<kind::inout> : Plainly {
    template <Op op, std::size_t I> static void number(Generator& g, Pending& p, auto& args) {
        using T = ArgumentOf<op, I>;
        auto* value = static_cast<T>(p.take(sizeof(std::remove_pointer_t<T>)));
        if constexpr (constexpr std::size_t most = most_of<op, I>(); most != 0)
            *value = static_cast<std::remove_pointer_t<T>>(g.words(most));
        std::get<I>(args) = value;
    }
};

// ---- structs
template <> struct Maker<kind::desc> : Plainly {
    template <Op op, std::size_t I> static void rest(Generator& g, Pending& p, auto& args) {
        using Struct = std::remove_const_t<std::remove_pointer_t<ArgumentOf<op, I>>>;
        auto* value = static_cast<Struct*>(p.take(sizeof(Struct)));
        *value = Value<Struct>::make(g);
        std::get<I>(args) = value;
    }
};
template <> struct Maker<kind::answered> : Maker<kind::desc> {};
template <> struct Maker<kind::maybe_desc> : Plainly {
    template <Op op, std::size_t I> static void rest(Generator& g, Pending& p, auto& args) {
        if (!g.random.chance(70)) Maker<kind::desc>::rest<op, I>(g, p, args);
    }
};

// ---- objects
template <> struct Maker<kind::use> : Plainly {
    template <Op op, std::size_t I> static void rest(Generator& g, Pending&, auto& args) {
        using T = ArgumentOf<op, I>;
        const bool any = std::is_same_v<T, CUstream> && g.random.chance(60);  // one of the default streams
        const std::uint64_t id = any ? g.random.one_of<std::uint64_t>({0, 0, 1, 2}) : g.object(type_tag<T>());
        if (std::is_same_v<T, CUgraph> && g.graph == 0) g.graph = id;
        std::get<I>(args) = std::bit_cast<T>(id);
    }
};
template <std::size_t W> struct Maker<kind::joins<W>> : Maker<kind::use> {};
template <> struct Maker<kind::drop> : Plainly {
    static constexpr bool drops = true;
    template <Op op, std::size_t> static void number(Generator&, Pending&, auto&) {}
    template <Op op, std::size_t I> static void rest(Generator& g, Pending&, auto& args) {
        std::get<I>(args) = std::bit_cast<ArgumentOf<op, I>>(g.object(type_tag<ArgumentOf<op, I>>()));
    }
    template <Op op, std::size_t I> static void learn(Generator& g, auto& args, bool success) {
        if (success) g.known.remove(std::bit_cast<std::uint64_t>(std::get<I>(args)));
    }
};
template <> struct Maker<kind::make> : Plainly {
    static constexpr bool makes = true;
    template <Op op, std::size_t I> static void rest(Generator&, Pending& p, auto& args) {
        std::get<I>(args) = static_cast<ArgumentOf<op, I>>(p.take(8));
    }
    template <Op op, std::size_t I> static void learn(Generator& g, auto& args, bool success) {
        using Handle = std::remove_pointer_t<ArgumentOf<op, I>>;
        if (success) g.known.add(type_tag<Handle>(), {std::bit_cast<std::uint64_t>(*std::get<I>(args)), 0, op});
    }
};
template <> struct Maker<kind::give> : Maker<kind::make> {};
template <std::size_t W> struct Maker<kind::part<W>> : Maker<kind::make> {
    template <Op op, std::size_t I> static void learn(Generator& g, auto& args, bool success) {
        using Handle = std::remove_pointer_t<ArgumentOf<op, I>>;
        if (success)
            g.known.add(type_tag<Handle>(), {std::bit_cast<std::uint64_t>(*std::get<I>(args)),
                                             std::bit_cast<std::uint64_t>(std::get<W>(args)), op});
    }
};
template <std::size_t W> struct Maker<kind::make_condition<W>> : Maker<kind::out> {
    template <Op op, std::size_t I> static void learn(Generator& g, auto& args, bool success) {
        if (success)
            g.known.add(tag<Condition>(), {*std::get<I>(args), std::bit_cast<std::uint64_t>(std::get<W>(args)), op});
    }
};
template <std::size_t W> struct Maker<kind::use_condition<W>> : Plainly {
    template <Op op, std::size_t I> static void rest(Generator& g, Pending&, auto& args) {
        std::get<I>(args) = g.object(tag<Condition>(), std::bit_cast<std::uint64_t>(std::get<W>(args)));
    }
};
template <> struct Maker<kind::make_object> : Maker<kind::out> {
    template <Op op, std::size_t I> static void learn(Generator& g, auto& args, bool success) {
        if (success) g.known.add(tag<TextureOrSurface>(), {*std::get<I>(args), 0, op});
    }
};
template <> struct Maker<kind::use_object> : Plainly {
    template <Op op, std::size_t I> static void rest(Generator& g, Pending&, auto& args) {
        constexpr bool surface = op == Op::cuSurfObjectDestroy || op == Op::cuSurfObjectGetResourceDesc;
        std::get<I>(args) =
            g.object(tag<TextureOrSurface>(), 0, surface ? Op::cuSurfObjectCreate : Op::cuTexObjectCreate);
    }
};
template <> struct Maker<kind::drop_object> : Maker<kind::use_object> {
    template <Op op, std::size_t I> static void learn(Generator& g, auto& args, bool success) {
        if (success) g.known.remove(std::get<I>(args));
    }
};

// ---- memory
template <std::size_t N> struct Maker<kind::region<N>> : Plainly {
    template <Op op, std::size_t I> static void rest(Generator& g, Pending&, auto& args) {
        std::get<I>(args) = reinterpret_cast<ArgumentOf<op, I>>(g.heap(std::get<N>(args)));
    }
};
template <std::size_t N> struct Maker<kind::image<N>> : Plainly {
    template <Op op, std::size_t I> static void rest(Generator& g, Pending&, auto& args) {
        if (g.random.chance(5)) return;  // what came in parts
        std::get<I>(args) = g.image().data();
        std::get<N>(args) = g.image().size();
    }
};
template <std::size_t N, std::size_t Unit> struct Maker<kind::device<N, Unit>> : Plainly {
    template <Op op, std::size_t I> static void rest(Generator& g, Pending&, auto& args) {
        std::get<I>(args) = g.address(std::get<N>(args) * Unit);
    }
};
template <std::size_t Bytes> struct Maker<kind::device_word<Bytes>> : Plainly {
    template <Op op, std::size_t I> static void rest(Generator& g, Pending&, auto& args) {
        std::get<I>(args) = g.address(Bytes);
    }
};
template <std::size_t P, std::size_t W, std::size_t H, std::size_t Unit> struct Maker<kind::pitched<P, W, H, Unit>>
    : Plainly {
    template <Op op, std::size_t I> static void rest(Generator& g, Pending&, auto& args) {
        std::get<W>(args) = g.words(64);
        std::get<H>(args) = g.words(8);
        std::get<P>(args) = 512;
        std::get<I>(args) = g.address(512 * 8);
    }
};
template <> struct Maker<kind::freed> : Plainly {
    template <Op op, std::size_t I> static void rest(Generator& g, Pending&, auto& args) {
        constexpr Sort sort = op == Op::cuMemFreeAsync        ? Sort::queued
                              : op == Op::cuMemAddressFree    ? Sort::reserved
                              : op == Op::cuMemUnmap          ? Sort::mapped
                              : op == Op::cuIpcCloseMemHandle ? Sort::opened
                                                              : Sort::allocated;
        constexpr Op maker = op == Op::cuMemFreeAsync        ? Op::cuMemAllocAsync
                             : op == Op::cuMemAddressFree    ? Op::cuMemAddressReserve
                             : op == Op::cuMemUnmap          ? Op::cuMemMap
                             : op == Op::cuIpcCloseMemHandle ? Op::cuIpcOpenMemHandle_v2
                                                             : Op::cuMemAlloc_v2;
        const Memory m = g.memory(sort, maker);
        std::get<I>(args) = m.address;
        if constexpr (op == Op::cuMemAddressFree || op == Op::cuMemUnmap) std::get<1>(args) = m.bytes;
    }
    template <Op op, std::size_t I> static void learn(Generator& g, auto& args, bool success) {
        if (!success) return;
        g.known.free(std::get<I>(args));
        if (op == Op::cuMemUnmap) g.keep(Sort::reserved, std::get<I>(args), values::page);  // it is that again
    }
};

// ---- bytes and lists
template <> struct Maker<kind::attribute> : Plainly {
    template <Op op, std::size_t I> static void rest(Generator&, Pending& p, auto& args) {
        std::get<I>(args) = p.take(8);
    }
};
template <> struct Maker<kind::attribute_in> : Maker<kind::attribute> {};
template <> struct Maker<kind::text> : Plainly {
    template <Op op, std::size_t I> static void rest(Generator& g, Pending&, auto& args) {
        std::get<I>(args) =
            g.name(op == Op::cuModuleGetGlobal_v2 || op == Op::cuLibraryGetGlobal || op == Op::cuLibraryGetManaged);
    }
};
template <std::size_t N> struct Maker<kind::blob<N>> : Plainly {
    template <Op op, std::size_t I> static void rest(Generator& g, Pending& p, auto& args) {
        auto* bytes = static_cast<std::byte*>(p.take(std::get<N>(args)));
        for (std::size_t i = 0; i < std::get<N>(args); i += 8) bytes[i] = static_cast<std::byte>(g.random.word());
        std::get<I>(args) = reinterpret_cast<ArgumentOf<op, I>>(bytes);
    }
};
template <std::size_t N> struct Maker<kind::fill<N>> : Plainly {
    template <Op op, std::size_t I> static void rest(Generator&, Pending& p, auto& args) {
        std::get<I>(args) = static_cast<ArgumentOf<op, I>>(p.take(std::size_t(std::get<N>(args))));
    }
};
template <std::size_t N, std::size_t W> struct Maker<kind::several<N, W>> : Plainly {
    template <Op op, std::size_t I> static void rest(Generator& g, Pending& p, auto& args) {
        using T = ArgumentOf<op, I>;
        constexpr bool told = std::is_pointer_v<ArgumentOf<op, N>>;
        if (told && g.random.chance(10)) return;  // the number alone
        std::size_t count = 0;
        if constexpr (told) count = *std::get<N>(args);
        else count = std::get<N>(args);
        std::get<I>(args) = static_cast<T>(p.take(count * sizeof(std::remove_pointer_t<T>)));
    }
    template <Op op, std::size_t I> static void learn(Generator& g, auto& args, bool success) {
        using T = ArgumentOf<op, I>;
        if constexpr (std::is_pointer_v<std::remove_pointer_t<T>>) {
            std::size_t count = 0;
            if constexpr (std::is_pointer_v<ArgumentOf<op, N>>) count = std::get<N>(args) ? *std::get<N>(args) : 0;
            else count = std::get<N>(args);
            for (std::size_t i = 0; success && std::get<I>(args) && i < std::min<std::size_t>(count, 16); ++i)
                if (const auto id = std::bit_cast<std::uint64_t>(std::get<I>(args)[i]))
                    g.known.add(type_tag<std::remove_pointer_t<T>>(),
                                {id, std::bit_cast<std::uint64_t>(std::get<W>(args)), op});
        }
    }
};
template <class Element, std::size_t N, bool Optional> struct Maker<kind::list<Element, N, Optional>> : Plainly {
    template <Op op, std::size_t I> static void rest(Generator& g, Pending& p, auto& args) {
        if (Optional && g.random.chance(80)) return;
        const std::size_t count = std::min<std::size_t>(std::get<N>(args), 8);
        auto* all = static_cast<Element*>(p.take(8 * sizeof(Element)));
        for (std::size_t i = 0; i < count; ++i) all[i] = Value<Element>::make(g);
        std::get<N>(args) = static_cast<ArgumentOf<op, N>>(count);
        std::get<I>(args) = all;
    }
};

// ---- of the math libraries
template <> struct Maker<kind::blas> : Plainly {
    template <Op op, std::size_t I> static void rest(Generator& g, Pending&, auto& args) {
        const std::uint64_t id = g.object(type_tag<cublasHandle_t>());
        std::get<I>(args) =
            std::bit_cast<cublasHandle_t>(id ? id | (has_result<op>() ? kind::blas::device_bit : 0) : id);
    }
};
template <std::size_t C, std::size_t T> struct Maker<kind::Scalar<C, T>> : Plainly {
    template <Op op, std::size_t I> static void rest(Generator&, Pending& p, auto& args) {
        std::get<I>(args) = static_cast<ArgumentOf<op, I>>(p.take(16));
    }
};
template <> struct Maker<kind::result> : Plainly {
    template <Op op, std::size_t I> static void rest(Generator& g, Pending&, auto& args) {
        std::get<I>(args) = reinterpret_cast<ArgumentOf<op, I>>(g.address(16));
    }
};
template <class Extent> struct Maker<kind::spread<Extent>> : Plainly {
    template <Op op, std::size_t I> static void rest(Generator& g, Pending&, auto& args) {
        const kind::Span span = Extent::template of<ArgumentOf<op, I>, I>(args);
        std::get<I>(args) = reinterpret_cast<ArgumentOf<op, I>>(g.address(kind::bounded(span.before + span.bytes)) +
                                                                kind::bounded(span.before));
    }
};
template <class Each, std::size_t Count> struct Maker<kind::spread<kind::Array<Each, Count>>> : Plainly {
    template <Op op, std::size_t I> static void rest(Generator& g, Pending&, auto& args) {
        std::get<I>(args) = reinterpret_cast<ArgumentOf<op, I>>(g.table_of_addresses());
    }
};

}  // namespace barcuda::hostile
