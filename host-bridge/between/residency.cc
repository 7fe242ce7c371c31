// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/between/residency.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace barcuda::residency {
namespace {

// For a card of which nothing has been measured: what moves at half of this speed is still served in time.
constexpr Bytes usual_speed = 12'000'000'000, least_speed = 100'000'000, most_speed = 10'000'000'000'000;

// Numbers of a book may be wrong, so no sum overflows and no difference is negative.
Bytes plus(Bytes a, Bytes b) { return a > unlimited - b ? unlimited : a + b; }
Bytes minus(Bytes a, Bytes b) { return a > b ? a - b : 0; }
Time since(Time then, Time now) { return minus(now, then); }

}  // namespace

Time Policy::time_to_move(Bytes bytes, const Card& card) {
    const Bytes speed = card.speed ? std::clamp(card.speed, least_speed, most_speed) : usual_speed;
    return static_cast<Time>(static_cast<double>(bytes) / static_cast<double>(speed) * second);
}

namespace {

bool waits(const Client& c) { return c.wanted != 0; }
Bytes owed(const Client& c) { return minus(c.promised, c.keep); }
Bytes kept(const Client& c) { return std::min(c.promised, c.keep); }

}  // namespace

std::uint32_t Policy::aged_rank(const Client& waiter, Time now) const {
    const Time steps = since(waiter.waiting_since, now) / std::max<Time>(rules_.ageing, 1);
    return static_cast<std::uint32_t>(std::min<Time>(std::min(waiter.rank, most_rank) + steps, most_rank));
}

Time Policy::stay(const Client& holder, const Client& waiter, Bytes need, const Card& card, Time now) const {
    const Time moves = time_to_move(plus(need, waiter.wanted), card);
    const Time lasting = std::max(rules_.least_stay, rules_.times * moves);
    // Two clients with long stays leave seldom, and alternate nevertheless.
    const Time lately = std::max(rules_.alternating, 4 * lasting);
    const auto alternates = [&](const Client& c) { return c.left_before && since(c.left_before, now) < lately; };
    return alternates(holder) || alternates(waiter) ? lasting : rules_.least_stay;
}

Time Policy::settling(const Client& client, const Card& card) const {
    return std::clamp(rules_.times * time_to_move(client.promised, card), rules_.least_stay,
                      std::max(rules_.least_stay, rules_.ageing));
}

bool Policy::settles(const Client& client, const Card& card, Time now) const {
    return client.came != 0 && now < plus(client.came, settling(client, card));
}

Bytes Policy::free(std::span<const Client> clients, const Card& card) {
    Bytes promised = 0;
    for (const Client& c : clients) promised = plus(promised, c.promised);
    const Bytes limit = minus(card.size, card.reserve);
    // The second is the larger one, unless the numbers of the clients are wrong.
    return std::min(minus(minus(limit, card.strangers), promised), minus(limit, card.used));
}

// One decision while it is made.
class Policy::Round {
  public:
    Round(const Policy& policy, std::span<const Client> clients, const Card& card, Time now)
        : policy_(policy),
          rules_(policy.rules_),
          clients_(clients),
          card_(card),
          now_(now),
          free_(Policy::free(clients, card)),
          kept_(clients.size()) {
        for (std::size_t i = 0; i < clients.size(); ++i) {
            kept_[i] = kept(clients[i]);
            if (!owed(clients[i])) continue;
            if (overdue(clients[i])) continue;
            look(plus(clients[i].told, rules_.overdue));
            coming_ = plus(coming_, owed(clients[i]));
        }
    }

    Decision decide() {
        for (std::size_t i = 0; i < clients_.size(); ++i) {
            if (!waits(clients_[i])) continue;
            queue_.push_back(i);
            if (policy_.settles(clients_[i], card_, now_))
                look(plus(clients_[i].came, policy_.settling(clients_[i], card_)));
        }
        std::ranges::sort(queue_, [this](std::size_t a, std::size_t b) { return place_of(a) < place_of(b); });
        for (place_ = 0; place_ < queue_.size() && !closed_; ++place_) serve(queue_[place_]);
        for (; place_ < queue_.size(); ++place_) refuse_if_late(queue_[place_]);
        lift();
        return std::move(decision_);
    }

  private:
    // In the order in which waiters are served.
    std::tuple<std::uint32_t, Time, Time, std::size_t> place_of(std::size_t i) const {
        const Client& c = clients_[i];
        const Time came = policy_.settles(c, card_, now_) ? c.came : never;
        return {most_rank - policy_.aged_rank(c, now_), came, c.waiting_since, i};
    }
    bool overdue(const Client& c) const { return since(c.told, now_) >= rules_.overdue; }
    void look(Time when) { decision_.look = std::min(decision_.look, std::max(when, now_ + 1)); }

    bool refuse_if_late(std::size_t i) {
        const Client& c = clients_[i];
        const Time over = plus(c.waiting_since, rules_.wait);
        // What would not fit into an empty card is refused at once.
        const Bytes most = c.patient ? card_.size : minus(card_.size, card_.reserve);
        if ((now_ < over || c.patient) && plus(c.promised, c.wanted) <= most) {
            if (!c.patient) look(over);
            return false;
        }
        decision_.refused.push_back(i);
        return true;
    }

    // What a client has to have back, and cannot have beside the reserve: that was smaller when it got its memory.
    Bytes of_the_reserve(const Client& c) const {
        const Bytes most = minus(minus(card_.size, card_.reserve), card_.strangers);
        return c.patient ? std::min({minus(plus(c.promised, c.wanted), most), card_.reserve, c.wanted}) : 0;
    }

    void serve(std::size_t i) {
        const Client& c = clients_[i];
        if (refuse_if_late(i)) return;
        for (Time step = plus(c.waiting_since, rules_.ageing); step < c.waiting_since + (most_rank + 1) * rules_.ageing;
             step += std::max<Time>(rules_.ageing, 1))
            if (step > now_) look(step);
        keep_its_own(i);
        const Bytes owes = c.promised - kept_[i], wanted = c.wanted - of_the_reserve(c);
        if (wanted <= free_ && !owes) {
            free_ -= wanted;
            decision_.granted.push_back(i);
            return;
        }
        const Bytes need = minus(plus(wanted, owes), free_);
        if (need > coming_ && !collect(i, need - coming_)) {
            // Nothing behind an old waiter may take what it is waiting for, if that can ever come.
            closed_ = since(c.waiting_since, now_) >= rules_.ageing && may_come(i, need);
            if (closed_) coming_ = 0;
            return;
        }
        free_ = 0;
        coming_ = minus(coming_, need);
    }

    // A waiter that was told to give keeps what it has, unless an earlier waiter needs it.
    void keep_its_own(std::size_t i) {
        const Client& c = clients_[i];
        if (!owed(c) || kept_[i] != c.keep || (!overdue(c) && owed(c) > coming_)) return;
        if (!overdue(c)) coming_ -= owed(c);
        kept_[i] = c.promised;
        told(i, unlimited);
    }

    // Orders clients to give `need` bytes to a waiter. False: they cannot give that much now, and get no order.
    bool collect(std::size_t waiter, Bytes need) {
        const auto idle = idle_ones(waiter), behind = those_behind();
        const Bytes without_stops = plus(sum(idle), sum(behind));
        if (sum(idle) >= need) {
            order(idle, {}, {}, need);
            return true;
        }
        if (without_stops >= need) {
            order(idle, {}, behind, need);
            return true;
        }
        auto working = working_ones(waiter, need);
        const Bytes left = need - sum(idle);
        // One that suffices is better than several: each that gives anything stops.
        const auto one = std::ranges::find_if(working, [&](std::size_t i) { return kept_[i] >= left; });
        if (one != working.end()) working = {*one};
        if (plus(without_stops, sum(working)) < need) return false;
        order(idle, working, behind, need);
        return true;
    }

    // Those that an order may reach at all. A client that does not obey its last order gets no other.
    bool gives(std::size_t i) const {
        const Client& c = clients_[i];
        return !c.pinned && kept_[i] && !(owed(c) && overdue(c));
    }

    std::vector<std::size_t> idle_ones(std::size_t waiter) {
        std::vector<std::size_t> all;
        for (std::size_t i = 0; i < clients_.size(); ++i) {
            const Client& c = clients_[i];
            if (i == waiter || waits(c) || !c.idle_since || !gives(i)) continue;
            const Time from = std::max(plus(c.idle_since, rules_.idle), plus(c.came, rules_.least_stay));
            if (from > now_) look(from);
            else all.push_back(i);
        }
        std::ranges::sort(all, {},
                          [&](std::size_t i) { return std::tuple(clients_[i].rank, clients_[i].idle_since, i); });
        return all;
    }

    // Others have what it needs, and can be told to give it at some time.
    bool may_come(std::size_t waiter, Bytes need) const {
        Bytes all = coming_;
        for (std::size_t i = 0; i < clients_.size(); ++i)
            if (i != waiter && gives(i)) all = plus(all, kept_[i]);
        return all >= need;
    }

    // The last waiter first.
    std::vector<std::size_t> those_behind() const {
        std::vector<std::size_t> all;
        for (std::size_t at = queue_.size(); at-- > place_ + 1;)
            if (gives(queue_[at])) all.push_back(queue_[at]);
        return all;
    }

    std::vector<std::size_t> working_ones(std::size_t waiter, Bytes need) {
        std::vector<std::size_t> all;
        const std::uint32_t rank = policy_.aged_rank(clients_[waiter], now_);
        for (std::size_t i = 0; i < clients_.size(); ++i) {
            const Client& c = clients_[i];
            if (i == waiter || waits(c) || c.idle_since || !gives(i) || std::min(c.rank, most_rank) > rank) continue;
            const Bytes given = std::min(need, kept_[i]);
            const Time over = plus(c.came, policy_.stay(c, clients_[waiter], given, card_, now_));
            if (over > now_) look(over);
            else all.push_back(i);
        }
        std::ranges::sort(all, {}, [&](std::size_t i) { return std::tuple(clients_[i].rank, clients_[i].came, i); });
        return all;
    }

    Bytes sum(const std::vector<std::size_t>& some) const {
        return std::accumulate(some.begin(), some.end(), Bytes{0},
                               [this](Bytes all, std::size_t i) { return plus(all, kept_[i]); });
    }

    void order(const std::vector<std::size_t>& idle, const std::vector<std::size_t>& working,
               const std::vector<std::size_t>& behind, Bytes need) {
        for (const auto* some : {&idle, &working, &behind})
            for (const std::size_t i : *some) {
                if (!need) return;
                const Bytes pieces = plus(need, rules_.piece - 1) / rules_.piece * rules_.piece;
                const Bytes given = std::min(pieces, kept_[i]);
                kept_[i] -= given;
                coming_ = plus(coming_, given);
                need = minus(need, given);
                told(i, kept_[i]);
            }
    }

    void told(std::size_t i, Bytes keep) {
        const auto earlier = std::ranges::find(decision_.orders, i, &Order::client);
        if (earlier != decision_.orders.end()) earlier->keep = keep;
        else decision_.orders.push_back({i, keep});
    }

    // Orders that no waiter needs any more, the newest first. On one that was not obeyed no waiter relies: it stands
    // for as long as any of them waits.
    void lift() {
        std::vector<std::size_t> all;
        const bool some_wait = queue_.size() > decision_.granted.size() + decision_.refused.size();
        for (std::size_t i = 0; i < clients_.size(); ++i)
            if (owed(clients_[i]) && !(overdue(clients_[i]) && some_wait) &&
                std::ranges::find(decision_.orders, i, &Order::client) == decision_.orders.end())
                all.push_back(i);
        std::ranges::sort(all, [&](std::size_t a, std::size_t b) {
            return std::tuple(clients_[a].told, a) > std::tuple(clients_[b].told, b);
        });
        if (closed_) return;
        for (const std::size_t i : all) {
            if (!overdue(clients_[i])) {
                if (owed(clients_[i]) > coming_) continue;
                coming_ -= owed(clients_[i]);
            }
            decision_.orders.push_back({i, unlimited});
        }
    }

    const Policy& policy_;
    const Rules& rules_;
    const std::span<const Client> clients_;
    const Card& card_;
    const Time now_;
    Bytes free_, coming_ = 0;  // what no earlier waiter has taken
    std::vector<Bytes> kept_;  // of each client, behind the orders so far
    std::vector<std::size_t> queue_;
    std::size_t place_ = 0;
    bool closed_ = false;  // an old waiter waits for all that there is
    Decision decision_{};
};

Decision Policy::decide(std::span<const Client> clients, const Card& card, Time now) const {
    return Round(*this, clients, card, now).decide();
}

}  // namespace barcuda::residency
