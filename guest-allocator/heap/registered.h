// SPDX-License-Identifier: Apache-2.0
// registered.h: registered memory (cudaHostRegister), as the heap and the driver layer use it. registered/ has what is
// behind these functions, and includes this header: the heap includes nothing of that folder.
//
//   registrations.cc  which ranges the program has registered: a sorted table, searched by halves
//   loans.h           memory outside the region gets pages of the region lent to it, at its own address
//   exchange.h        how one takes the other's place while threads read and write there
//
// The folder needs pinned pages (staging_alloc), a second mapping of them (ExtentSource::alias), and the kernel's list
// of mappings (base/os/maps.h). Copies work without any of this: what cannot be lent pages is registered and staged.
#pragma once
#include <atomic>
#include <cstddef>

#include "guest-allocator/heap/heap.h"

namespace barcuda::heap {

// cudaHostRegister. Memory outside the region becomes region memory in place, if it can (loans.h); it is registered in
// any case. The values are CUDA's own error numbers.
enum class Registration : int {
    done = 0,
    invalid = 1,               // null, empty, or past the end of the address space
    already_registered = 712,  // overlaps a registered range or pinned memory
    not_registered = 713,      // not the beginning of a registered range
};
Registration register_host(void* p, std::size_t bytes, unsigned flags) noexcept;
Registration unregister_host(void* p) noexcept;
// Some of [p, p + bytes) is in a registered range.
bool overlaps_registered(const void* p, std::size_t bytes) noexcept;

// True if one registered range holds all of [p, p + bytes). One load when nothing is registered.
bool find_registered(const void* p, std::size_t bytes, Found& out) noexcept;

// Other flags for the registered range that holds p. False: there is none.
bool set_registered_flags(const void* p, unsigned flags) noexcept;

// The registered range, outside the region, whose pages the device finds at p.
bool find_lent(const void* p, Found& out) noexcept;

// What lies at p is lent. libc's realloc must not make it longer: it would by mremap, and what then follows in the
// region is others' memory.
bool lent(const void* p) noexcept;
[[gnu::visibility("hidden")]] extern std::atomic<bool> ever_lent;  // until then nothing is

// For fork.cc. The lock of the loans comes before all others of the heap, the table's after them all.
void lock_loans() noexcept;
void unlock_loans() noexcept;
void lock_registrations() noexcept;
void unlock_registrations() noexcept;
// In a child that would share its parent's memory, each place where pages are lent becomes memory of its own:
// copy(file, where, from, bytes).
void part_loans(int file, void (*copy)(int file, std::byte* where, const std::byte* from, std::size_t bytes)) noexcept;
void forget_registered() noexcept;  // in a child: registrations and loans are the parent's

}  // namespace barcuda::heap
