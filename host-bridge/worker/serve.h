// SPDX-License-Identifier: Apache-2.0
// serve.h: the loop of a worker: one command of its client after another. In between it answers requests for extents
// and looks for fences that the GPU has written. If there is nothing to do, it sleeps.
#pragma once
#include <atomic>

#include "shm-device/layout.h"

namespace barcuda {

class ChannelReader;
class Leave;
class Residence;
class Session;
class Supply;
struct Sheet;

// Returns when the client has broken the protocol, and says so in `status`. If the client ends, the bridge notices: it
// kills the worker, or dismisses it, and then this returns 0 when the queue is empty.
// `leave`: how the client is carried to another worker. `residence`: of a client that shares cards; null: it shares
// none.
int serve(ChannelReader& reader, Session& session, Supply& supply, barcuda_status& status, Sheet& sheet, Leave& leave,
          Residence* residence = nullptr);

inline std::atomic<bool> dismissed{false};

}  // namespace barcuda
