// SPDX-License-Identifier: Apache-2.0
// exports.h: exported functions that are rows of a table and nothing else. No prototype is typed (see other_name.h). A
// file says what it exports for a row, and names the table:
//
//   #define EXPORT(name) EXPORT_AS(name, decltype(::name), Stub<Op::name>::function)
//   BARCUDA_DRIVER_ROWS(EXPORT_ROW)
#pragma once
#include "base/os/other_name.h"

// `name`, of that type, is this function, whose name may have commas in it.
#define EXPORT_AS(name, Type, ...) BARCUDA_OTHER_NAME(name, Type, &__VA_ARGS__)

// Of the rows of shm-device/rows/commands.h those whose functions are not written by hand.
#define EXPORT_ROW(name, how, ...) EXPORT_ROW_##how(name)
#define EXPORT_ROW_call(name) EXPORT(name)
#define EXPORT_ROW_post(name) EXPORT(name)
#define EXPORT_ROW_inner_call(name)
#define EXPORT_ROW_inner_post(name)
#define EXPORT_ROW_guest(name)
