// SPDX-License-Identifier: Apache-2.0
// pages.cc: runs of pages. See pages.h for the idea; here, `at` is always the number of a run's first page, and every
// function below the public ones is called with the lock held.
#include "guest-allocator/heap/pages.h"

#include <bit>
#include <cstring>

#include "base/os/clock.h"
#include "base/os/map.h"

namespace barcuda::heap {

Run* books = nullptr;

namespace {

constexpr std::uint32_t granule_pages = granule / page;

// Sixteen size classes to a power of two, monotonic, and below 16 pages exact.
std::uint32_t class_of(std::uint32_t pages) noexcept {
    if (pages < 16) return pages;
    const unsigned log = 31 - static_cast<unsigned>(std::countl_zero(pages));
    return (log - 3) * 16 + ((pages >> (log - 4)) & 15);
}

// The lowest class whose every run holds `pages`.
std::uint32_t class_above(std::uint32_t pages) noexcept {
    if (pages < 16) return pages;
    const unsigned log = 31 - static_cast<unsigned>(std::countl_zero(pages));
    return class_of(pages + (1u << (log - 4)) - 1);
}

std::uint32_t extent_begin(std::uint32_t at) noexcept { return granules[at / granule_pages].first * granule_pages; }
std::uint32_t extent_end(std::uint32_t at) noexcept {
    const std::uint32_t first = granules[at / granule_pages].first;
    return (first + granules[first].count) * granule_pages;
}

}  // namespace

std::size_t Heads::footprint(std::size_t pages) noexcept {
    std::size_t bytes = 0;
    for (std::size_t words = pages, i = 0; i < 4; ++i) bytes += (words = (words + 63) / 64) * 8;
    return bytes;
}

void Heads::place(void* memory, std::size_t pages) noexcept {
    auto* at = static_cast<std::uint64_t*>(memory);
    for (std::size_t words = pages, i = 0; i < 4; ++i) {
        level_[i] = at;
        at += words = (words + 63) / 64;
    }
}

void Heads::add(std::size_t page) noexcept {
    for (auto* level : level_) {
        const std::uint64_t bit = std::uint64_t{1} << (page & 63), before = level[page >>= 6];
        level[page] |= bit;
        if (before) return;  // the levels above know
    }
}

void Heads::remove(std::size_t page) noexcept {
    for (auto* level : level_) {
        const std::uint64_t bit = std::uint64_t{1} << (page & 63);
        if (level[page >>= 6] &= ~bit) return;
    }
}

std::size_t Heads::at_or_below(std::size_t page) const noexcept {
    // Up: the first level where something lies at or, above the first, strictly below.
    std::uint64_t mask = ~std::uint64_t{0} >> (63 - (page & 63));
    std::size_t level = 0;
    std::size_t word = page >> 6;
    while (!(level_[level][word] & mask)) {
        mask = (std::uint64_t{1} << (word & 63)) - 1;
        word >>= 6;
        if (++level == 4) return SIZE_MAX;
    }
    // Down: the highest bit each time.
    std::uint64_t found = level_[level][word] & mask;
    for (;;) {
        word = word * 64 + (63 - static_cast<std::size_t>(std::countl_zero(found)));
        if (level == 0) return word;
        found = level_[--level][word];
    }
}

bool open_books(Extent window) noexcept {
    // Address space only; committed extent by extent.
    void* runs = nullptr;
    if (os::map_memory(window.bytes / page * sizeof(Run), os::Access::none, &runs) != 0) return false;
    books = static_cast<Run*>(runs);
    return true;
}

bool Pages::open(Extent window) noexcept {
    // 8 MiB of address space for 256 GiB, touched sparsely.
    const std::size_t pages = window.bytes / page;
    void* bits = nullptr;
    if (os::map_memory(Heads::footprint(pages), os::Access::write, &bits, true) != 0) return false;
    heads_.place(bits, pages);
    return true;
}

bool commit_books(Extent extent) noexcept {
    return !os::allow(books + page_of(extent.address), extent.bytes / page * sizeof(Run), os::Access::write);
}

Pages::Block Pages::take(std::size_t bytes, std::size_t alignment, unsigned flags, bool hidden,
                         const Extent* joins) noexcept {
    const std::size_t all = window.bytes.load(std::memory_order_relaxed);
    if (bytes > all || alignment > all) return {};  // also keeps the sums below from overflowing
    const std::size_t pages = pages_for(bytes), spare = alignment > page ? alignment / page - 1 : 0;
    if (pages + spare > all / page) return {};
    Locked locked(lock_);
    if (joins) join(*joins);
    const auto needed = static_cast<std::uint32_t>(pages + spare);
    std::uint32_t at = find(needed);
    if (at == none) {
        settle();
        at = find(needed);
    }
    if (at == none) return {};
    unlink(at);
    const Block block = carve(at, static_cast<std::uint32_t>(pages), alignment);
    note(page_of(block.p), bytes, flags, hidden);
    return block;
}

bool Pages::give(void* p) noexcept {
    const std::uint32_t at = page_of(p);
    if (reinterpret_cast<std::uintptr_t>(p) % page) return false;
    // Of two threads that give the same block back, one is told.
    if (!change(books[at].state, State::used, State::resting, std::memory_order_relaxed)) return false;
    const Resting block{at, books[at].pages};
    if (!shelves_.put(block)) make_room_for(block);
    return true;
}

[[gnu::noinline]] void Pages::make_room_for(Resting block) noexcept {
    Locked locked(lock_);
    if (const Resting other = shelves_.replace(block); other.pages) release(other.at, other.pages, 0);
}

bool Pages::resize(void* p, std::size_t bytes) noexcept {
    if (bytes > window.bytes.load(std::memory_order_relaxed)) return false;
    const std::size_t wanted = bytes ? (bytes + page - 1) / page : 1;
    const auto pages = static_cast<std::uint32_t>(wanted);
    const std::uint32_t at = page_of(p);
    Locked locked(lock_);
    Run& run = books[at];
    if (pages > run.pages) {
        const std::uint32_t behind = at + run.pages, more = pages - run.pages;
        if (behind != extent_end(at) && books[behind].is() == State::resting) settle();
        if (behind == extent_end(at) || books[behind].is() != State::free || books[behind].pages < more) return false;
        const std::uint32_t left = books[behind].pages - more, fresh = books[behind].fresh;
        unlink(behind);
        books[behind].become(State::interior);
        heads_.remove(behind);
        if (left) insert(behind + more, left, fresh < left ? fresh : left);
    } else if (pages < run.pages) {
        const std::uint32_t tail = at + pages, extra = run.pages - pages;
        run.pages = pages;
        books[tail].become(State::used);
        heads_.add(tail);
        release(tail, extra, 0);
    }
    run.pages = pages;
    run.slack = static_cast<std::uint32_t>(std::size_t{pages} * page - bytes);
    return true;
}

Pages::Info Pages::info(const void* p) noexcept {
    Locked locked(lock_);
    const std::size_t head = heads_.at_or_below(page_of(p));
    if (head == SIZE_MAX) return {};
    const auto at = static_cast<std::uint32_t>(head);
    const Run& run = books[at];
    if (run.is() != State::used) return {};
    const std::size_t capacity = std::size_t{run.pages} * page;
    return {address_of(at), capacity - run.slack, capacity, run.flags, run.hidden};
}

Extent Pages::retire(std::uint32_t seconds) noexcept {
    Locked locked(lock_);
    settle();
    if (!idle_) return {};
    const std::uint32_t when = os::coarse_seconds();
    for (std::uint32_t g = 0, end = static_cast<std::uint32_t>(window.bytes.load() / granule); g < end;) {
        if (granules[g].use.load(std::memory_order_relaxed) != use_) {
            ++g;
            continue;
        }
        const std::uint32_t at = g * granule_pages, count = granules[g].count, pages = count * granule_pages;
        if (books[at].is() == State::free && books[at].pages == pages && when - granules[g].idle_since >= seconds) {
            unlink(at);
            heads_.remove(at);
            --idle_;
            os::forget(&books[at], pages * sizeof(Run));  // the next extent here finds zeros
            for (std::uint32_t i = g; i < g + count; ++i) granules[i].use.store(Use::none, std::memory_order_relaxed);
            return {address_of(at), std::size_t{pages} * page};
        }
        g += count;
    }
    return {};
}

void Pages::freeze() noexcept {
    lock_.lock();
    shelves_.close([this](Resting block) { release(block.at, block.pages, 0); });
}

void Pages::thaw() noexcept {
    shelves_.open();
    lock_.unlock();
}

void Pages::forget_all() noexcept {
    shelves_.open();
    idle_ = 0;
    std::memset(filled_, 0, sizeof filled_);
}

// Resting blocks become free: before the pool reports that it has no room, and before empty extents are searched.
void Pages::settle() noexcept {
    shelves_.clear([this](Resting block) { release(block.at, block.pages, 0); });
}

void Pages::join(Extent extent) noexcept {
    const std::uint32_t at = page_of(extent.address), pages = static_cast<std::uint32_t>(extent.bytes / page);
    ++idle_;
    granules[at / granule_pages].idle_since = os::coarse_seconds();
    insert(at, pages, pages);
}

// The first run of the class itself may be long enough (blocks of one size are freed and allocated again); every run of
// a class above is.
std::uint32_t Pages::find(std::uint32_t pages) const noexcept {
    const std::uint32_t own = class_of(pages);
    if (filled_[own / 64] >> (own % 64) & 1 && books[first_[own]].pages >= pages) return first_[own];
    const std::uint32_t from = class_above(pages);
    std::uint64_t word = from / 64 < std::size(filled_) ? filled_[from / 64] & (~std::uint64_t{0} << (from % 64)) : 0;
    for (std::size_t i = from / 64;;) {
        if (word) return first_[i * 64 + static_cast<std::size_t>(std::countr_zero(word))];
        if (++i >= std::size(filled_)) return none;
        word = filled_[i];
    }
}

void Pages::insert(std::uint32_t at, std::uint32_t pages, std::uint32_t fresh) noexcept {
    const std::uint32_t bin = class_of(pages);
    const bool filled = filled_[bin / 64] >> (bin % 64) & 1;
    Run& run = books[at];
    run.pages = pages;
    run.fresh = fresh;
    run.become(State::free);
    run.prev = none;
    run.next = filled ? first_[bin] : none;
    if (filled) books[first_[bin]].prev = at;
    first_[bin] = at;
    filled_[bin / 64] |= std::uint64_t{1} << (bin % 64);
    books[at + pages - 1].tail = pages;
    heads_.add(at);
}

void Pages::unlink(std::uint32_t at) noexcept {
    const Run& run = books[at];
    const std::uint32_t bin = class_of(run.pages);
    if (run.next != none) books[run.next].prev = run.prev;
    if (run.prev != none) books[run.prev].next = run.next;
    else if ((first_[bin] = run.next) == none) filled_[bin / 64] &= ~(std::uint64_t{1} << (bin % 64));
    books[at + run.pages - 1].tail = 0;
}

// Takes `pages` out of a free run that is in no list: what stands before and behind the block stays free.
Pages::Block Pages::carve(std::uint32_t at, std::uint32_t pages, std::size_t alignment) noexcept {
    const std::uint32_t all = books[at].pages, fresh = books[at].fresh;
    if (at == extent_begin(at) && at + all == extent_end(at)) --idle_;
    const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(address_of(at));
    const auto front =
        alignment > page ? static_cast<std::uint32_t>((round_up(address, alignment) - address) / page) : 0;
    const std::uint32_t back = all - front - pages;
    if (front) insert(at, front, fresh > all - front ? fresh - (all - front) : 0);
    at += front;
    if (back) insert(at + pages, back, fresh < back ? fresh : back);
    Run& run = books[at];
    run.pages = pages;
    run.become(State::used);
    heads_.add(at);
    const std::uint32_t zeros = fresh <= back ? 0 : fresh - back < pages ? fresh - back : pages;
    return {address_of(at), std::size_t{pages - zeros} * page};
}

// Frees the used run at `at` and merges it with its neighbours. Fresh pages on its right stay known as such; on its
// left they are forgotten (the run has one fresh part, at its end).
void Pages::release(std::uint32_t at, std::uint32_t pages, std::uint32_t fresh) noexcept {
    const std::uint32_t begin = extent_begin(at), end = extent_end(at);
    if (const std::uint32_t right = at + pages; right != end && books[right].is() == State::free) {
        unlink(right);
        books[right].become(State::interior);
        heads_.remove(right);
        pages += books[right].pages;
        fresh = books[right].fresh;
    }
    if (const std::uint32_t length = at == begin ? 0 : books[at - 1].tail) {
        books[at].become(State::interior);
        heads_.remove(at);
        at -= length;
        pages += length;
        unlink(at);
    }
    insert(at, pages, fresh);
    if (at == begin && at + pages == end) {
        ++idle_;
        granules[at / granule_pages].idle_since = os::coarse_seconds();
    }
}

}  // namespace barcuda::heap
