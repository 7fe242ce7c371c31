// SPDX-License-Identifier: Apache-2.0
// cards.h: how much of each card each client is promised, when guests together may need more than the card holds. The
// book is a file that the bridges of one user share (book_file.h). No worker maps it. It has a row for each client at
// each card. The bridge of a client writes the client's row. The bridge that changes something also makes the next
// decision for that card (residency.h), and writes its orders into the rows of others.
//
// Words that the client's own bridge writes:
//   member         number of the bridge plus 1; 0: no row. The last word when a row begins, the first when it ends
//   slot           of the client, in its bridge's region
//   rank, pinned   what the operator says of the client
//   promised       bytes that the client has on the card, or may take there. Grows when a decision grants what it
//                  wants, under the lock; falls after the memory is free
//   out            its bytes in the store. Grows when they have moved out, falls when their return is granted
//   patient        what it waits for is memory that it had: its time is never over
//   wanted         bytes that it lacks and waits for. Set by ask(); 0 after a grant, a refusal, or withdraw()
//   waiting_since  when that wait began; written before `wanted`
//   idle_since     when its last work ended; 0: it works. Written without the lock
//   came           when its stay began, or will begin: by a grant that it waited for
//   left, left_before   when it last obeyed an order, and the time before
// Words of its row that any bridge writes, under the lock:
//   keep           how many bytes the client may keep. An order: less than `promised`. Obeyed: promised <= keep.
//                  Lifted, or behind a grant: unlimited
//   told           when it was told; written before `keep`
// Words of a bridge:
//   used           the process that the bridge ends with (its keeper); 0: no bridge
//   reserve        what it never promises; the largest one of all bridges holds
//   calls          grows by 1 at a grant, a refusal or an order of one of its clients, and when a bridge ends. A futex:
//                  the bridge sleeps on it
// Words of a card:
//   known, uuid    an entry that is in use, once and for all
//   stirred        1 while a change is under way, until all bridges concerned have been called
//   size           as the driver says; for those that show the book
//
// An order says how much is left behind it, not how much is to be given. So an order that is carried out twice does
// nothing more.
//
// The book's lock is a lock of one byte of the file. Each bridge also holds the byte of its number, as long as the
// bridge, its keeper or a later bridge of that keeper has the open file. The kernel ends both with the process. A
// bridge that finds another one's byte free removes the rows of that bridge: its processes are gone, and their memory
// is free. Each change takes effect with the store of one word, so a bridge that is killed leaves nothing half done; if
// it was killed before it called others, `stirred` says so, and the next bridge calls all.
//
// A process of the same user may write anything into the book. So each word is read once, and checked. A bridge takes
// its own clients' figures from its own memory, and writes them again where the book has others. The card's size and
// what is in use there come from the driver, not from the book: no grant is larger than what the driver says is free. A
// lie costs others time. A bridge that cannot get the lock is granted nothing, and its callers get out-of-memory when
// their time is over.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/failure.h"
#include "base/message.h"
#include "host-bridge/between/records.h"
#include "host-bridge/between/residency.h"
#include "host-bridge/between/turns.h"

namespace barcuda::cards {

using residency::Bytes;
using residency::Time;
using turns::Uuid;

constexpr std::size_t most_members = 64, most_clients = 256, most_cards = 16;
// Rows of a card that are kept for each bridge. Of the others a bridge takes no more than it leaves: so no guest can
// fill the book with its clients.
constexpr std::size_t rows_of_each = 2;
// A context, and what the driver takes for itself.
constexpr Bytes usual_reserve = (512ull + 256) << 20;

struct Row {
    Word<std::uint32_t> member, slot, rank, pinned, patient, unused;
    Word<Bytes> promised, out, wanted, keep;
    Word<Time> told, idle_since, waiting_since, came, left, left_before;
};
struct Card {
    Uuid uuid;
    Word<std::uint32_t> known;  // 1: the entry is in use
    Word<std::uint32_t> stirred;
    Word<Bytes> size;  // for those that show the book
    Row rows[most_clients];
};
struct Book {
    static constexpr std::uint64_t right_magic = 0x7364726163636162;  // "baccards"
    std::uint64_t magic;
    std::uint32_t version, unused;
    struct Bridge {
        Word<std::uint32_t> used;  // the process that it ends with (its keeper); 0: no bridge
        Word<std::uint32_t> calls;
        Word<Bytes> reserve;
    } bridges[most_members];
    Card cards[most_cards];
};

// What a test puts in place of the kernel, to choose which bridge goes on.
class Stage {
  public:
    virtual ~Stage() = default;
    virtual void wants_lock() = 0;  // before each attempt
    virtual void finds_it_locked() = 0;
    virtual void has_unlocked() = 0;
    virtual void sleep(const std::uint32_t& word, std::uint32_t seen) = 0;
};
inline Stage* stage = nullptr;

// A bridge's part in the book. It and its claims are used by one thread; a second one may sleep() for it.
class Member {
  public:
    Member() = default;
    Member(const Member&) = delete;
    ~Member();
    Failure join(const std::string& path, std::uint32_t owner);
    // A later bridge of the same keeper: the open file that the keeper has, and its number. It makes its claims again
    // and then drops the rows of clients that have ended since.
    Failure adopt(File kept, std::uint32_t number, std::uint32_t owner);
    void drop_unclaimed();
    // Rows of clients that have ended are in the book yet, because it was locked: drop_unclaimed() is to be repeated.
    bool has_rows_to_drop() const { return rows_to_drop_; }
    int fd() const { return file_.fd(); }
    std::uint32_t number() const { return number_; }
    Book* book() const { return book_; }

    // Counts calls. A thread reads the number, looks at all claims, and sleeps while the number stays. The sleep needs
    // a timeout: a client that becomes idle, and a bridge that is killed, call no other bridge.
    std::uint32_t calls() const;
    void sleep(std::uint32_t seen, std::uint64_t nanoseconds) const;
    static constexpr std::uint64_t usual_sleep = 100'000'000;
    void call_own();  // ends that sleep, from another thread of this bridge

    // Another process has kept the book's lock for longer than this bridge waits for it, and still did at the last
    // attempt. How often that has begun.
    bool is_locked_out() const { return locked_out_; }
    unsigned vain_waits() const { return vain_waits_; }

    // Since when the client of a card has waited that has waited for longest; never: none waits. Takes no lock.
    Time waits_since(const Uuid& card) const;
    // What all clients of a card are promised together, as the book says. Takes no lock.
    Bytes promised(const Uuid& card) const;
    // The largest reserve of all bridges, as the book says. Takes no lock.
    Bytes reserve() const;

  private:
    friend class Claim;
    class Locked;
    bool is_gone(std::uint32_t number) const;
    void remove_the_gone();
    void call(std::uint32_t number);
    void call_all();
    void close();

    File file_;
    Book* book_ = nullptr;
    std::uint32_t number_ = 0;
    bool locked_out_ = false;
    unsigned vain_waits_ = 0;
    bool complete_ = false;  // each row of this bridge is claimed, or a lie
    bool rows_to_drop_ = false;
    std::vector<const Row*> claimed_;
};

// What the driver says of a card, and its own measurement of moves.
struct Measured {
    Bytes size = 0, used = 0;
    Bytes strangers = 0;  // of that: promised to no client (native processes, contexts)
    Bytes speed = 0;      // bytes a second; 0: unknown
    Bytes reserve = usual_reserve;
};

// A client of this bridge at one card. One that has nothing there, and wants nothing, needs no row.
class Claim {
  public:
    struct Terms {
        std::uint32_t rank = 1;
        bool pinned = false;
    };
    // `promised`, `out`: what the client has already, behind an earlier bridge.
    Claim(Member& member, const residency::Policy& policy, const Uuid& card, std::uint32_t slot, const Terms& terms,
          Bytes promised = 0, Bytes out = 0);
    ~Claim();
    Claim(const Claim&) = delete;
    explicit operator bool() const { return card_; }  // false: the book is locked, or
    bool found_it_full() const { return full_; }      // it has no row for one more client of this bridge
    // A change of this client is not in the book yet, because that was locked: others wait for what is free. To be
    // repeated until it is written.
    bool is_behind() const { return behind_; }
    void catch_up(const Measured& measured, Time now) { free(0, measured, now); }

    enum class Answer : std::uint8_t { granted, waits, refused };
    // Asks for `more` bytes. The caller repeats this, with new measurements, until the answer is granted or refused.
    // `patient`: what it had, and cannot go on without. It is refused only if it is more than the card has.
    Answer ask(Bytes more, const Measured& measured, Time now, bool patient = false);
    void withdraw(const Measured& measured, Time now);
    void free(Bytes bytes, const Measured& measured, Time now);       // memory that the client has given up
    void moved_out(Bytes bytes, const Measured& measured, Time now);  // to the store
    void has_out(Bytes bytes);                                        // what it has in the store now
    void works();
    void rests(Time now);
    void change(const Terms& terms);

    Bytes promised() const { return own_.promised; }
    Bytes out() const { return own_.out; }
    bool waits() const { return own_.wanted != 0; }
    bool others_wait() const;  // for memory of this card
    // Bytes to move out now; 0: none. The client stays for the shortest stay even if the book says otherwise.
    Bytes to_give(Time now) const;
    // When ask() may have another answer, though no call comes.
    Time look() const { return look_; }

  private:
    bool restore();
    bool may_take_row() const;
    void write();
    std::vector<residency::Client> snapshot(std::vector<Row*>& rows, Time now, Bytes size) const;
    residency::Decision decide(std::vector<Row*>& rows, const Measured& measured, Time now, bool asks);
    bool is_own(const Row& row) const;
    void grant(const Measured& measured, Time now);
    void settle(const Measured& measured, Time now);

    Member& member_;
    const residency::Policy& policy_;
    const Uuid uuid_;
    const std::uint32_t slot_;
    Card* card_ = nullptr;
    Row* row_ = nullptr;
    bool full_ = false, behind_ = false;
    residency::Client own_;  // but `keep` and `told`, which are the book's
    Time look_ = residency::never;
};

}  // namespace barcuda::cards
