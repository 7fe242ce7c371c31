// SPDX-License-Identifier: Apache-2.0
// records.h: what records are made of that outlive the process that writes them, in memory that the next process maps
// (bridge/ledger.h). The writer may be killed between any two of its stores. So each change becomes visible by the
// store of one word: a Word is such a word, a Twice is a record of any size with such a word. Where a change has
// several of them, their writer says in which order, and what the reader makes of a change that is half done.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace barcuda {
namespace records {

inline void (*before_store)() = nullptr;  // a test's: it ends the process before any store that it likes
// Before a store, and before a message, with which another process learns of one.
inline void step() {
    if (before_store) before_store();
}

}  // namespace records

// Only one process writes at a time. The release order keeps what was stored before in front of this store, so that a
// process that is killed has not made the two in another order.
template <class T> class Word {
    static_assert(std::is_trivially_copyable_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));

  public:
    Word() = default;
    Word(const Word&) = delete;
    operator T() const { return std::atomic_ref(const_cast<T&>(value_)).load(std::memory_order_relaxed); }
    Word& operator=(T value) {
        records::step();
        std::atomic_ref(value_).store(value, std::memory_order_release);
        return *this;
    }
    Word& operator=(const Word& other) { return *this = static_cast<T>(other); }

  private:
    T value_{};
};

// A record of two copies and the word that says which one holds. The other one is written first.
template <class T> class Twice {
    static_assert(std::is_trivially_copyable_v<T>);

  public:
    const T& get() const { return copies_[which_ & 1]; }
    void set(const T& record) {
        const std::uint32_t other = ~which_ & 1;
        const auto* const from = reinterpret_cast<const char*>(&record);
        auto* const to = reinterpret_cast<char*>(&copies_[other]);
        constexpr std::size_t half = sizeof(T) / 2;
        records::step();
        std::memcpy(to, from, half);
        records::step();
        std::memcpy(to + half, from + half, sizeof(T) - half);
        which_ = other;
    }

  private:
    T copies_[2] = {};
    Word<std::uint32_t> which_;
};

// The records that one class writes. None: the class has records of its own, which end with it.
template <class Record> struct Part {
    std::span<Record> records = {};
    bool kept = false;  // they are an earlier process's: its successor goes on with them
};

}  // namespace barcuda
