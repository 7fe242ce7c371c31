// execute.h: one command, from its copied bytes to its reply. The bytes given here are the host's own: the guest cannot
// touch them any more. read -> check -> call -> publish, parameter by parameter, as shm-device/kinds.h tells.
#pragma once
#include "host-bridge/session.h"

namespace barcuda {

// What the driver's table, host-bridge/extensions.cc or a math library has for a row; and what is answered where there
// is none.
template <Op> struct Target;
#define X(name, ...)                                                 \
    template <> struct Target<Op::name> {                            \
        static auto in(Session& host) { return host.driver().name; } \
    };
BARCUDA_DRIVER_ROWS(X)
#undef X
#define X(name, ...)                                    \
    template <> struct Target<Op::name> {               \
        static auto in(Session&) { return &ext::name; } \
    };
BARCUDA_EXTENSIONS(X)
#undef X
#define X(name, ...)                                                    \
    template <> struct Target<Op::name> {                               \
        static auto in(Session& host) { return host.libraries().name; } \
    };
BARCUDA_LIBRARY_ROWS(X)
#undef X
inline CUresult missing(Op op, Session& host) {
    return is_library(op) && !host.libraries().has(op) ? CUDA_ERROR_SHARED_OBJECT_INIT_FAILED
                                                       : CUDA_ERROR_NOT_SUPPORTED;
}

// Runs one row. What it returns travels back; a lie ends the session.
template <Op op> Verdict execute(Session& host, Reader& request, Writer& reply) {
    typename RowOf<op>::Parameters parameters{};
    return [&]<std::size_t... I>(std::index_sequence<I...>)->Verdict {
        if (!(std::get<I>(parameters).read(request, host) && ...) || !request.done()) return a_lie;
        Verdict verdict;
        if (!((verdict = std::get<I>(parameters).check(parameters, host)).ok() && ...)) return verdict;
        const auto function = Target<op>::in(host);
        if (!function) return {missing(op, host)};
        const CUresult result = Status<typename RowOf<op>::Result>::code(function(std::get<I>(parameters).pass()...));
        if (result == CUDA_SUCCESS) (std::get<I>(parameters).publish(reply, parameters, host), ...);
        return {result};
    }
    (std::make_index_sequence<RowOf<op>::count>{});
}

// Finds the row and runs it in the session that is in scope.
inline Verdict dispatch(Session& host, std::uint32_t op, Reader& request, Writer& reply) {
    using Handler = Verdict (*)(Session&, Reader&, Writer&);
    static constexpr Handler handlers[] = {
#define X(name, ...) &execute<Op::name>,
        BARCUDA_ROWS(X)
#undef X
    };
    return op < std::size(handlers) ? handlers[op](host, request, reply) : a_lie;
}

// Whether the GPU has something to do behind this command.
inline bool works(std::uint32_t op) {
    static constexpr bool does[] = {
#define X(name, ...) is_work(Op::name, RowOf<Op::name>::how),
        BARCUDA_ROWS(X)
#undef X
    };
    return op < std::size(does) && does[op];
}

}  // namespace barcuda
