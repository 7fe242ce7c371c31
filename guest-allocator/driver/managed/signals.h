// SPDX-License-Identifier: Apache-2.0
// signals.h: the fault of a CPU that touches managed memory on the device's side, and the program's own handler for such faults:
// ours is the process's, the program's is the one that the program sees and that all other faults go to.
#pragma once
#include <cstdint>

namespace barcuda::guest::managed {

// What fault_entry.cc is given on its stack, and where the thread goes on.
struct FaultFrame {
    std::uint64_t rip, rsp, address, write;
};
extern "C" void barcuda_fault_entry();  // a place to go to, no function
extern "C" void barcuda_fault_resolve(FaultFrame*) noexcept;

// Bytes that the processor's registers beyond the general ones take; 0: it knows FXSAVE alone.
extern "C" std::uint64_t barcuda_fault_room;

}  // namespace barcuda::guest::managed
