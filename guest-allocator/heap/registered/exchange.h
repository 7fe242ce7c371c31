// SPDX-License-Identifier: Apache-2.0
// exchange.h: what lies behind an address is exchanged for other memory with the same contents, while other threads
// read and write there: a write is seen by every later read, whenever it happens. One exchange at a time.
//
// It is done with userfaultfd: a thread that writes (or, on the way back, touches) the range in the moment of the
// exchange waits in a page fault, and goes on in the new memory. A process without the right to have the faults of
// system calls handled (vm.unprivileged_userfaultfd=0, and not root) gets EFAULT from a read() into the range in that
// moment, as from bad memory; nothing is lost.
#pragma once
#include <cstddef>

namespace barcuda::heap {

// Private memory at `p` becomes the mapping that is now at `alias`; the contents stay those of `p`. On success nothing
// is mapped at `alias` any more. False: there is no userfaultfd for this memory; all is as it was.
bool replace(std::byte* p, std::size_t bytes, std::byte* alias) noexcept;

// The mapping at `p` becomes private memory; `same` is another mapping of what it shows. False: nothing has changed.
bool make_private(std::byte* p, std::size_t bytes, const std::byte* same) noexcept;

}  // namespace barcuda::heap
