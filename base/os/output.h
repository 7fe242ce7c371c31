// SPDX-License-Identifier: Apache-2.0
// output.h: messages of the library on its program's standard error: one line in one write, without stdio, which the
// program may be using, or which may be the caller.
#pragma once
#include <cstddef>

namespace barcuda::os {

// Does not change errno.
void write_error(const char* text, std::size_t bytes) noexcept;

}  // namespace barcuda::os
