// SPDX-License-Identifier: Apache-2.0
// residency_world.h: a card and its guests, in steps of a simulated clock. Guests have bursts of work, and pauses
// between them; guests that work at the same time share the card's time evenly. The memory is divided in one of three
// ways:
//
//   shares      each guest has the same part of the card; a guest that needs more is refused
//   first_come  a guest gets its memory at its first burst and has it until its session ends; others wait for it
//   residency   the policy of host-bridge/between/residency.h: the class that bridges use, with this clock
//
// Bytes move at the link's speed, in both directions at once, one client after the other.
#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "host-bridge/between/residency.h"

namespace barcuda::residency {

struct Burst {
    Time arrival;  // or later, if the guest still works
    Time work;     // of the whole card
};

// What a guest does: its next burst, when the last one ended (or was refused) at that time. None: no more.
using Pattern = std::function<std::optional<Burst>(Time now)>;

struct Guest {
    Bytes memory = 0;
    Pattern next;
    std::uint32_t rank = 1;
    bool pinned = false;
    Time session_ends = never;                 // it then frees its memory, and begins a new session with its next burst
    std::function<Time(Time)> next_session{};  // from the end of one to the end of the next
};

struct Figures {
    std::uint64_t done = 0, refused = 0, changes = 0;  // changes: of clients that were told to give
    Bytes moved = 0;
    Time worked = 0, elapsed = 0;  // worked: of the card, in bursts
    std::vector<Time> waits{};     // without its memory, of each burst; refused: the longest that it may wait
    Time wait(double part) {
        if (waits.empty()) return 0;
        std::ranges::sort(waits);
        return waits[std::min(waits.size() - 1, static_cast<std::size_t>(part * static_cast<double>(waits.size())))];
    }
};

class World {
  public:
    enum class Way : std::uint8_t { shares, first_come, residency };
    World(Way way, const Card& card, const Rules& rules, std::vector<Guest> guests, Time step = 10 * ms)
        : way_(way), card_(card), policy_(rules), step_(step) {
        for (Guest& guest : guests) {
            One one;
            one.guest = std::move(guest);
            one.client.rank = one.guest.rank;
            one.client.pinned = one.guest.pinned;
            one.burst = one.guest.next(now_);
            all_.push_back(std::move(one));
        }
    }

    // One step. A test looks at the clients between two steps.
    void step() {
        now_ += step_;
        for (One& one : all_) arrive(one);
        decide();
        move();
        work();
        figures_.elapsed = now_;
    }
    const Figures& run(Time until) {
        while (now_ < until) step();
        return figures_;
    }
    Time now() const { return now_; }
    Figures& figures() { return figures_; }
    Card& card() { return card_; }
    std::vector<Client> clients() const {
        std::vector<Client> all;
        for (const One& one : all_) all.push_back(one.client);
        return all;
    }
    // What a guest has seen: bursts, the longest wait, and the longest time without its memory in one burst.
    std::uint64_t done(std::size_t guest) const { return all_[guest].done; }
    std::uint64_t refused(std::size_t guest) const { return all_[guest].refused; }
    Time longest(std::size_t guest) const { return std::max(all_[guest].longest, waiting(all_[guest])); }
    Time slowest(std::size_t guest) const { return std::max(all_[guest].slowest, all_[guest].waited); }
    Time worked(std::size_t guest) const { return all_[guest].worked; }

  private:
    struct One {
        Guest guest;
        Client client;
        std::optional<Burst> burst;  // that comes, or is under way
        bool works = false;          // the burst is under way
        Bytes coming = 0;            // that move back to the card
        Time left = 0, waited = 0;   // of the burst
        std::uint64_t done = 0, refused = 0;
        Time longest = 0, slowest = 0, worked = 0;
    };

    static bool lacks(const One& one) { return one.client.promised < one.guest.memory; }
    static bool owes(const One& one) { return one.client.promised > one.client.keep; }
    Time waiting(const One& one) const { return one.client.wanted ? now_ - one.client.waiting_since : 0; }
    bool runs(const One& one) const { return one.works && !one.client.wanted && !owes(one) && !one.coming; }

    void arrive(One& one) {
        if (!one.works && one.guest.session_ends <= now_ && !owes(one) && !one.coming) {
            one.client.promised = one.client.out = 0;
            one.guest.session_ends = one.guest.next_session(now_);
        }
        if (one.works || !one.burst || one.burst->arrival > now_) return;
        one.works = true;
        one.left = one.burst->work;
        one.waited = 0;
        one.client.idle_since = 0;
        if (!owes(one)) want(one);
    }
    void want(One& one) {
        if (!lacks(one)) return;
        if (!one.client.wanted) one.client.waiting_since = now_;
        one.client.wanted = one.guest.memory - one.client.promised;
    }

    void decide() {
        if (std::ranges::none_of(all_, [](const One& one) { return one.client.wanted || owes(one); })) return;
        if (way_ == Way::shares) return divide();
        Decision decision = way_ == Way::residency ? policy_.decide(clients(), card_, now_) : queue();
        for (const std::size_t i : decision.granted) grant(all_[i]);
        for (const std::size_t i : decision.refused) end(all_[i], true);
        for (const auto& [i, keep] : decision.orders) {
            all_[i].client.keep = keep;
            all_[i].client.told = now_;
        }
    }
    void divide() {
        const Bytes share = (card_.size - card_.reserve - card_.strangers) / all_.size();
        for (One& one : all_)
            if (one.client.wanted) {
                if (one.guest.memory <= share) grant(one);
                else end(one, true);
            }
    }
    Decision queue() const {
        std::vector<std::size_t> waiting;
        for (std::size_t i = 0; i < all_.size(); ++i)
            if (all_[i].client.wanted) waiting.push_back(i);
        std::ranges::sort(waiting, {}, [this](std::size_t i) { return std::pair(all_[i].client.waiting_since, i); });
        Bytes free = Policy::free(clients(), card_);
        Decision decision;
        for (const std::size_t i : waiting) {
            const Client& c = all_[i].client;
            if (now_ - c.waiting_since >= policy_.rules().wait) decision.refused.push_back(i);
            else if (c.wanted <= free) {
                free -= c.wanted;
                decision.granted.push_back(i);
            } else free = 0;
        }
        return decision;
    }
    void grant(One& one) {
        one.longest = std::max(one.longest, waiting(one));
        one.coming = std::min(one.client.out, one.client.wanted);
        one.client.out -= one.coming;
        one.client.promised += one.client.wanted;
        one.client.wanted = 0;
        one.client.keep = unlimited;
        one.client.came = now_ + Policy::time_to_move(one.coming, card_);
    }

    void move() {
        const Bytes most = static_cast<Bytes>(static_cast<double>(card_.speed) * static_cast<double>(step_) / second);
        Bytes out = most, in = most;
        std::vector<One*> giving;
        for (One& one : all_)
            if (owes(one)) giving.push_back(&one);
        std::ranges::sort(giving, {}, [](const One* one) { return one->client.told; });
        for (One* one : giving) {
            const Bytes bytes = std::min(out, one->client.promised - one->client.keep);
            out -= bytes;
            one->client.promised -= bytes;
            one->client.out += bytes;
            figures_.moved += bytes;
            if (owes(*one)) continue;
            one->client.left_before = std::exchange(one->client.left, now_);
            ++figures_.changes;
            if (one->works) want(*one);
        }
        for (One& one : all_) {
            const Bytes bytes = std::min(in, one.coming);
            in -= bytes;
            one.coming -= bytes;
            figures_.moved += bytes;
        }
    }

    void work() {
        const auto running =
            static_cast<Time>(std::ranges::count_if(all_, [this](const One& one) { return runs(one); }));
        std::vector<One*> ended;
        for (One& one : all_) {
            if (!one.works) continue;
            if (!runs(one)) {
                one.waited += step_;
                continue;
            }
            const Time part = std::min(one.left, step_ / running);
            one.left -= part;
            one.worked += part;
            figures_.worked += part;
            if (!one.left) ended.push_back(&one);
        }
        for (One* one : ended) end(*one, false);
    }
    void end(One& one, bool refused) {
        ++(refused ? figures_.refused : figures_.done);
        ++(refused ? one.refused : one.done);
        figures_.waits.push_back(refused ? std::max(one.waited, policy_.rules().wait) : one.waited);
        one.longest = std::max(one.longest, waiting(one));
        one.slowest = std::max(one.slowest, std::exchange(one.waited, 0));
        one.works = false;
        one.client.wanted = 0;
        one.client.idle_since = now_;
        one.burst = one.guest.next(now_);
        if (refused && one.burst) one.burst->arrival = std::max(one.burst->arrival, now_ + after_refusal);
    }

    static constexpr Time after_refusal = 10 * second;  // a program that is started again
    const Way way_;
    Card card_;
    const Policy policy_;
    const Time step_;
    Time now_ = 1000 * second;
    std::vector<One> all_;
    Figures figures_;
};

}  // namespace barcuda::residency
