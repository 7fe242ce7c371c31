// SPDX-License-Identifier: Apache-2.0
// client_rows.h: by which numbers a client names commands. They are those of the bridge to which it connected, and stay
// while it lives. The worker of another build that goes on with it (wake.h) may number its rows differently, have more,
// and lack some: it translates. Which rows the client has used is noted, since a build without one of those cannot go
// on with it.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "shm-device/rows/commands.h"
#include "shm-device/rows/listing.h"

namespace barcuda {

class ClientRows {
  public:
    struct Row {
        std::uint64_t identity = 0;
        std::string name;     // for messages; empty: this build does not know it
        bool needed = false;  // the client has used it, or cannot live without it
        bool operator==(const Row&) const = default;
    };
    // By the client's numbers.
    using State = std::vector<Row>;

    // Of a client that has connected to a bridge of this build.
    ClientRows();
    State state() const;
    // Of a client that connected to another one. This build has all rows that are needed.
    void restore(const State& rows);

    // The hash of its rows, as the client computes it.
    std::uint64_t hash() const { return hash_; }
    // The row with that number of the client's, which is noted as used; `lacking` and more: this build does not have
    // it; `unknown`: nor has the client.
    std::uint32_t ours(std::uint32_t number) {
        if (!ours_.empty()) [[unlikely]]
            number = number < ours_.size() ? ours_[number] : unknown;
        if (number < used_.size()) used_[number] = true;
        else if (ours_.empty()) number = unknown;
        return number;
    }
    static constexpr auto lacking = static_cast<std::uint32_t>(Op::count);
    static constexpr std::uint32_t unknown = ~0u;
    static_assert(lacking + BARCUDA_MAX_ROWS < unknown);
    static bool lacks(std::uint32_t ours) { return ours >= lacking && ours < lacking + BARCUDA_MAX_ROWS; }
    // The client's number of that row; no_row: it has none.
    std::uint32_t theirs(std::uint32_t ours) const;
    std::string name(std::uint32_t ours) const;

  private:
    void number(std::span<const std::uint64_t> identities);

    State carried_;                    // empty: the rows that this build publishes
    std::vector<std::uint32_t> ours_;  // by the client's numbers; empty: the numbers are those of this build's rows
    std::vector<RowNumber> theirs_;
    std::uint64_t hash_ = 0;
    std::array<bool, static_cast<std::size_t>(Op::count)> used_{};
};

}  // namespace barcuda
