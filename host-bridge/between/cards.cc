// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/between/cards.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/os/file.h"
#include "base/os/futex.h"
#include "host-bridge/between/book_file.h"
#include "shm-device/queue/wait.h"

namespace barcuda::cards {
namespace {

constexpr BookKind kind{Book::right_magic, 2, sizeof(Book), "cards", "--cards"};

static_assert(std::size(turns::priorities) == residency::most_rank + 1);

// Bytes of the file that are locked: the book's lock, and one of each bridge.
constexpr std::uint64_t book_lock = 0;
constexpr std::uint64_t lock_of(std::uint32_t number) { return 1 + number; }

}  // namespace

// ---- a bridge

// The book's lock. What others did before it is seen after it: the kernel's lock orders both.
class Member::Locked {
  public:
    explicit Locked(Member& member) : member_(member), held_(take()) {}
    ~Locked() {
        if (!held_) return;
        os::lock_byte(member_.fd(), book_lock, os::Lock::none, os::Holder::open_file);
        if (stage) stage->has_unlocked();
    }
    Locked(const Locked&) = delete;
    explicit operator bool() const { return held_; }

  private:
    // False: another process keeps it. The bridge has other clients to serve: it waits once, and as long as that
    // process keeps the lock, each later attempt is a single one.
    bool take() const {
        constexpr std::uint64_t patience = 50'000'000;
        for (const std::uint64_t begun = Os::now();;) {
            if (stage) stage->wants_lock();
            const int e = os::lock_byte(member_.fd(), book_lock, os::Lock::exclusive, os::Holder::open_file);
            if (e == 0) member_.locked_out_ = false;
            if (e != EAGAIN) return e == 0;
            if (stage) stage->finds_it_locked();
            else if (member_.locked_out_) return false;
            else if (Os::now() - begun > patience) break;
            else sched_yield();
        }
        ++member_.vain_waits_;
        member_.locked_out_ = true;
        return false;
    }
    Member& member_;
    const bool held_;
};

Failure Member::join(const std::string& path, std::uint32_t owner) {
    File file;
    void* at = nullptr;
    if (Failure e = open_book(path, kind, file, at)) return e;
    flock(file.fd(), LOCK_UN);
    file_ = std::move(file);
    book_ = static_cast<Book*>(at);
    for (number_ = 0; number_ < most_members; ++number_)
        if (os::lock_byte(fd(), lock_of(number_), os::Lock::exclusive, os::Holder::open_file) == 0) break;
    if (number_ == most_members) {
        close();
        return fmt::format("{}: {} bridges use it already", path, most_members);
    }
    const Locked locked(*this);
    if (!locked) {
        close();
        return fmt::format("{}: another process holds its lock: end that process, or name another ({})", path,
                           kind.option);
    }
    complete_ = true;
    remove_the_gone();
    book_->bridges[number_].used = owner;
    return {};
}

Failure Member::adopt(File kept, std::uint32_t number, std::uint32_t owner) {
    void* const at = map_book(kept.fd(), kind);
    if (!at) return fmt::format("the kept file is not a book of {} of this version", kind.what);
    file_ = std::move(kept);
    book_ = static_cast<Book*>(at);
    number_ = number;
    if (number >= most_members ||
        os::lock_byte(fd(), lock_of(number), os::Lock::exclusive, os::Holder::open_file) != 0) {
        close();
        return fmt::format("another bridge has the number {} in the book of cards", number);
    }
    book_->bridges[number].used = owner;  // the earlier bridge may have said that it leaves
    return {};
}

void Member::close() {
    munmap(book_, sizeof *book_);
    book_ = nullptr;
    file_ = File();
}

Member::~Member() {
    if (!book_) return;
    if (const Locked locked(*this); locked) {
        book_->bridges[number_].used = 0;
        call_all();
    }
    close();
}

bool Member::is_gone(std::uint32_t number) const {
    return number != number_ && os::probe_byte(fd(), lock_of(number)) == 0;
}

// Rows of bridges that have ended, and rows that no client of this bridge has. Needs the lock.
void Member::remove_the_gone() {
    std::optional<bool> known[most_members];
    const auto gone = [&](std::uint32_t i) {
        if (i >= most_members) return true;
        if (!known[i]) known[i] = is_gone(i);
        return *known[i];
    };
    bool any = false;
    for (Card& card : book_->cards) {
        if (!card.known) continue;
        any |= card.stirred != 0;
        for (Row& row : card.rows) {
            const std::uint32_t m = row.member;
            if (!m || !(m == number_ + 1 ? complete_ && !std::ranges::count(claimed_, &row) : gone(m - 1))) continue;
            row.member = 0;
            any = true;
        }
    }
    for (std::uint32_t i = 0; i < most_members; ++i)
        if (book_->bridges[i].used && gone(i)) {
            book_->bridges[i].used = 0;
            any = true;
        }
    if (!any) return;
    call_all();
    for (Card& card : book_->cards)
        if (card.stirred) card.stirred = 0;
}

void Member::call(std::uint32_t number) {
    if (number >= most_members) return;
    Word<std::uint32_t>& calls = book_->bridges[number].calls;
    calls = calls + 1;
    futex_wake(reinterpret_cast<const std::uint32_t&>(calls), Among::processes);
}

void Member::call_all() {
    for (std::uint32_t i = 0; i < most_members; ++i)
        if (i != number_ && book_->bridges[i].used) call(i);
}

std::uint32_t Member::calls() const { return book_->bridges[number_].calls; }

void Member::sleep(std::uint32_t seen, std::uint64_t nanoseconds) const {
    const auto& word = reinterpret_cast<const std::uint32_t&>(book_->bridges[number_].calls);
    if (stage) return stage->sleep(word, seen);
    futex_wait(word, seen, nanoseconds, Among::processes);
}

void Member::call_own() { call(number_); }

Bytes Member::promised(const Uuid& uuid) const {
    Bytes sum = 0;
    for (const Card& card : book_->cards) {
        if (!card.known || card.uuid != uuid) continue;
        for (const Row& row : card.rows) {
            const Bytes its = row.member ? Bytes{row.promised} : 0;
            sum += std::min(its, residency::unlimited - sum);
        }
    }
    return sum;
}

Bytes Member::reserve() const {
    Bytes largest = 0;
    for (const Book::Bridge& bridge : book_->bridges)
        if (bridge.used) largest = std::max<Bytes>(largest, bridge.reserve);
    return largest;
}

Time Member::waits_since(const Uuid& uuid) const {
    Time since = residency::never;
    for (const Card& card : book_->cards) {
        if (!card.known || card.uuid != uuid) continue;
        for (const Row& row : card.rows)
            if (row.member && row.wanted) since = std::min<Time>(since, row.waiting_since);
    }
    return since;
}

void Member::drop_unclaimed() {
    complete_ = true;
    const Locked locked(*this);
    rows_to_drop_ = !locked;
    if (locked) remove_the_gone();
}

// ---- a client

Claim::Claim(Member& member, const residency::Policy& policy, const Uuid& uuid, std::uint32_t slot, const Terms& terms,
             Bytes promised, Bytes out)
    : member_(member), policy_(policy), uuid_(uuid), slot_(slot) {
    own_.promised = promised;
    own_.out = out;
    own_.rank = terms.rank;
    own_.pinned = terms.pinned;
    const Member::Locked locked(member);
    if (!locked) return;
    member.remove_the_gone();
    auto& cards = member.book_->cards;
    auto at = std::ranges::find_if(cards, [&](const Card& c) { return c.known && c.uuid == uuid; });
    if (at == std::end(cards)) {
        at = std::ranges::find_if(cards, [](const Card& c) { return !c.known; });
        full_ = at == std::end(cards);
        if (full_) return;
        at->uuid = uuid;
        at->known = 1;
    }
    card_ = &*at;
    full_ = !restore();
    if (full_) card_ = nullptr;
}

Claim::~Claim() {
    if (!card_) return;
    std::erase(member_.claimed_, row_);
    const Member::Locked locked(member_);
    if (!locked) member_.rows_to_drop_ = true;
    if (!locked || !is_own(*row_)) return;
    const bool means_nothing = own_.promised == 0 && own_.wanted == 0;  // to others
    card_->stirred = 1;
    row_->member = 0;
    if (!means_nothing) member_.call_all();
    card_->stirred = 0;
}

bool Claim::is_own(const Row& row) const { return row.member == member_.number_ + 1 && row.slot == slot_; }

// The client's row, with its own figures, whatever is in the book. Needs the lock. False: the book is full.
bool Claim::restore() {
    if (card_->uuid != uuid_) card_->uuid = uuid_;
    if (!row_ || !is_own(*row_)) {
        Row* row = std::ranges::find_if(card_->rows, [this](const Row& r) { return is_own(r); });
        if (row == std::end(card_->rows)) {
            if (!may_take_row()) return false;
            row = std::ranges::find_if(card_->rows, [](const Row& r) { return r.member == 0; });
        }
        std::erase(member_.claimed_, row_);
        member_.claimed_.push_back(row_ = row);
        if (row_->member == 0) row_->keep = residency::unlimited;
    }
    write();
    if (row_->member == 0) {
        row_->slot = slot_;
        row_->member = member_.number_ + 1;
    }
    return true;
}

// Needs the lock. True: there is a free one.
bool Claim::may_take_row() const {
    std::size_t rows[most_members] = {}, free = 0;
    for (const Row& row : card_->rows) {
        const std::uint32_t m = row.member;
        if (m == 0) ++free;
        else if (m <= most_members) ++rows[m - 1];
    }
    std::size_t kept = 0;  // for other bridges
    for (std::uint32_t i = 0; i < most_members; ++i)
        if (i != member_.number_) kept += rows_of_each - std::min(rows_of_each, rows[i]);
    const std::size_t mine = rows[member_.number_];
    return free != 0 && (mine < rows_of_each || mine - rows_of_each + kept < free);
}

namespace {
template <class T> void put(Word<T>& word, std::type_identity_t<T> value) {
    if (word != value) word = value;
}
}  // namespace

// Needs the lock. A grant is written in this order: promised, then no longer wanted.
void Claim::write() {
    put(row_->rank, own_.rank);
    put(row_->pinned, own_.pinned);
    put(row_->patient, own_.patient);
    put(row_->out, own_.out);
    put(row_->idle_since, own_.idle_since);
    put(row_->came, own_.came);
    put(row_->left, own_.left);
    put(row_->left_before, own_.left_before);
    put(row_->promised, own_.promised);
    put(row_->waiting_since, own_.waiting_since);
    put(row_->wanted, own_.wanted);
    behind_ = false;
}

// All clients of the card, and their rows. Each word is read once.
std::vector<residency::Client> Claim::snapshot(std::vector<Row*>& rows, Time now, Bytes size) const {
    std::vector<residency::Client> all;
    const auto past = [now](Time t) { return std::min(t, now); };
    for (Row& row : card_->rows) {
        if (!row.member) continue;
        residency::Client c = own_;
        if (&row != row_) {
            c.promised = row.promised;
            c.out = row.out;
            c.wanted = row.wanted;
            c.idle_since = past(row.idle_since);
            c.waiting_since = past(row.waiting_since);
            // A stay may begin later, when the client's memory has come.
            c.came = std::min<Time>(row.came, now + residency::Policy::time_to_move(size, {}));
            c.left = past(row.left);
            c.left_before = past(row.left_before);
            c.rank = std::min<std::uint32_t>(row.rank, residency::most_rank);
            c.pinned = row.pinned != 0;
            c.patient = row.patient != 0;
        }
        c.keep = row.keep;
        c.told = past(row.told);
        all.push_back(c);
        rows.push_back(&row);
    }
    return all;
}

// The next decision for the card, as far as it concerns others. Needs the lock.
residency::Decision Claim::decide(std::vector<Row*>& rows, const Measured& measured, Time now, bool asks) {
    put(card_->size, measured.size);
    put(member_.book_->bridges[member_.number_].reserve, measured.reserve);
    residency::Card card{};
    card.size = measured.size;
    card.reserve = std::max(member_.reserve(), measured.reserve);
    card.strangers = measured.strangers;
    card.used = measured.used;
    card.speed = measured.speed;
    const std::vector<residency::Client> clients = snapshot(rows, now, measured.size);
    residency::Decision decision = policy_.decide(clients, card, now);
    bool called[most_members] = {};
    const auto call = [&](const Row& row) {
        if (const std::uint32_t m = row.member; m && m <= most_members) called[m - 1] = true;
    };
    for (const auto& [i, keep] : decision.orders) {
        rows[i]->told = now;
        rows[i]->keep = keep;
        call(*rows[i]);
    }
    for (const auto* some : {&decision.granted, &decision.refused})
        for (const std::size_t i : *some)
            if (!asks || rows[i] != row_) call(*rows[i]);
    for (std::uint32_t i = 0; i < most_members; ++i)
        if (called[i]) member_.call(i);
    look_ = decision.look;
    return decision;
}

Claim::Answer Claim::ask(Bytes more, const Measured& measured, Time now, bool patient) {
    if (!own_.wanted) own_.waiting_since = now;
    own_.wanted = more;
    own_.patient = patient;
    const bool late = !patient && now - std::min(now, own_.waiting_since) >= policy_.rules().wait;
    const auto refuse = [this] {
        own_.wanted = 0;
        behind_ = true;  // until it is written
        return Answer::refused;
    };
    look_ = now + Member::usual_sleep;
    const Member::Locked locked(member_);
    if (!locked) return late ? refuse() : Answer::waits;
    member_.remove_the_gone();
    card_->stirred = 1;
    Answer answer = Answer::waits;
    std::vector<Row*> rows;
    if (restore()) {
        const residency::Decision decision = decide(rows, measured, now, true);
        const auto among = [&](const std::vector<std::size_t>& some) {
            return std::ranges::any_of(some, [&](std::size_t i) { return rows[i] == row_; });
        };
        if (among(decision.granted)) {
            grant(measured, now);
            answer = Answer::granted;
        } else if (among(decision.refused)) {
            answer = refuse();
            settle(measured, now);
        }
    } else if (late) {
        answer = refuse();
    }
    card_->stirred = 0;
    return answer;
}

void Claim::grant(const Measured& measured, Time now) {
    const Bytes back = std::min(own_.out, own_.wanted);
    // What it gets beside that while it settles begins no new stay.
    const bool grows = policy_.settles(own_, {.speed = measured.speed}, now);
    if (back || (!grows && (own_.waiting_since != now || !own_.promised)))
        own_.came = now + residency::Policy::time_to_move(back, {.speed = measured.speed});
    own_.out -= back;
    own_.promised += std::exchange(own_.wanted, 0);
    put(row_->keep, residency::unlimited);
    write();
}

// Behind a change of this client: what it means for others. Needs the lock.
void Claim::settle(const Measured& measured, Time now) {
    std::vector<Row*> rows;
    write();
    decide(rows, measured, now, false);
}

void Claim::withdraw(const Measured& measured, Time now) {
    own_.wanted = 0;
    free(0, measured, now);
}

void Claim::free(Bytes bytes, const Measured& measured, Time now) {
    own_.promised -= std::min(bytes, own_.promised);
    const Member::Locked locked(member_);
    behind_ = !locked;
    if (!locked) return;
    member_.remove_the_gone();
    card_->stirred = 1;
    if (restore()) settle(measured, now);
    card_->stirred = 0;
}

void Claim::moved_out(Bytes bytes, const Measured& measured, Time now) {
    const Bytes moved = std::min(bytes, own_.promised);
    own_.out += moved;
    if (moved && own_.promised - moved <= row_->keep) own_.left_before = std::exchange(own_.left, now);
    free(moved, measured, now);
}

void Claim::has_out(Bytes bytes) {
    own_.out = bytes;
    if (is_own(*row_)) put(row_->out, own_.out);
}

bool Claim::others_wait() const {
    return std::ranges::any_of(card_->rows, [this](const Row& r) { return &r != row_ && r.member && r.wanted; });
}

void Claim::works() { rests(0); }

void Claim::rests(Time now) {
    own_.idle_since = now;
    if (is_own(*row_)) put(row_->idle_since, now);
}

void Claim::change(const Terms& terms) {
    own_.rank = terms.rank;
    own_.pinned = terms.pinned;
    if (!is_own(*row_)) return;
    put(row_->rank, own_.rank);
    put(row_->pinned, own_.pinned);
}

Bytes Claim::to_give(Time now) const {
    if (!is_own(*row_)) return 0;
    const Bytes keep = row_->keep;
    if (own_.pinned || own_.promised <= keep) return 0;
    // One that waits uses nothing of what it has.
    if (!own_.wanted && now < own_.came + policy_.rules().least_stay) return 0;
    return own_.promised - keep;
}

}  // namespace barcuda::cards
