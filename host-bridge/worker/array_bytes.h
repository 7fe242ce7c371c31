// SPDX-License-Identifier: Apache-2.0
// array_bytes.h: the contents of a client's arrays and mipmaps in frames, and back, as memory_bytes.h does it for
// memory. An array lies in memory as the driver wants it, so its rows are copied, without gaps.
#pragma once
#include <string>
#include <vector>

#include "base/failure.h"
#include "host-bridge/worker/memory_bytes.h"
#include "host-bridge/worker/session/session.h"

namespace barcuda {

// Why the contents of an array of the client are not read; empty: all can be.
std::string unreadable_array(Session& session);
std::vector<Contents> contents_of_arrays(Session& session);
// Each row of an array fits into a frame.
Failure save_arrays(Session& session, OutFrames& to);
// Into the same arrays. A failure leaves them in an unknown state.
Failure load_arrays(Session& session, InFrames& from);

}  // namespace barcuda
