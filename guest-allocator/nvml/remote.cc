// SPDX-License-Identifier: Apache-2.0
// remote.cc: the functions that the host has answered, derived from the table, and those that are refused.
#include "guest-allocator/client/exports.h"
#include "guest-allocator/nvml/library.h"

using namespace barcuda::guest::nvml;

#define X(name, ...) EXPORT_AS(name, Function<Question::name>, Ask<Question::name>::function)
BARCUDA_NVML_ROWS(X)
#undef X

#define X(name)                                               \
    NVML name() {                                             \
        const Status s = ready();                             \
        return note(#name, s == success ? no_permission : s); \
    }
BARCUDA_NVML_WRITES(X)
#undef X

#define X(name)                                               \
    NVML name() {                                             \
        const Status s = ready();                             \
        return note(#name, s == success ? not_supported : s); \
    }
BARCUDA_NVML_REFUSED(X)
#undef X
