// SPDX-License-Identifier: Apache-2.0
// access.h: what memory.cc and scattered.cc know about a load or a store.
#pragma once
#include "soft-gpu/compiler/translator.h"

namespace barcuda::soft::compiler {

struct Translator::Access {
    const Instr* in = nullptr;
    bool load = false, global = false, local = false;  // otherwise shared memory
    bool looks = false;                                // volatile: uses up more of the warp's turn
    bool generic = false;  // may be local memory, where the same address is another place in each lane
    unsigned address = 8, bytes = 0, reg = 0;  // of an address, of an element in memory, of its register
    bool sign = false;
    int base = -1;                 // the register of the text that has the address
    std::vector<Slot> slots = {};  // of the elements
    std::uint32_t site = 0;
    unsigned together() const { return bytes * static_cast<unsigned>(slots.size()); }
};

}  // namespace barcuda::soft::compiler
