// SPDX-License-Identifier: Apache-2.0
// state.h: all records of managed memory, and their lock.
#pragma once
#include "guest-allocator/client/mutex.h"
#include "guest-allocator/client/observer.h"
#include "guest-allocator/driver/managed/state/allocations.h"
#include "guest-allocator/driver/managed/state/epochs.h"
#include "guest-allocator/driver/managed/state/gates.h"
#include "guest-allocator/driver/managed/state/ranges.h"

namespace barcuda::guest::managed {

struct State {
    Mutex mutex;  // of all that follows, except what gates.h says needs no lock
    Gates<Threads> gates{fast_path};
    Calls<Threads> calls;
    Ranges ranges;
    Allocations allocations;
    Epochs epochs;
};
State& state() noexcept;

}  // namespace barcuda::guest::managed
