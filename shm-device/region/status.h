// SPDX-License-Identifier: Apache-2.0
// status.h: how a channel's client is told that its session is over, by whichever process notices: the reason first,
// and last the word that ends its waits. (What a session that goes on tells it: Fences::end_command in
// host-bridge/worker/session/fences.cc.)
#pragma once
#include <cstdio>

#include "shm-device/layout.h"
#include "shm-device/queue/sync.h"

namespace barcuda {

// The first reason counts, since later ones follow from it. False: the session had ended already. `error`: a CUresult;
// 0: the client chooses one.
inline bool end_session(barcuda_status& status, barcuda_state state, int error, const char* why) {
    if (observe(status.state) > BARCUDA_STATE_READY) return false;
    std::snprintf(status.message, sizeof status.message, "%s", why);
    publish(status.fatal_error, error);                      // WORD
    publish(status.state, static_cast<barcuda_u32>(state));  // WORD
    return true;
}

}  // namespace barcuda
