// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/client/crowd.h"

#include <iterator>
#include <mutex>
#include <new>

#include "base/os/futex.h"
#include "base/os/map.h"
#include "shm-device/queue/sync.h"

namespace barcuda::guest {

void Crowd::wake(Place& place) noexcept {
    futex_wake(reinterpret_cast<const std::uint32_t&>(place.state), Among::threads);
}

void Crowd::link(Place& place) noexcept {
    place.before = last_;
    place.next = nullptr;
    (last_ ? last_->next : first_) = &place;
    last_ = &place;
    place.looks_seen = looks_.load(std::memory_order_relaxed);
    asleep_.fetch_add(1, std::memory_order_relaxed);
}
void Crowd::unlink(Place& place) noexcept {
    (place.before ? place.before->next : first_) = place.next;
    (place.next ? place.next->before : last_) = place.before;
    asleep_.fetch_sub(1, std::memory_order_relaxed);
}

void Crowd::lead(Place& place) noexcept {
    leader_ = &place;
    ++awake_;
    place.state.store(Place::leads, std::memory_order_release);
}

void Crowd::take_role(Place& place) noexcept {
    if (!leader_) return lead(place);
    if (awake_ < most_awake_) {
        ++awake_;
        return place.state.store(Place::looks, std::memory_order_release);
    }
    place.state.store(Place::asleep, std::memory_order_release);
    link(place);
}

Crowd::Place* Crowd::join(const Until& until) noexcept {
    constexpr std::size_t bytes = 4096;  // no malloc: one may be waiting here
    std::lock_guard lock(mutex_);
    if (!free_) {
        void* page = nullptr;
        if (os::map_memory(bytes, os::Access::write, &page) != 0) return nullptr;
        for (std::size_t i = 0; i < bytes / sizeof(Place); ++i) {
            Place* const p = new (static_cast<Place*>(page) + i) Place;
            p->next = free_;
            free_ = p;
        }
    }
    Place* const place = free_;
    free_ = place->next;
    place->until = until;
    take_role(*place);
    return place;
}

void Crowd::join_again(Place& place) noexcept {
    std::lock_guard lock(mutex_);
    if (place.is_called()) take_role(place);
}

// The first one whose turn has come.
Crowd::Place* Crowd::take_next() noexcept {
    for (Place* p = first_; p; p = p->next)
        if (p->until.in_turn && observe(*p->until.word) >= p->until.value) {
            unlink(*p);
            p->state.store(Place::called, std::memory_order_release);
            return p;
        }
    return nullptr;
}

void Crowd::leave(Place& place) noexcept {
    Place *next_leader = nullptr, *next = nullptr;
    {
        std::lock_guard lock(mutex_);
        const std::uint32_t state = place.state.load(std::memory_order_relaxed);
        if (state == Place::asleep) unlink(place);
        if (state >= Place::looks) --awake_;
        if (leader_ == &place) {
            leader_ = nullptr;
            if ((next_leader = first_)) {
                unlink(*next_leader);
                lead(*next_leader);
            }
        }
        if (place.until.in_turn) next = take_next();
        place.next = free_;
        free_ = &place;
    }
    // Without the lock, which those threads take next. Another thread may have got such a place meanwhile, and looks
    // once too often.
    if (next_leader) wake(*next_leader);
    if (next) wake(*next);
}

void Crowd::call_next() noexcept {
    Place* next;
    if (std::lock_guard lock(mutex_); true) next = take_next();
    if (next) wake(*next);
}

bool Crowd::sleep(Place& place, std::uint64_t nanoseconds) noexcept {
    const auto& word = reinterpret_cast<const std::uint32_t&>(place.state);
    if (futex_wait(word, Place::asleep, nanoseconds, Among::threads)) return true;
    std::lock_guard lock(mutex_);
    if (place.state.load(std::memory_order_relaxed) != Place::asleep) return true;
    const std::uint64_t looks = looks_.load(std::memory_order_relaxed);
    if (looks == place.looks_seen) {  // the leader is gone, or is stopped
        unlink(place);
        lead(place);
    }
    place.looks_seen = looks;
    return false;
}

void Crowd::look(const Place& place) noexcept {
    if (place.state.load(std::memory_order_relaxed) != Place::leads) return;
    looks_.fetch_add(1, std::memory_order_relaxed);
    while (asleep_.load(std::memory_order_relaxed) != 0) {
        Place* some[64];
        std::size_t count = 0;
        {
            std::lock_guard lock(mutex_);
            bool one = false;
            for (Place *p = first_, *next; p && count < std::size(some); p = next) {
                next = p->next;
                if (observe(*p->until.word) < p->until.value || (p->until.in_turn && one)) continue;
                one = one || p->until.in_turn;
                unlink(*p);
                p->state.store(Place::called, std::memory_order_release);
                some[count++] = p;
            }
        }
        for (std::size_t i = 0; i < count; ++i) wake(*some[i]);
        if (count < std::size(some)) return;
    }
}

}  // namespace barcuda::guest
