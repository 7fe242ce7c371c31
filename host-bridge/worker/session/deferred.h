// SPDX-License-Identifier: Apache-2.0
// deferred.h: what a session puts off until the GPU is idle. To release memory or code (cuMemFree, cuMemHostUnregister,
// cuModuleUnload) a driver waits for all that its GPU was given. If the worker waited with it, no command of any thread
// would be taken meanwhile: a thread that asks for memory of the region, in a malloc, would stand still, and the GPU
// might wait for that thread. One thread gives the GPU its work, this one: while it sees all streams done, they stay
// so. (A pool that is destroyed while some of its memory is still to be freed is another matter: NVIDIA's driver may
// crash, 580.159 within some hundred pools, with nothing of ours in the process.)
//
// A pool gives back to the driver what it holds beyond its threshold when the program waits. The program's waits never reach
// the driver (they are the guest's), so the worker waits once for it when the GPU is idle.
//
// Freed memory is recycled besides. Allocating and freeing cost a driver 50 us and more; programs do it in loops. So
// memory that has been freed (the guest has waited for the GPU then, as CUDA does) stays allocated until the worker has
// nothing else to do, or the client asks how much memory is free; an allocation of the same size in the same context is
// served with it meanwhile. (For other contexts the guest has not waited.) Only a few blocks are kept so: other clients
// of the GPU need memory too.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <vector>

#include "host-bridge/worker/quota/granter.h"
#include "host-bridge/worker/session/addresses.h"
#include "host-bridge/worker/session/contexts.h"
#include "host-bridge/worker/session/fences.h"
#include "host-bridge/worker/session/launches.h"
#include "host-bridge/worker/session/streams.h"

namespace barcuda {

class Deferred {
  public:
    Deferred(const Driver& driver, Extents& extents, Granter& granter, Handles& handles, Contexts& contexts,
             const Streams& streams, InFlight& in_flight, Fences& fences, Addresses& addresses, Launches& launches)
        : driver_(driver),
          extents_(extents),
          granter_(granter),
          handles_(handles),
          contexts_(contexts),
          streams_(streams),
          in_flight_(in_flight),
          fences_(fences),
          addresses_(addresses),
          launches_(launches) {}

    CUresult allocate(CUdeviceptr& address, std::size_t bytes);
    CUresult free(CUdeviceptr address);
    CUresult close(CUdeviceptr opened);                           // memory of another process
    CUresult release(std::uint64_t offset, std::uint64_t bytes);  // an extent
    CUresult unload(CUmodule module) { return defer({What::module, raw(module), 0, contexts_.current()}); }
    CUresult unload(CUlibrary library) { return defer({What::library, raw(library), 0, contexts_.current()}); }
    CUresult destroy(CUmemoryPool pool) { return defer({What::pool, raw(pool), 0, contexts_.current()}); }

    void note_freed();  // memory of a pool, in the order of a stream

    bool pending() const { return !entries_.empty() || !pools_freed_in_.empty() || contexts_.ending(); }
    // Releases what has been put off, if the GPU is idle, or, since memory has run out, by waiting for it. True if that
    // was anything.
    bool reap(bool wait = false);

    void note_work() { worked_ = true; }  // the GPU is given something
    // Whether the GPU has done all of it, and has written all fences. Asks the driver, in each context, unless nothing was given since
    // the last yes.
    bool check_idle();
    void context_gone(CUcontext context);  // and its memory and modules with it

  private:
    enum class What { memory, opened, extent, module, library, pool };
    struct Entry {
        What what;
        std::uint64_t name;   // an address, an offset in the region, or the driver's handle
        std::uint64_t bytes;  // of an extent; of memory that may be recycled, as it was asked for
        CUcontext context;    // null: no context's
        bool is_address() const { return what == What::memory || what == What::opened; }
    };
    template <class T> static std::uint64_t raw(T* handle) { return reinterpret_cast<std::uint64_t>(handle); }
    CUresult defer(const Entry& entry);
    void keep(const Entry& entry);
    CUresult release(const Entry& entry);

    const Driver& driver_;
    Extents& extents_;
    Granter& granter_;
    Handles& handles_;
    Contexts& contexts_;
    const Streams& streams_;
    InFlight& in_flight_;
    Fences& fences_;
    Addresses& addresses_;
    Launches& launches_;
    std::vector<Entry> entries_;  // in the order in which the client let go of them
    std::vector<CUcontext> pools_freed_in_;
    bool worked_ = false;  // since the GPU was last seen idle
};

}  // namespace barcuda
