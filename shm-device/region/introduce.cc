// SPDX-License-Identifier: Apache-2.0
// introduce.cc: what a client says of itself for the host to show: its pid, its program's name, whose process it is.
// Maybe in a malloc of the program's: nothing is allocated, and neither stdio nor the name service, which may load
// libraries, is touched.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "shm-device/region/region.h"

namespace barcuda {
namespace {

// A line of /etc/passwd: name:password:number:...
bool is_of(const char* line, unsigned user, char* name, std::size_t room) {
    const char* const end = std::strchr(line, ':');
    const char* const number = end ? std::strchr(end + 1, ':') : nullptr;
    char* behind = nullptr;
    if (!number || end == line || std::strtoul(number + 1, &behind, 10) != user || behind == number + 1 ||
        *behind != ':')
        return false;
    std::snprintf(name, room, "%.*s", static_cast<int>(end - line), line);
    return true;
}

void name_user(unsigned user, char* name, std::size_t room) {
    std::snprintf(name, room, "%u", user);
    const int file = ::open("/etc/passwd", O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    char piece[4096], line[256];  // what is longer ends in something else than a name
    std::size_t length = 0;
    bool found = false;
    for (ssize_t n; !found && (n = ::read(file, piece, sizeof piece)) > 0;)
        for (ssize_t i = 0; i < n && !found; ++i) {
            if (piece[i] != '\n') {
                if (length < sizeof line - 1) line[length++] = piece[i];
                continue;
            }
            line[length] = '\0';
            length = 0;
            found = is_of(line, user, name, room);
        }
    ::close(file);
}

}  // namespace

void introduce(barcuda_client& client) {
    client.pid = static_cast<barcuda_u32>(::getpid());
    std::snprintf(client.program, sizeof client.program, "%s", program_invocation_short_name);
    name_user(::geteuid(), client.user, sizeof client.user);
}

}  // namespace barcuda
