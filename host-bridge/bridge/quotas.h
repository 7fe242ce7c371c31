// SPDX-License-Identifier: Apache-2.0
// quotas.h: how much device memory a VM and each of its clients may have. A worker counts what its client has
// (worker/quota.h) and borrows what it needs here, in whole units; what is lent to a client comes back with the client.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>

#include "shm-device/layout.h"

namespace barcuda {

struct MemoryLimits {  // bytes of each GPU; 0: no limit
    std::uint64_t client = 0, vm = 0;
    // The size that a GPU of `total` bytes has for a client; 0 of 0.
    std::uint64_t least(std::uint64_t total = 0) const {
        for (const std::uint64_t limit : {client, vm})
            if (limit) total = total ? std::min(total, limit) : limit;
        return total;
    }
};

class Quotas {
  public:
    using Devices = std::array<std::uint64_t, BARCUDA_MAX_DEVICES>;  // bytes, by the region's numbers

    explicit Quotas(MemoryLimits its) : limits(its) {}

    const MemoryLimits limits;

    // What this client could still borrow of a GPU's memory.
    std::uint64_t left(std::uint32_t slot, int device) const {
        const auto room = [](std::uint64_t limit, std::uint64_t lent) {
            return limit == 0 ? std::numeric_limits<std::uint64_t>::max() : limit - std::min(limit, lent);
        };
        return std::min(room(limits.client, lent(slot, device)), room(limits.vm, lent_[index(device)]));
    }
    bool lend(std::uint32_t slot, int device, std::uint64_t bytes) {
        if (bytes > left(slot, device)) return false;
        of_[slot][index(device)] += bytes;
        lent_[index(device)] += bytes;
        return true;
    }
    void repay(std::uint32_t slot, int device, std::uint64_t bytes) {
        bytes = std::min(bytes, lent(slot, device));
        of_[slot][index(device)] -= bytes;
        lent_[index(device)] -= bytes;
    }
    void repay_all(std::uint32_t slot) {
        const auto gone = of_.find(slot);
        if (gone == of_.end()) return;
        for (std::size_t d = 0; d < lent_.size(); ++d) lent_[d] -= gone->second[d];
        of_.erase(gone);
    }
    std::uint64_t lent(std::uint32_t slot, int device) const {
        const auto its = of_.find(slot);
        return its == of_.end() ? 0 : its->second[index(device)];
    }

  private:
    static std::size_t index(int device) { return static_cast<std::size_t>(device); }
    std::map<std::uint32_t, Devices> of_;
    Devices lent_{};
};

}  // namespace barcuda
