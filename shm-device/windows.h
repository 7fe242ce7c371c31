// SPDX-License-Identifier: Apache-2.0
// windows.h: where the GPU's own memory may lie, as the region's header says, and where a client has the region. Guest
// and host read both here. (What a header may say: validate.cc. What a client may say: client_base.h.)
#pragma once
#include <cstdint>

#include "shm-device/layout.h"

namespace barcuda {

struct Windows {
    std::uint64_t begin = BARCUDA_DEVICE_BASE;
    std::uint64_t pools_end = BARCUDA_DEVICE_POOLS_END;  // below: pools and reservations of the driver
    std::uint64_t mapped = BARCUDA_DEVICE_MAPPED;        // from here to the end: what the driver maps
    std::uint64_t end = BARCUDA_DEVICE_END;

    bool contains(std::uint64_t address) const { return address - begin < end - begin; }
    // The region, at this base, would lie where the GPU's own memory may be.
    bool meets(std::uint64_t base, std::uint64_t size) const {
        return base < pools_end || (base < end && mapped < base + size);
    }
    bool operator==(const Windows&) const = default;
};

// The bridge that serves the region has written its windows, and maps a client's memory where the client has it.
inline bool says_windows(const barcuda_header& header) {
    return header.windows_epoch != 0 && header.windows_epoch == header.epoch;
}
inline Windows windows_of(const barcuda_header& header) {
    if (!says_windows(header)) return {};
    return {header.device_base, header.device_pools_end, header.device_mapped, header.device_end};
}
// `said`: by the client, in its page.
constexpr std::uint64_t base_of(std::uint64_t said, std::uint64_t of_the_header) {
    return said != 0 ? said : of_the_header;
}

}  // namespace barcuda
