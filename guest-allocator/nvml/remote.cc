// SPDX-License-Identifier: Apache-2.0
// remote.cc: the functions that the host has answered, derived from the table, and those that are refused. (An exported
// function cannot be defined from its type alone in C++: guest-allocator/driver/remote.cc says how it is done.)
#include "guest-allocator/nvml/library.h"

// It runs while the library is being loaded, before any sanitizer is ready.
#define RESOLVER extern "C" __attribute__((no_sanitize("address", "undefined", "thread")))

using namespace barcuda::guest::nvml;

#define X(name, ...)                                                                                      \
    RESOLVER Function<Question::name>* barcuda_resolve_##name() { return Ask<Question::name>::function; } \
    extern "C" [[gnu::ifunc("barcuda_resolve_" #name), gnu::visibility("default")]] Function<Question::name> name;
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
