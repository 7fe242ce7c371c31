// SPDX-License-Identifier: Apache-2.0
// clock.h: the distance between the worker's clock and this system's. A worker answers between a question and the
// answer's arrival: so each question bounds the distance. (`barcuda trace` does the same with the calls of two traces.)
#pragma once
#include <algorithm>
#include <cstdint>

namespace barcuda::guest::cupti {

// A distance is unknown, bounded or settled. A settled distance stays until a bound contradicts it, so that times of
// the GPU are exact to each other. If a clock was set, it is bounded again. Times are nanoseconds of either clock.
class Distance {
  public:
    // The worker said `there` between `before` and `after`.
    void learn(std::uint64_t before, std::uint64_t there, std::uint64_t after) noexcept {
        const auto least = static_cast<std::int64_t>(there - after), most = static_cast<std::int64_t>(there - before);
        // Clocks drift apart: what was known is worth less after a while.
        const auto drifted = bounded_ ? static_cast<std::int64_t>(after - at_) / drift : 0;
        const std::int64_t low = std::max(least, least_ - drifted), high = std::min(most, most_ + drifted);
        const bool agree = bounded_ && low <= high;
        if (!agree) settled_ = false;  // one of the clocks was set, and the past says nothing
        least_ = agree ? low : least;
        most_ = agree ? high : most;
        at_ = after;
        bounded_ = true;
    }
    // Decides for what is converted from now on, when the worker's clock says `there`. Clocks that agree as far as the
    // bounds tell are taken for one: without a VM they are.
    void settle(std::uint64_t there) noexcept {
        if (!bounded_ || (settled_ && least_ <= value_ && value_ <= most_)) return;
        const std::int64_t value = least_ <= 0 && 0 <= most_ ? 0 : least_ + (most_ - least_) / 2;
        before_ = settled_ ? value_ : value;
        value_ = value;
        changed_ = there;
        settled_ = true;
    }
    // In the order of `there`, whether the distance changed meanwhile or not.
    std::uint64_t here(std::uint64_t there) const noexcept {
        const std::uint64_t old = std::min(there, changed_) - static_cast<std::uint64_t>(before_);
        return there < changed_ ? old : std::max(old, there - static_cast<std::uint64_t>(value_));
    }
    bool settled() const noexcept { return settled_; }
    std::uint64_t width() const noexcept { return static_cast<std::uint64_t>(most_ - least_); }

  private:
    static constexpr std::int64_t drift = 20'000;  // 50 us in a second, as much as a clock is corrected by
    bool bounded_ = false, settled_ = false;
    std::int64_t least_ = 0, most_ = 0;    // there - here
    std::uint64_t at_ = 0;                 // of the last bound, here
    std::int64_t value_ = 0, before_ = 0;  // there - here, now and before the last change
    std::uint64_t changed_ = 0;            // there
};

// The program's own clock, for times of the system's: a line through two points.
class OtherClock {
  public:
    void learn(std::uint64_t system, std::uint64_t its) noexcept {
        if (!known_) first_ = {system, its};
        last_ = {system, its};
        known_ = true;
    }
    void forget() noexcept { known_ = false; }
    std::uint64_t of(std::uint64_t system) const noexcept {
        if (!known_) return system;
        const auto passed = static_cast<double>(static_cast<std::int64_t>(system - last_.system));
        const auto wide = static_cast<double>(last_.system - first_.system);
        const double rate = wide > 0 ? static_cast<double>(last_.its - first_.its) / wide : 1;
        return last_.its + static_cast<std::uint64_t>(static_cast<std::int64_t>(passed * rate));
    }

  private:
    struct Point {
        std::uint64_t system = 0, its = 0;
    };
    bool known_ = false;
    Point first_, last_;
};

}  // namespace barcuda::guest::cupti
