// SPDX-License-Identifier: Apache-2.0
// symbol.cc: Windows tells addresses by names, and not the other way round.
#include "guest-allocator/runtime/symbol.h"

namespace barcuda::runtime {

const char* symbol_at(const void*) noexcept { return nullptr; }

}  // namespace barcuda::runtime
