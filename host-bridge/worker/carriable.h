// SPDX-License-Identifier: Apache-2.0
// carriable.h: whether a client can be carried to another worker, and what stands in the way: each thing by its name,
// with what its user can do about it. The rules of the rows (births/rules.h) say it of objects; the rest is here.
#pragma once
#include <string>
#include <vector>

#include "host-bridge/worker/session/session.h"

namespace barcuda {

struct Hindrance {
    std::string what, cure;
    bool operator==(const Hindrance&) const = default;
};

// Nothing: the client can be carried as it is now. Between two commands, when the GPU is idle. Variables of its code
// that the client has never asked for are named, so that their contents are carried.
std::vector<Hindrance> hindrances(Session& session);

}  // namespace barcuda
