// SPDX-License-Identifier: Apache-2.0
// execute_row.h: how a row's command is executed, for the tables of handlers (execute.cc, execute_captured.cc).
#pragma once
#include "host-bridge/worker/bodies/body.h"
#include "host-bridge/worker/quota/counting.h"
#include "host-bridge/worker/session/library_functions.h"
#include "host-bridge/worker/witness.h"
#include "shm-device/rows/lives.h"

namespace barcuda::execution {

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
inline CUresult missing(Op op, Session& host) {
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

// What is written into a reply from now on.
class Told {
  public:
    explicit Told(const Writer& reply) : reply_(reply), before_(reply.used()), at_(Writer(reply).skip(0)) {}
    std::span<const std::byte> written() const {
        return at_ ? std::span<const std::byte>{at_, reply_.used() - before_} : std::span<const std::byte>{};
    }

  private:
    const Writer& reply_;
    const std::size_t before_;
    const std::byte* const at_;
};

// Runs one row in the context that its head names. The result travels back; a lie ends the session. `host`: what the
// kinds call, the session or its witness.
template <Op op, class Host>
Verdict execute(Session& session, Host& host, const RequestHead& head, std::span<const std::byte> body, Writer& reply) {
    Reader request(body);
    typename RowOf<op>::Parameters parameters{};
    return [&]<std::size_t... I>(std::index_sequence<I...>)->Verdict {
        if (!(std::get<I>(parameters).read(request, host) && ...) || !request.done()) return a_lie;
        Verdict verdict;
        if (!((verdict = std::get<I>(parameters).promise(host)).ok() && ...)) return verdict;
        if (!(verdict = session.enter(head.context, has(op, trait::anywhere))).ok()) return verdict;
        if constexpr (has(op, trait::work)) session.note_work();
        if constexpr (std::is_same_v<Host, Witness>) host.begin(op);
        if (!((verdict = std::get<I>(parameters).check(parameters, host)).ok() && ...)) return verdict;
        const auto function = Target<op>::in(session);
        if (!function) return {missing(op, session)};
        count_work<op>(session, parameters);
        const CUresult result = Status<typename RowOf<op>::Result>::code(function(std::get<I>(parameters).pass()...));
        if (result == CUDA_SUCCESS) {
            const Told answer(reply);
            (std::get<I>(parameters).publish(reply, parameters, host), ...);
            count<op>(session.counts(), parameters);
            note_stream<op>(session, parameters);
            if constexpr (std::is_same_v<Host, Witness>) {
                (host.note_address(std::get<I>(parameters)), ...);
                if (reply.ok()) host.commit(body, answer.written());  // else a lie, or its answer is not wanted
            }
        }
        if constexpr (std::is_same_v<Host, Witness>) host.end();
        return {result};
    }
    (std::make_index_sequence<RowOf<op>::count>{});
}

using Handler = Verdict (*)(Session&, const RequestHead&, std::span<const std::byte>, Writer&);
template <Op op>
Verdict plainly(Session& session, const RequestHead& head, std::span<const std::byte> body, Writer& reply) {
    return execute<op>(session, session, head, body, reply);
}
// What the command leaves behind is recorded.
template <Op op>
Verdict witnessed(Session& session, const RequestHead& head, std::span<const std::byte> body, Writer& reply) {
    Witness witness(session);
    return execute<op>(session, witness, head, body, reply);
}

// Launches, copies, waits, records of events: they are recorded in a capture alone. (What begins a capture is seen.)
template <Op op> constexpr bool always_witnessed = rule_of(op).recorded() || op == Op::cuStreamBeginCapture_v2
                                                   || op == Op::cuStreamBeginCaptureToGraph;
template <Op op> constexpr bool witnessed_in_captures =
    !always_witnessed<op> && RowOf<op>::how != How::guest &&
    (rule_of(op).carry == Carry::nothing || has(op, trait::work | trait::copies | trait::waits));

// While a stream captures; null: as ever.
Handler captured_handler(std::uint32_t op);

}  // namespace barcuda::execution
