// SPDX-License-Identifier: Apache-2.0
// turns.h: whose work a GPU does now, when VMs share it by weights. A GPU divides its time evenly among the processes
// that have work for it, and a process that has queued much work delays all others. So workers take turns (--weight):
// the worker that has the turn queues a little at a time, lets the GPU finish it, and passes the turn to the VM of the
// highest priority. Among VMs of one priority the VM with the least GPU time for its weight is next, and in it the
// client that has waited longest. A lower priority always gets a small part.
//
// The book is a file mapped by all bridges that share GPUs, and by their workers (--turns). It is advice: a worker that
// has waited too long works without the turn, and no number in the book is used as an address or an index unchecked,
// because an attacker who controls a worker may write anything there.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "base/failure.h"
#include "base/message.h"

namespace barcuda::turns {

constexpr std::size_t most_groups = 64, most_seats = 256, most_gpus = 16;
constexpr std::uint32_t usual_weight = 100, most_weight = 10'000;
using Uuid = std::array<unsigned char, 16>;

enum class Priority : std::uint32_t { low, normal, high };
constexpr std::string_view priorities[] = {"low", "normal", "high"};
constexpr std::optional<Priority> priority_named(std::string_view name) {
    for (std::uint32_t p = 0; p < std::size(priorities); ++p)
        if (priorities[p] == name) return static_cast<Priority>(p);
    return {};
}
// A priority that has work gets one part in this many of the time, whatever higher ones want.
constexpr std::uint64_t floor_parts = 16;

struct Share {                 // of a VM
    std::uint32_t weight = 0;  // 0: the VM takes no turns
    Priority priority = Priority::normal;
};

struct Group {  // a bridge, with all of its clients. pid 0: free
    std::uint32_t pid, weight, priority;
};
enum Call : std::uint32_t { resting, waiting, called };
struct Seat {                        // of a worker, at one GPU. pid 0: free
    std::uint32_t pid, group, call;  // the worker sleeps on `call`
    std::uint32_t reserved;
    std::uint64_t last;  // when it last got the turn; all times are nanoseconds of CLOCK_MONOTONIC
};
struct Gpu {
    Uuid uuid;
    std::uint32_t known;                         // 1: the entry is in use
    std::uint32_t lock;                          // pid of the process that changes something
    std::uint32_t turn;                          // number of a seat, plus 1; 0: no seat has it
    std::uint32_t waiters;                       // number of seats that wait
    std::uint64_t since;                         // when the turn was given
    std::uint64_t contended;                     // when a seat last had to wait
    std::uint64_t clock[std::size(priorities)];  // `spent` of the group that got the last turn
    std::uint64_t due[std::size(priorities)];    // from this time on the priority may go before higher ones, once
    std::uint64_t spent[most_groups];            // nanoseconds, times usual_weight, by weight
    Seat seats[most_seats];
};
struct Book {
    static constexpr std::uint64_t right_magic = 0x7372756e74636162;  // "bacturns"
    std::uint64_t magic;
    std::uint32_t version, lock;
    Group groups[most_groups];
    Gpu gpus[most_gpus];
};

// Whether the workers of a VM wait for turns. A worker that waits in vain loses a second. So after one has, its bridge
// tells its workers not to wait for some time, and for longer each time that turns still do not come afterwards.
class Trust {
  public:
    // A worker has waited in vain. True: from now on workers do not wait for some time. (Waits that began earlier count
    // as the same one.)
    bool lose(std::uint64_t now) {
        if (now < until_) return false;
        length_ = length_ && now - until_ < memory ? std::min(2 * length_, most) : least;
        until_ = now + length_;
        return true;
    }
    std::uint64_t lost_until() const { return until_; }  // 0: never
    std::uint64_t length() const { return length_; }
    static constexpr std::uint64_t least = 5'000'000'000, most = 16 * least, memory = most;  // nanoseconds

  private:
    std::uint64_t until_ = 0, length_ = 0;
};

// A bridge's side: the file, created if it is missing, and the bridge's group in it.
class Member {
  public:
    Member() = default;
    Member(const Member&) = delete;
    ~Member();
    // `owner`: the process with which the group ends. An earlier bridge's group of the same owner is used again.
    Failure join(const std::string& path, const Share& share, std::uint32_t owner);
    void change(const Share& share);  // after join()
    int fd() const { return file_.fd(); }
    std::uint32_t group() const { return group_; }

  private:
    File file_;
    Book* book_ = nullptr;
    std::uint32_t group_ = 0;
};

// A worker's seat at one GPU. If several threads or processes use one book, each has its own seats.
class Place {
  public:
    Place(Book& book, std::uint32_t group, const Uuid& gpu, std::uint32_t pid);
    ~Place();
    Place(const Place&) = delete;
    explicit operator bool() const { return seat_; }  // false: the book is full
    bool takes_turns() const;                         // its VM has a weight
    bool has_turn() const;
    // True: this seat has the turn. Otherwise the seat is called when it gets the turn.
    bool ask(std::uint64_t now);
    void sleep(std::uint64_t nanoseconds) const;  // until it is called, or for this long
    void withdraw();                              // stops waiting
    // Charges the time since the turn was given, and passes the turn on; `again`: this seat waits for the next one.
    // True: it got it.
    bool pass(std::uint64_t now, bool again);
    // The turn begins at `when`: the time before costs nothing.
    void renew(std::uint64_t when);
    bool wanted() const;
    bool contended(std::uint64_t now) const;  // recently
    bool outranked() const;                   // there are VMs of a higher priority

  private:
    class Locked;
    void hand_on(std::uint64_t now);
    bool abandoned(std::uint64_t now) const;
    std::uint32_t weight_of(std::uint32_t group) const;
    std::size_t priority_of(std::uint32_t group) const;
    std::uint64_t had(std::uint64_t now) const;
    void charge(const Seat& seat, std::uint64_t now);

    Book& book_;
    Gpu* gpu_ = nullptr;
    Seat* seat_ = nullptr;
    std::uint32_t pid_, number_ = 0;
};

// Maps a file that a Member has made; null: it is not one.
Book* map(int fd);

}  // namespace barcuda::turns
