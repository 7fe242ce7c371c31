// SPDX-License-Identifier: Apache-2.0
// rehearsal.h: what a worker does once before it has a client. A driver puts much off until the first call of its kind,
// and so does this process; a program's first launch would pay for it.
#pragma once
#include "host-bridge/between/driver.h"

namespace barcuda {

// One fill, one copy, one event and one word that the GPU writes, in the default stream of the current context. They
// touch a page of this process alone, which is registered until they are done: afterwards nothing is left of them that
// a client sees, that counts against its limits, or that it would take along. What the driver refuses is left out: the
// client's own call will say why.
void rehearse(const Driver& driver);

}  // namespace barcuda
