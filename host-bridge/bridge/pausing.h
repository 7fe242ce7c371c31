// SPDX-License-Identifier: Apache-2.0
// pausing.h: which clients are paused, by slot: what is ordered of their workers, how long that may take, what an order
// is refused for before it is given, and which client returns next. On each GPU one client returns at a time, and only
// while there is room for it: a driver that finds none in the middle loses the client (checkpoint_calls.cc has that
// driver). (The worker's half: worker/hold.h.) In the bridge's books (ledger.h) an order is written down before the
// worker is told of it. A bridge that comes later tells it again.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "host-bridge/between/cards.h"
#include "host-bridge/between/link.h"
#include "host-bridge/between/records.h"
#include "shm-device/layout.h"

namespace barcuda {

struct KeptPause {        // of a slot's client
    std::uint32_t known;  // 0: nothing was ever ordered of it
    std::uint32_t order, within;
    Paused wanted, state;
    std::uint32_t pending, wants_back, parked;
    std::int64_t deadline, since;  // of the steady clock, in its own units; since 0: it is not paused
    std::uint32_t memory_count;
    std::int32_t devices[BARCUDA_MAX_DEVICES];
    std::uint64_t memory[BARCUDA_MAX_DEVICES];
    char refusal[256];
};

// Where clients share cards (residents.h), one that is away has given its part of them to others, and claims it again
// before it returns.
struct CardClaims {
    // Asks again for that much of a GPU. It stays claimed, or waited for, as long as returns(slot).
    std::function<cards::Claim::Answer(std::uint32_t slot, int device, std::uint64_t bytes)> claim = [](auto...) {
        return cards::Claim::Answer::granted;
    };
    // Of the client's memory: in the store of the bridge, and not moved when the client was.
    std::function<std::uint64_t(std::uint32_t slot)> out = [](std::uint32_t) { return std::uint64_t{0}; };
};

class Pausing {
  public:
    using Clock = std::chrono::steady_clock;
    // `books`: a record for each slot.
    explicit Pausing(Part<Twice<KeptPause>> books = {}, CardClaims cards = {})
        : books_(books.records), cards_(std::move(cards)) {}
    // Behind an earlier bridge that was killed: what was ordered of that slot's worker, whose orders these are.
    void restore(std::uint32_t slot, Orders& orders, Clock::time_point now = Clock::now());
    struct Facts {                      // of a client that is to be paused
        bool wrapped = false;           // another program is between bridge and worker
        std::int64_t shares_with = -1;  // a client's channel (its own: others may open what it has shared); -1: none
        std::vector<std::pair<int, std::uint64_t>> memory{};  // that it has, by GPU
    };
    struct Terms {
        bool keep_memory = false;
        std::chrono::milliseconds within{};
        std::uint64_t limit = 0;  // on the host's memory for all clients that are away; 0: none
        bool parks = false;       // by the bridge itself, until the client has a command
    };
    // Orders a pause, which is then under way, or done already.
    Failure pause(std::uint32_t slot, Orders& orders, std::uint32_t channel, const Facts& facts, const Terms& terms,
                  Clock::time_point now = Clock::now());
    // The same for its return; look() finds out whether there is room.
    Failure resume(std::uint32_t slot, Clock::time_point now = Clock::now());
    // The return of a parked client: it waits for room as long as it takes.
    void unpark(std::uint32_t slot, Clock::time_point now = Clock::now());
    void forget(std::uint32_t slot);
    // The same pause, for the worker that goes on with a client which was held.
    static KeptPause ordered_again(KeptPause kept, Clock::time_point now = Clock::now());

    struct News {
        enum What { paused, resumed, refused, lost } what;  // lost: the client must be ended
        std::uint32_t slot;
        std::string text;  // why, for the last two
    };
    // Free bytes of a GPU, measured after that time. None: they have not been measured yet.
    using Room = std::function<std::optional<std::uint64_t>(int device, Clock::time_point after)>;
    // Follows the orders' progress, and gives those that are due.
    std::vector<News> look(const Room& room, Clock::time_point now = Clock::now());

    bool busy() const;            // look() must be called often
    bool waits_for_room() const;  // until it is measured
    bool is_busy(std::uint32_t slot) const;
    bool is_parked(std::uint32_t slot) const;  // or on its way there, or back
    bool returns(std::uint32_t slot) const;    // it was away, and is about to be brought back, or on its way
    Paused state(std::uint32_t slot) const;
    Failure refusal(std::uint32_t slot) const;  // of the last order
    // when it was held or moved away; none: it is not
    std::optional<Clock::time_point> since(std::uint32_t slot) const;
    std::uint64_t away_bytes(
        std::uint32_t slot) const;     // bytes that the host may have to hold for it; 0: its memory stays on the GPU
    std::uint64_t away_bytes() const;  // the same for all

  private:
    struct One {
        Orders* orders = nullptr;
        std::uint32_t order = 0;  // the last order
        Paused wanted = Paused::running, state = Paused::running;
        bool pending = false;     // it has no answer yet
        bool wants_back = false;  // and waits for others, or for room
        std::chrono::milliseconds within{};
        Clock::time_point deadline{}, since{};
        Clock::time_point wanted_since{}, asked{};  // its return; the room must be measured after the second
        bool claimed = false;
        bool parked = false;  // until the client has a command; a pause or a resume by an operator ends that
        // It was parked, and is to be held within that time once it is back; if it is not by then, it stays parked.
        std::optional<std::chrono::milliseconds> then_held{};
        Clock::time_point back_until{};
        std::vector<std::pair<int, std::uint64_t>> memory{};
        Failure refusal{};
        // Why the driver will not let it go away: the next pause says so, and holds up no work for it.
        Failure never_away{};
        std::uint64_t bytes() const;
        bool comes_back() const {
            return state == Paused::away && (wants_back || (pending && wanted == Paused::running));
        }
        bool returns() const { return pending && wanted == Paused::running && state == Paused::away; }
    };
    void give(std::uint32_t slot, One& one, Paused wanted, std::chrono::milliseconds within, Clock::time_point now);
    static void tell(const One& one);
    void want_back(std::uint32_t slot, One& one, Clock::time_point now);
    void write_down(std::uint32_t slot, const One& one) const;
    std::optional<News> answered(std::uint32_t slot, One& one, Clock::time_point now);
    std::optional<News> bring_back(std::uint32_t slot, One& one, const Room& room, Clock::time_point now);
    const One* find(std::uint32_t slot) const;

    std::map<std::uint32_t, One> all_;
    const std::span<Twice<KeptPause>> books_;
    const CardClaims cards_;
};

}  // namespace barcuda
