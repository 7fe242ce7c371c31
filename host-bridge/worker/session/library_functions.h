// SPDX-License-Identifier: Apache-2.0
// library_functions.h: the functions of NVIDIA's math libraries, one member for each that has a row. Null: the host
// lacks the library or has an old one, or no client has used it yet (libraries.h).
#pragma once
#include "shm-device/rows/library_commands.h"

namespace barcuda {

struct LibraryFunctions {
#define X(name, ...) decltype(&::name) name = nullptr;
    BARCUDA_LIBRARY_ROWS(X)
#undef X
#define X(name, ...) decltype(&::name##_64) name = nullptr;
    BARCUDA_LIBRARY_WIDE_ROWS(X)
#undef X
};

}  // namespace barcuda
