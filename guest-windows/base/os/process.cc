// SPDX-License-Identifier: Apache-2.0
#include "base/os/process.h"

#include <windows.h>

namespace barcuda {

// The bridge runs on another kernel, and neither sees the other's processes.
std::uint64_t start_time_of(std::uint32_t) { return 0; }
bool lives(std::uint32_t, std::uint64_t) { return false; }

namespace os {

std::uint32_t this_process() noexcept { return GetCurrentProcessId(); }
unsigned this_user() noexcept { return 0; }
int processors() noexcept {
    DWORD_PTR mine = 0, all = 0;
    if (!GetProcessAffinityMask(GetCurrentProcess(), &mine, &all) || !mine) return 1;
    return __builtin_popcountll(mine);
}

}  // namespace os
}  // namespace barcuda
