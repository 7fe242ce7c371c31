// SPDX-License-Identifier: Apache-2.0
// promise.h: a client's part of one card, as its bridge has promised it: the worker's half of a place in the sheet
// (between/link.h, CardPlace). It counts what blocks have there, asks for more, and gives back.
//
// Not thread-safe: the layer has a lock.
#pragma once
#include <algorithm>
#include <cstdint>

#include "host-bridge/between/link.h"
#include "shm-device/queue/sync.h"

namespace barcuda {

struct SheetWords {  // a model checker puts its own in this place
    template <class T> static T load(const T& word) { return observe(word); }
    template <class T> static void store(T& word, std::type_identity_t<T> value) { publish(word, value); }
};

// A guest may ask for any number of bytes.
inline std::uint64_t saturating_sum(std::uint64_t a, std::uint64_t b) { return b > ~a ? ~std::uint64_t{0} : a + b; }

template <class Words> class BasicPromise {
  public:
    // Requests are for multiples of this, so that small allocations seldom ask.
    static constexpr std::uint64_t unit = 64 << 20;

    explicit BasicPromise(CardPlace& place) : place_(place) {}

    // From now on everything fits: the bridge shares no cards.
    void end_sharing() { shared_ = false; }
    bool is_shared() const { return shared_; }

    // ---- what blocks have
    bool fits(std::uint64_t bytes) const { return !shared_ || bytes <= holds_ - std::min(holds_, on_card_); }
    void take(std::uint64_t bytes) { set(place_.on_card, on_card_, on_card_ + bytes); }
    void give(std::uint64_t bytes) { set(place_.on_card, on_card_, on_card_ - bytes); }
    void set_out(std::uint64_t bytes) { set(place_.out, out_, bytes); }
    void set_fixed(std::uint64_t bytes) { Words::store(place_.fixed, bytes); }
    std::uint64_t on_card() const { return on_card_; }
    std::uint64_t out() const { return out_; }
    std::uint64_t holds() const { return holds_; }
    std::uint64_t may_have() const { return Words::load(place_.may_have); }

    // ---- requests for more
    // For all that the client has, and `more` bytes; replaces an earlier one. False: the same request stands already.
    bool wish(std::uint64_t more) {
        const std::uint64_t exact = saturating_sum(on_card_ + out_, more);
        std::uint64_t needs = std::max(exact, saturating_sum(exact, unit - 1) / unit * unit);
        if (const std::uint64_t most = may_have(); most != 0) needs = std::max(exact, std::min(needs, most));
        if (needs == needs_) return false;
        if (needs_ != 0) withdraw();
        Words::store(place_.returns, more == 0);
        Words::store(place_.needs, needs_ = needs);
        Words::store(place_.wish, ++wish_);
        return true;
    }
    // As far as the bridge has said what it could promise.
    bool may_be_granted(std::uint64_t more) const {
        const std::uint64_t most = may_have();
        return most == 0 || saturating_sum(on_card_ + out_, more) <= most;
    }
    bool wishes() const { return needs_ != 0; }
    enum class Answer : std::uint8_t { waits, granted, refused };
    // Of the request that stands. It stands no longer when it was answered.
    Answer answer() {
        if (Words::load(place_.granted) == wish_) {
            // A bridge promises what it grants. If it does not, nothing has changed.
            const std::uint64_t promised = Words::load(place_.promised);
            hold(std::max(holds_, std::min(promised, needs_)));
            withdraw();
            return Answer::granted;
        }
        if (Words::load(place_.refused) != wish_) return Answer::waits;
        withdraw();
        return Answer::refused;
    }
    void withdraw() { Words::store(place_.needs, needs_ = 0); }

    // ---- giving back
    // What the client may hold at most; an order if it holds more.
    std::uint64_t keep() const { return Words::load(place_.keep); }
    bool is_ordered() const { return shared_ && keep() < holds_; }
    bool is_store_pressed() const { return shared_ && Words::load(place_.store_pressed) != 0; }
    bool is_pressed() const { return shared_ && Words::load(place_.pressed) != 0; }
    // Holds no more than `bytes`, or than what is on the card. False: it holds no more already.
    bool shrink(std::uint64_t bytes) {
        const std::uint64_t now = std::max(on_card_, std::min(bytes, holds_));
        if (now == holds_) return false;
        hold(now);
        return true;
    }
    // Gives up what it does not use.
    bool give_back() { return shrink((on_card_ + unit - 1) / unit * unit); }

    // The driver has moved everything from the card, and brings it back later: meanwhile the client holds nothing.
    void leave() {
        withdraw();
        hold(0);
    }
    void come_back() { hold(on_card_); }

    // ---- for the bridge to see
    void works() { rests_since(0); }
    void rests_since(std::uint64_t now) {
        if ((idle_since_ == 0) != (now == 0)) Words::store(place_.idle_since, idle_since_ = now);
    }
    bool rests() const { return idle_since_ != 0; }
    void note_out(std::uint64_t bytes, std::uint64_t ns) { note(place_.moved_out, bytes, place_.leaving_ns, ns); }
    void note_back(std::uint64_t bytes, std::uint64_t ns) { note(place_.moved_back, bytes, place_.returning_ns, ns); }

  private:
    static void set(std::uint64_t& word, std::uint64_t& own, std::uint64_t value) { Words::store(word, own = value); }
    static void note(std::uint64_t& bytes, std::uint64_t more, std::uint64_t& time, std::uint64_t ns) {
        Words::store(time, Words::load(time) + ns);
        Words::store(bytes, Words::load(bytes) + more);
    }
    void hold(std::uint64_t bytes) { set(place_.holds, holds_, bytes); }

    CardPlace& place_;
    bool shared_ = true;
    // The sheet is told these; nothing is read back.
    std::uint64_t on_card_ = 0, out_ = 0, holds_ = 0, needs_ = 0, idle_since_ = 0;
    std::uint32_t wish_ = 0;
};

using Promise = BasicPromise<SheetWords>;

}  // namespace barcuda
