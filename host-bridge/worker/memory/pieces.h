// SPDX-License-Identifier: Apache-2.0
// pieces.h: what blocks (blocks.h) are made of: addresses without memory, pieces of a GPU's physical memory, and what
// joins the two. In a worker the driver has them (layer.cc); in a test, a model.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <vector>

namespace barcuda {

struct Pieces {
    using Handle = std::uint64_t;      // of physical memory
    using Devices = std::vector<int>;  // that may use a block
    virtual ~Pieces() = default;

    // Addresses without memory, at `hint` if these are free. 0: there are none.
    virtual std::uint64_t reserve(std::uint64_t hint, std::uint64_t bytes) = 0;
    virtual CUresult create(int device, std::uint64_t bytes, Handle& piece) = 0;
    // Ends when it is also mapped nowhere.
    virtual void release(Handle piece) = 0;
    virtual CUresult map(std::uint64_t address, std::uint64_t bytes, Handle piece) = 0;
    // Whole mappings. The GPU must have done all work that uses them: the driver does not wait.
    virtual void unmap(std::uint64_t address, std::uint64_t bytes) = 0;
    // Another process may have it: it cannot be replaced.
    virtual bool is_shared(Handle piece) const = 0;
    // From now on these devices, and no others of `before`, may use the mappings.
    virtual CUresult open(std::uint64_t address, std::uint64_t bytes, const Devices& devices,
                          const Devices& before) = 0;
};

}  // namespace barcuda
