// SPDX-License-Identifier: Apache-2.0
// rows.cc: the table of rows as a hostile client knows them: made of kinds by makers.h, and of honest.h.
#include "tests/hostile/honest.h"

namespace barcuda::hostile {
namespace {

template <Op op> struct Builder {
    using Arguments = ArgumentsOf<op>;
    template <std::size_t I> using Make = Maker<typename KindsOf<op>::template at<I>>;
    static constexpr auto all = std::make_index_sequence<KindsOf<op>::count>{};

    // The id of an object that is being made, between the request and the reply.
    template <std::size_t I> static constexpr bool is_made =
        std::is_same_v<typename KindsOf<op>::template at<I>, kind::make>;
    template <std::size_t I> static void keep_id(const auto& parameters, auto& a) {
        using Handle = std::remove_pointer_t<ArgumentOf<op, I>>;
        if constexpr (is_made<I>) *std::get<I>(a) = std::bit_cast<Handle>(std::get<I>(parameters).id);
    }
    template <std::size_t I> static void find_id(auto& parameters, auto& a) {
        if constexpr (is_made<I>) std::get<I>(parameters).id = std::bit_cast<std::uint64_t>(*std::get<I>(a));
    }

    static bool build(Generator& g, Pending& p, Writer& w) {
        static_assert(std::is_trivially_destructible_v<Arguments>);
        auto& a = *new (p.take(sizeof(Arguments))) Arguments{};
        using H = Honest<op>;
        return [&]<std::size_t... I>(std::index_sequence<I...>) {
            (Make<I>::template number<op, I>(g, p, a), ...);
            if constexpr (requires { H::numbers(g, a); }) H::numbers(g, a);
            (Make<I>::template rest<op, I>(g, p, a), ...);
            if constexpr (requires { H::rest(g, p, a); }) H::rest(g, p, a);
            typename RowOf<op>::Parameters parameters{};
            (std::get<I>(parameters).send(w, a, g), ...);
            (keep_id<I>(parameters, a), ...);
            p.reply_bytes = (sizeof(ReplyHead) + ... + std::get<I>(parameters).room_back(a));
            return w.ok();
        }
        (all);
    }
    static void learn(Generator& g, Pending& p, Reader& reply, bool success) {
        auto& a = *reinterpret_cast<Arguments*>(p.memory);  // the first thing that was taken
        using H = Honest<op>;
        [&]<std::size_t... I>(std::index_sequence<I...>) {
            typename RowOf<op>::Parameters parameters{};
            (find_id<I>(parameters, a), ...);
            if (success) (std::get<I>(parameters).receive(reply, a, g), ...);
            (Make<I>::template learn<op, I>(g, a, success), ...);
        }
        (all);
        if constexpr (requires { H::learn(g, a); })
            if (success) H::learn(g, a);
    }
    template <class Which> static std::vector<Tag> tags([[maybe_unused]] Which which) {
        std::vector<Tag> tags;
        [&]<std::size_t... I>(std::index_sequence<I...>) {
            [[maybe_unused]] const auto look = [&]<std::size_t J>(std::integral_constant<std::size_t, J>) {
                if (which(Make<J>{})) tags.push_back(type_tag<std::remove_pointer_t<ArgumentOf<op, J>>>());
            };
            (look(std::integral_constant<std::size_t, I>{}), ...);
        }
        (all);
        return tags;
    }
    static std::vector<Tag> makes() {
        if (op == Op::cuGraphConditionalHandleCreate) return {tag<Condition>()};
        if (op == Op::cuTexObjectCreate || op == Op::cuSurfObjectCreate) return {tag<TextureOrSurface>()};
        return tags([](auto make) { return make.makes; });
    }
    static std::vector<Tag> drops() {
        if (op == Op::cuTexObjectDestroy || op == Op::cuSurfObjectDestroy) return {tag<TextureOrSurface>()};
        return tags([](auto make) { return make.drops; });
    }
};

template <Op op> constexpr RowEntry entry() {
    if constexpr (RowOf<op>::how == How::guest) return {How::guest, nullptr, nullptr, nullptr, nullptr, nullptr};
    else
        return {RowOf<op>::how,      library_of(op),      &Builder<op>::build,
                &Builder<op>::learn, &Builder<op>::makes, &Builder<op>::drops};
}

const RowEntry entries[] = {
#define X(name, ...) entry<Op::name>(),
    BARCUDA_ROWS(X)
#undef X
};

}  // namespace

const RowEntry& row(Op op) { return entries[static_cast<std::size_t>(op)]; }

}  // namespace barcuda::hostile
