// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/driver/managed/state/state.h"

namespace barcuda::guest::managed {

constinit std::atomic<std::uint64_t> fast_path{no_memory};

State& state() noexcept {
    static auto& all = *new State;  // never destroyed: programs touch managed memory in static destructors
    return all;
}

}  // namespace barcuda::guest::managed
