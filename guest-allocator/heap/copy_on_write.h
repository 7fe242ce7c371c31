// SPDX-License-Identifier: Apache-2.0
// copy_on_write.h: fork.cc reports forks; break_copy_on_write() (heap.h) needs to know of them.
#pragma once

namespace barcuda::heap {

void note_fork() noexcept;     // in the parent
void forget_forks() noexcept;  // in the child

}  // namespace barcuda::heap
