// SPDX-License-Identifier: Apache-2.0
// deferred.h: what a session defers until the GPU is idle. To release memory or code (cuMemFree, cuMemHostUnregister,
// cuModuleUnload) a driver waits for all work of its GPU. If the worker waited with it, it would take no command of any
// thread: a thread that requests memory of the region, in a malloc, would hang, and the GPU might wait for that thread.
// Only this one thread gives the GPU work, so while it sees all streams done, they stay done. (A pool that is destroyed
// while some of its memory is still to be freed is a different matter: NVIDIA's driver may crash, 580.159 within some
// hundred pools, without any code of ours in the process.)
//
// When the program waits, a pool returns to the driver what it holds beyond its threshold. The program's waits never
// reach the driver (the guest waits), so the worker waits once for the program when the GPU is idle.
//
// Freed memory is also recycled. Allocating and freeing cost a driver 50 us and more, and programs do it in loops. So
// memory that was freed (the guest has then waited for the GPU, as CUDA does) stays allocated until the worker is idle,
// or until the client asks how much memory is free. Meanwhile an allocation of the same size in the same context gets
// it. (The guest has not waited for other contexts.) Only a few blocks are kept in this way, because other clients of
// the GPU need memory, too.
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
    CUresult unload(CUmodule module) { return defer({What::module, raw(module), 0, contexts_.owner()}); }
    CUresult unload(CUlibrary library) { return defer({What::library, raw(library), 0, contexts_.owner()}); }
    CUresult destroy(CUmemoryPool pool) { return defer({What::pool, raw(pool), 0, contexts_.owner()}); }

    // How much code the client has unloaded that the driver has yet.
    std::size_t unloaded() const;
    // From now on as much of that, the last, is not released, whatever the GPU does.
    void keep_unloaded(std::size_t last) { kept_ = last; }

    void note_freed(CUstream stream);  // memory was freed in the order of this stream, of the current context

    bool pending() const { return !entries_.empty() || !freed_in_.empty() || contexts_.ending(); }
    // Releases what was deferred, if the GPU is idle, or, with `wait`, waits for the GPU, because memory has run out.
    // True: something was released.
    bool reap(bool wait = false);

    void note_work() { worked_ = true; }  // the GPU gets work
    // Whether the GPU has done all work and written all fences. Asks the driver, in each context, unless there was no
    // work since it last said yes.
    bool check_idle();
    void context_gone(CUcontext context);  // its memory and modules go with it

  private:
    enum class What { memory, opened, extent, module, library, pool };
    struct Entry {
        What what;
        std::uint64_t name;   // an address, an offset in the region, or the driver's handle
        std::uint64_t bytes;  // of an extent; for memory that may be recycled, as requested
        CUcontext context;    // null: belongs to no context
        bool is_address() const { return what == What::memory || what == What::opened; }
        bool is_code() const { return what == What::module || what == What::library; }
    };
    struct FreedIn {
        CUcontext context;
        CUstream stream;  // null: the default stream
        bool operator==(const FreedIn&) const = default;
    };
    template <class T> static std::uint64_t raw(T* handle) { return reinterpret_cast<std::uint64_t>(handle); }
    CUresult defer(const Entry& entry);
    void keep(const Entry& entry);
    CUresult release(const Entry& entry);
    void wait_where_freed();

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
    std::vector<Entry> entries_;  // in the order in which the client released them
    std::vector<FreedIn> freed_in_;
    std::size_t kept_ = 0;  // of the code among them
    bool worked_ = false;   // since the GPU was last idle
};

}  // namespace barcuda
