// SPDX-License-Identifier: Apache-2.0
// listing.h: the rows of this build by number, as names and identities (identity.h). For code that sends and serves no
// command: it compiles without the command table, which is large.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/hash.h"
#include "shm-device/layout.h"
#include "shm-device/queue/sync.h"

namespace barcuda {

struct RowText {
    std::string_view name, how;  // as the row spells them
};
std::span<const RowText> row_texts();
std::span<const std::uint64_t> row_identities();
// The same rows by the numbers that clients send: what a bridge of this build writes into its region. (A build may
// publish its rows in any order, and rows that it does not serve: published.cc.)
std::span<const std::uint64_t> published_rows();

// The number of a row at the bridge; `no_row`: the bridge has no such row.
using RowNumber = std::uint16_t;
constexpr RowNumber no_row = 0xffff;
static_assert(BARCUDA_MAX_ROWS <= no_row);

// Looks up each row of `own` in `theirs`, which may change meanwhile: numbers[i] is the place of own[i] there. Returns
// a hash of what was found, which the other side computes too (rows_hash()). Two tables that differ in few rows are one
// walk: each search begins after the last match.
inline std::uint64_t match(std::span<const std::uint64_t> own, std::span<const std::uint64_t> theirs,
                           std::span<RowNumber> numbers) noexcept {
    std::fill(numbers.begin(), numbers.end(), no_row);
    Hash seen;
    std::size_t next = 0;
    for (std::size_t there = 0; there < theirs.size() && there < no_row; ++there) {
        const std::uint64_t identity = observe(theirs[there]);
        seen.number(identity);
        for (std::size_t tries = 0, found = own.size(); tries < own.size() && found == own.size(); ++tries) {
            if (own[next] == identity) numbers[found = next] = static_cast<RowNumber>(there);
            next = next + 1 < own.size() ? next + 1 : 0;
        }
    }
    return seen.value();
}
constexpr std::uint64_t rows_hash(std::span<const std::uint64_t> rows) {
    Hash hash;
    for (std::uint64_t identity : rows) hash.number(identity);
    return hash.value();
}

}  // namespace barcuda
