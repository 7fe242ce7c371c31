// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/client/bell.h"

#include <atomic>

#include "base/os/barrier.h"

namespace barcuda::guest {
namespace {

// While this process has one thread still, which is when it costs nothing.
[[gnu::constructor]] void begin() { os::has_joined_barrier(); }

}  // namespace

void Bell::open(Door& door, const Channel& channel) noexcept {
    door_ = &door;
    channel_ = channel;
    door.choose_bell(channel.client().bell);
}

void Bell::kick() noexcept {
    std::atomic_ref(word(BARCUDA_KICKS_OFFSET)).fetch_add(1, std::memory_order_release);
    door_->ring(&word(BARCUDA_KICKS_OFFSET));
}

void Bell::kick_supply() noexcept { door_->ring(&word(BARCUDA_SUPPLY_OFFSET)); }

std::uint32_t Bell::seen() const noexcept { return door_->seen(word(BARCUDA_WAKES_OFFSET)); }

void Bell::sleep(std::uint32_t seen, std::uint64_t nanoseconds) noexcept {
    door_->await(word(BARCUDA_WAKES_OFFSET), seen, nanoseconds);
}

}  // namespace barcuda::guest
