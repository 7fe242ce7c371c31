// SPDX-License-Identifier: Apache-2.0
// introduce.cc: what a client on Windows says of itself for the host to show.
#include <windows.h>

#include <cstdio>

#include "shm-device/region/region.h"

namespace barcuda {

void introduce(barcuda_client& client) {
    client.pid = os::this_process();
    std::snprintf(client.program, sizeof client.program, "%s", program_invocation_short_name);
    char name[sizeof client.user] = "";
    DWORD room = sizeof name;
    if (!GetUserNameA(name, &room)) name[0] = '\0';
    std::snprintf(client.user, sizeof client.user, "%s", name);
}

}  // namespace barcuda
