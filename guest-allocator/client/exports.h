// SPDX-License-Identifier: Apache-2.0
// exports.h: exported functions that are rows of a table and nothing else. In C++ a function cannot be defined from its
// type alone, but it can be an ifunc: a name whose address is found when the library is loaded. So no prototype is
// typed. A file says what it exports for a row, and names the table:
//
//   #define EXPORT(name) EXPORT_AS(name, decltype(::name), Stub<Op::name>::function)
//   BARCUDA_DRIVER_ROWS(EXPORT_ROW)
#pragma once

// `name`, of that type, is this function, whose name may have commas in it. The resolver runs while the library is
// being loaded, before any sanitizer is ready.
#define EXPORT_AS(name, Type, ...)                                                                             \
    extern "C" __attribute__((no_sanitize("address", "undefined", "thread"))) Type* barcuda_resolve_##name() { \
        return &__VA_ARGS__;                                                                                   \
    }                                                                                                          \
    extern "C" [[gnu::ifunc("barcuda_resolve_" #name), gnu::visibility("default")]] Type name;

// Of the rows of shm-device/rows/commands.h those whose functions are not written by hand.
#define EXPORT_ROW(name, how, ...) EXPORT_ROW_##how(name)
#define EXPORT_ROW_call(name) EXPORT(name)
#define EXPORT_ROW_post(name) EXPORT(name)
#define EXPORT_ROW_inner_call(name)
#define EXPORT_ROW_inner_post(name)
#define EXPORT_ROW_guest(name)
