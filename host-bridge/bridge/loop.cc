// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/loop.h"

#include <sys/epoll.h>
#include <systemd/sd-event.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/log.h"

namespace barcuda {
namespace {

void require(int result, const char* what) {
    if (result >= 0) return;
    log::critical("{}: {}", what, strerror(-result));
    std::abort();
}

}  // namespace

struct Loop::Watch::State : std::enable_shared_from_this<State> {
    State(Loop& its_loop, Rank its_rank, Handle its_handle)
        : loop(its_loop), rank(its_rank), handle(std::move(its_handle)) {}
    ~State() { end(); }
    void end() {
        std::erase(loop.resting_, this);
        source = sd_event_source_unref(source);
    }
    Loop& loop;
    const Rank rank;
    const Handle handle;
    sd_event_source* source = nullptr;
    std::uint64_t called = 0;   // the number of the turn
    Clock::time_point rests{};  // until then
};

// Its handler may be running, and continues; but the kernel's list no longer has the descriptor when this returns.
Loop::Watch::~Watch() {
    if (state_) state_->end();
}

void Loop::Close::operator()(sd_event* event) const { sd_event_unref(event); }

Loop::Loop() {
    sd_event* event = nullptr;
    require(sd_event_new(&event), "there is no event loop");
    event_.reset(event);
}

Loop::~Loop() = default;

Loop::Watch Loop::watch(int fd, Rank rank, Handle handle) {
    auto state = std::make_shared<Watch::State>(*this, rank, std::move(handle));
    const auto happened = [](sd_event_source*, int, std::uint32_t events, void* its) {
        auto& its_state = *static_cast<Watch::State*>(its);
        its_state.loop.call(its_state, static_cast<short>(events));
        return 0;
    };
    const int r = sd_event_add_io(event_.get(), &state->source, fd, EPOLLIN, happened, state.get());
    if (r < 0 || sd_event_source_set_priority(state->source, static_cast<std::int64_t>(rank)) < 0) {
        log::error("descriptor {} cannot be watched: {}", fd, strerror(-r));
        return {};
    }
    return Watch(std::move(state));
}

// A second event in one turn waits for the next turn.
void Loop::call(Watch::State& state, short events) {
    const auto alive = state.shared_from_this();  // it may destroy its watch
    if (std::exchange(state.called, turn_) == turn_) {
        sd_event_source_set_enabled(state.source, SD_EVENT_OFF);
        if (std::ranges::find(resting_, &state) == resting_.end()) resting_.push_back(&state);
        return;
    }
    if (!first_ || state.rank < *first_) first_ = state.rank;
    state.handle(events);
}

void Loop::Watch::rest_until(Clock::time_point time) {
    if (!state_) return;
    state_->rests = time;
    sd_event_source_set_enabled(state_->source, SD_EVENT_OFF);
    auto& resting = state_->loop.resting_;
    if (std::ranges::find(resting, state_.get()) == resting.end()) resting.push_back(state_.get());
}

void Loop::resume() {
    if (resting_.empty()) return;
    const auto now = Clock::now();
    std::erase_if(resting_, [&](Watch::State* state) {
        if (state->rests > now) return false;
        sd_event_source_set_enabled(state->source, SD_EVENT_ON);
        return true;
    });
}

bool Loop::wait(std::chrono::milliseconds at_most) {
    ++turn_;
    first_.reset();
    resume();
    int r = sd_event_prepare(event_.get());
    if (r == 0) r = sd_event_wait(event_.get(), static_cast<std::uint64_t>(std::chrono::microseconds(at_most).count()));
    require(r, "the event loop fails");
    return pending_ = r > 0;
}

std::optional<Loop::Rank> Loop::dispatch() {
    while (pending_ && !stopped_) {
        require(sd_event_dispatch(event_.get()), "the event loop fails");
        int r = sd_event_prepare(event_.get());
        if (r == 0) r = sd_event_wait(event_.get(), 0);
        require(r, "the event loop fails");
        pending_ = r > 0;
    }
    return first_;
}

}  // namespace barcuda
