// SPDX-License-Identifier: Apache-2.0
// visitor.h: who has connected to one of the bridge's sockets, as the kernel says. QEMU and operators are let in by the
// modes of these sockets' files; a worker never is, this bridge's or another's, whoever its user is.
#pragma once
#include <sys/types.h>

#include <functional>
#include <string>

#include "base/message.h"

namespace barcuda {

struct Visitor {
    pid_t pid = -1;
    uid_t user = 0;
    File process;  // its pidfd: the number of a process that has ended may be another's
};
// At the other end of this socket. Without a process: it has ended, and is not known.
Visitor visitor_at(int socket);

// Whether a bridge has started it. (What a worker is called the worker can change, its parent it cannot.)
bool is_a_bridges(const Visitor& visitor);

}  // namespace barcuda
