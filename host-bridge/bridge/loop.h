// SPDX-License-Identifier: Apache-2.0
// loop.h: what the bridge waits for: an sd-event loop in which each part of the bridge watches its own descriptors. A
// turn of the loop handles the events, each watch at most once, so that no worker that floods the bridge blocks others:
// by rank, and within a rank in the order of the events.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

struct sd_event;

namespace barcuda {

class Loop {
  public:
    // Lower ones first. A worker's requests come before its end.
    enum class Rank : std::int64_t { stop, guest, request, mapping, end, log, tool };
    using Clock = std::chrono::steady_clock;
    using Handle = std::function<void(short events)>;  // in poll()'s form

    // Watches a descriptor until it is destroyed, which must come before the descriptor is closed: a descriptor that
    // another process also has would stay in the kernel's list.
    class Watch {
      public:
        Watch() = default;
        Watch(Watch&& other) noexcept = default;
        Watch& operator=(Watch other) noexcept {
            state_.swap(other.state_);
            return *this;
        }
        ~Watch();
        explicit operator bool() const { return state_ != nullptr; }
        // Ignores events until then.
        void rest_until(Clock::time_point time);

      private:
        friend class Loop;
        struct State;
        explicit Watch(std::shared_ptr<State> state) : state_(std::move(state)) {}
        std::shared_ptr<State> state_;
    };

    Loop();
    ~Loop();
    Loop(const Loop&) = delete;

    // Calls `handle` when the descriptor is readable, or its other end is closed. `handle` may destroy the watch.
    // Returns an empty watch, and logs why, if it cannot be watched.
    [[nodiscard]] Watch watch(int fd, Rank rank, Handle handle);

    // ---- a turn
    // Waits for an event, for at most that long. False: there is none.
    bool wait(std::chrono::milliseconds at_most);
    // Handles the events. Returns the first rank among them.
    std::optional<Rank> dispatch();
    // dispatch() returns, and handles no more events.
    void stop() { stopped_ = true; }
    bool stopped() const { return stopped_; }

  private:
    struct Close {
        void operator()(sd_event* event) const;
    };
    void call(Watch::State& state, short events);
    void resume();

    std::unique_ptr<sd_event, Close> event_;
    std::vector<Watch::State*> resting_;
    std::uint64_t turn_ = 0;
    std::optional<Rank> first_;  // of this turn
    bool pending_ = false, stopped_ = false;
};

}  // namespace barcuda
