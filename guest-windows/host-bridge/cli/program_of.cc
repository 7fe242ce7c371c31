// SPDX-License-Identifier: Apache-2.0
// program_of.cc: the program that a process runs.
#include <windows.h>

#include <array>

#include "host-bridge/cli/smi_properties.h"

namespace barcuda::smi {

std::string program_of(unsigned pid) {
    std::array<char, 4096> path{};
    DWORD length = path.size();
    const HANDLE process = OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, FALSE, pid);
    const bool known = process && QueryFullProcessImageNameA(process, 0, path.data(), &length);
    if (process) CloseHandle(process);
    return known ? nvml::printable({path.data(), length}) : "?";
}

}  // namespace barcuda::smi
