// SPDX-License-Identifier: Apache-2.0
// absent.cc: memory outside the region gets no pages of the region on Windows: it is registered as it is, and staged.
#include "guest-allocator/heap/registered.h"
#include "guest-allocator/heap/registered/loans.h"

namespace barcuda::heap {

std::byte* lend(std::byte*, std::size_t) noexcept { return nullptr; }
void restore(std::byte*, std::size_t) noexcept {}
void forget_loans() noexcept {}
bool lent(const void*) noexcept { return false; }

}  // namespace barcuda::heap
