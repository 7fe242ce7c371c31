// SPDX-License-Identifier: Apache-2.0
// symbols.h: the functions of this library by name, and whose code calls it, as the loader knows them.
#pragma once

namespace barcuda::guest {

// What programs find in this library under this name. Null: nothing, or a function that only says that it is not there
// (exports/unsupported.sh).
void* exported(const char* name) noexcept;
// The file that has this code in it; null: it is not known.
const char* file_of(const void* code) noexcept;

}  // namespace barcuda::guest
