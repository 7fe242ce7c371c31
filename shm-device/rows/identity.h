// SPDX-License-Identifier: Apache-2.0
// identity.h: by what two builds know a row of the command table as the same one. Guests and hosts are upgraded on
// different days, so the number of a row (its place in the table) means nothing to another build. A row's identity
// does: a hash of its name, of how it travels, of its kinds, and of the sizes of its parameters and of what they point
// at. The bridge writes the identities of its rows into the region; a client that connects looks its own rows up there
// (match()) and from then on sends the bridge's numbers. docs/versions.md says what follows when a row changes.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "base/hash.h"
#include "shm-device/rows/commands.h"
#include "shm-device/rows/listing.h"

namespace barcuda {

// Of a type whose definition both sides have; 0: a handle, void, a function.
template <class T> constexpr std::uint64_t size_if_known() {
    if constexpr (std::is_object_v<T> && requires { sizeof(T); }) return sizeof(T);
    return 0;
}
static_assert(size_if_known<CUstream_st>() == 0, "identities must not depend on who knows what a handle points at");

// `kinds` as the row spells them. (Its traits are the host's business, and who writes the exported function the
// guest's.)
template <class Arguments> struct Identity;
template <class... P> struct Identity<std::tuple<P...>> {
    static constexpr std::uint64_t of(std::string_view name, How how, std::string_view kinds) {
        Hash hash;
        hash.text(name).text(how == How::call ? " call " : how == How::post ? " post " : " guest ").text(kinds);
        (hash.number(sizeof(P)).number(std::is_pointer_v<P> ? size_if_known<std::remove_pointer_t<P>>() : 0), ...);
        return hash.value();
    }
};

// By row number. identity.cc computes them: the compiler takes half a second for it.
extern const std::array<std::uint64_t, static_cast<std::size_t>(Op::count)> identities;
static_assert(Op::count <= static_cast<Op>(BARCUDA_MAX_ROWS));

}  // namespace barcuda
