// SPDX-License-Identifier: Apache-2.0
// lives.h: what a row leaves behind, from what its kinds say (`life` in kinds.h) and, where they cannot, its traits. A
// row that crosses and says nothing of it does not compile (lives.cc); nor does one that makes device memory and does
// not say what is charged for it. Included where all rows are instantiated, not by commands.h: that would instantiate
// each kind of each row in every file.
#pragma once
#include "shm-device/rows/library_commands.h"

namespace barcuda {

template <class Parameters> struct LivesOf;
template <class... Its> struct LivesOf<std::tuple<Its...>> {
    static constexpr bool any([[maybe_unused]] kind::Life life) { return ((Its::life == life) || ...); }
};
template <Op op> using Lives = LivesOf<typename RowOf<op>::Parameters>;

// (An address that comes back is a new one, or one that a module has, to its kind. A row that asks tells of what
// there is.)
template <Op op> constexpr bool births = !has(op, trait::asks) && Lives<op>::any(kind::Life::makes);
template <Op op> constexpr bool names = !has(op, trait::asks) && Lives<op>::any(kind::Life::names);
template <Op op> constexpr bool ends = Lives<op>::any(kind::Life::drops) || has(op, trait::resets);
template <Op op> constexpr bool lasts = Lives<op>::any(kind::Life::lasts) || has(op, trait::lasts);

// What device memory is named by. (An address and a handle of physical memory are the same type in C.)
template <class T> inline constexpr bool names_memory =
    std::is_same_v<T, CUdeviceptr> || std::is_same_v<T, CUarray> || std::is_same_v<T, CUmipmappedArray> ||
    std::is_same_v<T, CUmemoryPool> || std::is_same_v<T, CUDA_MEM_ALLOC_NODE_PARAMS>;
template <class Arguments, class Parameters> struct MemoryMade;
template <class... P, class... Its> struct MemoryMade<std::tuple<P...>, std::tuple<Its...>> {
    static constexpr bool any = ((Its::life == kind::Life::makes && names_memory<std::remove_pointer_t<P>>) || ...);
};
template <Op op> constexpr bool makes_memory =
    births<op> ? MemoryMade<typename RowOf<op>::Arguments, typename RowOf<op>::Parameters>::any : false;

template <Op op> constexpr bool says_what_lasts = RowOf<op>::how == How::guest || births<op> || names<op> || ends<op> ||
                                                  lasts<op> ||
                                                  has(op, trait::work | trait::waits | trait::copies | trait::asks);
template <Op op> constexpr bool asks_alone = !has(op, trait::asks) || !(ends<op> || lasts<op>);
template <Op op> constexpr bool says_its_charge = !makes_memory<op> || charges(op) || has(op, trait::uncharged);

}  // namespace barcuda
