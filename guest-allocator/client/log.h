// SPDX-License-Identifier: Apache-2.0
// log.h: what the guest library says on standard error about the reasons of failures. BARCUDA_LOG=debug asks for it, in
// a guest as for the bridge: which commands and functions of the runtime failed, which functions of the driver are
// asked for in vain, and which of its private tables. None of it is on a hot path: a line is made where something has
// gone wrong already, or happens once.
#pragma once
#include <cuda.h>

namespace barcuda::guest {

// Whether BARCUDA_LOG asks for it.
bool logs_debug() noexcept;

// A call that failed, and with what: a row of the command table, or a function of the runtime.
void log_failure(const char* name, CUresult result) noexcept;

// One line, in one write.
[[gnu::format(printf, 1, 2)]] void log_line(const char* format, ...) noexcept;

}  // namespace barcuda::guest
