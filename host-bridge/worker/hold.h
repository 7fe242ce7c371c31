// SPDX-License-Identifier: Apache-2.0
// hold.h: how a worker stops taking commands, and begins again, as its bridge orders it (link.h, Orders; the states:
// host-bridge/between/pause_states.h). It is held between two commands, once the GPU has done all that it was given; what is left in the
// queue stays there. Then the driver may move all that the client has on the GPU into the worker's own memory: from that moment on
// each call of the driver would wait, so the worker makes none until the memory is back. What does not succeed changes nothing: the
// worker goes on as before, and says why.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "host-bridge/between/link.h"
#include "shm-device/queue/sync.h"

namespace barcuda {

class Session;

class Hold {
  public:
    Hold(Session& session, Sheet& sheet) : session_(session), orders_(sheet.orders) {}

    // Before each command: whether none is to be taken now. Carries out what is ordered.
    bool stops() { return (state_ != Paused::running || tries_ || observe(orders_.order) != seen_) && look(); }

    Paused state() const { return state_; }
    bool waits_for_work() const { return state_ == Paused::holding; }
    bool driver_waits() const { return state_ == Paused::away || state_ == Paused::stuck; }  // in each of its calls

  private:
    bool look();
    void begin();
    void attempt();
    void hold();
    void leave();
    void come_back();
    void become(Paused state);
    void answer(Obstacle obstacle, CUresult result = CUDA_SUCCESS);

    Session& session_;
    Orders& orders_;
    Paused state_ = Paused::running, wanted_ = Paused::running;
    Paused before_ = Paused::running;  // the order: what a failure leads back to
    std::uint32_t seen_ = 0;           // the last order that was begun
    // Holding, in nanoseconds of the monotonic clock. The GPU may wait for a command that is not taken, so the worker holds for a short
    // time first, then takes commands for a moment, and holds for twice as long.
    bool tries_ = false;
    std::uint64_t deadline_ = 0, attempt_ = 0, attempt_ends_ = 0, next_attempt_ = 0;
};

}  // namespace barcuda
