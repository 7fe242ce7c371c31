// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/pausing.h"

#include <cuda.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/field.h"
#include "host-bridge/between/limits.h"
#include "shm-device/queue/sync.h"

namespace barcuda {
namespace {

using namespace std::chrono_literals;

// A worker that has not answered by then never will: a driver took up to 5.3 s for 8 GiB, and 0.5 s for nothing.
constexpr auto grace = 20s, for_each_gibibyte = 3s;
std::chrono::seconds driver_takes(std::uint64_t bytes) {
    return grace + for_each_gibibyte * (std::min<std::uint64_t>(bytes >> 30, 1024) + 1);
}
// Added to the time that the GPU's work may take: a worker that has not begun by then is inside a call of its driver.
constexpr auto begins_within = 1s;
// Clients that share a card, and are idle, give a part of it within that time, if they do at all.
constexpr auto others_give_within = 10s;

// Refusals of the driver's that are about the machine (MIG, MPS, an old driver), and not about the moment.
bool is_for_good(Obstacle obstacle, std::int32_t result) {
    return obstacle == Obstacle::no_checkpoint || result == CUDA_ERROR_NOT_SUPPORTED;
}

std::uint64_t plus(std::uint64_t a, std::uint64_t b) {
    return b > ~a ? ~std::uint64_t{0} : a + b;
}  // a worker may report any number

std::string text(std::uint64_t bytes) { return about(Limit::device_memory).text(bytes); }

}  // namespace

std::uint64_t Pausing::One::bytes() const {
    return std::accumulate(memory.begin(), memory.end(), std::uint64_t{0},
                           [](std::uint64_t sum, const auto& its) { return plus(sum, its.second); });
}

const Pausing::One* Pausing::find(std::uint32_t slot) const {
    const auto found = all_.find(slot);
    return found == all_.end() ? nullptr : &found->second;
}

void Pausing::give(std::uint32_t slot, One& one, Paused wanted, std::chrono::milliseconds within,
                   Clock::time_point now) {
    one.wanted = wanted;
    one.pending = true;
    one.refusal = {};
    one.within = within;
    one.deadline = now + within + driver_takes(one.bytes());
    ++one.order;
    write_down(slot, one);
    tell(one);
}

void Pausing::tell(const One& one) {
    publish(one.orders->wanted, static_cast<std::uint32_t>(one.wanted));
    publish(one.orders->within, static_cast<std::uint32_t>(one.within.count()));
    publish(one.orders->order, one.order);
}

void Pausing::write_down(std::uint32_t slot, const One& one) const {
    if (books_.empty()) return;
    KeptPause kept{};
    kept.known = 1;
    kept.order = one.order;
    kept.within = static_cast<std::uint32_t>(one.within.count());
    kept.wanted = one.wanted;
    kept.state = one.state;
    kept.pending = one.pending;
    kept.wants_back = one.wants_back;
    kept.parked = one.parked;
    kept.deadline = one.deadline.time_since_epoch().count();
    kept.since = one.since.time_since_epoch().count();
    for (const auto& [device, bytes] : one.memory) {
        if (kept.memory_count == std::size(kept.memory)) break;
        kept.devices[kept.memory_count] = device;
        kept.memory[kept.memory_count++] = bytes;
    }
    put(kept.refusal, one.refusal.text());
    books_[slot].set(kept);
}

// An order that is told twice has the same number: its worker does it once.
void Pausing::restore(std::uint32_t slot, Orders& orders, Clock::time_point now) {
    if (books_.empty() || !books_[slot].get().known) return;
    const KeptPause& kept = books_[slot].get();
    One& one = all_[slot];
    one.orders = &orders;
    one.order = kept.order;
    one.within = std::chrono::milliseconds(kept.within);
    one.wanted = kept.wanted;
    one.state = kept.state;
    one.pending = kept.pending;
    one.wants_back = kept.wants_back;
    one.parked = kept.parked;
    one.deadline = Clock::time_point(Clock::duration(kept.deadline));
    one.since = Clock::time_point(Clock::duration(kept.since));
    one.wanted_since = one.asked = now;
    for (std::uint32_t i = 0; i < kept.memory_count; ++i) one.memory.emplace_back(kept.devices[i], kept.memory[i]);
    one.refusal = kept.refusal;
    tell(one);
}

KeptPause Pausing::ordered_again(KeptPause kept, Clock::time_point now) {
    constexpr auto very_long = 24h;  // what comes before it is no work of the GPU's
    kept.wanted = Paused::held;
    kept.state = Paused::running;
    kept.pending = 1;
    kept.wants_back = 0;
    kept.within = 10'000;
    kept.deadline = (now + very_long).time_since_epoch().count();
    kept.since = 0;
    kept.memory_count = 0;
    kept.refusal[0] = 0;
    return kept;
}

void Pausing::forget(std::uint32_t slot) {
    all_.erase(slot);
    if (!books_.empty() && books_[slot].get().known) books_[slot].set({});
}

Failure Pausing::pause(std::uint32_t slot, Orders& orders, std::uint32_t channel, const Facts& facts,
                       const Terms& terms, Clock::time_point now) {
    One& one = all_[slot];
    one.orders = &orders;
    const auto refuse = [&](Failure why) { return one.refusal = std::move(why); };
    if (one.pending || one.wants_back) return "its state is changing already: try again when that is done";
    const Paused wanted = terms.keep_memory ? Paused::held : Paused::away;
    if (terms.keep_memory && one.parked && one.state == Paused::away) {  // what is not on the GPU cannot be kept there
        want_back(slot, one, now);
        one.then_held = terms.within;
        one.back_until = now + std::max<std::chrono::milliseconds>(terms.within, others_give_within);
        return {};
    }
    if (one.state == wanted || one.state == Paused::away) {
        one.refusal = {};
        if (std::exchange(one.parked, false)) write_down(slot, one);
        return {};
    }
    if (!terms.keep_memory) {
        constexpr const char* instead = "; --keep-memory holds the client, and leaves its memory on the GPU";
        if (one.never_away) return refuse(one.never_away);
        if (facts.wrapped) return refuse(fmt::format("its worker runs in a wrapper (--worker-wrapper){}", instead));
        if (facts.shares_with == channel)
            return refuse(fmt::format("other processes may open memory, a pool or an event of it{}", instead));
        if (facts.shares_with >= 0)
            return refuse(fmt::format("it shares memory, a pool or an event with the client of channel {}{}",
                                      facts.shares_with, instead));
        one.memory = facts.memory;
        if (const std::uint64_t before = away_bytes(), needs = one.bytes();
            terms.limit != 0 && plus(before, needs) > terms.limit) {
            one.memory.clear();
            return refuse(
                fmt::format("it has {} on the GPU, {} of paused clients are on the host, and the limit "
                            "guest-paused-memory is {}{}",
                            text(needs), text(before), text(terms.limit), instead));
        }
    }
    one.parked = terms.parks;
    give(slot, one, wanted, terms.within, now);
    return {};
}

Failure Pausing::resume(std::uint32_t slot, Clock::time_point now) {
    const auto found = all_.find(slot);
    if (found == all_.end()) return {};
    One& one = found->second;
    one.then_held.reset();
    if (one.pending) return "its state is changing already: try again when that is done";
    if (one.state == Paused::running || one.parked) {
        one.refusal = {};  // that of an earlier pause
        return {};
    }
    if (!one.wants_back) want_back(slot, one, now);
    return {};
}

void Pausing::unpark(std::uint32_t slot, Clock::time_point now) {
    const auto found = all_.find(slot);
    if (found == all_.end()) return;
    One& one = found->second;
    if (one.parked && one.state == Paused::away && !one.pending && !one.wants_back) want_back(slot, one, now);
}

void Pausing::want_back(std::uint32_t slot, One& one, Clock::time_point now) {
    one.wants_back = true;
    one.wanted_since = one.asked = now;
    one.claimed = false;
    one.refusal = {};
    write_down(slot, one);
}

std::optional<Pausing::News> Pausing::answered(std::uint32_t slot, One& one, Clock::time_point now) {
    if (observe(one.orders->done) != one.order) {
        const bool begun = observe(one.orders->is) != static_cast<std::uint32_t>(Paused::running);
        if (!begun && one.wanted != Paused::running && now > one.deadline - driver_takes(one.bytes()) + begins_within) {
            give(slot, one, Paused::running, {}, now);  // whenever the worker comes to it
            one.pending = false;
            one.parked = false;
            one.memory.clear();
            one.refusal =
                "its worker is inside a call of the driver that did not end within the time (code is compiled, for "
                "instance): give more with --within";
            return News{News::refused, slot, one.refusal.text()};
        }
        if (now <= one.deadline) return {};
        one.pending = false;
        return News{News::lost, slot, "its worker did not carry out an order: the driver may hang"};
    }
    one.pending = false;
    const auto obstacle = static_cast<Obstacle>(observe(one.orders->obstacle));
    if (obstacle == Obstacle::none) {
        one.state = one.wanted;
        if (one.state == Paused::running) {
            one.parked = false;
            one.memory.clear();
            if (const auto within = std::exchange(one.then_held, {})) give(slot, one, Paused::held, *within, now);
            return News{News::resumed, slot, ""};
        }
        if (one.since == Clock::time_point{}) one.since = now;
        return News{News::paused, slot, ""};
    }
    const std::int32_t result = observe(one.orders->result);
    one.refusal = result ? fmt::format("{} (CUresult {})", text_of(obstacle), result) : std::string(text_of(obstacle));
    if (observe(one.orders->is) == static_cast<std::uint32_t>(Paused::stuck))
        return News{News::lost, slot, one.refusal.text()};
    if (one.state != Paused::away) {
        one.memory.clear();
        one.parked = false;
    }
    if (one.wanted == Paused::away && is_for_good(obstacle, result)) one.never_away = one.refusal;
    return News{News::refused, slot, one.refusal.text()};
}

std::optional<Pausing::News> Pausing::bring_back(std::uint32_t slot, One& one, const Room& room,
                                                 Clock::time_point now) {
    if (one.state == Paused::away) {
        const auto uses_one_of = [&](const One& other) {
            return std::ranges::any_of(other.memory, [&](const auto& its) {
                return std::ranges::any_of(one.memory, [&](const auto& own) { return own.first == its.first; });
            });
        };
        const bool next_to_another = std::ranges::any_of(
            all_, [&](const auto& other) { return other.second.returns() && uses_one_of(other.second); });
        if (next_to_another) {  // then the room is different
            one.asked = now;
            return std::nullopt;
        }
        const auto refuse = [&](std::string why) {
            one.wants_back = false;
            one.refusal = std::move(why);
            return News{News::refused, slot, one.refusal.text()};
        };
        if (one.then_held && now >= one.back_until) {
            one.then_held.reset();
            return refuse(
                "it is parked, and does not come back while other programs have the memory of its GPU: it "
                "stays parked");
        }
        const std::uint64_t out = cards_.out(slot);
        const auto needs = [&](std::uint64_t bytes) { return bytes - std::min(bytes, out); };
        for (const auto& [device, bytes] : one.memory) {
            const auto answer = cards_.claim(slot, device, needs(bytes));
            if (answer == cards::Claim::Answer::granted) continue;
            one.claimed = false;
            if (one.parked) return std::nullopt;
            if (answer == cards::Claim::Answer::waits && now < one.wanted_since + others_give_within)
                return std::nullopt;
            return refuse(
                fmt::format("other programs have the memory of GPU {}, and do not give the {} that the client "
                            "needs: it stays paused",
                            device, text(needs(bytes))));
        }
        if (!std::exchange(one.claimed, true)) one.asked = now;  // what others gave is free by now
        for (const auto& [device, bytes] : one.memory) {
            const std::optional<std::uint64_t> free = room(device, one.asked);
            if (!free) return {};
            if (*free >= needs(bytes)) continue;
            if (one.parked) {  // a program that shares nothing has it
                one.asked = now;
                return std::nullopt;
            }
            return refuse(fmt::format("GPU {} has {} free, and the client needs {}: it stays paused", device,
                                      text(*free), text(needs(bytes))));
        }
    }
    one.wants_back = false;
    give(slot, one, Paused::running, {}, now);
    return {};
}

std::vector<Pausing::News> Pausing::look(const Room& room, Clock::time_point now) {
    std::vector<News> news;
    for (auto& [slot, one] : all_) {
        std::optional<News> said;
        if (one.pending) said = answered(slot, one, now);
        else if (one.wants_back) said = bring_back(slot, one, room, now);
        if (!said) continue;
        if (said->what == News::resumed) one.since = {};
        write_down(slot, one);
        news.push_back(std::move(*said));
    }
    return news;
}

bool Pausing::busy() const {
    return std::ranges::any_of(all_, [](const auto& one) { return one.second.pending || one.second.wants_back; });
}
bool Pausing::waits_for_room() const {
    return std::ranges::any_of(
        all_, [](const auto& one) { return one.second.wants_back && one.second.state == Paused::away; });
}
bool Pausing::is_busy(std::uint32_t slot) const {
    const One* const one = find(slot);
    return one && (one->pending || one->wants_back);
}
bool Pausing::returns(std::uint32_t slot) const {
    const One* const one = find(slot);
    return one && one->comes_back();
}
Paused Pausing::state(std::uint32_t slot) const {
    const One* const one = find(slot);
    if (!one) return Paused::running;
    return one->pending ? static_cast<Paused>(observe(one->orders->is)) : one->state;
}
bool Pausing::is_parked(std::uint32_t slot) const {
    const One* const one = find(slot);
    return one && one->parked;
}
Failure Pausing::refusal(std::uint32_t slot) const {
    const One* const one = find(slot);
    return one ? one->refusal : Failure();
}
std::optional<Pausing::Clock::time_point> Pausing::since(std::uint32_t slot) const {
    const One* const one = find(slot);
    return one && one->since != Clock::time_point{} ? std::optional(one->since) : std::nullopt;
}
std::uint64_t Pausing::away_bytes(std::uint32_t slot) const {
    const One* const one = find(slot);
    return one ? one->bytes() : 0;
}
std::uint64_t Pausing::away_bytes() const {
    std::uint64_t sum = 0;
    for (const auto& [slot, one] : all_)
        if (one.state == Paused::away || (one.pending && one.wanted == Paused::away)) sum = plus(sum, one.bytes());
    return sum;
}

}  // namespace barcuda
