// SPDX-License-Identifier: Apache-2.0
// fences.h: words of the region that the GPU writes when a stream has reached a point, and for which the client's
// threads wait. A waiting thread must wake however the command ends that promised the fence, and must then find the
// reason. So a failure is published first, in the status page, and only then is the fence released. A fence that the
// GPU will write is remembered until it is written. After a GPU fault no fence would be written any more in this
// process, so the CPU writes all outstanding ones. (The guest's half: guest-allocator/driver/fence.h.)
#pragma once
#include <cuda.h>

#include <cstdint>
#include <vector>

#include "host-bridge/between/bell.h"
#include "host-bridge/worker/session/client_rows.h"
#include "host-bridge/worker/session/contexts.h"
#include "host-bridge/worker/session/in_flight.h"
#include "host-bridge/worker/session/output.h"
#include "host-bridge/worker/session/streams.h"
#include "shm-device/rows/stream.h"

namespace barcuda {

class Fences {
  public:
    Fences(const Driver& driver, Extents& extents, barcuda_status& status, const Bell& bell, const ClientRows& rows,
           Contexts& contexts, const Streams& streams, Output& output, InFlight& in_flight)
        : driver_(driver),
          extents_(extents),
          status_(status),
          bell_(bell),
          rows_(rows),
          contexts_(contexts),
          streams_(streams),
          output_(output),
          in_flight_(in_flight) {}

    struct State {
        std::uint64_t posted_failures = 0;
        CUresult fault = CUDA_SUCCESS;
        bool operator==(const State&) const = default;
    };
    // Between commands, when none is outstanding: a fence is a place in a stream of this process.
    State state() const { return {posted_failures_, fault_}; }
    void restore(const State& state) {
        posted_failures_ = state.posted_failures;
        fault_ = state.fault;
    }

    // ---- the fence of the running command
    void begin_command() { promised_ = {}; }
    // A thread already waits for it, and is woken however the command ends. Eight aligned bytes of the client's.
    Verdict promise(const ext::Fence& fence);
    // Lets the GPU write it, after all earlier work of the stream.
    CUresult write(CUstream stream);
    // Tells the client why the command has failed, unless its reply does (`answered`). Only then wakes the threads that
    // wait for a fence that the command leaves unwritten.
    // Returns a lie when more refused fences are pending than a client can have waiting threads.
    Verdict end_command(std::uint32_t op, CUresult result, bool answered);

    // ---- outstanding fences
    // Forgets fences that have been written, and wakes the threads that sleep for one. True: some are outstanding.
    bool collect();
    // The same while it cannot wait: a thread of the client sleeps, or the CPU has a fence to write. Otherwise
    // it only says whether some were outstanding when last looked at. To look at a fence takes its line from the GPU
    // and from the thread that polls it.
    bool collect_for_somebody() { return refused_ || bell_.is_awaited() ? collect() : !fences_.empty(); }
    // Queries the oldest one, so that a GPU fault is noticed. Called while the worker is idle.
    void watch();
    // Forgets the fences in this memory, because it is about to be unmapped.
    void forget(const std::byte* memory, std::uint64_t bytes);
    void stream_gone(CUstream stream);     // its work continues
    void context_gone(CUcontext context);  // the driver has ended it: the GPU writes nothing there any more

    // The GPU's fault, after which nothing works in this process; CUDA_SUCCESS: none.
    CUresult lasting_error() const { return fault_; }

    // The failure of a command that has no reply.
    void post_failure(std::uint32_t op, CUresult result);

  private:
    struct Fence {
        std::uint64_t* word = nullptr;
        std::uint64_t value = 0;
        CUstream stream = nullptr;
        CUcontext context = nullptr;
        InFlight::Mark behind = {};  // when this mark is reached, the work is done
        bool refused = false;        // the GPU will not write it
        bool reached() const;
    };
    static constexpr std::size_t most_refused = 4096;
    void note(CUresult result);
    void fault(CUresult error);
    static void release(const Fence& fence);

    const Driver& driver_;
    Extents& extents_;
    barcuda_status& status_;
    const Bell& bell_;
    const ClientRows& rows_;
    Contexts& contexts_;
    const Streams& streams_;
    Output& output_;
    InFlight& in_flight_;
    std::vector<Fence> fences_;  // in the order in which they were asked for
    unsigned refused_ = 0;       // of them, that the CPU is to write
    Fence promised_;             // by the running command
    std::uint64_t posted_failures_ = 0;
    CUresult fault_ = CUDA_SUCCESS;
};

}  // namespace barcuda
