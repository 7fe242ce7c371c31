// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/client/bell.h"

#include <algorithm>

#include "base/futex.h"
#include "shm-device/queue/sync.h"
#include "shm-device/queue/wait.h"

namespace barcuda::guest {
namespace {

constexpr std::uint64_t unwoken_nap = 1'000'000;  // ns: the nap of a thread that nobody can wake

bool takes_part() noexcept {
    static const bool yes = Smp::take_part();
    return yes;
}
// While this process has one thread still, which is when it costs nothing.
[[gnu::constructor]] void begin() { takes_part(); }

}  // namespace

void Bell::open(const Region& region, const Channel& channel) noexcept {
    region_ = &region;
    channel_ = channel;
    if (region.kind() == Region::Kind::file && takes_part()) kind_ = BARCUDA_BELL_FUTEX;
    else if (region.ring()) kind_ = BARCUDA_BELL_DOORBELL;
    publish(channel.client().bell, static_cast<std::uint32_t>(kind_));  // WORD
    if (region.kind() == Region::Kind::file) region.knock();            // a doorbell has rung
}

void Bell::kick() noexcept {
    std::atomic_ref(word(BARCUDA_KICKS_OFFSET)).fetch_add(1, std::memory_order_release);
    if (kind_ == BARCUDA_BELL_FUTEX) futex_wake(word(BARCUDA_KICKS_OFFSET), Among::processes);
    else if (kind_ == BARCUDA_BELL_DOORBELL) region_->ring();
}

void Bell::kick_supply() noexcept {
    if (kind_ == BARCUDA_BELL_FUTEX) futex_wake(word(BARCUDA_SUPPLY_OFFSET), Among::processes);
    else if (kind_ == BARCUDA_BELL_DOORBELL) region_->ring();
}

std::uint32_t Bell::seen() const noexcept {
    return kind_ == BARCUDA_BELL_DOORBELL ? heard_.load(std::memory_order_acquire)
                                          : observe(word(BARCUDA_WAKES_OFFSET));
}

// An interrupt is counted until it is read, so none is missed between a thread's look and its sleep. One thread reads;
// when it goes it wakes the others, and one of them takes its place.
void Bell::sleep(std::uint32_t seen, std::uint64_t nanoseconds) noexcept {
    if (kind_ == BARCUDA_BELL_FUTEX) {
        futex_wait(word(BARCUDA_WAKES_OFFSET), seen, nanoseconds, Among::processes);
    } else if (kind_ == BARCUDA_BELL_NONE) {
        Os::nap(std::min(nanoseconds, unwoken_nap));
    } else if (std::unique_lock lock(listening_, std::try_to_lock); lock) {
        const bool lives = region_->await_ring(nanoseconds);
        lock.unlock();
        heard_.fetch_add(1, std::memory_order_release);
        futex_wake(reinterpret_cast<std::uint32_t&>(heard_), Among::threads);
        if (!lives) Os::nap(unwoken_nap);  // the program has closed the device
    } else {
        futex_wait(reinterpret_cast<std::uint32_t&>(heard_), seen, nanoseconds, Among::threads);
    }
}

}  // namespace barcuda::guest
