// SPDX-License-Identifier: Apache-2.0
// stage.h: where the commands of a generator (generator.h) go: into a channel of a region (session.h), or to a worker
// of the same process (tests/unit/worker).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "shm-device/rows/identity.h"

namespace barcuda::hostile {

class Stage {
  public:
    virtual ~Stage() = default;
    virtual std::uint64_t offset_of(const void* p) const = 0;  // in the region
    virtual std::uint64_t channel_offset() const = 0;
    // An extent of the client, that many bytes at least, mapped; none: there is no memory.
    virtual std::span<std::byte> extent(std::uint64_t bytes) = 0;
    virtual std::span<std::byte> request_memory() const = 0;  // of the command that is sent next
    virtual RowNumber number_of(Op op) const = 0;
};

}  // namespace barcuda::hostile
