// SPDX-License-Identifier: Apache-2.0
// command.h: a row of the command table as a call, command<Op::name>(arguments...): the arguments are packed, the
// command leaves, and, unless it is posted, its reply is unpacked. One template for every command: bare_command() does
// that, after command() has told managed memory what the command may touch.
#pragma once
#include <algorithm>

#include "base/trace.h"
#include "guest-allocator/client/activity.h"
#include "guest-allocator/client/array_shapes.h"
#include "guest-allocator/client/client.h"
#include "guest-allocator/client/given_work.h"
#include "guest-allocator/client/host_rows.h"
#include "guest-allocator/client/live_memory.h"
#include "guest-allocator/client/log.h"
#include "guest-allocator/client/watched.h"
#include "shm-device/rows/commands.h"
#include "shm-device/rows/lives.h"

namespace barcuda::guest {

// Whether the row's command runs kernels, a library's among them; and whether it works on device memory that it names.
constexpr bool is_librarys(Op op) {
    for (const MathLibrary& library : math_libraries)  // for g++ with UBSan, library_of() is not null is no constant
        if (op_names[static_cast<std::size_t>(op)].starts_with(library.prefix)) return true;
    return false;
}
template <Op op> constexpr bool runs_kernels = has(op, trait::kernels) || (is_librarys(op) && has(op, trait::work));
template <class Parameters> constexpr bool any_touches = false;
template <class Parameters> constexpr bool any_points = false;
template <class... Life> constexpr bool any_touches<std::tuple<Life...>> = (Life::touches || ...);
template <class... Life>
constexpr bool any_points<std::tuple<Life...>> = ((Life::points != kind::Pointed::not_at) || ...);
template <Op op>
constexpr bool names_device_memory = any_touches<typename RowOf<op>::Parameters>&& has(op,
                                                                                       trait::work | trait::copies_out);

// While a stream captures, posted work is answered too: a call that spoils a capture has to return the error itself.
template <Op op> bool is_posted() noexcept {
    if constexpr (RowOf<op>::how != How::post) return false;
    else if constexpr (launches_graph<op>)
        return open_captures.load(std::memory_order_relaxed) == 0 && !graphs_allocate.load(std::memory_order_relaxed);
    else return !has(op, trait::work) || open_captures.load(std::memory_order_relaxed) == 0;
}

// command() without managed memory's part: the command touches none, or its caller has seen to it.
// `answered`: though the row's commands are posted.
template <Op op, bool answered = false, class... Given> CUresult bare_command(Given... given) noexcept {
    using R = RowOf<op>;
    const trace::Slice slice(op_names[static_cast<std::size_t>(op)]);
    Client* client = Client::get();
    if (!client) return CUDA_ERROR_NOT_INITIALIZED;
    const RowNumber number = host_rows::numbers[static_cast<std::size_t>(op)];
    if (number == no_row) [[unlikely]]
        return host_rows::missing(op, client->region());
    if constexpr (has(op, trait::graphs_allocate))
        if (!R::template takes<CUstream> || open_captures.load(std::memory_order_relaxed) > 0)
            graphs_allocate.store(true, std::memory_order_relaxed);
    typename R::Arguments arguments{real(given)...};
    typename R::Parameters parameters{};
    const CUresult result = [&]<std::size_t... I>(std::index_sequence<I...>) {
        CUresult result = CUDA_SUCCESS;
        if (!(((result = std::get<I>(parameters).valid(arguments, *client)) == CUDA_SUCCESS) && ...)) return result;
        const std::uint64_t call = activity::call_of_thread();
        const std::size_t head = sizeof(RequestHead) + (call ? sizeof call : 0);
        const std::size_t request = (head + ... + std::get<I>(parameters).room(arguments));
        const bool posted = !answered && is_posted<op>();
        const std::size_t reply = posted ? 0 : (sizeof(ReplyHead) + ... + std::get<I>(parameters).room_back(arguments));
        std::atomic<std::uint64_t>* given = nullptr;
        if constexpr (has(op, trait::work)) given = &given_work.of_command(arguments);
        const Queue::Ticket ticket = client->queue().submit(request, reply, given, [&](std::span<std::byte> to) {
            Writer w(to);
            w.put(RequestHead{call ? number | correlated : number, current_context_id()});
            if (call) [[unlikely]]
                w.put(call);
            (std::get<I>(parameters).send(w, arguments, *client), ...);
        });
        if (ticket.sequence == 0) return ticket.error;
        Reader r(ticket.reply);
        if (posted) {
            (std::get<I>(parameters).receive(r, arguments, *client), ...);
            return CUDA_SUCCESS;
        }
        if ((result = client->queue().await(ticket)) == CUDA_SUCCESS) {
            ReplyHead head{CUDA_ERROR_UNKNOWN, 0};
            r.get(head);
            result = static_cast<CUresult>(head.result);
            if (result == CUDA_SUCCESS) (std::get<I>(parameters).receive(r, arguments, *client), ...);
        }
        client->queue().finish(ticket);
        if (result == CUDA_ERROR_ASSERT && !has(op, trait::reports)) [[unlikely]]
            show_assert();
        if (result != CUDA_SUCCESS) (std::get<I>(parameters).failed(*client), ...);
        return result;
    }
    (std::make_index_sequence<R::count>{});
    if (result != CUDA_SUCCESS) [[unlikely]]
        log_failure(op_names[static_cast<std::size_t>(op)].data(), result);
    return result;
}

// Tells managed memory what the command may touch, before the command is posted.
template <Op op, class... Given> void tell_managed(managed::Posting& posting, Given... given) noexcept {
    using R = RowOf<op>;
    using Arguments = typename R::Arguments;
    constexpr std::size_t at = R::template at<CUstream>;
    const Arguments arguments{given...};
    // What names no stream works in the default stream; but of a library's handle nothing is known.
    CUstream stream = nullptr;
    if constexpr (at < R::count) stream = std::get<at>(arguments);
    constexpr bool known = at < R::count || !is_librarys(op);
    [&]<std::size_t... I>(std::index_sequence<I...>) {
        const auto point = [&]<class Life>(const auto& argument, const Life*) {
            if constexpr (Life::points != kind::Pointed::not_at)
                posting.argument(static_cast<const void*>(argument), Life::points == kind::Pointed::written);
        };
        const auto touch = [&](auto address, std::size_t bytes) {
            posting.range(static_cast<std::uint64_t>(address), bytes, known ? &stream : nullptr);
        };
        using Parameters = typename R::Parameters;
        (point(std::get<I>(arguments), static_cast<const std::tuple_element_t<I, Parameters>*>(nullptr)), ...);
        if constexpr (runs_kernels<op>) posting.kernels(known ? &stream : nullptr);
        else if constexpr (names_device_memory<op>)
            (std::tuple_element_t<I, Parameters>::touched(arguments, touch), ...);
    }
    (std::make_index_sequence<R::count>{});
    posting.show_arguments();
}

// What a posted command names and the guest can judge: device memory that it works on, or releases.
template <class Parameters> constexpr bool any_frees = false;
template <class... Its> constexpr bool any_frees<std::tuple<Its...>> = (requires { Its::frees; } || ...);
template <Op op> constexpr bool frees = any_frees<typename RowOf<op>::Parameters>;
template <Op op> constexpr bool is_looked_at =
    RowOf<op>::how == How::post && !is_librarys(op) && (any_touches<typename RowOf<op>::Parameters> || frees<op>);
constexpr bool is_called(Op op, std::string_view part) {
    return op_names[static_cast<std::size_t>(op)].find(part) != std::string_view::npos;
}
// Words that a stream waits for or writes, and the elements of a fill, lie at multiples of their size.
template <Op op> constexpr bool of_words = is_called(op, "Value") || is_called(op, "BatchMemOp");
template <Op op> constexpr std::size_t unit = is_called(op, "D16") ? 2 : is_called(op, "D32") ? 4 : 1;

// Whether it is work on memory that a graph does later: its stream captures.
template <Op op> constexpr bool allocates_in_order = op == Op::cuMemAllocAsync || op == Op::cuMemAllocFromPoolAsync;
template <Op op, class... Given> bool is_captured(Given... given) noexcept {
    constexpr std::size_t at = RowOf<op>::template at<CUstream>;
    if constexpr (at < RowOf<op>::count && (is_looked_at<op> || allocates_in_order<op>)) {
        if (open_captures.load(std::memory_order_relaxed) == 0) [[likely]]
            return false;
        const typename RowOf<op>::Arguments arguments{given...};
        const CUstream stream = real(std::get<at>(arguments));
        return stream && ask_capturing(stream);  // the legacy stream never does
    }
    return false;
}

template <Op op, class Touch, class... Given> void each_touched(Touch touch, Given... given) noexcept {
    const typename RowOf<op>::Arguments arguments{given...};
    const auto one = [&](auto address, std::size_t bytes) { touch(static_cast<std::uint64_t>(address), bytes); };
    [&]<std::size_t... I>(std::index_sequence<I...>) {
        (std::tuple_element_t<I, typename RowOf<op>::Parameters>::touched(arguments, one), ...);
    }
    (std::make_index_sequence<RowOf<op>::count>{});
}

template <Op op, class... Given> Named look(Given... given) noexcept {
    const typename RowOf<op>::Arguments arguments{given...};
    if constexpr (frees<op>) {
        const CUdeviceptr p = std::get<0>(arguments);
        if (live_memory.take(p)) return Named::known;
        // What has been allocated is freed where it begins, and what was mapped is not. (The worker may free later,
        // while the GPU works or a stream captures.)
        const LiveMemory::Kind kind = live_memory.kind_of(p, 1);
        return kind == LiveMemory::Kind::none || kind == LiveMemory::Kind::learned ? Named::unknown : Named::refused;
    }
    Named named = Named::known;
    constexpr unsigned most_operations = 256;  // of a batch: more is refused before they are read
    if constexpr (op == Op::cuStreamBatchMemOp_v2)
        if (std::get<1>(arguments) > most_operations || !std::get<2>(arguments)) return Named::refused;
    if constexpr (op == Op::cuStreamBatchMemOp_v2)  // the driver knows others, or does not
        for (unsigned i = 0; i < std::get<1>(arguments); ++i)
            if (const auto of = std::get<2>(arguments)[i].operation;
                of != CU_STREAM_MEM_OP_WAIT_VALUE_32 && of != CU_STREAM_MEM_OP_WRITE_VALUE_32 &&
                of != CU_STREAM_MEM_OP_WAIT_VALUE_64 && of != CU_STREAM_MEM_OP_WRITE_VALUE_64 &&
                of != CU_STREAM_MEM_OP_BARRIER)
                named = Named::unknown;
    if constexpr (is_called(op, "D2D")) {
        if (!std::get<3>(arguments) || !std::get<4>(arguments)) return Named::known;  // nothing is written
        if (const std::size_t pitch = std::get<1>(arguments); std::get<4>(arguments) > 1)
            if (pitch % unit<op> || pitch / unit<op> < std::get<3>(arguments)) named = Named::unknown;
    }
    const auto touch = [&](std::uint64_t p, std::size_t bytes) {
        if (of_words<op> ? p % (bytes ? bytes : 1) : p % unit<op>) named = std::max(named, Named::unknown);
        named = std::max(named, of_words<op> ? look_at_words(p, bytes) : look_at(p, bytes));
    };
    each_touched<op>(touch, given...);
    if constexpr (of_words<op>)  // few programs set flags, and the driver knows which may be
        if (std::get<RowOf<op>::count - 1>(arguments)) named = std::max(named, Named::unknown);
    return named;
}

// What the guest learns by a command that the driver took though its memory was not known.
template <Op op, class... Given> void learn(Given... given) noexcept {
    const typename RowOf<op>::Arguments arguments{given...};
    if constexpr (frees<op>) live_memory.forget(std::get<0>(arguments), 1);
    else if (!graphs_allocate.load(std::memory_order_relaxed))
        each_touched<op>([](std::uint64_t p, std::size_t bytes) { is_there(p, bytes); }, given...);
}
// What it learns of memory by a command that has succeeded.
template <Op op, class... Given> void keep_books(bool captured, Given... given) noexcept {
    const typename RowOf<op>::Arguments arguments{given...};
    using Kind = LiveMemory::Kind;
    if constexpr (op == Op::cuMemAlloc_v2)
        note_allocated(*std::get<0>(arguments), std::get<1>(arguments), Kind::allocated);
    if constexpr (op == Op::cuMemAllocPitch_v2)
        note_allocated(*std::get<0>(arguments), *std::get<1>(arguments) * std::get<3>(arguments), Kind::allocated);
    if constexpr (allocates_in_order<op>)
        if (!captured) note_allocated(*std::get<0>(arguments), std::get<1>(arguments), Kind::pooled);
    if constexpr (op == Op::cuIpcCloseMemHandle) live_memory.forget(std::get<0>(arguments), 1);
    if constexpr (op == Op::cuMemUnmap || op == Op::cuMemAddressFree)
        live_memory.forget(std::get<0>(arguments), std::get<1>(arguments));
    if constexpr (op == Op::cuMemSetAccess) {  // of what may not be written the driver is asked
        const auto* const given_to = std::get<2>(arguments);
        const bool all = std::all_of(given_to, given_to + std::get<3>(arguments), [](const CUmemAccessDesc& d) {
            return d.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        });
        if (all) note_allocated(std::get<0>(arguments), std::get<1>(arguments), Kind::mapped);
        else live_memory.forget(std::get<0>(arguments), std::get<1>(arguments));
    }
    if constexpr (RowOf<op>::template takes<CUarray*>)
        array_shapes.forget(*std::get<RowOf<op>::template at<CUarray*>>(arguments));
    // Code that goes has variables, a context all that was made in it.
    if constexpr (op == Op::cuModuleUnload || op == Op::cuLibraryUnload) live_memory.forget_learned();
    if constexpr (op == Op::cuCtxDestroy_v2 || op == Op::cuDevicePrimaryCtxReset_v2) live_memory.forget_all();
}

// Whether CUDA refuses the call in a thread without a current context: its row says so, or a stream stands in for one.
template <Op op> constexpr bool names_stream = is_drivers(op) && RowOf<op>::template takes<CUstream> && !ends<op>;
template <Op op> constexpr bool needs_context = has(op, trait::current) || names_stream<op>;
template <Op op, bool answered, class... Given> CUresult without_context(Given... given) noexcept;

// Events and arrays go with their context: what is none in a thread without one is taken for one that has gone.
template <Op op, class... Given> CUresult of_object(CUresult r, [[maybe_unused]] Given... given) noexcept {
    using R = RowOf<op>;
    const auto said_of = [&]<class Handle>(Handle*) {
        if constexpr (R::template takes<Handle>)
            if (r == CUDA_ERROR_INVALID_HANDLE) [[unlikely]]
                r = unknown_object(std::get<R::template at<Handle>>(typename R::Arguments{given...}));
    };
    said_of(static_cast<CUevent*>(nullptr));
    said_of(static_cast<CUarray*>(nullptr));
    return r;
}

// `answered`: though the row's commands are posted.
template <Op op, bool answered = false, class... Given> CUresult command(Given... given) noexcept {
    if constexpr (needs_context<op>) {
        if (!current_context()) [[unlikely]]
            return without_context<op, answered>(given...);
        if (ended_primaries.load(std::memory_order_relaxed) > 0 && current_has_ended()) [[unlikely]]
            return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    const bool captured = is_captured<op>(given...);
    Named named = Named::known;
    if constexpr (is_looked_at<op>)
        if (!captured) [[likely]]
            named = look<op>(given...);
    if (named == Named::refused) [[unlikely]]
        return CUDA_ERROR_INVALID_VALUE;
    managed::Posting posting;
    if constexpr (runs_kernels<op> || names_device_memory<op> || any_points<typename RowOf<op>::Parameters>)
        if (managed::exists()) [[unlikely]]
            tell_managed<op>(posting, given...);
    if constexpr (is_looked_at<op>)
        if (named == Named::unknown) [[unlikely]] {
            const CUresult r = bare_command<op, true>(given...);
            if (r == CUDA_SUCCESS) learn<op>(given...);
            return r;
        }
    const CUresult r = bare_command<op, answered>(given...);
    if (r == CUDA_SUCCESS) keep_books<op>(captured, given...);
    return of_object<op>(r, given...);
}

template <Op op, bool answered, class... Given> CUresult without_context(Given... given) noexcept {
    if constexpr (names_stream<op>) {
        const typename RowOf<op>::Arguments arguments{given...};
        const InStreamsContext in{std::get<RowOf<op>::template at<CUstream>>(arguments)};
        if (Client::initialized()) return in.error ? in.error : command<op, answered>(given...);
    }
    return Client::initialized() ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_NOT_INITIALIZED;
}

}  // namespace barcuda::guest
