// SPDX-License-Identifier: Apache-2.0
// granter.h: grants heap memory, and knows what clients share. In a worker it is the bridge, over a socket (worker.cc);
// in a test, it is in memory.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "host-bridge/between/shared.h"

namespace barcuda {

// Called when the driver lacks this many bytes for a client. Set if other clients may give memory (memory/layer.cc).
inline void (*on_lack_of_the_driver)(std::uint64_t bytes) = nullptr;

struct Granter {
    virtual ~Granter() = default;
    virtual CUresult grant(std::uint64_t bytes, std::uint64_t& offset, std::uint64_t& granted) = 0;
    virtual void release(std::uint64_t offset, std::uint64_t bytes) = 0;
    // Borrows device memory for a client with a limit (bridge/quotas.h). `device`: the number in the worker's driver.
    // `left`: what the client could borrow after that. By default there is no limit.
    virtual bool borrow(int /*device*/, std::uint64_t /*bytes*/, std::uint64_t& left) {
        left = ~std::uint64_t{0};
        return true;
    }
    virtual void repay(int /*device*/, std::uint64_t /*bytes*/) {}
    // A token for a driver's handle or descriptor, the handle of a token, and the end of a token.
    virtual CUresult share(Shared::Kind kind, Shared::Handle& handle, const File& file) = 0;
    virtual CUresult find_shared(Shared::Kind kind, Shared::Handle& handle, File& file) = 0;
    virtual void withdraw(const Shared::Handle& token) = 0;
    // The places in the sheet have changed (link.h, CardPlace). False: no card is shared.
    virtual bool look() { return false; }
    // A file for what leaves a card: `number` and `bytes` of it.
    virtual CUresult store_room(std::uint64_t& /*number*/, std::uint64_t& /*bytes*/, File& /*file*/) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    virtual void give_store_back(std::uint64_t /*number*/) {}
};

}  // namespace barcuda
