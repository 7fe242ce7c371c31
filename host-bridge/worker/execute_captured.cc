// SPDX-License-Identifier: Apache-2.0
// execute_captured.cc: the handlers of the commands that are recorded only while a stream captures, because a graph is
// made of them then.
#include "host-bridge/worker/execute_row.h"

namespace barcuda::execution {
namespace {

template <Op op> constexpr Handler in_a_capture() {
    if constexpr (witnessed_in_captures<op>) return &witnessed<op>;
    else return nullptr;
}

}  // namespace

Handler captured_handler(std::uint32_t op) {
    static constexpr Handler handlers[] = {
#define X(name, ...) in_a_capture<Op::name>(),
        BARCUDA_ROWS(X)
#undef X
    };
    return handlers[op];
}

}  // namespace barcuda::execution
