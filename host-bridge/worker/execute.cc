// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/execute.h"

#include <new>

#include "host-bridge/worker/bodies/body.h"
#include "host-bridge/worker/quota/counting.h"
#include "host-bridge/worker/session/library_functions.h"
#include "shm-device/rows/lives.h"

namespace barcuda {
namespace {

// The function that serves a row: the worker's own body, the driver's or a math library's. Null: there is none.
template <Op> struct Target;
#define X(name, ...)                                                        \
    template <> struct Target<Op::name> {                                   \
        static auto in([[maybe_unused]] Session& host) {                    \
            if constexpr (has(Op::name, trait::hosted)) return &body::name; \
            else return host.driver().name;                                 \
        }                                                                   \
    };
BARCUDA_DRIVER_ROWS(X)
#undef X
#define X(name, ...)                                    \
    template <> struct Target<Op::name> {               \
        static auto in(Session&) { return &ext::name; } \
    };
BARCUDA_OWN_ROWS(X)
#undef X
#define X(name, ...)                                                                \
    template <> struct Target<Op::name> {                                           \
        static auto in(Session& host) { return host.libraries().functions().name; } \
    };
BARCUDA_LIBRARY_ROWS(X)
BARCUDA_LIBRARY_WIDE_ROWS(X)
#undef X
CUresult missing(Op op, Session& host) {
    return library_of(op) && !host.libraries().has(op) ? CUDA_ERROR_SHARED_OBJECT_INIT_FAILED
                                                       : CUDA_ERROR_NOT_SUPPORTED;
}

// A math library's handle is the first parameter.
template <class... P> constexpr bool has_library_handle(std::tuple<P...>*) { return false; }
template <class T, class... P> constexpr bool has_library_handle(std::tuple<T, P...>*) {
    return std::is_same_v<T, cublasHandle_t> || std::is_same_v<T, curandGenerator_t>;
}
template <Op op>
constexpr bool of_library_handle = has_library_handle(static_cast<typename RowOf<op>::Arguments*>(nullptr));
template <Op op> void note_stream(Session& host, typename RowOf<op>::Parameters& parameters) {
    constexpr std::size_t at = RowOf<op>::template at<CUstream>;
    if constexpr (of_library_handle<op> && at < RowOf<op>::count)
        host.in_flight().set_stream(std::get<0>(parameters).value, std::get<at>(parameters).value);
}
template <Op op> void count_work(Session& host, typename RowOf<op>::Parameters& parameters) {
    constexpr std::size_t at = RowOf<op>::template at<CUstream>;
    if constexpr (!has(op, trait::work)) return;
    else if constexpr (at < RowOf<op>::count) host.count_work(std::get<at>(parameters).value);
    else if constexpr (of_library_handle<op>)
        host.count_work(host.in_flight().stream_of(std::get<0>(parameters).value));
    else host.count_work();
}

// Runs one row in the context with this id. The result travels back; a lie ends the session.
template <Op op> Verdict execute(Session& host, std::uint32_t context, Reader& request, Writer& reply) {
    typename RowOf<op>::Parameters parameters{};
    return [&]<std::size_t... I>(std::index_sequence<I...>)->Verdict {
        if (!(std::get<I>(parameters).read(request, host) && ...) || !request.done()) return a_lie;
        Verdict verdict;
        if (!((verdict = std::get<I>(parameters).promise(host)).ok() && ...)) return verdict;
        if (!(verdict = host.enter(context, has(op, trait::anywhere))).ok()) return verdict;
        if constexpr (has(op, trait::work)) host.note_work();
        if (!((verdict = std::get<I>(parameters).check(parameters, host)).ok() && ...)) return verdict;
        const auto function = Target<op>::in(host);
        if (!function) return {missing(op, host)};
        count_work<op>(host, parameters);
        const CUresult result = Status<typename RowOf<op>::Result>::code(function(std::get<I>(parameters).pass()...));
        if (result == CUDA_SUCCESS) {
            (std::get<I>(parameters).publish(reply, parameters, host), ...);
            count<op>(host.counts(), parameters);
            note_stream<op>(host, parameters);
        }
        return {result};
    }
    (std::make_index_sequence<RowOf<op>::count>{});
}
// Rows that the guest answers by itself never cross.
Verdict refuse(Session&, std::uint32_t, Reader&, Writer&) { return a_lie; }
using Handler = Verdict (*)(Session&, std::uint32_t, Reader&, Writer&);
template <Op op> constexpr Handler handler_of() {
    if constexpr (RowOf<op>::how == How::guest) return &refuse;
    else return &execute<op>;
}

// Finds the row and runs it in the session that is in scope.
Verdict dispatch(Session& host, const RequestHead& head, Reader& request, Writer& reply) {
    static constexpr Handler handlers[] = {
#define X(name, ...) handler_of<Op::name>(),
        BARCUDA_ROWS(X)
#undef X
    };
    return head.op < std::size(handlers) ? handlers[head.op](host, head.context, request, reply) : a_lie;
}

}  // namespace

Verdict perform(Session& host, const RequestHead& head, std::span<const std::byte> body, bool answered, Writer& reply) {
    const Writer empty = reply;
    const auto once = [&]() -> Verdict {
        reply = empty;
        host.begin_command(head.op);
        Reader request(body);
        try {
            return dispatch(host, head, request, reply);
        } catch (const std::bad_alloc&) {  // more than Limit::worker_memory, or than the host has
            return {CUDA_ERROR_OUT_OF_MEMORY};
        }
    };
    Verdict verdict = once();
    // Memory that is deferred may be what is missing.
    if (verdict.result == CUDA_ERROR_OUT_OF_MEMORY && host.deferred().reap(true)) verdict = once();
    if (verdict.ok() && answered && !reply.ok()) verdict = a_lie;  // no room for the values that it asked for
    if (!verdict.lie) host.end_command(head.op, verdict.result, answered);
    return verdict;
}

}  // namespace barcuda
