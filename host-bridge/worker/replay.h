// SPDX-License-Identifier: Apache-2.0
// replay.h: makes the objects of a client again in the worker that goes on with it, from what they were born from
// (births/births.h). Each command is executed as if the client had sent it, and what it makes must be what it made
// before: the same ids, the same addresses, the same answers. A difference ends the attempt with a sentence; nothing is
// guessed. The worker is of no use then, and the client stays where it was.
#pragma once
#include <span>

#include "base/failure.h"
#include "host-bridge/worker/births/births.h"
#include "host-bridge/worker/session/session.h"

namespace barcuda {

// All that a client takes along, but the bytes of its memory (memory_bytes.h).
struct Carried {
    std::vector<Birth> births;
    std::vector<std::uint64_t> recorded_events;  // ids of those that were recorded
    Session::State state;
    bool operator==(const Carried&) const = default;
};

// Right behind Session::quiet(), which was true. Needs a client that can be carried (carriable.h).
Carried carry(Session& session);

// In a session that has done nothing yet and records (Session::record_births), with the client's extents in place.
Failure replay(Session& session, const Carried& carried);

}  // namespace barcuda
