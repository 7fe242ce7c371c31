// SPDX-License-Identifier: Apache-2.0
// supply.h: extents for the client's heap, on a road of their own (layout.h, struct barcuda_supply): the worker's thread may be
// inside a driver's call that waits for the GPU, and the GPU may wait for the thread of the client that asks, in a malloc. So
// whichever of two threads sees a request first answers it: the worker's, between commands, or a clerk, which does nothing else. An
// extent needs the bridge and a mapping, not the driver; the driver learns of it before the next command, which may name it.
// (The other end: guest-allocator/client/client.cc.)
#pragma once
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
    // `prepared`: extents that are mapped and registered already.
    Supply(barcuda_supply& page, const Bell& bell, Granter& granter, Extents& extents, const Preparation& prepared);
    ~Supply();

    // ---- for the worker's thread
    bool asked() const { return observe(page_.asked) != answered_.load(std::memory_order_relaxed); }
    void serve() { answer(true); }
    // Takes over what was granted since it was last called. True if that was anything: the driver must learn of it.
    bool adopt();

    // ---- the clerk, as long as this lives
    void begin();

  private:
    struct Run {
        std::uint64_t offset = 0, bytes = 0;
        bool mapped = false;  // and in `extents`
    };
    void attend(const std::stop_token& stop);
    // `last`: what the bridge refuses is refused. Else that is said only when the worker's thread has had its time: a release
    // may be on its way, in the queue. False: it is not answered yet.
    bool answer(bool last);
    CUresult find(std::uint64_t bytes, Run& run);

    barcuda_supply& page_;
    const Bell bell_;
    Granter& granter_;
    Extents& extents_;
    std::mutex mutex_;  // of all below
    std::vector<Run> prepared_, granted_;
    std::atomic<std::uint64_t> answered_{0};  // ours: the word in the region is only told
    std::atomic<bool> new_{false};            // there are some in granted_
    std::jthread clerk_;
};

}  // namespace barcuda
