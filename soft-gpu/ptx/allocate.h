// SPDX-License-Identifier: Apache-2.0
// allocate.h: maps a function's registers to few slots. PTX uses any number of registers; a warp's registers should fit
// into a cache.
#pragma once
#include <cstdint>
#include <vector>

#include "soft-gpu/ptx/ast.h"

namespace barcuda::soft {

struct Access {
    std::uint32_t instruction;  // in the written body
    int reg;
    bool write;  // a write that always happens: without a guard
};

// Where each register is live, from its first to its last instruction; first > last: never used.
struct Interval {
    std::uint32_t first = ~std::uint32_t{0}, last = 0;
};
std::vector<Interval> live_intervals(const ast::Function& f, const std::vector<Access>& accesses);

// A byte offset for each register from `begin` on; registers that are never live together may share one. `end` is where
// they end.
std::vector<std::uint32_t> assign(const std::vector<Interval>& intervals, const std::vector<unsigned>& bytes,
                                  std::uint32_t begin, std::uint32_t* end);

}  // namespace barcuda::soft
