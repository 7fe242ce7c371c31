// SPDX-License-Identifier: Apache-2.0
// bucket.h: how much of something there may be at a time: so much a second, and what was not used lately at once, up to a bound.
#pragma once
#include <algorithm>
#include <chrono>

namespace barcuda {

class Bucket {
  public:
    using Time = std::chrono::steady_clock::time_point;
    struct Rate {
        double a_second, at_once;  // at_once: what the bucket holds when it is full, as it is at first
    };
    // True: there was so much, and it is taken.
    bool take(double amount, const Rate& rate, Time now) {
        fill(rate, now);
        if (held_ < amount) return false;
        held_ -= amount;
        return true;
    }
    // When there will be so much, if nobody takes any. (`amount`: at most rate.at_once.)
    Time next(double amount, const Rate& rate, Time now) {
        fill(rate, now);
        if (held_ >= amount) return now;
        const std::chrono::duration<double> wait((amount - held_) / rate.a_second);
        return now + std::chrono::ceil<std::chrono::steady_clock::duration>(wait);
    }

  private:
    void fill(const Rate& rate, Time now) {  // a rate may change at any time
        const std::chrono::duration<double> passed = now - since_;
        held_ = filled_ ? std::min(rate.at_once, held_ + passed.count() * rate.a_second) : rate.at_once;
        since_ = now, filled_ = true;
    }
    double held_ = 0;
    Time since_{};
    bool filled_ = false;
};

}  // namespace barcuda
