// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/pool.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.h"

namespace barcuda {

Pool::Pool(WarmOptions options, Loop& loop, Start start, Release release)
    : warm_(options), loop_(loop), start_(std::move(start)), release_(std::move(release)) {}

Pool::Place Pool::find(const std::vector<int>& devices) {
    for (const Worker& w : waiting_) w->look();
    const auto shows = [&](const Worker& w) { return w->devices() == devices; };
    const auto ready = std::ranges::find_if(waiting_, [&](const Worker& w) { return shows(w) && w->is_open(); });
    return ready != waiting_.end() ? ready : std::ranges::find_if(waiting_, shows);
}

Pool::Worker Pool::take(const std::vector<int>& devices, const std::function<bool(std::uint64_t)>& may_have,
                        Clock::time_point now) {
    Place found = find(devices);
    // One that has died can serve no client any more, nor can one that is dying, for which a driver may take long.
    for (; found != waiting_.end(); found = find(devices)) {
        if ((*found)->has_gone()) {
            reap_waiting(now);
        } else if ((*found)->is_ending()) {
            log::error("a worker that waited for a client ends");
            put_off(now);
            dismiss(std::move(*found));
            waiting_.erase(found);
        } else {
            break;
        }
    }
    if (found != waiting_.end() && !may_have((*found)->reserved_bytes())) {  // a limit was lowered meanwhile
        dismiss(std::move(*found));
        waiting_.erase(found);
        found = waiting_.end();
    }
    if (devices == likely_) warm_.client_came(found != waiting_.end() && (*found)->is_open(), now);
    if (found == waiting_.end()) {
        Worker worker = start_(devices);
        if (worker) worker->hear_log(loop_);
        return worker;
    }
    Worker worker = std::move(*found);
    waiting_.erase(found);
    pause_ = {};
    return worker;
}

void Pool::expect(std::vector<int> devices) {
    likely_ = std::move(devices);
    dismiss_if([this](const WorkerProcess& w) { return w.devices() != likely_; });
}

void Pool::served(const std::vector<int>& devices) {
    if (devices == last_ && devices != likely_) expect(devices);
    last_ = devices;
}

void Pool::keep(const Clients& clients, Clock::time_point now) {
    for (const Worker& w : waiting_) w->look();
    if (warm_.looks_at_memory()) {
        for (const Worker& w : waiting_)
            if (w->held == 0 && w->is_open()) w->held = w->memory();
        std::uint64_t most = 0;
        for (const Worker& w : waiting_) most = std::max(most, w->held);
        if (most) warm_.note_memory(most);
    }
    const unsigned wanted = warm_.wanted(now);
    for (; waiting_.size() > wanted; waiting_.pop_back()) dismiss(std::move(waiting_.back()));
    if (clients.one_asks) return;
    const auto one_starts = [&] {
        return clients.one_starts || std::ranges::any_of(waiting_, [](const Worker& w) {
                   return w->state() == WorkerProcess::State::starting;
               });
    };
    while (waiting_.size() < wanted && !likely_.empty() && now >= again_ && warm_.may_begin(one_starts(), now)) {
        Worker worker = start_(likely_);
        if (!worker) {
            log::error("cannot start a worker: {}", strerror(errno));
            return put_off(now);
        }
        add(std::move(worker));
    }
}

// Ending workers are checked in each turn of the loop.
void Pool::add(Worker worker) {
    if (!worker->hear_log(loop_) || !worker->hear_end(loop_, [this] { reap_waiting(); }))
        return dismiss(std::move(worker));
    waiting_.push_back(std::move(worker));
}

std::uint32_t Pool::warm() const {
    for (const Worker& w : waiting_) w->look();
    return static_cast<std::uint32_t>(std::ranges::count_if(waiting_, [](const Worker& w) { return w->is_open(); }));
}

void Pool::put_off(Clock::time_point now) {
    using namespace std::chrono_literals;
    pause_ = std::clamp<std::chrono::milliseconds>(2 * pause_, 100ms, 10s);
    again_ = now + pause_;
}

template <class Which> void Pool::dismiss_if(const Which& which) {
    std::erase_if(waiting_, [&](Worker& w) {
        if (!which(*w)) return false;
        dismiss(std::move(w));
        return true;
    });
}

void Pool::drop_reserves(Clock::time_point now) {
    dismiss_if([](const WorkerProcess& w) { return !w.reserved.empty(); });
    put_off(now);
}

bool Pool::reserves() const {
    return std::ranges::any_of(waiting_, [](const Worker& w) { return !w->reserved.empty(); });
}
bool Pool::leaving_reserves() const {
    return std::ranges::any_of(leaving_, [](const Worker& w) { return !w->reserved.empty(); });
}

void Pool::dismiss(Worker worker) {
    worker->dismiss();
    leaving_.push_back(std::move(worker));
}

void Pool::discard(Worker ended) { release(*ended); }

void Pool::release(WorkerProcess& worker) {
    for (const Grants::Run& run : std::exchange(worker.reserved, {})) release_(run);
}

void Pool::reap_leaving() {
    std::erase_if(leaving_, [this](const Worker& w) {
        if (!w->release()) return false;
        release(*w);
        return true;
    });
}

void Pool::reap_waiting(Clock::time_point now) {
    std::erase_if(waiting_, [&](const Worker& w) {
        if (!w->has_gone()) return false;
        const std::string end = w->reap();
        release(*w);
        log::error("a worker that waited for a client {}", end);
        put_off(now);
        return true;
    });
}

void Pool::end() {
    dismiss_if([](const WorkerProcess&) { return true; });
    for (; !leaving_.empty(); poll(nullptr, 0, 1)) reap_leaving();
}

}  // namespace barcuda
