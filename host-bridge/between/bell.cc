// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/between/bell.h"

#include <unistd.h>

#include <algorithm>

#include "base/os/futex.h"
#include "shm-device/queue/sync.h"
#include "shm-device/queue/wait.h"

namespace barcuda {
namespace {
constexpr std::uint64_t unkicked_nap = 5'000'000;  // ns: 200 looks a second cost half a percent of a processor
}  // namespace

Bell::Bell(const Channel& channel, int doorbell) : channel_(channel), doorbell_(doorbell), fences_(Smp::fence_all()) {}

std::uint32_t Bell::kicks() const { return channel_ ? observe(word(BARCUDA_KICKS_OFFSET)) : 0; }

bool Bell::sleep(std::uint32_t seen, std::uint64_t nanoseconds) const {
    if (kicked() && !deaf_) return futex_wait(word(BARCUDA_KICKS_OFFSET), seen, nanoseconds, Among::processes);
    Os::nap(std::min(nanoseconds, unkicked_nap));
    return true;
}

bool Bell::kicked() const {
    if (!channel_) return false;
    const std::uint32_t bell = observe(channel_.client().bell);
    return (bell == BARCUDA_BELL_FUTEX && fences_) || (bell == BARCUDA_BELL_DOORBELL && doorbell_ >= 0);
}

void Bell::wake() const {
    if (!channel_ || !virtqueue::wants_wake(virtqueue::in_channel(channel_.memory))) return;
    std::atomic_ref(word(BARCUDA_WAKES_OFFSET)).fetch_add(1, std::memory_order_release);
    const std::uint32_t bell = observe(channel_.client().bell);
    if (bell == BARCUDA_BELL_FUTEX) futex_wake(word(BARCUDA_WAKES_OFFSET), Among::processes);
    if (bell != BARCUDA_BELL_DOORBELL || doorbell_ < 0) return;
    const std::uint64_t once = 1;
    if (::write(doorbell_, &once, sizeof once) < 0) return;  // full: an interrupt is on its way
}

bool Bell::is_awaited() const { return channel_ && virtqueue::sleeps(virtqueue::in_channel(channel_.memory)); }

void Bell::relay() const {
    futex_wake(word(BARCUDA_KICKS_OFFSET), Among::processes);
    futex_wake(word(BARCUDA_SUPPLY_OFFSET), Among::processes);
}

}  // namespace barcuda
