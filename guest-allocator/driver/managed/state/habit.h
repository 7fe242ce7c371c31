// SPDX-License-Identifier: Apache-2.0
// habit.h: which blocks of a range the CPU touches each time when it has waited for kernels. They are worth fetching
// with the wait. Blocks that were fetched so are touched unseen: so from time to time they are not fetched, and the CPU
// is seen again.
//
//   resting    nothing was touched behind the last wait
//   learning   something was, and it is not known yet whether it will be again
//   ahead      the same blocks were, behind two waits: each wait brings them
//   asking     the last wait did not, to see whether they are touched still
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "guest-allocator/driver/managed/state/blocks.h"

namespace barcuda::guest::managed {

class Habit {
  public:
    enum class State : std::uint8_t { resting, learning, ahead, asking };
    struct Expected {
        Run run{0, 0};
        bool write = false;  // the CPU writes there too
    };
    // More blocks are fetched when they are touched: to bring them for nothing would cost too much.
    static constexpr std::size_t most = 4;

    State state() const { return state_; }
    // The CPU has touched these, and had no access.
    void touched(const Run& run, bool write) {
        now_.run = join(now_.run, run);
        now_.write |= write;
        if (state_ == State::resting) learn();
    }
    // It writes what it could only read.
    void written() { now_.write = true; }

    // A wait for the only work that may have changed the range, which the CPU may not touch. Returns what to fetch.
    Expected at_wait() {
        const Expected now = std::exchange(now_, {});
        switch (state_) {
            case State::resting: break;
            case State::learning:
                if (now.run.empty()) return rest();
                times_ = same(now.run, usual_.run) ? times_ + 1 : 1;
                usual_ = now;
                return times_ < 2 ? Expected{} : go_ahead();
            case State::ahead:
                usual_ = {join(usual_.run, now.run), usual_.write || now.write};
                if (left_-- > 0) return go_on();
                state_ = State::asking;
                break;
            case State::asking:
                if (now.run.empty()) return rest();
                usual_ = now;
                interval_ = std::min(interval_ * 2, longest);
                return go_ahead();
        }
        return {};
    }

  private:
    static constexpr unsigned shortest = 4, longest = 64;  // waits from one question to the next

    static bool same(const Run& a, const Run& b) { return a.first == b.first && a.last == b.last; }
    static Run join(const Run& a, const Run& b) {
        if (a.empty()) return b;
        return b.empty() ? a : Run{std::min(a.first, b.first), std::max(a.last, b.last)};
    }
    void learn() {
        state_ = State::learning;
        times_ = 0;
        interval_ = shortest;
    }
    Expected rest() {
        state_ = State::resting;
        return {};
    }
    Expected go_ahead() {
        state_ = State::ahead;
        left_ = interval_ - 1;
        return go_on();
    }
    Expected go_on() { return usual_.run.count() <= most ? usual_ : rest(); }

    State state_ = State::resting;
    Expected now_, usual_;  // since the last wait; behind each of the last ones
    unsigned times_ = 0, left_ = 0, interval_ = shortest;
};

}  // namespace barcuda::guest::managed
