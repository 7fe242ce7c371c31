// SPDX-License-Identifier: Apache-2.0
// find.cc: the path of a region that no caller has named: on Windows the first ivshmem device that is free
// (open.cc).
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "shm-device/doors/door.h"

namespace barcuda {

Error find_region(char* path, std::size_t bytes, const char*, const char*) {
    const char* named = std::getenv("BARCUDA_REGION");
    if (!named || !*named) named = "ivshmem";
    if (std::strlen(named) >= bytes) return error(Error::not_found, 0, "%%BARCUDA_REGION%% is too long a path");
    std::snprintf(path, bytes, "%s", named);
    return {};
}

}  // namespace barcuda
