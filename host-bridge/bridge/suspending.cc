// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/suspending.h"

#include <fmt/format.h>

#include <utility>

namespace barcuda {

const char* Suspending::name(SuspendStep step) {
    switch (step) {
        case SuspendStep::none: return "none";
        case SuspendStep::begun: return "begun";
        case SuspendStep::frozen: return "frozen";
        case SuspendStep::ended: return "ended";
    }
    return "unknown";
}

bool Suspending::permits(SuspendStep from, SuspendStep to) {
    using enum SuspendStep;
    switch (from) {
        case none: return to == begun;
        case begun: return to == frozen || to == none;
        case frozen: return to == ended || to == none;
        case ended: return false;
    }
    return false;
}

Failure Suspending::enter(SuspendStep to) {
    if (!permits(step_, to))
        return step_ == SuspendStep::none
                   ? Failure("no suspend is under way: it was given up, or the bridge was restarted meanwhile")
                   : fmt::format("a suspend is under way already, and is {}", name(step_));
    step_ = to;
    return {};
}

Failure Suspending::begin(std::set<std::uint32_t> paused, Clock::time_point now) {
    if (Failure failure = enter(SuspendStep::begun)) return failure;
    paused_ = std::move(paused);
    heard_ = now;
    return {};
}

Failure Suspending::freeze(std::int64_t running) {
    if (running >= 0 && step_ == SuspendStep::begun)
        return fmt::format(
            "the client of channel {} is not held (one whose memory is off the GPU must be resumed before)", running);
    return enter(SuspendStep::frozen);
}

Failure Suspending::finish() { return enter(SuspendStep::ended); }

void Suspending::give_up() {
    if (permits(step_, SuspendStep::none)) step_ = SuspendStep::none;
}

bool Suspending::is_late(Clock::time_point now) const {
    return permits(step_, SuspendStep::none) && now - heard_ > patience;
}

}  // namespace barcuda
