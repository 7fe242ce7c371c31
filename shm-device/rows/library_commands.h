// SPDX-License-Identifier: Apache-2.0
// library_commands.h: the rows of NVIDIA's math libraries, taken apart (commands.h). Apart from the driver's rows,
// because the libraries' headers are large, and few files need them.
#pragma once
#include <cublas_api.h>
#include <curand.h>

#include "shm-device/cuda/library_status.h"
#include "shm-device/kinds/library_kinds.h"
#include "shm-device/rows/commands.h"

namespace barcuda::kind {

#define X(name, way, traits, ...) \
    template <> struct RowOf<Op::name> : Row<decltype(::name), how::way __VA_OPT__(, ) __VA_ARGS__> {};
BARCUDA_LIBRARY_ROWS(X)
#undef X
// The twins with 64-bit sizes.
#define X(name, way, traits, ...) \
    template <> struct RowOf<Op::name> : Row<decltype(::name##_64), how::way __VA_OPT__(, ) __VA_ARGS__> {};
BARCUDA_LIBRARY_WIDE_ROWS(X)
#undef X

}  // namespace barcuda::kind
