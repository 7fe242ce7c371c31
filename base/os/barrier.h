// SPDX-License-Identifier: Apache-2.0
// barrier.h: a memory barrier that one thread executes in other processes of its kernel.
#pragma once

namespace barcuda::os {

// A full fence in every thread of every process that called join_barrier(), between begin and end of this call: the
// kernel interrupts those that run. False: this kernel does not have it.
bool barrier_everywhere() noexcept;

// Cheap in a process that has one thread; else the call waits for every processor, some 10 ms.
bool join_barrier() noexcept;
// The same, once in a process; the answer is remembered.
bool has_joined_barrier() noexcept;

}  // namespace barcuda::os
