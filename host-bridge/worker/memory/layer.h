// SPDX-License-Identifier: Apache-2.0
// layer.h: the layer `memory` (worker/layers.h), for --device-memory blocks: cuMemAlloc gives blocks (blocks.h) instead
// of the driver's memory. Calls that use such memory, or ask about it, answer as for the driver's. Pools of streams,
// arrays and code stay the driver's.
#pragma once
#include <span>

#include "host-bridge/between/driver.h"
#include "host-bridge/between/link.h"

namespace barcuda {

struct Granter;
class Residence;

// What the layer asks about the GPU's work before it unmaps memory. (The driver waits in cuMemFree, and does not in
// cuMemUnmap.)
struct GpuWork {
    virtual ~GpuWork() = default;
    virtual bool idle() = 0;         // the GPU has done everything
    virtual bool may_capture() = 0;  // a stream may be in a capture, which a wait for its context would spoil
    // The GPU has done everything, and what had to wait for that is done, too.
    virtual bool quiet() { return idle(); }
    virtual bool captures() { return may_capture(); }  // a stream is in a capture, which only later commands end
};

// From now on, for the rest of this process. `cards`: places in the sheet, for each device, if the client shares cards.
void allocate_in_blocks(Driver& table, Granter& granter, GpuWork& work, std::span<CardPlace> cards = {});
// Of a client that shares cards; null: it shares none.
Residence* residence();
// The next allocation begins at this address, where it was in another process, or there is no memory for it.
void place_next(CUdeviceptr address);
// How many of these bytes lie together: in the store, from `at` on, or at this address, and `at` is null.
std::uint64_t find_contents(CUdeviceptr address, std::uint64_t bytes, const std::byte*& at);
// All memory of these blocks that this process has, in bytes.
std::uint64_t bytes_of_blocks();

}  // namespace barcuda
