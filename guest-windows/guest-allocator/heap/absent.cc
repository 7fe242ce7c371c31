// SPDX-License-Identifier: Apache-2.0
// absent.cc: what the heap has not on Windows. It gives pinned memory; the program's malloc is the program's own. No
// process forks.
#include "guest-allocator/heap/extents.h"
#include "guest-allocator/heap/fork.h"
#include "guest-allocator/heap/malloc.h"
#include "guest-allocator/heap/mappings.h"
#include "guest-allocator/heap/small.h"

namespace barcuda::heap {

bool is_in_front() noexcept { return false; }

namespace small {
bool open() noexcept { return true; }
void* alloc(std::size_t, std::size_t, bool) noexcept { return nullptr; }
void free(void*) noexcept {}
std::size_t usable(const void*) noexcept { return 0; }
}  // namespace small

bool keeps_parents_blocks = false;
bool in_kept_blocks(const void*, std::size_t) noexcept { return false; }
void break_copy_on_write(const void*, std::size_t) noexcept {}
void watch_forks() noexcept {}
void forget(void*) noexcept {}
void tell_of_forks(ExtentSource&) noexcept {}
void tell_of_no_forks() noexcept {}

// No call of the program's is ours: nothing is known of what it does with pages.
std::atomic<bool> ever_marked{false};
bool find_mark(const void*, std::size_t, unsigned) noexcept { return false; }
bool unmark(std::byte*, std::size_t) noexcept { return true; }

}  // namespace barcuda::heap
