// SPDX-License-Identifier: Apache-2.0
// session_state.h: all that a worker alone knows of its client, taken out as plain numbers, for a worker that goes on
// in its place: the queue's place, which word of the channel does not tell; the numbers of requests and calls that
// were answered; the client's ids. Behind Session::quiet() nothing else is under way.
#pragma once
#include "host-bridge/worker/channel.h"
#include "host-bridge/worker/session/session.h"
#include "host-bridge/worker/supply.h"

namespace barcuda {

struct SessionState {
    ChannelReader::State queue;
    Supply::State supply;
    Session::State session;
    bool operator==(const SessionState&) const = default;
};

// The supply's clerk ends. None: the client is not quiet, and its worker serves on as before.
std::optional<SessionState> take_state(ChannelReader& reader, Supply& supply, Session& session);

}  // namespace barcuda
