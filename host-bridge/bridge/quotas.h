// SPDX-License-Identifier: Apache-2.0
// quotas.h: how much device memory the clients of a guest have, and may have yet. A worker counts what its client has
// (worker/quota/quota.h) and borrows what it needs here, in whole units; what is lent to a client comes back with it.
// A worker whose client has no limit asks for nothing, and some memory a driver takes without asking: of that its
// worker only says how much there is. It counts as if it had been lent. The accounts are a part of the bridge's books
// (ledger.h): each change of one is a single store.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "host-bridge/between/records.h"
#include "shm-device/layout.h"

namespace barcuda {

struct MemoryLimits {  // bytes of each GPU; 0: no limit
    std::uint64_t client = 0, guest = 0;
};

class Quotas {
  public:
    struct Account {
        Word<std::uint64_t> lent, noted;
        std::uint64_t held() const { return held(lent); }
        std::uint64_t held(std::uint64_t if_lent) const { return std::max<std::uint64_t>(if_lent, noted); }
    };
    using Accounts = std::array<Account, BARCUDA_MAX_DEVICES>;  // of a slot

    // `books`: one record for each slot.
    explicit Quotas(Part<Accounts> books = {})
        : own_(books.records.empty() ? BARCUDA_MAX_CHANNELS : 0),
          of_(books.records.empty() ? std::span(own_) : books.records) {}

    // What a worker says that its client has of a GPU (by the region's numbers).
    void note(std::uint32_t slot, int device, std::uint64_t bytes) {
        if (Word<std::uint64_t>& noted = of(slot, device).noted; noted != bytes) noted = bytes;
    }
    std::uint64_t held(std::uint32_t slot, int device) const { return of(slot, device).held(); }
    std::uint64_t held(int device) const {  // by all
        std::uint64_t sum = 0;
        for (const Accounts& devices : of_) sum = plus(sum, devices[index(device)].held());
        return sum;
    }

    // What this client could still borrow of a GPU's memory.
    std::uint64_t left(std::uint32_t slot, int device, const MemoryLimits& limits) const {
        const auto room = [](std::uint64_t limit, std::uint64_t held) {
            return limit == 0 ? std::numeric_limits<std::uint64_t>::max() : limit - std::min(limit, held);
        };
        return std::min(room(limits.client, held(slot, device)), room(limits.guest, held(device)));
    }
    // Memory that the client already has is always lent: a lower limit takes nothing away.
    bool lend(std::uint32_t slot, int device, std::uint64_t bytes, const MemoryLimits& limits) {
        Account& its = of(slot, device);
        const std::uint64_t after = plus(its.lent, bytes);
        if (its.held(after) - its.held() > left(slot, device, limits)) return false;
        its.lent = after;
        return true;
    }
    void repay(std::uint32_t slot, int device, std::uint64_t bytes) {
        const std::uint64_t before = lent(slot, device);
        set_lent(slot, device, before - std::min(bytes, before));
    }
    void repay_all(std::uint32_t slot) {
        for (Account& its : of_[slot])
            if (its.held() != 0) {
                its.lent = 0;
                its.noted = 0;
            }
    }

    // ---- after an earlier bridge was killed
    // Forgets what slots without a client have.
    void restore(const std::function<bool(std::uint32_t slot)>& lives) {
        for (std::uint32_t slot = 0; slot < of_.size(); ++slot)
            if (!lives(slot)) repay_all(slot);
    }
    // A request may be half done: it is served again from what was lent before.
    std::uint64_t lent(std::uint32_t slot, int device) const { return of(slot, device).lent; }
    void set_lent(std::uint32_t slot, int device, std::uint64_t bytes) { of(slot, device).lent = bytes; }

  private:
    static std::uint64_t plus(std::uint64_t a, std::uint64_t b) {  // a worker may say any number
        return b > ~a ? ~std::uint64_t{0} : a + b;
    }
    static std::size_t index(int device) { return static_cast<std::size_t>(device); }
    Account& of(std::uint32_t slot, int device) const { return of_[slot][index(device)]; }

    std::vector<Accounts> own_;  // where there are no books
    const std::span<Accounts> of_;
};

}  // namespace barcuda
