// SPDX-License-Identifier: Apache-2.0
// loop.h: what the bridge waits for: an sd-event loop in which each part of the bridge watches its own descriptors. A
// turn of the loop calls what has happened, each watch at most once, so that no worker that floods the bridge keeps it
// from the others; by rank, and within a rank in the order in which it happened.
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
    // The lower ones first. A worker's requests come before its end.
    enum class Rank : std::int64_t { stop, guest, request, mapping, end, log, tool };
    using Clock = std::chrono::steady_clock;
    using Handle = std::function<void(short events)>;  // as poll() says them

    // Watches a descriptor until it is destroyed, which comes before the descriptor is closed: one that another process
    // has too would stay in the kernel's list, with nothing behind it.
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
        // Hears nothing until then.
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

    // Calls `handle` when the descriptor can be read, or its other end has gone. It may destroy the watch. An empty
    // watch, with a line in the log: it cannot be watched.
    [[nodiscard]] Watch watch(int fd, Rank rank, Handle handle);

    // ---- a turn
    // Waits for something to happen, so long at most. False: nothing has.
    bool wait(std::chrono::milliseconds at_most);
    // Calls what has. Returns the first rank of those.
    std::optional<Rank> dispatch();
    // dispatch() returns, and calls nothing any more.
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
