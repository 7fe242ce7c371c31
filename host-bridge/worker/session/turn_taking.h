// SPDX-License-Identifier: Apache-2.0
// turn_taking.h: how a worker takes its turns at the GPUs (host-bridge/between/turns.h). A GPU cannot be taken from a
// process with queued work. So during its turn, while other workers want one, the worker queues about a third of a
// millisecond's work and waits until it is done; after a millisecond it passes the turn on. While no other worker wants
// the GPU, it queues without limit.
#pragma once
#include <cuda.h>

#include <memory>
#include <vector>

#include "host-bridge/between/driver.h"
#include "host-bridge/between/link.h"
#include "host-bridge/between/turns.h"

namespace barcuda {

class TurnTaking {
  public:
    // What the worker's session knows of its GPUs' work.
    struct Work {
        virtual bool idle() = 0;  // all of it is done
        virtual ~Work() = default;
    };
    TurnTaking(const Driver& driver, turns::Book& book, std::uint32_t group, Work& work, Sheet& sheet);
    // Called before a command that gives the GPU of this context work.
    void before_work(CUcontext context);
    // There is no command. `asked`: it is time to query the driver.
    void rest(bool asked);

  private:
    struct Own {
        std::unique_ptr<turns::Place> place;
        bool held = false;
        std::uint64_t since = 0, batch_begun = 0, undrainable_until = 0, out_until = 0;
        unsigned posted = 0, batch = 1;
    };
    Own* of(CUcontext context);
    void acquire(Own& own);
    static void leave(Own& own);
    void drain(Own& own);

    const Driver& driver_;
    Work& work_;
    Sheet& sheet_;
    std::vector<Own> gpus_;  // by the driver's number
    CUcontext last_ = nullptr;
    Own* last_own_ = nullptr;
};

}  // namespace barcuda
