// SPDX-License-Identifier: Apache-2.0
// execute.h: one command, from its copied bytes to its reply. The bytes are the host's own copy, which the guest cannot
// touch. Each parameter is read, checked, passed to the call and published, as shm-device/kinds/kinds.h describes.
#pragma once
#include <cstddef>
#include <span>

#include "host-bridge/worker/session/session.h"
#include "shm-device/queue/packet.h"

namespace barcuda {

// Executes one command. `answered`: its result travels back in `reply`; the client finds that of a posted command in
// the status page.
Verdict perform(Session& host, const RequestHead& head, std::span<const std::byte> body, bool answered, Writer& reply);

}  // namespace barcuda
