// SPDX-License-Identifier: Apache-2.0
// loans.cc: which memory has which run, and for how many registrations. One lock holds everything still while something
// is lent or taken back, forks included: half of an exchange is nothing that a child could begin with.
#include "guest-allocator/heap/registered/loans.h"

#include <sys/mman.h>

#include "base/os/maps.h"
#include "guest-allocator/heap/core.h"
#include "guest-allocator/heap/pages.h"
#include "guest-allocator/heap/ranges.h"
#include "guest-allocator/heap/registered.h"
#include "guest-allocator/heap/registered/exchange.h"

namespace barcuda::heap {

namespace {

struct Loan {
    std::uintptr_t begin, end;
    std::byte* run;
    std::size_t users;  // registrations; 0: it could not be taken back yet
};
Ranges<Loan> loans;
std::size_t unused = 0;  // loans without users
Lock lock;               // before all others of the heap

std::byte* at(std::uintptr_t address) noexcept { return reinterpret_cast<std::byte*>(address); }

// glibc's arenas other than the first begin at multiples of 64 MiB with their own state, which a forked child's libc
// writes to before the heap has parted parent and child (fork.cc).
constexpr std::uintptr_t arena = std::uintptr_t{64} << 20;

// The first page of one. It has grown to its 64 MiB, or the rest that it may grow into follows it, out of reach. (Other
// large mappings begin at such multiples, too: Linux places them at multiples of 2 MiB, of which one in 32 is such a
// multiple.)
bool begins_arena(const os::Mapping& m) noexcept {
    if (m.begin % arena != 0 || m.end - m.begin > arena) return false;
    if (m.end - m.begin == arena) return true;
    os::Mapping rest;
    return os::Maps().find(at(m.end), rest) && !rest.readable && rest.end >= m.begin + arena;
}

// Whether pages of this kind can be lent. Only private anonymous memory loses nothing when it becomes other memory: a
// file's pages belong to the file as well. A stack stays: a forked child runs on it before the two can be separated.
bool eligible(std::uintptr_t begin, std::uintptr_t end, Refusal& why) noexcept {
    const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
    os::Maps maps;
    std::uintptr_t seen = begin;
    why = Refusal::foreign;
    for (os::Mapping m; seen < end && maps.next(m);) {
        if (m.end <= seen) continue;
        if (m.begin > seen || m.shared || !m.readable || !m.writable || m.executable || m.inode) return false;
        if (m.is_stack || m.holds(here)) {
            why = Refusal::stack;
            return false;
        }
        if (begin == m.begin && begins_arena(m)) return false;
        seen = m.end;
    }
    return seen >= end;
}

// Where else pages of a run are mapped: visit(where, bytes, at, protection), `at` of the run. Until it answers false.
// False: that cannot be found out.
template <class F> bool elsewhere(const std::byte* run, std::size_t bytes, F visit) noexcept {
    bool known = true;
    each_granule(run, bytes, [&](std::size_t at_run, std::size_t part) {
        os::Mapping own;
        if (os::Maps maps; !maps.find(run + at_run, own)) return known = false;
        const std::uint64_t from = own.offset + (reinterpret_cast<std::uintptr_t>(run + at_run) - own.begin),
                            to = from + part;
        os::Maps maps;
        if (!maps) return known = false;
        for (os::Mapping m; maps.next(m);) {
            if (!m.shared || m.inode != own.inode || m.device != own.device || in_region(at(m.begin), 1)) continue;
            const std::uint64_t first = m.offset > from ? m.offset : from, behind = m.offset + (m.end - m.begin);
            const std::uint64_t last = behind < to ? behind : to;
            if (first < last &&
                !visit(at(m.begin + (first - m.offset)), last - first, at_run + (first - from), m.protection()))
                return false;
        }
        return true;
    });
    return known;
}

// Whether a loan is where it was lent to: a program may have unmapped its memory without a word.
bool in_place(const Loan& loan) noexcept {
    const std::size_t bytes = loan.end - loan.begin;
    std::size_t there = 0;
    elsewhere(loan.run, bytes, [&](std::byte* where, std::size_t n, std::size_t offset, int) {
        if (where == at(loan.begin + offset)) there += n;
        return true;
    });
    return there == bytes;
}

// Calls part(where, bytes, from) for one such place after another: each changes the list that is read. A program may
// have protected its memory meanwhile: so it stays. True when there is none left.
template <class F> bool each_place(const Loan& loan, F part) noexcept {
    for (;;) {
        std::byte* where = nullptr;
        std::size_t bytes = 0, offset = 0;
        int protection = 0;
        const auto first = [&](std::byte* p, std::size_t n, std::size_t o, int allowed) {
            where = p;
            bytes = n;
            offset = o;
            protection = allowed;
            return false;
        };
        const bool known = elsewhere(loan.run, loan.end - loan.begin, first);
        if (!known || !where) return known;
        if (!part(where, bytes, loan.run + offset)) return false;
        if (protection != (PROT_READ | PROT_WRITE)) mprotect(where, bytes, protection);
    }
}

// What is still mapped of a run becomes private memory, at any address to which the program has moved it; what the
// program has unmapped needs nothing. The run is free when only the region maps it.
bool take_back(const Loan& loan) noexcept {
    if (!each_place(loan, make_private)) return false;
    staging_free(loan.run);
    return true;
}

void take_unused_back() noexcept {
    for (std::size_t i = loans.count(); unused && i-- > 0;)
        if (!loans[i].users && take_back(loans[i])) {
            loans.remove(i);
            --unused;
        }
}

std::byte* refused(Refusal why) noexcept {
    statistics.not_lent[static_cast<std::size_t>(why)].add();
    return nullptr;
}

}  // namespace

std::atomic<bool> ever_lent{false};

std::byte* lend(std::byte* p, std::size_t bytes) noexcept {
    if (!active.load(std::memory_order_acquire)) return nullptr;  // no device, no reason
    const Inside inside;
    const auto first = reinterpret_cast<std::uintptr_t>(p);
    const std::uintptr_t begin = first & ~(page - 1), end = round_up(first + bytes, page);
    // What a forked child keeps of its parent stays: it stands where the device would look for other memory.
    if (end < first || inherited(p, bytes)) return refused(Refusal::foreign);
    lock_loans();
    struct Unlock {
        ~Unlock() { unlock_loans(); }
    } unlock;
    take_unused_back();
    if (loans.overlap(begin, end)) {
        Loan& loan = loans[loans.behind(begin)];
        if (loan.begin > begin || loan.end < end || !in_place(loan)) return refused(Refusal::shared_page);
        if (!loan.users++) --unused;
        statistics.lent.add();
        statistics.lent_bytes.add(bytes);
        return loan.run + (first - loan.begin);
    }
    Refusal why;
    if (!eligible(begin, end, why)) return refused(why);
    if (!loans.make_room()) return refused(Refusal::full);
    auto* const run = static_cast<std::byte*>(staging_alloc(end - begin));
    if (!run) return refused(Refusal::full);
    const std::size_t done = each_granule(run, end - begin, [&](std::size_t from, std::size_t part) {
        std::byte* const alias = connection.source->alias({run + from, part});
        if (alias && replace(at(begin + from), part, alias)) return true;
        if (alias) munmap(alias, part);
        return false;
    });
    if (done < end - begin) {
        if (done && !make_private(at(begin), done, run))
            die("no memory left to exchange registered memory, and half of it is exchanged", at(begin));
        staging_free(run);
        return refused(Refusal::no_faults);
    }
    loans.add({begin, end, run, 1});
    ever_lent.store(true, std::memory_order_relaxed);
    statistics.lent.add();
    statistics.lent_bytes.add(bytes);
    return run + (first - begin);
}

void restore(std::byte* p, std::size_t) noexcept {
    const Inside inside;
    lock_loans();
    const std::size_t i = loans.behind(reinterpret_cast<std::uintptr_t>(p));
    if (!--loans[i].users) ++unused;
    take_unused_back();
    unlock_loans();
}

bool lent(const void* p) noexcept {
    lock_loans();
    const auto begin = reinterpret_cast<std::uintptr_t>(p);
    const bool is = loans.overlap(begin, begin + 1);
    unlock_loans();
    return is;
}

void part_loans(int file, void (*copy)(int, std::byte*, const std::byte*, std::size_t)) noexcept {
    for (std::size_t i = 0; i < loans.count(); ++i)
        if (!each_place(loans[i], [&](std::byte* where, std::size_t bytes, const std::byte* from) {
                copy(file, where, from, bytes);
                return true;
            }))
            die("a forked child cannot find its parent's registered memory (/proc/self/maps)");
}

void forget_loans() noexcept {
    loans.clear();
    unused = 0;
}

void lock_loans() noexcept { lock.lock(); }
void unlock_loans() noexcept { lock.unlock(); }

}  // namespace barcuda::heap
