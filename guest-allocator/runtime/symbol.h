// SPDX-License-Identifier: Apache-2.0
// symbol.h: what the loader calls a function, for messages.
#pragma once

namespace barcuda::runtime {

// The exported function that begins there; null: it has no name.
const char* symbol_at(const void* function) noexcept;

}  // namespace barcuda::runtime
