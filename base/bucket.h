// SPDX-License-Identifier: Apache-2.0
// bucket.h: a token bucket: a rate per second, and at once what was not used lately, up to a bound.
#pragma once
#include <algorithm>
#include <chrono>

namespace barcuda {

class Bucket {
  public:
    using Time = std::chrono::steady_clock::time_point;
    struct Rate {
        double a_second, at_once;  // at_once: what a full bucket holds; it is full at first
    };
    // The rate may change at any time.
    double held(const Rate& rate, Time now) const {
        const std::chrono::duration<double> passed = now - since_;
        return used_ ? std::min(rate.at_once, held_ + passed.count() * rate.a_second) : rate.at_once;
    }
    // True: there was enough, and it is taken.
    bool take(double amount, const Rate& rate, Time now) {
        held_ = held(rate, now);
        since_ = now;
        used_ = true;
        if (held_ < amount) return false;
        held_ -= amount;
        return true;
    }

  private:
    bool used_ = false;
    double held_ = 0;
    Time since_{};
};

}  // namespace barcuda
