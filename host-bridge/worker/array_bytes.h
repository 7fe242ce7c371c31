// SPDX-License-Identifier: Apache-2.0
// array_bytes.h: the contents of a client's arrays and mipmaps as a stream of bytes, and back, as memory_bytes.h does
// it for memory. An array lies in memory as the driver wants it, so its rows are copied, without gaps.
#pragma once
#include <span>
#include <string>

#include "base/failure.h"
#include "host-bridge/worker/memory_bytes.h"
#include "host-bridge/worker/session/session.h"

namespace barcuda {

// Why the contents of an array of the client are not read; empty: all can be.
std::string unreadable_array(Session& session);
// Each row of an array fits into `room`.
Failure save_arrays(Session& session, std::span<std::byte> room, const WriteBytes& write);
// Into the same arrays. A failure leaves them in an unknown state.
Failure load_arrays(Session& session, std::span<std::byte> room, const ReadBytes& read);

}  // namespace barcuda
