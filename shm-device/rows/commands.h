// SPDX-License-Identifier: Apache-2.0
// commands.h: every function that a program may call and every command that a guest may send, once. Guest stub,
// exported function, host handler, dispatch table, the driver's function pointers, the support page and the identities
// by which builds recognize each other's rows (identity.h) derive from it. What is not in the table cannot be asked
// for.
//
//   X(function, how, traits, one kind per parameter...)
//
//   call         the guest waits for the reply
//   post         the guest goes on at once; a failure surfaces at a later synchronizing call (status.posted_error)
//   inner_call   the same two, but the exported function is written by hand in guest-allocator: it sends this
//   inner_post   command, and does something before or after
//   guest        the exported function is the guest's own: it answers by itself, or by other rows
//
// Types come from the prototypes: CUDA's own, or those of namespace ext, for what is not CUDA's or has a form that
// cannot travel. The rows lie in rows/, a file a noun; this file says what a row means.
#pragma once
#include <array>
#include <string_view>
#include <type_traits>
#include <utility>

#include "shm-device/cuda/libraries.h"
#include "shm-device/kinds/array_kinds.h"
#include "shm-device/layout.h"
#include "shm-device/rows/activity.h"
#include "shm-device/rows/array.h"
#include "shm-device/rows/channel.h"
#include "shm-device/rows/context.h"
#include "shm-device/rows/copy.h"
#include "shm-device/rows/cublas.h"
#include "shm-device/rows/curand.h"
#include "shm-device/rows/graph.h"
#include "shm-device/rows/launch.h"
#include "shm-device/rows/memory.h"
#include "shm-device/rows/module.h"
#include "shm-device/rows/stream.h"

// clang-format off
#define BARCUDA_DRIVER_ROWS(X)                                                                         \
    BARCUDA_CONTEXT_ROWS(X) BARCUDA_MODULE_ROWS(X) BARCUDA_LAUNCH_ROWS(X) BARCUDA_MEMORY_ROWS(X)       \
    BARCUDA_COPY_ROWS(X) BARCUDA_ARRAY_ROWS(X) BARCUDA_STREAM_ROWS(X) BARCUDA_GRAPH_ROWS(X)
#define BARCUDA_OWN_ROWS(X)                                                                            \
    BARCUDA_CONTEXT_OWN_ROWS(X) BARCUDA_MODULE_OWN_ROWS(X) BARCUDA_LAUNCH_OWN_ROWS(X)                  \
    BARCUDA_MEMORY_OWN_ROWS(X) BARCUDA_COPY_OWN_ROWS(X) BARCUDA_ARRAY_OWN_ROWS(X) BARCUDA_STREAM_OWN_ROWS(X) \
    BARCUDA_GRAPH_OWN_ROWS(X) BARCUDA_CHANNEL_OWN_ROWS(X) BARCUDA_ACTIVITY_OWN_ROWS(X)
// Of NVIDIA's math libraries. Functions of the second list cross as their twins with 64-bit sizes.
#define BARCUDA_LIBRARY_ROWS(X) BARCUDA_CUBLAS_ROWS(X) BARCUDA_CURAND_ROWS(X)
#define BARCUDA_LIBRARY_WIDE_ROWS(X) BARCUDA_CUBLAS_WIDE_ROWS(X)
#define BARCUDA_ROWS(X) BARCUDA_DRIVER_ROWS(X) BARCUDA_OWN_ROWS(X) BARCUDA_LIBRARY_ROWS(X) BARCUDA_LIBRARY_WIDE_ROWS(X)
// clang-format on

namespace barcuda {

enum class Op : std::uint32_t {
#define X(name, ...) name,
    BARCUDA_ROWS(X)
#undef X
        count
};

inline constexpr std::array<std::string_view, static_cast<std::size_t>(Op::count)> op_names{
#define X(name, ...) #name,
    BARCUDA_ROWS(X)
#undef X
};

enum class How { call, post, guest };
namespace how {  // as rows spell it
constexpr How call = How::call, inner_call = How::call, post = How::post, inner_post = How::post, guest = How::guest;
}

using Traits = std::uint64_t;
namespace trait {
enum : Traits {
    plain = 0,
    work = 1,        // the GPU has something to do behind this command
    configures = 2,  // changes how launches behind it are to be made, other than by what they say themselves, or takes
                     // something away that a launch before it had
    counts = 4,      // asks what memory there is: what was put off must be released first
    held = 8,        // a launch, which the worker may hold until something else comes
    hosted = 16,     // the worker has a body of the function's name, which is called instead of the driver's
    reports = 32,    // brings the text of an error: its own failure is not looked into
    anywhere = 64,   // needs no context: it is done though the one that is current has ended
    kernels = 128,   // runs the program's kernels, which may touch memory that no parameter names

    // What the call leaves behind, where its kinds do not say it (lives.h).
    asks = 1 << 8,   // nothing: it tells of what there is, whatever its kinds make of what comes back
    lasts = 1 << 9,  // an object is another than before: an attribute is set, a node is added, an event is recorded

    // Copies, which are counted: parameter std::size_t says how many bytes.
    copies_in = 1 << 10,
    copies_out = 1 << 11,
    copies_on = 1 << 12,                          // from device memory to device memory
    copies = copies_in | copies_out | copies_on,  // a CUDA_MEMCPY3D says which
    waits = 1 << 13,                              // a thread of the client waits for the stream

    // Device memory, which is charged to the client (host-bridge/worker/quota/quota.h). charges() below belongs to
    // these.
    uncharged = 1 << 14,        // makes an address or a handle, and takes no memory by itself
    loads = 1 << 15,            // the driver takes memory for code; undone if that is too much
    may_load = 1 << 16,         // the same at the first use of the code, which nothing undoes
    maps = 1 << 17,             // parameters: address, bytes, offset, physical memory
    retains = 1 << 18,          // physical memory has one more handle
    trims = 1 << 19,            // graphs return what they do not use
    resets = 1 << 20,           // a device's primary context ends
    tells_room = 1 << 21,       // parameters: free and total bytes of the device, which a limit makes fewer
    graphs_allocate = 1 << 22,  // a graph may get a node that allocates; with a stream: if that is captured
    current = 1 << 23,          // CUDA refuses it in a thread without a current context
    opens = 1 << 24,            // another client's memory has an address here: it counts for both
};
// What a call that succeeds is charged for: parameter `size` (bytes, or what describes the memory), times parameter
// `count`.
constexpr unsigned size_shift = 48, count_shift = 56;
constexpr Traits charges(unsigned size, unsigned count = 0) {
    return Traits{size + 1} << size_shift | Traits{count} << count_shift;
}
}  // namespace trait
namespace trait {
inline constexpr Traits of_rows[] = {
#define X(name, how, traits, ...) traits,
    BARCUDA_ROWS(X)
#undef X
};
}  // namespace trait
constexpr Traits traits_of(Op op) { return trait::of_rows[static_cast<std::size_t>(op)]; }
constexpr bool has(Op op, Traits trait) { return traits_of(op) & trait; }
// Which parameters a row's charges() named. No row's first parameter counts: 0 is none.
constexpr bool charges(Op op) { return traits_of(op) >> trait::size_shift; }
constexpr std::size_t charged_size(Op op) { return (traits_of(op) >> trait::size_shift & 0xff) - 1; }
constexpr std::size_t charged_count(Op op) { return traits_of(op) >> trait::count_shift; }

inline constexpr const MathLibrary* libraries_of_rows[] = {
#define X(name, ...) library_named(#name),
    BARCUDA_ROWS(X)
#undef X
};
// Null: the driver's, or ours.
constexpr const MathLibrary* library_of(Op op) { return libraries_of_rows[static_cast<std::size_t>(op)]; }

// Which of these types is T; none: their number.
template <class T, class... P> constexpr std::size_t place_of() {
    constexpr bool is[] = {std::is_same_v<P, T>..., true};
    std::size_t i = 0;
    while (!is[i]) ++i;
    return i;
}

// A row, taken apart: one life per parameter. A row whose kinds and prototype disagree does not compile.
template <class Prototype, How how, class... Kinds> struct Row;
template <class R, class... P, How way, class... Kinds> struct Row<R(P...), way, Kinds...> {
    static_assert(sizeof...(P) == sizeof...(Kinds), "one kind per parameter");
    using Result = R;
    using Arguments = std::tuple<P...>;
    template <class Sequence> struct Lives;
    template <std::size_t... I> struct Lives<std::index_sequence<I...>> {
        using type = std::tuple<typename Kinds::template As<P, I>...>;
    };
    using Parameters = typename Lives<std::index_sequence_for<P...>>::type;
    static constexpr How how = way;
    static constexpr std::size_t count = sizeof...(P);
    template <class T> static constexpr std::size_t at = place_of<T, P...>();  // of the first parameter of this type
    template <class T> static constexpr bool takes = at<T> < count;
};

// What the guest's own functions are to the protocol: nothing.
template <class R, class... P> struct Row<R(P...), How::guest> {
    using Result = R;
    using Arguments = std::tuple<>;
    using Parameters = std::tuple<>;
    static constexpr How how = How::guest;
    static constexpr std::size_t count = 0;
    template <class> static constexpr bool takes = false;
};

namespace kind {             // where rows find their kinds
template <Op> struct RowOf;  // a math library's: library_commands.h
#define X(name, way, traits, ...) \
    template <> struct RowOf<Op::name> : Row<decltype(::name), how::way __VA_OPT__(, ) __VA_ARGS__> {};
BARCUDA_DRIVER_ROWS(X)
#undef X
#define X(name, way, traits, ...) \
    template <> struct RowOf<Op::name> : Row<decltype(ext::name), how::way __VA_OPT__(, ) __VA_ARGS__> {};
BARCUDA_OWN_ROWS(X)
#undef X
}  // namespace kind
using kind::RowOf;

// Whether the row is a function of CUDA's driver; else it is ours, or a library's.
constexpr std::size_t driver_rows = 0
#define X(name, ...) +1
    BARCUDA_DRIVER_ROWS(X);
#undef X
constexpr bool is_drivers(Op op) { return static_cast<std::size_t>(op) < driver_rows; }

// Launches what was instantiated of a graph.
template <Op op> constexpr bool launches_graph = has(op, trait::kernels) && RowOf<op>::template takes<CUgraphExec>;

}  // namespace barcuda
