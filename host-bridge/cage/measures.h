// SPDX-License-Identifier: Apache-2.0
// measures.h: the table of measures, for the files of this folder.
#pragma once
#include "host-bridge/cage/cage.h"

namespace barcuda::cage {

struct Row {
    About about;
    bool (*take)(const Order& order, const std::string& library);  // false: not taken, and errno says why
    bool expected = true;  // every kernel has it: if it is not available, that is worth a warning
};
const Row& row(Measure measure);

// Where processes share memory by name.
constexpr auto shared_files = "/dev/shm";

// record.cc: 0, or -errno.
int record();

// From now on exec gives no capability. False: errno says why.
bool bound_capabilities();

// landlock.cc
bool restrict_files(const Order& order, const std::string& library);

}  // namespace barcuda::cage
