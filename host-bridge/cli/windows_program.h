// SPDX-License-Identifier: Apache-2.0
// windows_program.h: a program for Windows that Wine runs, with Barcuda's DLLs where it looks for NVIDIA's.
#pragma once
#include <string>

#include "base/cli/installation.h"

namespace barcuda::windows {

// Says what is missing to run one, and how to install it. Empty: nothing is missing.
std::string check(const Installation& here);
// Changes this process's environment: Wine finds the DLLs, and they find the region.
void put_in_front(const Installation& here, const std::string& region);

}  // namespace barcuda::windows
