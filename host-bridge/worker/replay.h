// SPDX-License-Identifier: Apache-2.0
// replay.h: makes the objects of a client again in the worker that goes on with it, from what they were born from
// (births/births.h). Each command is executed as if the client had sent it, and what it makes must be what it made
// before: the same ids, the same addresses, the same answers. A difference ends the attempt with a sentence; nothing is
// guessed. The worker is of no use then, and the client stays where it was.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "host-bridge/worker/births/births.h"
#include "host-bridge/worker/channel.h"
#include "host-bridge/worker/session/session.h"
#include "host-bridge/worker/supply.h"

namespace barcuda {

// All that a client takes along, but the bytes of its memory (memory_bytes.h).
struct Carried {
    ClientRows::State rows;
    std::vector<Birth> births;
    std::vector<std::uint64_t> recorded_events;  // ids of those that were recorded
    Session::State state;
    // Of the worker, beside its session (leave.h fills them in).
    ChannelReader::State queue;
    Supply::State supply;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> extents;  // offset and bytes of each
    bool operator==(const Carried&) const = default;
};

// Right behind Session::quiet(), which was true. Needs a client that can be carried (carriable.h).
Carried carry(Session& session);

// Until all memory of a client that shares cards is on them. A failure: the GPU does not take it back.
Failure wait_for_memory(const Driver& driver);
// In a session that has done nothing yet and records (Session::record_births), with the client's extents in place.
Failure replay(Session& session, const Carried& carried);

}  // namespace barcuda
