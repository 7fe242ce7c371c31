// SPDX-License-Identifier: Apache-2.0
// quota.h: counts the device memory of a client, whichever call gives it: allocations, arrays, pools, physical memory
// of cuMemCreate, memory that graphs allocate. It is a layer between the session and the driver: in the driver's table,
// functions of its own (quota_layer.cc) replace those that allocate and free; they are derived from the rows. An
// allocation over the limit fails with CUDA_ERROR_OUT_OF_MEMORY, and cuMemGetInfo shows the limit as the card's size.
//
// A driver also takes memory by itself: contexts, code and its variables, stacks, buffers of printf, workspaces of the
// math libraries. That memory is the difference between what the driver says that this process has and what was
// counted. The quota measures it where it may have grown, and counts it. A client that it puts over the limit can make
// nothing new, but loses nothing that it has. Only an image is refused afterwards: its variables may be as large as a
// GPU.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>

#include "host-bridge/between/driver.h"
#include "host-bridge/worker/quota/allowance.h"

namespace barcuda {

struct Granter;

// Bytes of a device's memory that this process has now, as its driver says. None: the driver does not say, or it was
// asked a moment ago and the answer need not be `exact`. Never an old answer: allocations since then would count as the
// driver's own.
using OwnMemory = std::function<std::optional<std::uint64_t>(CUdevice, bool exact)>;
OwnMemory own_memory(const Driver& driver, bool software);

class Quota {
  public:
    Quota(const Driver& driver, Granter& granter, Allowance& allowance, OwnMemory own)
        : real(driver), granter_(granter), allowance_(allowance), own_(std::move(own)) {}

    const Driver real;
    std::recursive_mutex mutex;

    std::uint64_t limit() const { return allowance_.limit(Limit::device_memory); }  // 0: none
    CUdevice current() const {
        CUdevice device = 0;
        return real.cuCtxGetDevice(&device) == CUDA_SUCCESS ? device : 0;
    }
    // What the client could still allocate.
    std::uint64_t left(CUdevice device);
    // The client exceeds the limit of some device, because its driver took memory.
    bool over();
    // While the worker is idle: updates what `barcuda limit` shows.
    void look();
    // Measures what the driver has taken by itself; false: that is too much.
    bool admits_the_driver(CUdevice device);

    // ---- memory that one handle or address names, until it is freed or its context ends
    template <class Allocate> CUresult allocate(std::uint64_t bytes, const Allocate& function) {
        const std::lock_guard lock(mutex);
        const CUdevice device = current();
        if (!take_or_trim(device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
        std::uint64_t name = 0;
        const CUresult r = function(name);
        CUcontext context = nullptr;
        real.cuCtxGetCurrent(&context);
        if (r == CUDA_SUCCESS) {
            things_[name] = {device, bytes, context};
            note(device);
        } else give(device, bytes);
        return r;
    }
    void freed(std::uint64_t name);
    // In the order of a stream: mostly a pool's, which is counted as a whole.
    void freed_in_stream(std::uint64_t name);
    void context_gone(CUcontext context);
    // Memory that another process shows, which has an address here now: it is counted in both, because either may end
    // first, and once, however often it is opened. False: that is too much.
    bool opened(CUdeviceptr address);

    // ---- pools: what they have reserved, which they keep as long as they like
    void note_pool(CUmemoryPool pool, CUdevice device) { pools_.try_emplace(pool, Pool{device, 0}); }
    void forget_pool(CUmemoryPool pool);
    CUresult allocate_from(CUmemoryPool pool, std::uint64_t bytes, const std::function<CUresult()>& function);

    // ---- physical memory: freed when no handle holds it and it is mapped nowhere. What another process shows is
    // counted as what is made here, for the same reason as above.
    struct Extent {
        CUdevice device = 0;
        std::uint64_t bytes = 0;  // 0: not counted
    };
    Extent extent_of(CUmemGenericAllocationHandle handle);
    CUresult create(CUdevice device, std::uint64_t bytes, CUmemGenericAllocationHandle* handle,
                    const std::function<CUresult()>& function);
    void held(CUmemGenericAllocationHandle handle, int more);
    void mapped(CUdeviceptr address, std::uint64_t bytes, CUmemGenericAllocationHandle handle);
    void unmapped(CUdeviceptr address, std::uint64_t bytes);

    // ---- graphs: a driver reserves the memory of their nodes when such a node is made, or when a graph with such
    // nodes is launched
    CUresult add_node(CUdevice device, std::uint64_t bytes, const std::function<CUresult()>& function);
    CUresult launch(CUgraphExec exec, const std::function<CUresult()>& function);
    void instantiated(CUgraph graph, CUgraphExec exec);
    void forget_exec(CUgraphExec exec) {
        execs_.erase(exec);
        count_graphs();
    }
    void count_graphs();
    void trimmed(CUdevice device);  // graphs have returned what they did not use
    bool has_allocating_graphs() const { return !execs_.empty(); }

  private:
    struct Books {
        std::uint64_t counted = 0, other = 0, borrowed = 0;  // other: what the driver has beyond the counted bytes
        std::uint64_t graphs = 0;                            // part of `counted`
        std::uint64_t used() const { return counted + other; }
    };
    struct Thing {
        CUdevice device;
        std::uint64_t bytes;
        CUcontext context;
        unsigned holds = 1;  // how often it must be freed
    };
    struct Pool {
        CUdevice device;
        std::uint64_t reserved;
    };
    struct Physical {
        CUdevice device;
        std::uint64_t bytes;
        int handles, mappings;
    };
    struct Mapping {
        std::uint64_t bytes;
        CUmemGenericAllocationHandle handle;
    };
    struct Exec {
        std::map<CUdevice, std::uint64_t> bytes;
        bool placed = false;  // the driver keeps the memory from the first launch until it is trimmed
    };

    // The guest may name any number; of real devices alone there are books.
    bool has(CUdevice device);
    bool take(CUdevice device, std::uint64_t bytes);
    // The same, but first frees what pools keep and do not use.
    bool take_or_trim(CUdevice device, std::uint64_t bytes) {
        if (take(device, bytes)) return true;
        trim(device);
        return take(device, bytes);
    }
    void give(CUdevice device, std::uint64_t bytes);
    bool refund(std::uint64_t name);  // false: it is no thing of the books
    void trim(CUdevice device);
    void measure(CUdevice device, bool exact);
    void recount(CUdevice device);
    bool borrow(CUdevice device, std::uint64_t bytes);
    void note(CUdevice device);
    void begin_to_limit();
    void settle(std::map<CUmemGenericAllocationHandle, Physical>::iterator p);
    std::uint64_t attribute(CUmemoryPool pool, CUmemPool_attribute which) const;
    std::uint64_t graph_attribute(CUdevice device, CUgraphMem_attribute which) const;
    void count(CUmemoryPool pool, Pool& its);
    void count_graphs(CUdevice device);
    void set_counted(CUdevice device, std::uint64_t& part, std::uint64_t now);
    std::uint64_t lacks(CUmemoryPool pool, std::uint64_t bytes) const;
    void add_nodes(CUgraph graph, Exec& exec, unsigned depth) const;

    Granter& granter_;
    Allowance& allowance_;
    const OwnMemory own_;
    int devices_ = 0;               // 0: not asked yet
    bool limited_ = false;          // when last checked; without a limit pools and graphs are not counted call by call
    bool graphs_allocate_ = false;  // a node that allocates was made, or may have been captured
    std::map<CUdevice, Books> books_;
    std::map<std::uint64_t, Thing> things_;
    std::map<CUmemoryPool, Pool> pools_;
    std::map<CUmemGenericAllocationHandle, Physical> physical_;
    std::map<CUdeviceptr, Mapping> mappings_;
    std::map<CUgraphExec, Exec> execs_;
};

// From now on, for the rest of this process: the driver's table counts memory, and obeys the allowance.
void enforce_quota(Driver& driver, Granter& granter, Allowance& allowance, OwnMemory own);
// Of this process; null: memory is not counted.
Quota* quota();

}  // namespace barcuda
