// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/residents.h"

#include <algorithm>
#include <deque>

#include "shm-device/queue/sync.h"

namespace barcuda {
namespace {

using cards::Claim;

// A worker that does not obey, or that became idle, is looked at this often; so is the book, which may not call.
constexpr residency::Time look_every = cards::Member::usual_sleep;
// Moves between a card and the host are not faster or slower than this, whatever workers say.
constexpr double least_speed = 500e6, most_speed = 500e9;
constexpr residency::Bytes least_measured = 256 << 20;  // a shorter move says little of longer ones

template <class T> void put(T& word, std::type_identity_t<T> value) {
    if (observe(word) != value) publish(word, value);
}

std::uint64_t minus(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : 0; }

}  // namespace

// A worker's words, each read once. The number of the request (`wish`) comes first: what the request says was
// stored before it. `holds` comes behind `needs`: what a grant was used for was stored before `needs` became 0.
struct Residents::Seen {
    std::uint32_t wish;
    Bytes needs;
    bool returns;
    Bytes holds, out, fixed;
    Time idle_since;
    Bytes moved_out, moved_back;
    Time moving;

    explicit Seen(const CardPlace& place)
        : wish(observe(place.wish)),
          needs(observe(place.needs)),
          returns(observe(place.returns) != 0),
          holds(observe(place.holds)),
          out(observe(place.out)),
          fixed(observe(place.fixed)),
          idle_since(observe(place.idle_since)),
          moved_out(observe(place.moved_out)),
          moved_back(observe(place.moved_back)),
          moving(observe(place.leaving_ns) + observe(place.returning_ns)) {}
};

struct Residents::One {
    One(std::uint32_t its_slot, CardPlace& its_place, int its_card, const Claim::Terms& its_terms,
        const KeptResident& its_record, Twice<KeptResident>* its_book)
        : slot(its_slot), place(its_place), card(its_card), terms(its_terms), record(its_record), book(its_book) {}
    bool answered(std::uint32_t wish) const { return wish == record.granted || wish == record.refused; }
    bool has_something() const { return record.promised != 0 || record.out != 0; }

    const std::uint32_t slot;
    CardPlace& place;
    const int card;
    Claim::Terms terms;
    KeptResident record;
    Twice<KeptResident>* const book;  // null: nowhere
    std::unique_ptr<Claim> claim{};   // null: it has nothing and wants nothing, or the book was full, or locked
    bool lacks_row = false;           // the book was full
    Time idle_since = 0;
    Bytes moved_out = 0;  // as the worker said when it was last looked at
    Bytes moved = 0;      // both ways, when the speed was last measured,
    Time moving = 0;      // and the time that it had taken
    Bytes speed = 0;
    std::uint32_t asked = 0;  // number of the request that waits; 0: none
    Time asked_since = 0, asked_last = 0, rung = 0;
    Bytes lacks = 0;
    Totals counts{};
};

// How much of a card others use that are not in the book, from what its driver said at a time, and from what was
// promised around that time. A promise is given before it is used, and taken away after the memory is free. So while
// memory moves, what the driver said leaves a range; what was known before stays, as far as it is in there.
struct Residents::Strangers {
    static constexpr Time around = residency::second;
    struct Step {
        Time since;
        Bytes promised;
    };
    std::deque<Step> steps;
    Time taken = 0;
    Bytes bytes = 0;

    void note(Bytes promised, Time now) {
        if (steps.empty() || steps.back().promised != promised) steps.push_back({now, promised});
        while (steps.size() > 1 && steps[1].since + 5 * around < now) steps.pop_front();
    }
    void take(const Facts::Use& use) {
        if (use.taken == taken) return;
        taken = use.taken;
        Bytes most = 0, least = residency::unlimited;
        for (std::size_t i = 0; i < steps.size(); ++i) {
            const bool over = i + 1 < steps.size() && steps[i + 1].since + around < taken;
            const bool later = i != 0 && steps[i].since > taken + around;
            if (over || later) continue;
            most = std::max(most, steps[i].promised);
            least = std::min(least, steps[i].promised);
        }
        bytes = std::clamp(bytes, minus(use.bytes, most), minus(use.bytes, std::min(least, most)));
    }
};

Residents::Residents(cards::Member& book, const residency::Policy& policy, std::vector<Card> cards, Bytes reserve,
                     Facts facts, Part<KeptResidents> kept)
    : book_(book),
      policy_(policy),
      cards_(std::move(cards)),
      reserve_(reserve),
      facts_(std::move(facts)),
      kept_(kept.records),
      strangers_(cards_.size()) {}

Residents::~Residents() = default;

void Residents::admit(std::uint32_t slot, Sheet& sheet, const std::vector<int>& devices, const Claim::Terms& terms) {
    forget(slot);
    for (std::size_t i = 0; i < std::min<std::size_t>(devices.size(), Sheet::most_cards); ++i)
        begin(slot, i, sheet, devices[i], terms, {.known = 1});
}

void Residents::restore(std::uint32_t slot, Sheet& sheet, const std::vector<int>& devices, const Claim::Terms& terms) {
    for (std::size_t i = 0; i < std::min<std::size_t>(devices.size(), Sheet::most_cards); ++i) {
        KeptResident its{.known = 1};
        if (!kept_.empty() && kept_[slot][i].get().known) its = kept_[slot][i].get();
        begin(slot, i, sheet, devices[i], terms, its);
    }
}

// A row that is not claimed would be dropped, though its client lives: so all are claimed first. The book may be
// locked.
void Residents::all_are_back() {
    const bool all = std::ranges::all_of(
        all_, [this](auto& entry) { return !entry.second->has_something() || ready(*entry.second); });
    claims_again_ = !all;
    if (all) book_.drop_unclaimed();
}

void Residents::begin(std::uint32_t slot, std::size_t place, Sheet& sheet, int card, const Claim::Terms& terms,
                      const KeptResident& kept) {
    if (card < 0 || static_cast<std::size_t>(card) >= cards_.size()) return;
    auto& one = all_[{slot, place}];
    one = std::make_unique<One>(slot, sheet.cards[place], card, terms, kept,
                                kept_.empty() ? nullptr : &kept_[slot][place]);
    write_down(*one);
    if (one->has_something()) ready(*one);
    one->moved_out = observe(one->place.moved_out);
    put(one->place.promised, one->record.promised);
    put(one->place.keep, CardPlace::unlimited);
    put(one->place.may_have, may_have(card));
    put(one->place.granted, one->record.granted);
    put(one->place.refused, one->record.refused);
    look_at_ = 0;
}

// Rows are few: one that has nothing there, and waits for nothing, has none.
bool Residents::needs_row(const One& one, const Seen& seen) const {
    return one.has_something() || (seen.needs != 0 && !one.answered(seen.wish)) ||
           std::min(seen.out, facts_.room(one.slot)) != 0;
}

// Whether it has a row in the book.
bool Residents::ready(One& one) {
    if (one.claim) return true;
    auto claim = std::make_unique<Claim>(book_, policy_, cards_[static_cast<std::size_t>(one.card)].uuid, one.slot,
                                         one.terms, one.record.promised, one.record.out);
    one.lacks_row = claim->found_it_full();
    if (!*claim) return false;
    one.claim = std::move(claim);
    one.idle_since = 0;  // as the claim begins
    return true;
}

void Residents::write_down(One& one) {
    if (one.book) one.book->set(one.record);
}

void Residents::forget(std::uint32_t slot) {
    std::erase_if(all_, [&](auto& entry) {
        One& one = *entry.second;
        if (one.slot != slot) return false;
        const Totals its = totals(slot);
        gone_.moved_out += its.moved_out;
        gone_.moved_back += its.moved_back;
        gone_.waits += its.waits;
        gone_.refusals += its.refusals;
        gone_.waited += its.waited;
        one.record = {};
        write_down(one);
        look_at_ = 0;
        return true;
    });
}

void Residents::change(std::uint32_t slot, const Claim::Terms& terms) {
    for (auto& [key, one] : all_) {
        if (one->slot != slot) continue;
        one->terms = terms;
        if (one->claim) one->claim->change(terms);
    }
}

void Residents::note_use(Time now) {
    for (std::size_t card = 0; card < cards_.size(); ++card) {
        strangers_[card].note(book_.promised(cards_[card].uuid), now);
        if (const auto use = facts_.in_use(static_cast<int>(card))) strangers_[card].take(*use);
    }
}

cards::Measured Residents::measured(const One& one) const {
    const auto card = static_cast<std::size_t>(one.card);
    const Bytes strangers = strangers_[card].bytes;
    return {cards_[card].size, strangers, strangers, one.speed, reserve_};
}

Residents::Bytes Residents::most(int card) const {
    return minus(cards_[static_cast<std::size_t>(card)].size, std::max(reserve_, book_.reserve()));
}
Residents::Bytes Residents::may_have(int card) const {
    return minus(most(card), strangers_[static_cast<std::size_t>(card)].bytes);
}

std::vector<Residents::News> Residents::look(Time now) {
    std::vector<News> news;
    if (!claims_again_ && book_.has_rows_to_drop()) book_.drop_unclaimed();
    look_at_ = any() ? now + look_every : residency::never;
    if (all_.empty()) return news;
    const std::uint32_t calls = book_.calls();
    const bool called = std::exchange(heard_, calls) != calls;
    note_use(now);
    if (claims_again_) all_are_back();
    for (auto& [key, one] : all_) look(*one, now, called, news);
    // What one of them gave may be what another one waits for.
    if (book_.calls() != heard_) look_at_ = now;
    return news;
}

void Residents::look(One& one, Time now, bool called, std::vector<News>& news) {
    if (one.claim && one.claim->is_behind()) one.claim->catch_up(measured(one), now);
    if (facts_.returns(one.slot)) return;
    const Seen seen(one.place);
    measure(one, seen);
    if (!needs_row(one, seen)) {
        answer(one, seen, now, called, news);
        one.claim.reset();
        put(one.place.pressed, 0u);
        put(one.place.may_have, may_have(one.card));
        return;
    }
    const bool lacked_row = one.lacks_row;
    if (!ready(one)) {  // the book is locked or full: its requests wait, and their time runs
        if (one.lacks_row && !lacked_row) news.push_back({News::lacks_row, one.slot, seen.needs, 0});
        answer(one, seen, now, called, news);
        return;
    }
    if (seen.idle_since != one.idle_since) {
        one.idle_since = seen.idle_since;
        one.claim->rests(std::min(seen.idle_since, now));
    }
    settle(one, seen, now);
    answer(one, seen, now, called, news);
    order(one, seen, now, news);
    look_at_ = std::min(look_at_, one.claim->waits() ? std::max(one.claim->look(), now + residency::ms) : look_at_);
}

// The last moves say what the next ones take. A client's first moves wait for fresh memory of the host.
void Residents::measure(One& one, const Seen& seen) {
    const Bytes moved = seen.moved_out + seen.moved_back;
    const Bytes more = minus(moved, one.moved);
    const Time took = minus(seen.moving, one.moving);
    if (more >= least_measured && took != 0)
        one.speed = static_cast<Bytes>(
            std::clamp(static_cast<double>(more) / static_cast<double>(took) * 1e9, least_speed, most_speed));
    if (more >= least_measured || moved < one.moved) {
        one.moved = moved;
        one.moving = seen.moving;
    }
}

// Takes away what the worker no longer holds; not while it has a grant that it has not used.
void Residents::settle(One& one, const Seen& seen, Time now) {
    const bool unused = seen.wish != 0 && seen.wish == one.record.granted && seen.needs != 0;
    const Bytes moved = minus(seen.moved_out, std::exchange(one.moved_out, seen.moved_out));
    const Bytes out = std::min(seen.out, facts_.room(one.slot));
    const Bytes promised = one.claim->promised(), gone = unused ? 0 : minus(promised, seen.holds);
    if (gone != 0 || out != one.record.out) {
        one.record.promised = promised - gone;
        one.record.out = out;
        write_down(one);
    }
    if (gone != 0) {
        const Bytes left = std::min(moved, gone);
        if (left != 0) one.claim->moved_out(left, measured(one), now);
        if (gone != left) one.claim->free(gone - left, measured(one), now);
        put(one.place.promised, one.record.promised);
    }
    if (out != one.claim->out()) one.claim->has_out(out);
}

void Residents::answer(One& one, const Seen& seen, Time now, bool called, std::vector<News>& news) {
    if (seen.needs == 0 || one.answered(seen.wish)) {
        if (one.claim && one.claim->waits()) one.claim->withdraw(measured(one), now);
        if (one.asked != 0) one.counts.waited += now - one.asked_since;
        one.asked = 0;
        one.lacks = 0;
        return;
    }
    const bool fresh = one.asked != seen.wish;
    if (fresh) {
        if (one.asked != 0) one.counts.waited += now - one.asked_since;
        one.asked = seen.wish;
        one.asked_since = now;
    }
    if (!fresh && !called && now < one.asked_last + look_every && (!one.claim || now < one.claim->look())) return;
    one.asked_last = now;
    const Bytes more = minus(seen.needs, one.record.promised);
    // What it had: for that there is room in the store. (Requests are for whole pieces.)
    const Bytes had = std::min(seen.out, facts_.room(one.slot));
    const bool patient = seen.returns && had != 0 && minus(more, had) < policy_.rules().piece;
    auto answer = Claim::Answer::granted;
    if (!one.claim) {
        const bool over = !patient && now - one.asked_since >= policy_.rules().wait;
        answer = over ? Claim::Answer::refused : Claim::Answer::waits;
    } else if (more != 0) {
        answer = one.claim->ask(more, measured(one), now, patient);
    } else if (one.claim->waits()) {
        one.claim->withdraw(measured(one), now);
    }
    const bool waits = answer == Claim::Answer::waits || (answer == Claim::Answer::refused && patient);
    one.lacks = waits ? more : 0;
    if (waits) {
        if (fresh) ++one.counts.waits;
        if (fresh) news.push_back({News::waits, one.slot, more, 0});
        return;
    }
    const Time waited = now - one.asked_since;
    one.counts.waited += waited;
    one.asked = 0;
    if (answer == Claim::Answer::granted) {
        one.record.granted = seen.wish;
        one.record.promised = one.claim->promised();
        one.record.out = one.claim->out();
    } else {
        one.record.refused = seen.wish;
        ++one.counts.refusals;
        news.push_back({News::refused, one.slot, more, waited});
    }
    write_down(one);
    records::step();
    put(one.place.promised, one.record.promised);
    if (answer == Claim::Answer::granted) put(one.place.keep, CardPlace::unlimited);
    put(one.place.granted, one.record.granted);
    put(one.place.refused, one.record.refused);
    news.push_back({News::wake, one.slot, 0, 0});
}

Claim::Answer Residents::claim(std::uint32_t slot, int card, Bytes bytes, Time now) {
    constexpr Time asks_every = 20 * residency::ms;
    const auto found = std::ranges::find_if(
        all_, [&](const auto& its) { return its.first.first == slot && its.second->card == card; });
    if (found == all_.end()) return Claim::Answer::granted;
    One& one = *found->second;
    bytes = std::min(bytes, most(card));
    if (one.record.promised >= bytes) return Claim::Answer::granted;
    if (now < one.asked_last + asks_every) return Claim::Answer::waits;
    one.asked_last = now;
    if (!ready(one)) return Claim::Answer::waits;
    const Claim::Answer answer = one.claim->ask(bytes - one.record.promised, measured(one), now, true);
    if (answer != Claim::Answer::granted) return answer;
    one.record.promised = one.claim->promised();
    write_down(one);
    put(one.place.promised, one.record.promised);
    put(one.place.keep, CardPlace::unlimited);
    return answer;
}

void Residents::order(One& one, const Seen& seen, Time now, std::vector<News>& news) {
    const Bytes promised = one.claim->promised(), gives = one.claim->to_give(now);
    const Bytes keep = gives == 0 ? CardPlace::unlimited : std::max(promised - gives, std::min(seen.fixed, promised));
    const bool is_news = observe(one.place.keep) != keep;
    put(one.place.keep, keep);
    const bool pressed = one.claim->others_wait();
    const bool was_pressed = observe(one.place.pressed) != 0;
    put(one.place.pressed, std::uint32_t{pressed});
    put(one.place.may_have, may_have(one.card));
    const bool disobeyed = keep < seen.holds && now >= one.rung + look_every;
    if ((is_news && keep < seen.holds) || disobeyed || (pressed && !was_pressed)) {
        one.rung = now;
        news.push_back({News::wake, one.slot, 0, 0});
    }
}

std::optional<std::uint32_t> Residents::idle_at_a_full_card(Time now, Time idle,
                                                            const std::function<bool(std::uint32_t slot)>& may) const {
    constexpr Time some_time = 2 * residency::second;  // memory of idle clients, which leaves faster, was not enough
    std::vector<bool> full(cards_.size());
    for (std::size_t card = 0; card < cards_.size(); ++card)
        full[card] = minus(now, book_.waits_since(cards_[card].uuid)) >= some_time;
    const One* longest = nullptr;
    Time longest_since = 0;
    for (const auto& [key, one] : all_) {
        const Time since = observe(one->place.idle_since);
        if (!full[static_cast<std::size_t>(one->card)] || since == 0 || minus(now, since) < idle) continue;
        if (one->asked != 0 || (longest && since >= longest_since) || !may(one->slot)) continue;
        longest = one.get();
        longest_since = since;
    }
    return longest ? std::optional(longest->slot) : std::nullopt;
}

bool Residents::works(std::uint32_t slot) const {
    return std::ranges::any_of(all_, [slot](const auto& entry) {
        return entry.second->slot == slot && observe(entry.second->place.idle_since) == 0;
    });
}

void Residents::press_store(bool pressed) {
    for (auto& [key, one] : all_) put(one->place.store_pressed, std::uint32_t{pressed});
}

bool Residents::any_waits() const {
    return std::ranges::any_of(all_, [](const auto& entry) { return entry.second->asked != 0; });
}

Residents::Totals Residents::totals(std::uint32_t slot) const {
    Totals sum;
    for (const auto& [key, one] : all_) {
        if (one->slot != slot) continue;
        sum.promised += one->record.promised;
        sum.out += one->record.out;
        sum.lacks += one->lacks;
        sum.moved_out += observe(one->place.moved_out);
        sum.moved_back += observe(one->place.moved_back);
        sum.waits += one->counts.waits;
        sum.refusals += one->counts.refusals;
        sum.waited += one->counts.waited;
        sum.speed = std::max(sum.speed, one->speed);
    }
    return sum;
}

}  // namespace barcuda
