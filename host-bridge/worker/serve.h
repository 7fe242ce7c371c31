// SPDX-License-Identifier: Apache-2.0
// serve.h: the loop of a worker: one command of its client after another. In between it answers requests for extents, looks for
// fences that the GPU has written, and sleeps when there is nothing of either.
#pragma once
#include <atomic>

#include "shm-device/layout.h"

namespace barcuda {

class ChannelReader;
class Session;
class Supply;
struct Sheet;

// Returns when the client has broken the protocol, which `status` says then. A client that has gone is the bridge's to notice: it
// kills the worker, or has it dismissed: then this returns 0 when nothing is left in the queue.
int serve(ChannelReader& reader, Session& session, Supply& supply, barcuda_status& status, Sheet& sheet);

inline std::atomic<bool> dismissed{false};

}  // namespace barcuda
