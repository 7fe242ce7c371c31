// SPDX-License-Identifier: Apache-2.0
// allowance.h: the limits of this worker's client, as the bridge has set them, and what the client uses, for the bridge
// to show. Both are in the sheet (link.h), so reading one is a load.
#pragma once
#include <atomic>
#include <cstdint>

#include "host-bridge/between/link.h"

namespace barcuda {

class Allowance {
  public:
    explicit Allowance(Sheet& sheet) : sheet_(sheet) {}

    std::uint64_t limit(Limit which) const {  // 0: none
        return std::atomic_ref(sheet_.limits[static_cast<unsigned>(which)]).load(std::memory_order_relaxed);
    }
    // There is room for `more` of them.
    bool allows(Limit which, std::uint64_t have, std::uint64_t more = 1) const {
        const std::uint64_t most = limit(which);
        return most == 0 || (have <= most && more <= most - have);
    }
    void note(Limit which, std::uint64_t have) { store(sheet_.use[static_cast<unsigned>(which)], have); }
    void note_memory(int device, std::uint64_t have) {
        if (device < 0 || device >= static_cast<int>(BARCUDA_MAX_DEVICES)) return;
        store(sheet_.device_memory[device], have);
        if (have > sheet_.device_memory_most[device]) store(sheet_.device_memory_most[device], have);
    }

  private:
    static void store(std::uint64_t& word, std::uint64_t value) {
        std::atomic_ref(word).store(value, std::memory_order_relaxed);
    }
    Sheet& sheet_;
};

}  // namespace barcuda
