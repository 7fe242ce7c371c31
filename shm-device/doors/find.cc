// SPDX-License-Identifier: Apache-2.0
// find.cc: the path of a region that no caller has named.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "shm-device/doors/door.h"

namespace barcuda {

Error find_region(char* path, std::size_t bytes, const char* sys, const char* socket) {
    if (const char* named = secure_getenv("BARCUDA_REGION"); named && *named) {
        if (std::strlen(named) >= bytes) return error(Error::not_found, 0, "$BARCUDA_REGION is too long a path");
        std::snprintf(path, bytes, "%s", named);
        return {};
    }
    // Names are tried rather than listed, since opendir() allocates. 256: more UIO devices than any machine here has.
    for (unsigned i = 0; i < 256 && ::access(sys, F_OK) == 0; ++i) {
        char file[128], name[16];
        std::snprintf(file, sizeof file, "%s/uio%u/name", sys, i);
        if (!os::read_line(file, name, sizeof name) || std::strcmp(name, "barcuda") != 0) continue;
        std::snprintf(path, bytes, "/dev/uio%u", i);
        return {};
    }
    if (::access(socket, F_OK) == 0 && std::strlen(socket) < bytes) {
        std::snprintf(path, bytes, "%s", socket);
        return {};
    }
    return error(Error::not_found, 0,
                 "no region found: neither $BARCUDA_REGION, nor a UIO device named 'barcuda', nor %s; in a guest, load "
                 "uio_barcuda "
                 "or, with virtio-pmem, start barcuda-guest; without a VM, use 'barcuda run -- PROGRAM'",
                 socket);
}

}  // namespace barcuda
