// SPDX-License-Identifier: Apache-2.0
// liars.h: the ways in which a hostile client behaves. Each call is one session, from its opening to its end.
#pragma once
#include <string>

#include "tests/hostile/session.h"
#include "tests/hostile/tally.h"

namespace barcuda::hostile {

struct Behaviour {
    std::string region;
    unsigned patience = 3;  // seconds
    double lies = 2;        // percent of the commands
    std::uint64_t session_commands = 5000;
    std::vector<Op> only;  // rows; none: all
    bool flips = false;
};

bool done(const Tally& tally);

// Commands made from the table. With `flips`, a second thread changes their bytes while the worker reads them.
End structured(const Behaviour& behaviour, Tally& tally, std::uint64_t seed);
// The queue, the bells and the supply of extents, used as no library would.
End ring(const Behaviour& behaviour, Tally& tally, std::uint64_t seed);
// As much of one thing as there is.
End eat(const Behaviour& behaviour, Tally& tally, std::uint64_t seed);

// How a session has ended; of a dead worker it is said.
End end_of(const Session& session);

}  // namespace barcuda::hostile
