// SPDX-License-Identifier: Apache-2.0
// residents.h: what the clients of this bridge have of shared cards, by slot and card. It stands between the places in
// workers' sheets (CardPlace; the worker's half: worker/memory/residence.h) and the book that bridges share (cards.h):
// a worker's request becomes a question to the policy, and the policy's order becomes a word in the place.
//
// A worker may write anything into its place. So each word is read once and clipped, a promise grows by the policy's
// decision alone, and what the worker says of its memory only takes promises away from its own client. It is not
// refused (`returns`) what it has had: what it has outside, as far as this bridge has given it room for that.
//
// What a client is promised is written down for a bridge that comes later: a lower promise before the book has it, a
// higher one after that, and an answer before the worker is told. So the later bridge never claims more than the book
// had, and answers each request once.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "host-bridge/between/cards.h"
#include "host-bridge/between/link.h"
#include "host-bridge/between/records.h"
#include "host-bridge/between/residency.h"

namespace barcuda {

struct KeptResident {                        // of a slot's client, at one card
    std::uint32_t known = 0;                 // 0: there is none
    std::uint32_t granted = 0, refused = 0;  // numbers of the last requests that were
    std::uint32_t unused = 0;
    std::uint64_t promised = 0, out = 0;
};
using KeptResidents = std::array<Twice<KeptResident>, Sheet::most_cards>;  // of a slot

class Residents {
  public:
    using Bytes = residency::Bytes;
    using Time = residency::Time;
    struct Card {  // of this bridge's devices
        cards::Uuid uuid{};
        Bytes size = 0;
    };
    struct Facts {
        // What a card's driver says is in use, and when that was so. None: it was never asked.
        struct Use {
            Bytes bytes;
            Time taken;
        };
        std::function<std::optional<Use>(int card)> in_use;
        std::function<Bytes(std::uint32_t slot)> room;  // in the store, that the slot's client was given
        // Its client was moved from the cards (pausing.h), and is about to return: its worker holds nothing yet of what
        // was claimed for that.
        std::function<bool(std::uint32_t slot)> returns = [](std::uint32_t) { return false; };
    };

    Residents(cards::Member& book, const residency::Policy& policy, std::vector<Card> cards, Bytes reserve, Facts facts,
              Part<KeptResidents> kept = {});
    ~Residents();

    // A worker begins to serve a slot. `devices`: the cards that it sees, in its order.
    void admit(std::uint32_t slot, Sheet& sheet, const std::vector<int>& devices, const cards::Claim::Terms& terms);
    // The same behind an earlier bridge that was killed. When all are back, the rows of clients that have gone since
    // can be dropped.
    void restore(std::uint32_t slot, Sheet& sheet, const std::vector<int>& devices, const cards::Claim::Terms& terms);
    void all_are_back();
    void forget(std::uint32_t slot);  // its worker has ended
    void change(std::uint32_t slot, const cards::Claim::Terms& terms);

    // For a client that is to return: this much of a card, beside what is in the store; what is more than a card has to
    // promise was a stranger's (its context, its pools). To be repeated until it is granted. What was claimed or is
    // waited for is given up once Facts::returns says no.
    cards::Claim::Answer claim(std::uint32_t slot, int card, Bytes bytes, Time now);

    struct News {
        enum What { wake, waits, refused, lacks_row } what;
        std::uint32_t slot;
        Bytes bytes;  // that it lacks, except for `wake`
        Time waited;
    };
    // Follows all places, and answers requests. `wake`: the worker of that slot has something to read.
    std::vector<News> look(Time now);
    // The client that has been idle for longest, and at least for `idle`, at a card for whose memory another one has
    // waited for some time. `may`: the clients that are meant.
    std::optional<std::uint32_t> idle_at_a_full_card(Time now, Time idle,
                                                     const std::function<bool(std::uint32_t slot)>& may) const;
    bool works(std::uint32_t slot) const;  // its worker has a command
    void press_store(bool pressed);        // a client lacks room in the store
    // look() has something to do.
    bool any() const { return !all_.empty() || book_.has_rows_to_drop(); }
    bool any_waits() const;  // then the use of cards must be asked often
    bool is_due(Time now) const { return now >= look_at_ || book_.calls() != heard_; }
    Time look_at() const { return look_at_; }  // when look() may have something to do, though nothing comes

    struct Totals {  // of a slot, for lists
        Bytes promised = 0, out = 0, lacks = 0;
        Bytes moved_out = 0, moved_back = 0;
        std::uint64_t waits = 0, refusals = 0;
        Time waited = 0;  // in all
        Bytes speed = 0;  // of its last moves, bytes a second; 0: it has not moved enough
    };
    Totals totals(std::uint32_t slot) const;
    const Totals& gone() const { return gone_; }  // of all that have gone
    // Bytes of a card that a client may have: in all, and less what strangers use of it now.
    Bytes most(int card) const;
    Bytes may_have(int card) const;

  private:
    struct One;
    struct Strangers;
    struct Seen;
    void begin(std::uint32_t slot, std::size_t place, Sheet& sheet, int card, const cards::Claim::Terms& terms,
               const KeptResident& kept);
    void look(One& one, Time now, bool called, std::vector<News>& news);
    void settle(One& one, const Seen& seen, Time now);
    void answer(One& one, const Seen& seen, Time now, bool called, std::vector<News>& news);
    void order(One& one, const Seen& seen, Time now, std::vector<News>& news);
    bool needs_row(const One& one, const Seen& seen) const;
    bool ready(One& one);
    void measure(One& one, const Seen& seen);
    void write_down(One& one);
    cards::Measured measured(const One& one) const;
    void note_use(Time now);

    cards::Member& book_;
    const residency::Policy& policy_;
    const std::vector<Card> cards_;
    const Bytes reserve_;
    const Facts facts_;
    const std::span<KeptResidents> kept_;
    std::vector<Strangers> strangers_;  // by card
    std::map<std::pair<std::uint32_t, std::size_t>, std::unique_ptr<One>> all_;
    Totals gone_;
    std::uint32_t heard_ = 0;    // of the calls of other bridges
    bool claims_again_ = false;  // some clients of an earlier bridge have not got their rows yet
    Time look_at_ = residency::never;
};

}  // namespace barcuda
