// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/execute.h"

#include <new>

#include "host-bridge/worker/execute_row.h"

namespace barcuda {
namespace {

// Rows that the guest answers by itself never cross.
Verdict refuse(Session&, const RequestHead&, std::span<const std::byte>, Writer&) { return a_lie; }
template <Op op> constexpr execution::Handler handler_of() {
    if constexpr (RowOf<op>::how == How::guest) return &refuse;
    else if constexpr (execution::always_witnessed<op>) return &execution::witnessed<op>;
    else return &execution::plainly<op>;
}

// Finds the row and runs it in the session that is in scope.
Verdict dispatch(Session& host, const RequestHead& head, std::span<const std::byte> body, Writer& reply) {
    static constexpr execution::Handler handlers[] = {
#define X(name, ...) handler_of<Op::name>(),
        BARCUDA_ROWS(X)
#undef X
    };
    if (head.op >= std::size(handlers)) return a_lie;
    if (host.births().captures()) [[unlikely]]
        if (const execution::Handler handler = execution::captured_handler(head.op))
            return handler(host, head, body, reply);
    return handlers[head.op](host, head, body, reply);
}

}  // namespace

Verdict perform(Session& host, const RequestHead& head, std::span<const std::byte> body, bool answered, Writer& reply) {
    const Writer empty = reply;
    const auto once = [&]() -> Verdict {
        reply = empty;
        host.begin_command(head.op);
        try {
            return dispatch(host, head, body, reply);
        } catch (const std::bad_alloc&) {  // more than Limit::worker_memory, or than the host has
            return {CUDA_ERROR_OUT_OF_MEMORY};
        }
    };
    Verdict verdict = once();
    // Memory that is deferred may be what is missing.
    if (verdict.result == CUDA_ERROR_OUT_OF_MEMORY && host.deferred().reap(true)) verdict = once();
    if (verdict.ok() && answered && !reply.ok()) verdict = a_lie;  // no room for the values that it asked for
    if (verdict.lie) return verdict;
    try {
        const Verdict end = host.end_command(head.op, verdict.result, answered);
        return end.lie ? end : verdict;
    } catch (const std::bad_alloc&) {  // then a thread that waits would not be woken
        return a_lie;
    }
}

}  // namespace barcuda
