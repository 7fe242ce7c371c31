// SPDX-License-Identifier: Apache-2.0
// quotas.h: how much device memory the clients of a guest have, and may have yet. A worker counts what its client has
// (worker/quota.h) and borrows what it needs here, in whole units; what is lent to a client comes back with the client. A
// worker whose client has no limit asks for nothing, and some memory a driver takes without asking: of that its worker only says how
// much there is. It counts as if it had been lent.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>

#include "shm-device/layout.h"

namespace barcuda {

struct MemoryLimits {  // bytes of each GPU; 0: no limit
    std::uint64_t client = 0, guest = 0;
};

class Quotas {
  public:
    // What a worker says that its client has of a GPU (by the region's numbers).
    void note(std::uint32_t slot, int device, std::uint64_t bytes) { of_[slot][index(device)].noted = bytes; }
    std::uint64_t held(std::uint32_t slot, int device) const {
        const auto its = of_.find(slot);
        return its == of_.end() ? 0 : its->second[index(device)].held();
    }
    std::uint64_t held(int device) const {  // by all
        std::uint64_t sum = 0;
        for (const auto& [slot, devices] : of_) sum = plus(sum, devices[index(device)].held());
        return sum;
    }

    // What this client could still borrow of a GPU's memory.
    std::uint64_t left(std::uint32_t slot, int device, const MemoryLimits& limits) const {
        const auto room = [](std::uint64_t limit, std::uint64_t held) {
            return limit == 0 ? std::numeric_limits<std::uint64_t>::max() : limit - std::min(limit, held);
        };
        return std::min(room(limits.client, held(slot, device)), room(limits.guest, held(device)));
    }
    // What the client has already is lent in any case: nothing is taken away when a limit is lowered.
    bool lend(std::uint32_t slot, int device, std::uint64_t bytes, const MemoryLimits& limits) {
        const Account& before = of_[slot][index(device)];
        Account after = before;
        after.lent = plus(after.lent, bytes);
        if (after.held() - before.held() > left(slot, device, limits)) return false;
        of_[slot][index(device)] = after;
        return true;
    }
    void repay(std::uint32_t slot, int device, std::uint64_t bytes) {
        std::uint64_t& lent = of_[slot][index(device)].lent;
        lent -= std::min(bytes, lent);
    }
    void repay_all(std::uint32_t slot) { of_.erase(slot); }

  private:
    struct Account {
        std::uint64_t lent = 0, noted = 0;
        std::uint64_t held() const { return std::max(lent, noted); }
    };
    static std::uint64_t plus(std::uint64_t a, std::uint64_t b) {  // a worker may say any number
        return b > ~a ? ~std::uint64_t{0} : a + b;
    }
    static std::size_t index(int device) { return static_cast<std::size_t>(device); }
    std::map<std::uint32_t, std::array<Account, BARCUDA_MAX_DEVICES>> of_;
};

}  // namespace barcuda
