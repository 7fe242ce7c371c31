// SPDX-License-Identifier: Apache-2.0
// clock.h: the distance between the worker's clock and this system's. A worker answers between a question and the
// answer's arrival: so each question bounds the distance, and the narrowest bound is kept. (`barcuda trace` does the
// same with the calls of two traces.)
#pragma once
#include <cstdint>

namespace barcuda::guest::cupti {

class Distance {
  public:
    // The worker said `there` between `before` and `after`; nanoseconds of either clock.
    void learn(std::uint64_t before, std::uint64_t there, std::uint64_t after) noexcept {
        const std::uint64_t width = after - before;
        // Clocks drift apart: what was known is worth less after a while.
        const std::uint64_t known = width_ + (after - at_) / drift;
        if (known_ && width > known) return;
        const std::uint64_t middle = before + width / 2;
        value_ = static_cast<std::int64_t>(there - middle);
        // Clocks that agree as far as this tells are taken for one: without a VM they are.
        if (static_cast<std::uint64_t>(value_ < 0 ? -value_ : value_) <= width / 2 + 1) value_ = 0;
        width_ = width;
        at_ = after;
        known_ = true;
    }
    std::uint64_t here(std::uint64_t there) const noexcept { return there - static_cast<std::uint64_t>(value_); }
    std::uint64_t width() const noexcept { return width_; }

  private:
    static constexpr std::uint64_t drift = 20'000;  // 50 us in a second, as much as a clock is corrected by
    bool known_ = false;
    std::int64_t value_ = 0;  // there - here
    std::uint64_t width_ = 0, at_ = 0;
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
