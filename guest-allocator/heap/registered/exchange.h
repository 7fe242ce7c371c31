// SPDX-License-Identifier: Apache-2.0
// exchange.h: the memory behind an address is exchanged for other memory with the same contents, while other threads
// read and write there: every later read sees a write, whenever it happens. One exchange at a time.
//
// It uses userfaultfd: a thread that writes (or, on the way back, touches) the range during the exchange waits in a
// page fault, and continues in the new memory. In a process without the right to handle the faults of system calls
// (vm.unprivileged_userfaultfd=0, and not root) a read() into the range during the exchange returns EFAULT, as for bad
// memory; nothing is lost.
#pragma once
#include <cstddef>

namespace barcuda::heap {

// Private memory at `p` becomes the mapping that is now at `alias`; the contents stay those of `p`. On success nothing
// is mapped at `alias` any more. False: there is no userfaultfd for this memory; all is as it was.
bool replace(std::byte* p, std::size_t bytes, std::byte* alias) noexcept;

// The mapping at `p` becomes private memory; `same` is another mapping of what it shows. False: nothing has changed.
bool make_private(std::byte* p, std::size_t bytes, const std::byte* same) noexcept;

}  // namespace barcuda::heap
