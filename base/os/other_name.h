// SPDX-License-Identifier: Apache-2.0
// other_name.h: a function under another name, which the library exports. In C++ a function cannot be defined from its
// type alone, but it can be an ifunc: a name whose address is found when the library is loaded. So no prototype is
// typed, and a call costs what the function costs.
#pragma once

// `name`, of that type, is the function that this pointer means, whose text may have commas in it. The resolver runs
// while the library is being loaded, before any sanitizer is ready.
#define BARCUDA_OTHER_NAME(name, Type, ...)                                                                    \
    extern "C" __attribute__((no_sanitize("address", "undefined", "thread"))) Type* barcuda_resolve_##name() { \
        return __VA_ARGS__;                                                                                    \
    }                                                                                                          \
    extern "C" [[gnu::ifunc("barcuda_resolve_" #name), gnu::visibility("default")]] Type name;
