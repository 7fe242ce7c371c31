// SPDX-License-Identifier: Apache-2.0
// status.h: how a channel's client is told that its session is over, by whoever notices: why first, and last the word
// that ends its waits. (What a session that goes on tells it: Fences::end_command in host-bridge/worker/fences.cc.)
#pragma once
#include <cstdio>

#include "shm-device/layout.h"
#include "shm-device/sync.h"

namespace barcuda {

// Whoever comes first is right: later reasons follow from his. False: somebody else was. `error`: a CUresult; 0: the
// client chooses one.
inline bool end_session(barcuda_status& status, barcuda_state state, int error, const char* why) {
    if (observe(status.state) > BARCUDA_STATE_READY) return false;
    std::snprintf(status.message, sizeof status.message, "%s", why);
    publish(status.fatal_error, error);                      // WORD
    publish(status.state, static_cast<barcuda_u32>(state));  // WORD
    return true;
}

}  // namespace barcuda
