// SPDX-License-Identifier: Apache-2.0
// fences.h: words of the region that the GPU writes when a stream has come so far, and for which the client's threads
// wait. A waiting thread must be woken however the command ends that was to write the fence, and must find the reason
// then: so a failure is published first, in the status page, and only then is a fence released. A fence that the GPU
// has been given is remembered until it has happened. After a GPU fault nothing would be written any more in this
// process: the CPU writes all that are outstanding. (The guest's half: guest-allocator/driver/fence.h.)
#pragma once
#include <cuda.h>

#include <cstdint>
#include <vector>

#include "host-bridge/between/bell.h"
#include "host-bridge/worker/session/contexts.h"
#include "host-bridge/worker/session/in_flight.h"
#include "host-bridge/worker/session/output.h"
#include "host-bridge/worker/session/streams.h"
#include "shm-device/rows/stream.h"

namespace barcuda {

class Fences {
  public:
    Fences(const Driver& driver, Extents& extents, barcuda_status& status, const Bell& bell, Contexts& contexts,
           const Streams& streams, Output& output, InFlight& in_flight)
        : driver_(driver),
          extents_(extents),
          status_(status),
          bell_(bell),
          contexts_(contexts),
          streams_(streams),
          output_(output),
          in_flight_(in_flight) {}

    // ---- the fence of the running command
    void begin_command() { promised_ = {}; }
    // Somebody waits for it already, and is woken however the command ends. Eight aligned bytes of the client's.
    Verdict promise(const ext::Fence& fence);
    // Has the GPU write it, behind all earlier work of the stream.
    CUresult write(CUstream stream);
    // Tells the client why the command has failed, unless its reply does (`answered`); then, and not before, wakes
    // the threads that wait for a fence which the command leaves unwritten.
    void end_command(std::uint32_t op, CUresult result, bool answered);

    // ---- those that are outstanding
    // Forgets fences that have been written, and wakes the threads that sleep for one. True if some are outstanding.
    bool collect();
    // Asks about the oldest, so that a GPU fault is noticed. Called while the worker has nothing else to do.
    void watch();
    // Of those that lie there, since it is about to be unmapped.
    void forget(const std::byte* memory, std::uint64_t bytes);
    void stream_gone(CUstream stream);     // its work goes on without it
    void context_gone(CUcontext context);  // the driver has ended it: the GPU writes nothing there any more

    // The GPU's fault, after which nothing works in this process any more; none: CUDA_SUCCESS.
    CUresult lasting_error() const { return fault_; }

    // The failure of a command that has no reply.
    void post_failure(std::uint32_t op, CUresult result);

  private:
    struct Fence {
        std::uint64_t* word = nullptr;
        std::uint64_t value = 0;
        CUstream stream = nullptr;
        CUcontext context = nullptr;
        InFlight::Mark behind = {};  // the work that is done when it is reached
        bool refused = false;        // the GPU will not write it
        bool reached() const;
    };
    void note(CUresult result);
    void fault(CUresult error);
    static void release(const Fence& fence);

    const Driver& driver_;
    Extents& extents_;
    barcuda_status& status_;
    const Bell& bell_;
    Contexts& contexts_;
    const Streams& streams_;
    Output& output_;
    InFlight& in_flight_;
    std::vector<Fence> fences_;  // in the order in which they were asked for
    Fence promised_;             // by the running command
    std::uint64_t posted_failures_ = 0;
    CUresult fault_ = CUDA_SUCCESS;
};

}  // namespace barcuda
