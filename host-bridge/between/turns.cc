// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/between/turns.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "base/os/futex.h"
#include "host-bridge/between/book_file.h"
#include "shm-device/queue/sync.h"
#include "shm-device/queue/wait.h"

namespace barcuda::turns {
namespace {

constexpr BookKind kind{Book::right_magic, 2, sizeof(Book), "turns", "--turns"};
// A worker that has had the turn for this long is skipped: its work does not end, or it has forgotten the turn.
constexpr std::uint64_t overstayed = 500'000'000, lately = 200'000'000;
// After each turn a priority leaves the higher ones at least this long, because switching to another process has a
// cost.
constexpr std::uint64_t shortest_pause = 15'000'000;

bool dead(std::uint32_t pid) { return kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH; }

std::uint32_t load(const std::uint32_t& word) { return observe(word); }

std::uint32_t priority_of(const Group& group) {
    return std::min(load(group.priority), static_cast<std::uint32_t>(std::size(priorities) - 1));
}

// False: another process keeps holding it. Then nothing is changed.
bool take(std::uint32_t& lock, std::uint32_t pid) {
    constexpr std::uint64_t patience = 20'000'000;
    std::uint64_t begun = 0;
    for (;;) {
        const std::uint32_t owner = load(lock);
        if (owner == 0 && claim(lock, 0, pid)) return true;
        if (owner == 0) continue;
        const std::uint64_t now = Os::now();
        if (!begun) begun = now;
        if (dead(owner) && claim(lock, owner, pid)) return true;
        if (now - begun > patience) return false;
        sched_yield();
    }
}

template <class Row, std::size_t n> Row* vacant(Row (&rows)[n]) {
    Row* const at = std::ranges::find_if(rows, [](const Row& r) { return r.pid == 0 || dead(r.pid); });
    return at == std::end(rows) ? nullptr : at;
}

}  // namespace

Book* map(int fd) { return static_cast<Book*>(map_book(fd, kind)); }

// ---- a bridge

Failure Member::join(const std::string& path, const Share& share, std::uint32_t owner) {
    File file;
    void* at = nullptr;
    if (Failure e = open_book(path, kind, file, at)) return e;
    auto* const book = static_cast<Book*>(at);
    Group* group = std::ranges::find(book->groups, owner, &Group::pid);
    const bool known = group != std::end(book->groups);  // an earlier bridge's of the same keeper
    if (!known) group = vacant(book->groups);
    if (group) group_ = static_cast<std::uint32_t>(group - book->groups);
    if (group && !known)
        for (Gpu& gpu : book->gpus) gpu.spent[group_] = 0;
    if (group) *group = {owner, share.weight, static_cast<std::uint32_t>(share.priority)};
    flock(file.fd(), LOCK_UN);
    if (!group) {
        munmap(book, sizeof *book);
        return fmt::format("{}: {} bridges use it already", path, most_groups);
    }
    file_ = std::move(file);
    book_ = book;
    return {};
}

// Takes no lock, because a worker may hold one forever: at worst one turn is not charged.
void Member::change(const Share& share) {
    Group& group = book_->groups[group_];
    const auto priority = static_cast<std::uint32_t>(share.priority);
    if (load(group.priority) != priority)  // `spent` is relative to the other groups of the same priority
        for (Gpu& gpu : book_->gpus) publish(gpu.spent[group_], observe(gpu.clock[priority]));
    publish(group.priority, priority);
    publish(group.weight, share.weight);
}

Member::~Member() {
    if (!book_) return;
    publish(book_->groups[group_].pid, 0u);
    munmap(book_, sizeof *book_);
}

// ---- a worker

class Place::Locked {
  public:
    explicit Locked(Place& place) : lock_(place.gpu_->lock), held_(take(lock_, place.pid_)) {}
    ~Locked() {
        if (held_) publish(lock_, 0u);
    }
    Locked(const Locked&) = delete;
    explicit operator bool() const { return held_; }

  private:
    std::uint32_t& lock_;
    const bool held_;
};

Place::Place(Book& book, std::uint32_t group, const Uuid& uuid, std::uint32_t pid) : book_(book), pid_(pid) {
    if (!take(book.lock, pid)) return;
    for (Gpu& gpu : book.gpus)
        if (gpu.known && gpu.uuid == uuid) gpu_ = &gpu;
    if (!gpu_)
        if (const auto fresh = std::ranges::find(book.gpus, 0u, &Gpu::known); fresh != std::end(book.gpus)) {
            gpu_ = &*fresh;
            gpu_->uuid = uuid;
            gpu_->known = 1;
        }
    if (gpu_ && (seat_ = vacant(gpu_->seats))) {
        number_ = static_cast<std::uint32_t>(seat_ - gpu_->seats) + 1;
        *seat_ = {pid, group % static_cast<std::uint32_t>(most_groups), resting, 0, 0};
    }
    publish(book.lock, 0u);
}

Place::~Place() {
    if (!seat_) return;
    withdraw();
    if (has_turn()) pass(Os::now(), false);
    publish(seat_->pid, 0u);
}

bool Place::takes_turns() const { return load(book_.groups[seat_->group % most_groups].weight) != 0; }
bool Place::has_turn() const { return load(gpu_->turn) == number_; }
bool Place::wanted() const { return load(gpu_->waiters) != 0; }
bool Place::contended(std::uint64_t now) const { return now < observe(gpu_->contended) + lately; }
void Place::sleep(std::uint64_t nanoseconds) const {
    if (load(seat_->call) == waiting) futex_wait(seat_->call, waiting, nanoseconds, Among::processes);
}

std::uint32_t Place::weight_of(std::uint32_t group) const {
    return std::clamp(load(book_.groups[group % most_groups].weight), 1u, most_weight);
}

std::size_t Place::priority_of(std::uint32_t group) const {
    return turns::priority_of(book_.groups[group % most_groups]);
}

bool Place::outranked() const {
    return std::ranges::any_of(book_.groups, [own = priority_of(seat_->group)](const Group& g) {
        return load(g.pid) != 0 && turns::priority_of(g) > own;
    });
}

// The time since the turn began. `since` may be slightly in the future.
std::uint64_t Place::had(std::uint64_t now) const {
    const std::uint64_t since = observe(gpu_->since);
    return now > since ? now - since : 0;
}

void Place::charge(const Seat& seat, std::uint64_t now) {
    const std::uint64_t used = std::min(had(now), overstayed);
    gpu_->spent[seat.group % most_groups] += used * usual_weight / weight_of(seat.group);
    gpu_->due[priority_of(seat.group)] = now + std::max(shortest_pause, (floor_parts - 1) * used);
}

// For the turn that a seat has now.
bool Place::abandoned(std::uint64_t now) const {
    const std::uint32_t turn = gpu_->turn;
    if (turn == 0 || turn > most_seats) return true;
    return had(now) > overstayed || dead(gpu_->seats[turn - 1].pid);
}

// Gives the turn to the highest priority, or to a lower one that is due; within it to the group that has spent least,
// and within the group to the seat whose last turn is longest ago. Needs the lock.
void Place::hand_on(std::uint64_t now) {
    Seat* first[std::size(priorities)] = {};
    std::uint32_t count = 0;
    const auto spent = [&](const Seat& s) { return gpu_->spent[s.group % most_groups]; };
    for (Seat& s : gpu_->seats) {
        if (load(s.call) != waiting || s.pid == 0) continue;
        ++count;
        Seat*& next = first[priority_of(s.group)];
        if (!next || spent(s) < spent(*next) || (spent(s) == spent(*next) && s.last < next->last)) next = &s;
    }
    Seat* next = nullptr;
    for (std::size_t p = 0; p < std::size(first); ++p) {
        if (!first[p]) continue;
        next = first[p];
        const bool outranked = std::any_of(first + p + 1, std::end(first), [](const Seat* s) { return s; });
        if (outranked && gpu_->due[p] <= now) break;
    }
    publish(gpu_->waiters, next ? count - 1 : 0);
    if (!next) return publish(gpu_->turn, 0u);
    gpu_->clock[priority_of(next->group)] = spent(*next);
    gpu_->since = next->last = now;
    publish(gpu_->turn, static_cast<std::uint32_t>(next - gpu_->seats) + 1);
    publish(next->call, static_cast<std::uint32_t>(called));
    if (next != seat_) futex_wake(next->call, Among::processes);
}

bool Place::ask(std::uint64_t now) {
    if (has_turn()) return true;
    const Locked locked(*this);
    if (!locked) return false;
    if (has_turn()) return true;
    std::uint64_t& spent = gpu_->spent[seat_->group % most_groups];
    spent = std::max(spent, gpu_->clock[priority_of(seat_->group)]);  // a group that rested has saved nothing
    publish(seat_->call, static_cast<std::uint32_t>(waiting));
    if (abandoned(now)) {
        if (const std::uint32_t turn = gpu_->turn; turn > 0 && turn <= most_seats) charge(gpu_->seats[turn - 1], now);
        hand_on(now);
    }
    if (has_turn()) return true;
    std::uint32_t count = 0;
    for (const Seat& s : gpu_->seats) count += load(s.call) == waiting && s.pid != 0;
    publish(gpu_->waiters, count);
    publish(gpu_->contended, now);
    return false;
}

void Place::withdraw() {
    const Locked locked(*this);
    if (locked && load(seat_->call) == waiting) publish(seat_->call, static_cast<std::uint32_t>(resting));
}

bool Place::pass(std::uint64_t now, bool again) {
    const Locked locked(*this);
    if (!locked || !has_turn()) return false;
    charge(*seat_, now);
    publish(seat_->call, static_cast<std::uint32_t>(again ? waiting : resting));
    hand_on(now);
    return has_turn();
}

void Place::renew(std::uint64_t when) {
    if (has_turn()) publish(gpu_->since, when);
}

}  // namespace barcuda::turns
