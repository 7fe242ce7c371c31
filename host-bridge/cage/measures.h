// SPDX-License-Identifier: Apache-2.0
// measures.h: the table of measures, for the files of this folder.
#pragma once
#include "host-bridge/cage/cage.h"

namespace barcuda::cage {

struct Row {
    About about;
    bool (*take)(const Order& order, const std::string& library);  // false, with errno: not taken
    bool expected = true;  // of any kernel: where it is not to be had that is worth a warning
};
const Row& row(Measure measure);

// Where processes share memory by names.
constexpr auto shared_files = "/dev/shm";

// record.cc: 0, or -errno.
int record();

// No capability can be had by exec, from now on. False: with errno.
bool bound_capabilities();

// landlock.cc
bool restrict_files(const Order& order, const std::string& library);

}  // namespace barcuda::cage
