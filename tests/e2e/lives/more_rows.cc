// SPDX-License-Identifier: Apache-2.0
// more_rows.cc: in place of shm-device/rows/published.cc, for a bridge that has one row more inside its table: the
// three quarters behind it have other numbers than this build's.
#include <vector>

#include "shm-device/rows/listing.h"

namespace barcuda {

std::span<const std::uint64_t> published_rows() {
    static const std::vector<std::uint64_t> rows = [] {
        const auto ours = row_identities();
        std::vector<std::uint64_t> all(ours.begin(), ours.end());
        all.insert(all.begin() + all.size() / 4, 0x6d6f7265);
        return all;
    }();
    return rows;
}

}  // namespace barcuda
