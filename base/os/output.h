// SPDX-License-Identifier: Apache-2.0
// output.h: what a library says on its program's standard error: one line in one write, without stdio, which the
// program may be using, or which may be what called us.
#pragma once
#include <cstddef>

namespace barcuda::os {

// errno stays as it was.
void write_error(const char* text, std::size_t bytes) noexcept;

}  // namespace barcuda::os
