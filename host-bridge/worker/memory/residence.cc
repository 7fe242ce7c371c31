// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/memory/residence.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "base/log.h"
#include "shm-device/queue/wait.h"

namespace barcuda {
namespace {

using State = Residence::State;

constexpr std::uint64_t ms = 1'000'000;
// How long the worker waits for the GPU before it takes commands again, at first. In between it takes commands for a
// quarter of that time, in which the client may post work for much longer than it had before. So each attempt is twice
// as long as the one before: at some time it is longer than all work that a client can have posted.
constexpr std::uint64_t first_attempt = 100 * ms;
constexpr std::uint64_t in_a_capture = 20 * ms;  // between two attempts
// An order that could not be carried out as a whole: memory is shared with another process, or the store is full.
constexpr std::uint64_t until_more_may_leave = 1'000 * ms;
// Memory that others have taken from the card though it was promised.
constexpr std::uint64_t until_there_is_room = 50 * ms;
constexpr unsigned most_vain_returns = 20;
// How long the worker asks for memory that the driver's own allocation lacks. The context of an idle client may have to
// leave first (--context-idle), which takes seconds on a busy host.
constexpr std::uint64_t drivers_patience = 6'000 * ms;

constexpr unsigned bit(State state) { return 1u << static_cast<unsigned>(state); }
struct Successors {
    std::string_view name;
    unsigned successors;
};
constexpr Successors table[] = {
    {"resident", bit(State::leaving) | bit(State::waiting) | bit(State::away)},
    {"leaving", bit(State::resident) | bit(State::outside) | bit(State::away)},
    {"outside", bit(State::resident) | bit(State::waiting) | bit(State::away)},  // resident: all of it was freed
    {"waiting", bit(State::resident) | bit(State::outside) | bit(State::returning) | bit(State::away)},
    {"returning", bit(State::resident) | bit(State::waiting) | bit(State::lost)},
    {"away", bit(State::resident) | bit(State::outside)},
    {"lost", 0},
};
static_assert(std::size(table) == static_cast<std::size_t>(State::count));

}  // namespace

std::string_view Residence::name(State state) { return table[static_cast<unsigned>(state)].name; }

bool Residence::permits(State from, State to) { return (table[static_cast<unsigned>(from)].successors & bit(to)) != 0; }

void Residence::become(State state) {
    if (state == state_) return;
    if (!permits(state_, state)) std::abort();
    log::debug("memory: {} -> {}", name(state_), name(state));
    state_ = state;
}

bool Residence::is_ordered() const { return std::ranges::any_of(cards_, &Promise::is_ordered); }
bool Residence::is_called() const { return is_ordered() || std::ranges::any_of(cards_, &Promise::is_pressed); }
bool Residence::is_out() const {
    return std::ranges::any_of(cards_, [](const Promise& card) { return card.out() != 0; });
}

bool Residence::go_on() {
    if (state_ == State::lost || state_ == State::away) return true;
    obey();
    switch (state_) {
        case State::leaving: return true;
        case State::outside:
            if (!is_out()) become(State::resident);
            return false;
        case State::waiting: return !may_come_back();
        default: return false;
    }
}

// ---- orders

std::uint64_t Residence::attempt_after(std::uint64_t before) { return before == 0 ? first_attempt : 2 * before; }

void Residence::obey() {
    if (state_ == State::lost || state_ == State::away) return;
    bool some = false;
    for (Promise& card : cards_) {  // what is not used needs no wait
        if (card.is_pressed()) some |= card.give_back();
        if (card.is_ordered() && card.on_card() <= card.keep()) some |= card.shrink(card.keep());
    }
    if (some) memory_.look();
    if (!is_ordered()) {
        attempt_ = next_attempt_ = 0;
        if (state_ == State::leaving) become(State::resident);
        return;
    }
    const std::uint64_t now = Os::now();
    if (state_ != State::leaving && now < next_attempt_) return;
    if (state_ == State::resident) {
        attempt_ = attempt_after(attempt_);
        attempt_ends_ = now + attempt_;
        become(State::leaving);
    }
    const bool captures = memory_.captures();
    if (!captures && memory_.quiet()) return leave();
    if (state_ != State::leaving || (!captures && now < attempt_ends_)) return;
    if (captures) attempt_ /= 2;  // the next attempt is as long as this one was to be
    next_attempt_ = now + (captures ? in_a_capture : attempt_ / 4);
    become(State::resident);
}

void Residence::leave() {
    for (std::size_t i = 0; i < cards_.size(); ++i) {
        Promise& card = cards_[i];
        const std::uint64_t keep = card.keep();  // the bridge may change it meanwhile
        if (!card.is_shared() || keep >= card.holds()) continue;
        if (card.on_card() > keep) memory_.put_out(i, card.on_card() - keep);
        card.shrink(keep);
    }
    attempt_ = 0;
    next_attempt_ = is_ordered() ? Os::now() + until_more_may_leave : 0;
    if (state_ == State::leaving) become(is_out() ? State::outside : State::resident);
    memory_.look();
}

// ---- commands

bool Residence::begin() {
    for (Promise& card : cards_) card.works();
    if (refused_ || !is_out()) return true;
    become(State::waiting);
    return may_come_back();
}

bool Residence::asks_for_more(std::size_t which, std::uint64_t bytes) {
    Promise& card = cards_[which];
    if (refused_ || !card.may_be_granted(bytes)) return false;  // the client may have enough itself
    if (card.wish(bytes)) memory_.look();
    if (!card.is_shared()) return true;  // as the bridge has just said
    const Promise::Answer answer = card.answer();
    refused_ = answer == Promise::Answer::refused;
    return answer == Promise::Answer::granted && card.fits(bytes);
}

bool Residence::end_short() {
    Memory::Lack lack = memory_.lacks();
    memory_.forget_lack();
    const std::uint64_t now = Os::now();
    if (refused_ || lack.bytes == 0 || (lack.of_driver && tries_end_ != 0 && now >= tries_end_)) {
        refused_ = false;
        if (tries_end_ != 0) end_tries();
        return false;
    }
    if (lack.of_driver) {
        const Promise& card = cards_[lack.card];
        if (tries_end_ == 0) {
            tries_end_ = now + drivers_patience;
            wished_ = lack.bytes;
        } else {  // the bridge did not know of all that is in use: others are to give more
            const std::uint64_t has = card.on_card() + card.out(), most = card.may_have();
            const std::uint64_t twice = saturating_sum(wished_, wished_);
            wished_ = std::min(twice, most == 0 ? twice : most - std::min(most, has));
            next_return_ = now + until_there_is_room;
        }
        lack.bytes = std::max(lack.bytes, wished_);
    }
    lack_ = lack;
    become(State::waiting);
    return true;
}

// What was promised for the driver is the driver's now, and counts as a stranger's.
void Residence::end_tries() {
    tries_end_ = 0;
    bool some = false;
    for (Promise& card : cards_) some |= card.give_back();
    if (some) memory_.look();
}

// Reads answers, and asks for what is lacking.
Residence::Asked Residence::ask() {
    Asked asked;
    for (std::size_t i = 0; i < cards_.size(); ++i) {
        Promise& card = cards_[i];
        const std::uint64_t more = lack_.card == i ? lack_.bytes : 0;
        const Promise::Answer answer = card.wishes() ? card.answer() : Promise::Answer::waits;
        if (answer == Promise::Answer::refused) asked.refused = true;
        if (card.fits(saturating_sum(card.out(), more))) continue;
        // A bridge that grants less than it was asked for would be asked without end.
        if (answer == Promise::Answer::granted) asked.refused = true;
        asked.lacks = true;
        asked.wished |= !asked.refused && card.wish(more);
    }
    if (asked.wished) memory_.look();
    return asked;
}

void Residence::ask_nothing() {
    bool asked = false;
    for (Promise& card : cards_) {
        if (!card.wishes()) continue;
        card.withdraw();
        asked = true;
    }
    if (asked) memory_.look();
}

// A command that waits is performed again later, and lacks again what it lacked.
void Residence::leave_cards() {
    for (Promise& card : cards_) card.leave();
    lack_ = {};
    attempt_ = next_attempt_ = next_return_ = 0;
    become(State::away);
}

void Residence::return_to_cards() {
    for (Promise& card : cards_) card.come_back();
    become(is_out() ? State::outside : State::resident);
}

void Residence::call_for_return() {
    bool rested = false;
    for (Promise& card : cards_) {
        rested |= card.rests();
        card.works();
    }
    if (rested) memory_.look();
}

// Whether the worker goes on with its command: everything is on the cards, or the bridge has refused what it lacked.
bool Residence::may_come_back() {
    if (next_return_ != 0 && Os::now() < next_return_) return false;
    next_return_ = 0;
    Asked asked = ask();
    if (asked.wished) asked = ask();  // the bridge may have answered at once
    if (asked.refused && lack_.bytes != 0) {
        for (Promise& card : cards_) card.withdraw();
        lack_ = {};
        refused_ = true;
        become(is_out() ? State::outside : State::resident);
        return true;
    }
    if (asked.lacks || !come_back()) return false;
    lack_ = {};
    become(State::resident);
    return true;
}

bool Residence::come_back() {
    if (!is_out()) return true;
    become(State::returning);
    CUresult r = CUDA_SUCCESS;
    for (std::size_t i = 0; i < cards_.size() && r == CUDA_SUCCESS; ++i)
        if (cards_[i].out() != 0) r = memory_.bring_back(i);
    if (r == CUDA_SUCCESS) {
        vain_returns_ = 0;
        return true;
    }
    if (r != CUDA_ERROR_OUT_OF_MEMORY) {
        loss_ = r;
        become(State::lost);
        return false;
    }
    become(State::waiting);
    next_return_ = Os::now() + until_there_is_room;
    if (++vain_returns_ % most_vain_returns == 0)  // asks again: the bridge knows by now what others have taken
        for (Promise& card : cards_) card.shrink(card.on_card());
    return false;
}

void Residence::rest() {
    if (state_ != State::resident && state_ != State::outside) return;
    bool much = false;
    for (Promise& card : cards_) {
        card.rests_since(Os::now());
        const std::uint64_t before = card.holds();
        if (card.give_back()) much |= card.is_pressed() || before - card.holds() >= Promise::unit;
    }
    if (much) memory_.look();
    if (std::ranges::any_of(cards_, &Promise::is_store_pressed)) memory_.shrink_store();
}

}  // namespace barcuda
