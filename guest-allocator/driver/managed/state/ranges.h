// SPDX-License-Identifier: Apache-2.0
// ranges.h: all ranges by their addresses, and lists of those that a launch or a host function must look at.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "guest-allocator/driver/managed/state/range.h"

namespace barcuda::guest::managed {

// Where ranges of variables lie; those of allocations lie in the window. Only grows, and is read without a lock.
struct VariableBounds {
    std::atomic<std::uintptr_t> begin{UINTPTR_MAX}, end{0};
    void include(const Range& range) {
        if (range.begin < begin.load()) begin.store(range.begin);
        if (range.end > end.load()) end.store(range.end);
    }
};
inline constinit VariableBounds variable_bounds;

// False: none of these bytes is managed. It needs no lock, and handlers of signals may ask.
inline bool may_be_managed(std::uintptr_t address, std::size_t bytes) noexcept {
    const std::uintptr_t end = address + bytes;
    return (address < window_end && end > window_begin) ||
           (address < variable_bounds.end.load(std::memory_order_relaxed) &&
            end > variable_bounds.begin.load(std::memory_order_relaxed));
}

class Ranges {
  public:
    Range* find(std::uintptr_t address) const {
        Range* const range = next(address);
        return range && address >= range->begin ? range : nullptr;
    }
    // The range that holds the address, or else the first above it. Null: none.
    Range* next(std::uintptr_t address) const {
        const auto at = by_end_.upper_bound(address);
        return at == by_end_.end() ? nullptr : at->second.get();
    }
    template <class Act> void each(Act act) const {
        for (const auto& [end, range] : by_end_) act(*range);
    }
    void add(std::unique_ptr<Range> range) {
        if (range->of_variables) variable_bounds.include(*range);
        if (range->untouched) untouched_.push_back(range.get());
        const std::uintptr_t end = range->end;
        by_end_[end] = std::move(range);
    }
    std::unique_ptr<Range> remove(Range& range) {
        for (auto* list : {&accessible_, &watched_, &untouched_, &used_by_functions_}) std::erase(*list, &range);
        const auto at = by_end_.find(range.end);
        std::unique_ptr<Range> removed = std::move(at->second);
        by_end_.erase(at);
        return removed;
    }

    // ---- ranges with blocks that the CPU may touch
    const std::vector<Range*>& accessible() const { return accessible_; }
    void set_accessible(Range& range, bool is) {
        if (range.accessible == is) return;
        range.accessible = is;
        if (is) accessible_.push_back(&range);
        else std::erase(accessible_, &range);
    }
    // ---- ranges of which the CPU may touch something behind each wait
    const std::vector<Range*>& watched() const { return watched_; }
    void set_watched(Range& range) {
        const auto at = std::ranges::find(watched_, &range);
        const bool is = range.habit.state() != Habit::State::resting;
        if (is && at == watched_.end()) watched_.push_back(&range);
        if (!is && at != watched_.end()) watched_.erase(at);
    }
    // ---- ranges that neither side has written
    const std::vector<Range*>& untouched() const { return untouched_; }
    void set_touched(Range& range) {
        if (std::exchange(range.untouched, false)) std::erase(untouched_, &range);
    }
    // ---- ranges that a host function has touched since the last one ended
    void set_used_by_function(Range& range) {
        if (std::ranges::find(used_by_functions_, &range) == used_by_functions_.end())
            used_by_functions_.push_back(&range);
    }
    bool any_used_by_functions() const { return !used_by_functions_.empty(); }
    std::vector<Range*> take_used_by_functions() { return std::exchange(used_by_functions_, {}); }

    // ---- copies to the host that streams have been given
    void add_prefetch(Range& range, const Prefetch& prefetch) {
        range.prefetches.push_back(prefetch);
        any_prefetch_ = true;
    }
    // Kernels may change all ranges for which concerns(range) is true.
    template <class Concerns> void outdate_prefetches(Concerns concerns) {
        if (!std::exchange(any_prefetch_, false)) return;
        each([&](Range& range) {
            if (concerns(range)) range.outdate_prefetches(range.all());
            any_prefetch_ |= std::ranges::any_of(range.prefetches, [](const Prefetch& p) { return !p.stale; });
        });
    }

    // A stream's next kernels may do without a look at the ranges.
    bool nothing_to_do_for(CUstream stream) const {
        const auto concerned = [&](const Range* range) { return range->attachment.concerns(stream); };
        return !any_prefetch_ && std::ranges::none_of(accessible_, concerned) &&
               std::ranges::none_of(untouched_, concerned);
    }

  private:
    std::map<std::uintptr_t, std::unique_ptr<Range>> by_end_;
    std::vector<Range*> accessible_, watched_, untouched_, used_by_functions_;
    bool any_prefetch_ = false;  // that is not stale; may be true a moment too long
};

}  // namespace barcuda::guest::managed
