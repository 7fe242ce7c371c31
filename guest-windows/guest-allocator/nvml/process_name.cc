// SPDX-License-Identifier: Apache-2.0
// process_name.cc: the name of a process of this guest; as natively, the program's name with its path.
#include <windows.h>

#include <cstdio>

#include "guest-allocator/nvml/library.h"

using namespace barcuda::guest::nvml;

NVML nvmlSystemGetProcessName(unsigned pid, char* name, unsigned room) {
    if (Status s = ready(); s != success) return s;
    if (!name || room == 0) return invalid_argument;
    const HANDLE process = OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, FALSE, pid);
    if (!process) return not_found;
    char path[4096];
    DWORD length = sizeof path;
    const bool known = QueryFullProcessImageNameA(process, 0, path, &length);
    CloseHandle(process);
    if (!known) return not_found;
    std::snprintf(name, room, "%s", path);
    return std::strlen(path) < room ? success : insufficient_size;
}
