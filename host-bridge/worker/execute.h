// SPDX-License-Identifier: Apache-2.0
// execute.h: one command, from its copied bytes to its reply. The bytes given here are the host's own: the guest cannot
// touch them any more. read -> check -> call -> publish, parameter by parameter, as shm-device/kinds/kinds.h tells.
#pragma once
#include <cstddef>
#include <span>

#include "host-bridge/worker/session/session.h"
#include "shm-device/queue/packet.h"

namespace barcuda {

// One command, from its copied bytes to its end. `answered`: its result travels back in `reply`; that of a posted
// command the client finds in the status page.
Verdict perform(Session& host, const RequestHead& head, std::span<const std::byte> body, bool answered, Writer& reply);

}  // namespace barcuda
