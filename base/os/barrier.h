// SPDX-License-Identifier: Apache-2.0
// barrier.h: a memory barrier that one thread executes in other processes of its kernel.
#pragma once

namespace barcuda::os {

// A full fence in every thread of every process that has called join_barrier(), between begin and end of this call: the
// kernel interrupts the running ones. False: this kernel does not have it.
bool barrier_everywhere() noexcept;

// Cheap in a process of one thread; otherwise the call waits for every processor, about 10 ms.
bool join_barrier() noexcept;
// The same, once for each process; the answer is remembered.
bool has_joined_barrier() noexcept;

}  // namespace barcuda::os
