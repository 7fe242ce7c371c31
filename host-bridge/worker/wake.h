// SPDX-License-Identifier: Apache-2.0
// wake.h: how a worker goes on with a client that has left another one (leave.h): it reads what that worker wrote,
// maps the client's extents, makes its objects again (replay.h), and loads the contents of its memory. What then comes
// next in the client's queue is the command that the other worker would have taken.
#pragma once
#include "base/failure.h"
#include "host-bridge/worker/births/code_store.h"
#include "host-bridge/worker/bridge_link.h"
#include "host-bridge/worker/replay.h"

namespace barcuda {

// In a session that has done nothing yet, and records births into `code`. A failure leaves a session that is of no use.
Failure wake(Session& session, CodeStore& code, BridgeLink::Parts& parts, CarryPlace& place, Carried& carried);

}  // namespace barcuda
