// log.h: what the guest library says on standard error about the reasons of failures. BARCUDA_LOG=debug asks for it, in
// a guest as for the bridge: which private tables of the driver a library asks for, and which of their functions it
// calls. None of it is on a hot path: a line is made where something has gone wrong already, or happens once.
#pragma once

namespace barcuda {

// Whether BARCUDA_LOG asks for it.
bool logs_debug() noexcept;

// One line, in one write.
[[gnu::format(printf, 1, 2)]] void log_line(const char* format, ...) noexcept;

}  // namespace barcuda
