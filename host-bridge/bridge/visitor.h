// SPDX-License-Identifier: Apache-2.0
// visitor.h: the process that has connected to one of the bridge's sockets, as the kernel reports it. The modes of
// these sockets' files admit QEMU and operators; a worker is never admitted, neither this bridge's nor another's,
// whatever its user.
#pragma once
#include <sys/types.h>

#include <functional>
#include <string>

#include "base/message.h"

namespace barcuda {

struct Visitor {
    pid_t pid = -1;
    uid_t user = 0;
    File process;  // its pidfd: the number of an ended process may be reused
};
// The process at the other end of this socket. Without a process: it has ended, and is not known.
Visitor visitor_at(int socket);

// Whether a bridge has started it. (A worker can change its name, but not its parent.)
bool is_a_bridges(const Visitor& visitor);

}  // namespace barcuda
