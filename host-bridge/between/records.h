// SPDX-License-Identifier: Apache-2.0
// records.h: records that outlive their writer, in memory that the next process maps (bridge/ledger.h). The writer may
// be killed between any two stores, so each change takes effect with the store of one word: a Word is such a word, a
// Twice is a record of any size with one. If a change needs several of them, its writer defines the order, and what the
// reader does with a change that is half done.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace barcuda {
namespace records {

inline void (*before_store)() = nullptr;  // set by tests, to end the process before a chosen store
// Called before a store, and before a message that tells another process of one.
inline void step() {
    if (before_store) before_store();
}

}  // namespace records

// Only one process writes at a time. The release order keeps earlier stores before this one, also when the process is
// killed.
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

// A record in two copies, and the word that selects the valid one. A change writes the other copy first.
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

// The records of one class. Without any, the class uses records of its own, which end with it.
template <class Record> struct Part {
    std::span<Record> records = {};
    bool kept = false;  // an earlier process wrote them
};

}  // namespace barcuda
