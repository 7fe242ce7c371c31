// SPDX-License-Identifier: Apache-2.0
// hold.h: how a worker stops taking commands, and continues, as its bridge orders (link.h, Orders; the states:
// host-bridge/between/pause_states.h). It holds between two commands, when the GPU has done all of the client's work;
// later commands stay in the queue. Then the driver may move everything that the client has on the GPU into the
// worker's own memory. From then on each call of the driver would block, so the worker makes none until the memory is
// back. A step that fails changes nothing: the worker continues as before, and reports why.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "host-bridge/between/link.h"
#include "shm-device/queue/sync.h"

namespace barcuda {

class Residence;
class Session;

// A stream is in a capture. Only later commands of the client end one; and meanwhile nothing says whether the GPU has
// work. So the worker takes commands until it has ended.
bool captures(Session& session);

class Hold {
  public:
    // `residence`: of a client that shares cards; null: it shares none.
    Hold(Session& session, Sheet& sheet, Residence* residence = nullptr)
        : session_(session), orders_(sheet.orders), residence_(residence) {}

    // Called before each command: whether the worker must not take it now. Carries out orders.
    bool stops() { return (state_ != Paused::running || tries_ || observe(orders_.order) != seen_) && look(); }

    Paused state() const { return state_; }
    bool waits_for_work() const { return state_ == Paused::holding; }
    // each call of the driver blocks
    bool driver_waits() const { return state_ == Paused::away || state_ == Paused::stuck; }

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
    Residence* const residence_;
    Paused state_ = Paused::running, wanted_ = Paused::running;
    Paused before_ = Paused::running;  // before the order: a failure returns to this state
    std::uint32_t seen_ = 0;           // the last order that was begun
    // Holding, in nanoseconds of the monotonic clock. The GPU may be waiting for a command that the worker does not
    // take. So the worker first holds for a short time, then takes commands for a moment, and then holds twice as long.
    bool tries_ = false;
    std::uint64_t deadline_ = 0, attempt_ = 0, attempt_ends_ = 0, next_attempt_ = 0;
};

}  // namespace barcuda
