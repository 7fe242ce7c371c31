// SPDX-License-Identifier: Apache-2.0
// residency.h: which clients have their memory on a card, when guests together have more than the card holds. A pure
// policy: it gets a snapshot of a card's clients (cards.h keeps it) and the time, and says which client gets what it
// waits for, which clients give how many bytes for that, and when to look again. It knows no process and no clock, so
// unit tests and a simulator (tests/bench/residency_bench.cc) reach all of it.
//
// A client's memory is on the card as a whole while the client works: a kernel may touch any of it. So a client that
// lacks some of its memory waits, all or nothing. What others give for it is only what it lacks, from
//
//   1. clients that are idle: lower ranks first, then those that have been idle for longest;
//   2. clients that wait themselves, and are served later: what they have is of no use to them now;
//   3. clients that work, when their stay is over: lower ranks first, then those that have stayed longest.
//
// A client that has come on the card may need more, step by step: a program allocates as it goes. For as long as its
// stay may be, it goes before waiters of its rank. Otherwise two clients that grow would each take the other's last
// step, and move memory at each.
//
// A pinned client gives nothing. A stay takes least_stay. Where two clients alternate, the stay is `times` as long as
// the moves that end it take, so that moves take a fixed part of the time. Waiters are served by rank, then by the time
// that they have waited. A waiter's rank rises with its waiting: in the end each waiter is the first. A smaller waiter
// may go before the first one, until the first one has waited for one step of ageing. A waiter whose time is over is
// refused: its caller gets CUDA's out-of-memory. One that waits for memory that has left (`patient`) is not.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace barcuda::residency {

using Bytes = std::uint64_t;
using Time = std::uint64_t;  // nanoseconds of CLOCK_MONOTONIC
constexpr Time ms = 1'000'000, second = 1000 * ms;
constexpr Bytes unlimited = std::numeric_limits<Bytes>::max();
constexpr Time never = std::numeric_limits<Time>::max();

struct Rules {
    Time wait = 60 * second;  // of a caller, at most (--wait)
    Time least_stay = second;
    std::uint32_t times = 8;         // of the moves: they take at most one part in nine of the time
    Time alternating = 30 * second;  // a client that left twice within this time alternates with another
    Time ageing = 10 * second;       // of waiting, for each rank that a waiter rises
    Time idle = 100 * ms;            // a shorter pause is a gap between two commands
    Time overdue = 5 * second;       // after this time the policy no longer relies on an order that was not obeyed
    Bytes piece = 64ull << 20;       // memory moves in whole pieces (the blocks of cuMemCreate)
};

struct Client {
    Bytes promised = 0;              // that it has on the card, or may take there
    Bytes out = 0;                   // of its memory that is in the store
    Bytes wanted = 0;                // more than it is promised; 0: it does not wait
    Bytes keep = unlimited;          // what it was told to keep at most: less than promised, it is giving the rest
    Time told = 0;                   // when it was told
    Time idle_since = 0;             // 0: it works
    Time waiting_since = 0;          // valid while it wants something
    Time came = 0;                   // when its stay began
    Time left = 0, left_before = 0;  // when it was last made to give, and the time before; 0: never
    std::uint32_t rank = 1;          // of 0 to most_rank: turns.h's priorities
    bool pinned = false;
    bool patient = false;  // it waits for memory that it had, and cannot go on without: its time is never over
};
constexpr std::uint32_t most_rank = 2;

struct Card {
    Bytes size = 0;
    Bytes reserve = 0;    // never promised, but to a patient client that had its memory before the reserve grew
    Bytes strangers = 0;  // memory that is promised to no client: native processes, contexts
    Bytes used = 0;       // all that is in use now, by the driver's account
    Bytes speed = 0;      // of moves between card and store, bytes a second as measured; 0: unknown
};

struct Order {  // an index into the snapshot, and the bytes that the client may keep; unlimited: the order is lifted
    std::size_t client;
    Bytes keep;
    bool operator==(const Order&) const = default;
};

struct Decision {
    std::vector<std::size_t> granted;  // these have what they want
    std::vector<std::size_t> refused;  // these get out-of-memory
    std::vector<Order> orders;
    Time look = never;  // the decision may be another one at this time, though nothing else changes
};

class Policy {
  public:
    explicit Policy(const Rules& rules = {}) : rules_(rules) {}
    const Rules& rules() const { return rules_; }

    Decision decide(std::span<const Client> clients, const Card& card, Time now) const;
    // How long `holder` stays on the card, though `waiter` waits for it. `need`: the bytes that it would give.
    Time stay(const Client& holder, const Client& waiter, Bytes need, const Card& card, Time now) const;
    // A client that has come, and lacks more in this time, goes before others that wait.
    Time settling(const Client& client, const Card& card) const;
    bool settles(const Client& client, const Card& card, Time now) const;
    // By its waiting, from its own rank on.
    std::uint32_t aged_rank(const Client& waiter, Time now) const;
    static Time time_to_move(Bytes bytes, const Card& card);
    // Bytes of the card that no client is promised.
    static Bytes free(std::span<const Client> clients, const Card& card);

  private:
    class Round;
    Rules rules_;
};

}  // namespace barcuda::residency
