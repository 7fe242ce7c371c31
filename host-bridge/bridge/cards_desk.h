// SPDX-License-Identifier: Apache-2.0
// cards_desk.h: how the bridge lets its clients share the memory of cards with those of other bridges (--cards). It
// gives Residents (residents.h) the facts: what a card's driver says is in use, and what an operator says of a client;
// and it carries out what comes of them: it wakes workers, and writes the log. Host memory for what leaves a card comes
// from Rooms (rooms.h).
//
// Other bridges call by a word of the book. A thread sleeps on it and wakes the loop, so that a grant takes a
// millisecond and not a turn of an idle loop.
#pragma once
#include <cuda.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>

#include "base/failure.h"
#include "host-bridge/between/cards.h"
#include "host-bridge/between/probe.h"
#include "host-bridge/between/residency.h"
#include "host-bridge/bridge/clients.h"
#include "host-bridge/bridge/limits_desk.h"
#include "host-bridge/bridge/loop.h"
#include "host-bridge/bridge/residents.h"
#include "host-bridge/bridge/rooms.h"
#include "host-bridge/monitor/monitor.h"

namespace barcuda {

// Sleeps until another bridge calls, and says so by a descriptor.
class BookListener {
  public:
    BookListener() = default;
    ~BookListener();
    BookListener(const BookListener&) = delete;
    Failure start(cards::Member& book);
    int fd() const { return called_.fd(); }
    void take() const;  // what it has said

  private:
    void run();
    cards::Member* book_ = nullptr;
    File called_;  // eventfd
    std::atomic<bool> over_ = false;
    std::thread thread_;
};

class CardsDesk {
  public:
    struct Monitor {
        std::function<const Busy*(std::chrono::system_clock::time_point)> busy;  // null: not known now
        std::function<void()> want;                                              // asks for that
        std::function<void()> show = [] {};                                      // tells it what clients have
    };
    using Returns = std::function<bool(std::uint32_t slot)>;  // Residents::Facts::returns
    struct Terms {
        residency::Rules rules{};
        residency::Bytes reserve = cards::usual_reserve;
    };
    CardsDesk(
        cards::Member& book, Rooms& rooms, const Terms& terms, Monitor monitor, const Clients& clients,
        const LimitsDesk& limits, const Host& host, Part<KeptResidents> kept = {},
        Returns returns = [](std::uint32_t) { return false; });

    // When the bridge's devices are known. Without an open book no card is shared.
    void begin();
    explicit operator bool() const { return residents_.has_value(); }
    // Starts the threads, and listens to them.
    Failure listen(Loop& loop);

    void admit(Client& client);
    // Goes on with a client of an earlier bridge that was killed, which has a worker.
    void restore(Client& client);
    void all_are_back();
    void forget(std::uint32_t slot);  // its worker has ended
    void change();                    // what an operator says of clients

    // In each turn of the loop: what has become of requests, orders and files.
    void look();
    // What this bridge's clients may have of a card together.
    std::uint64_t most() const { return residents_ ? residents_->most(0) : 0; }  // 0: nothing is known
    // How long the loop may sleep.
    std::chrono::milliseconds patience(std::chrono::milliseconds at_most) const;

    // ---- what workers ask (link.h)
    CUresult look_now();
    void ask_room(Client& client, std::uint64_t bytes);
    CUresult take_back(const Client& client, std::uint64_t number);
    bool makes_room(const Client& client) const { return residents_ && rooms_.makes(client.slot()); }
    // Behind an earlier bridge: the number of the next file is written down with the request. What was counted for a
    // request without an answer is dropped; an answer is given again, with another file.
    std::uint64_t next_room(const Client& client) const { return residents_ ? rooms_.next(client.slot()) : 0; }
    void drop_room(const Client& client, std::uint64_t number);
    void repeat_room(Client& client, const KeptRequest& answered);

    // For a client that was paused and is to return (pausing.h).
    cards::Claim::Answer claim(std::uint32_t slot, int card, std::uint64_t bytes);

    std::optional<std::uint32_t> idle_at_a_full_card(residency::Time now, residency::Time idle,
                                                     const std::function<bool(std::uint32_t slot)>& may) const {
        return residents_ ? residents_->idle_at_a_full_card(now, idle, may) : std::nullopt;
    }
    bool works(std::uint32_t slot) const { return residents_ && residents_->works(slot); }

    Residents::Totals totals(std::uint32_t slot) const {
        return residents_ ? residents_->totals(slot) : Residents::Totals{};
    }
    std::uint64_t store() const { return rooms_.store(); }
    std::uint64_t store_held() const { return rooms_.held(); }
    Residents::Totals gone() const { return residents_ ? residents_->gone() : Residents::Totals{}; }

  private:
    cards::Claim::Terms terms_of(const Client& client) const;
    std::optional<Residents::Facts::Use> in_use(int card) const;
    void press_store();
    void tell_no_room(Client& client, bool has_most_files, const Rooms::Limits& limits) const;
    void answer_room(Client& client);
    void follow(residency::Time now);
    void ask_for_use(residency::Time now);

    const Monitor monitor_;
    cards::Member& book_;
    Rooms& rooms_;
    const residency::Policy policy_;
    const residency::Bytes reserve_;
    const Part<KeptResidents> kept_;
    const Returns returns_;
    const Clients& clients_;
    const LimitsDesk& limits_;
    const Host& host_;
    std::optional<Residents> residents_;
    BookListener listener_;
    Loop::Watch on_call_, on_room_;
    bool told_locked_ = false;                               // that another process holds the book's lock
    residency::Time asked_for_use_ = 0, store_pressed_ = 0;  // since; 0: it is not
};

}  // namespace barcuda
