// SPDX-License-Identifier: Apache-2.0
// supply.h: extents for the client's heap, requested outside the queue (layout.h, struct barcuda_supply): the worker's
// thread may be inside a driver's call that waits for the GPU, and the GPU may wait for the client's thread that
// requests memory in a malloc. So two threads look for requests, and the first one to see a request answers it: the
// worker's thread, between commands, or a clerk, which does nothing else. An extent needs the bridge and a mapping, not
// the driver; the driver gets it before the next command, which may name it. (The other end:
// guest-allocator/client/client.cc.)
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "host-bridge/between/bell.h"
#include "host-bridge/between/link.h"
#include "host-bridge/worker/session/extents.h"

namespace barcuda {

struct Granter;

class Supply {
  public:
    struct Run {
        std::uint64_t offset = 0, bytes = 0;
        bool operator==(const Run&) const = default;
    };
    struct State {
        std::uint64_t answered = 0;                     // the number of the last request
        std::array<Run, Preparation::most> prepared{};  // extents of the client's that it does not know of yet
        bool operator==(const State&) const = default;
    };

    Supply(barcuda_supply& page, const Bell& bell, Granter& granter, Extents& extents, const State& state);
    // `prepared`: extents that are mapped and registered already.
    Supply(barcuda_supply& page, const Bell& bell, Granter& granter, Extents& extents, const Preparation& prepared);
    ~Supply();

    // ---- for the worker's thread
    bool asked() const { return observe(page_.asked) != answered_.load(std::memory_order_relaxed); }
    void serve() { answer(true); }
    // Adopts the extents that were granted since the last call. True: there were some, and the driver must register
    // them.
    bool adopt();

    // ---- the clerk, as long as this lives, or until state() is asked for, and after that again from begin() on
    void begin();
    // Ends the clerk, so that the state stays what it is. A request that it left is answered by the worker that goes
    // on.
    State state();

  private:
    struct Granted : Run {
        bool mapped = false;  // and in `extents`
    };
    static State of(const Preparation& prepared);
    void attend(const std::stop_token& stop);
    // `last`: a request that the bridge refuses is refused to the client at once. Otherwise the refusal waits until the
    // worker's thread has had its time, because a release may be in the queue. False: not answered yet; also where the
    // bridge answers nothing at the moment (CUDA_ERROR_NOT_READY).
    bool answer(bool last);
    CUresult find(std::uint64_t bytes, Granted& run);

    barcuda_supply& page_;
    const Bell bell_;
    Granter& granter_;
    Extents& extents_;
    std::mutex mutex_;                                 // of all below
    std::array<Granted, Preparation::most> prepared_;  // of no bytes: none
    std::vector<Granted> granted_;
    std::atomic<std::uint64_t> answered_{0};  // ours: the word in the region is only told
    std::atomic<bool> new_{false};            // there are some in granted_
    std::jthread clerk_;
};

}  // namespace barcuda
