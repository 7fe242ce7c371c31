// SPDX-License-Identifier: Apache-2.0
// process.h: processes as their kernel knows them, and the processors of this one.
#pragma once
#include <cstdint>

namespace barcuda {

// When a process began, in clock ticks since boot (pid 0: this one); 0: there is none. A pid alone may have been
// reused.
std::uint64_t start_time_of(std::uint32_t pid);
// Whether the process that began at that time still runs.
bool lives(std::uint32_t pid, std::uint64_t start_time);

namespace os {

std::uint32_t this_process() noexcept;
unsigned this_user() noexcept;  // the user of this process
// The processors on which this thread may run; 1 if the kernel does not say.
int processors() noexcept;

}  // namespace os
}  // namespace barcuda
