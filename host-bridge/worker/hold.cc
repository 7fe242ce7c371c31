// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/hold.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/log.h"
#include "host-bridge/worker/memory/residence.h"
#include "host-bridge/worker/session/session.h"
#include "shm-device/queue/wait.h"

namespace barcuda {
namespace {

// The GPU is idle when the worker calls the driver's lock, so it takes no time; but a driver that waits forever would
// block the worker.
constexpr unsigned lock_within_ms = 2000;
constexpr std::uint64_t first_attempt = 100'000'000, between_attempts = 20'000'000;  // ns

}  // namespace

bool captures(Session& session) {
    bool any = false;
    if (session.streams().has_captured())
        session.handles().each_stream([&](CUstream s) { any = any || session.streams().capturing(s); });
    return any;
}

bool Hold::look() {
    if (observe(orders_.order) != seen_) begin();
    if (tries_ && state_ == Paused::running && Os::now() >= next_attempt_) attempt();
    if (state_ == Paused::holding) hold();
    return state_ != Paused::running;
}

void Hold::begin() {
    seen_ = observe(orders_.order);
    wanted_ = static_cast<Paused>(observe(orders_.wanted));
    before_ = state_ == Paused::holding ? Paused::running : state_;
    tries_ = false;
    if (wanted_ != Paused::running && wanted_ != Paused::held && wanted_ != Paused::away)
        return answer(Obstacle::order);
    if (state_ == wanted_) return answer(Obstacle::none);
    if (wanted_ == Paused::away && !session_.driver().checkpoint) return answer(Obstacle::no_checkpoint);
    switch (state_) {
        case Paused::running:
            deadline_ = Os::now() + std::uint64_t{observe(orders_.within)} * 1'000'000;
            attempt_ = first_attempt;
            return attempt();
        case Paused::holding:  // another order has arrived meanwhile
            if (wanted_ == Paused::running) {
                become(Paused::running);
                return answer(Obstacle::none);
            }
            tries_ = true;
            return;
        case Paused::held:
            if (wanted_ == Paused::away) return leave();
            become(Paused::running);
            return answer(Obstacle::none);
        case Paused::away:
            if (wanted_ == Paused::running) return come_back();
            [[fallthrough]];
        default: return answer(Obstacle::order);
    }
}

void Hold::attempt() {
    tries_ = true;
    attempt_ends_ = std::min(deadline_, Os::now() + attempt_);
    become(Paused::holding);
}

void Hold::hold() {
    if (session_.quiet()) {
        if (session_.turns()) session_.turns()->rest(true);  // others need not wait for an unused seat
        tries_ = false;
        become(Paused::held);
        return wanted_ == Paused::away ? leave() : answer(Obstacle::none);
    }
    const std::uint64_t now = Os::now();
    const bool is_over = now >= attempt_ends_;
    if (!is_over && !captures(session_)) return;
    if (is_over) attempt_ *= 2;
    become(Paused::running);
    next_attempt_ = now + between_attempts;
    if (now < deadline_) return;
    tries_ = false;
    answer(Obstacle::work);
}

void Hold::leave() {
    const Checkpoint& driver = session_.driver().checkpoint;
    CUcheckpointLockArgs args{};
    args.timeoutMs = lock_within_ms;
    Obstacle obstacle = Obstacle::lock;
    CUresult result = driver.cuCheckpointProcessLock(getpid(), &args);
    if (result == CUDA_SUCCESS) {
        obstacle = Obstacle::checkpoint;
        result = driver.cuCheckpointProcessCheckpoint(getpid(), nullptr);
        if (result == CUDA_SUCCESS) {
            if (residence_) residence_->leave_cards();
            become(Paused::away);
            return answer(Obstacle::none);
        }
        if (result == CUDA_ERROR_NOT_SUPPORTED) obstacle = Obstacle::unified;
        if (const CUresult r = driver.cuCheckpointProcessUnlock(getpid(), nullptr); r != CUDA_SUCCESS) {
            become(Paused::stuck);
            return answer(Obstacle::unlock, r);
        }
    }
    if (before_ == Paused::running) become(Paused::running);
    answer(obstacle, result);
}

void Hold::come_back() {
    const Checkpoint& driver = session_.driver().checkpoint;
    become(Paused::returning);
    Obstacle obstacle = Obstacle::restore;
    CUresult result = driver.cuCheckpointProcessRestore(getpid(), nullptr);
    if (result == CUDA_SUCCESS) {
        obstacle = Obstacle::unlock;
        result = driver.cuCheckpointProcessUnlock(getpid(), nullptr);
    }
    if (result == CUDA_SUCCESS) {
        if (residence_) residence_->return_to_cards();
        become(Paused::running);
        return answer(Obstacle::none);
    }
    become(Paused::stuck);
    answer(obstacle, result);
}

void Hold::become(Paused state) {
    if (!may_follow(state_, state)) std::abort();
    log::debug("{} -> {}", name_of(state_), name_of(state));
    state_ = state;
    publish(orders_.is, static_cast<std::uint32_t>(state));
}

void Hold::answer(Obstacle obstacle, CUresult result) {
    publish(orders_.obstacle, static_cast<std::uint32_t>(obstacle));
    publish(orders_.result, static_cast<std::int32_t>(result));
    publish(orders_.done, seen_);
}

}  // namespace barcuda
