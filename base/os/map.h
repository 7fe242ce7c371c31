// SPDX-License-Identifier: Apache-2.0
// map.h: mappings of memory in this process. Nothing here allocates, because the heap calls it from malloc. A function
// that returns int returns 0 or an errno; after an error it has mapped nothing.
#pragma once
#include <cstddef>
#include <cstdint>

namespace barcuda::os {

enum class Access : std::uint8_t { none, read, write };   // write: and read
enum class Over : std::uint8_t { nothing, any_mapping };  // what a mapping may replace

// Maps a part of a file, shared with all processes that map it. The kernel chooses the address; `wish` if that is free.
int map_file(int file, std::uint64_t offset, std::size_t bytes, Access access, void** address, void* wish = nullptr);
// The same at this address, writable. EEXIST: another mapping is there.
int map_file_at(int file, std::uint64_t offset, void* address, std::size_t bytes, Over over);
// Private memory, zeroed. Without access it costs address space only. `sparse`: most of it will not be touched.
int map_memory(std::size_t bytes, Access access, void** address, bool sparse = false);
// The same mapping with more bytes, perhaps at another address; `address` does not change if there is no room.
int grow_memory(std::size_t bytes, std::size_t more, void** address);
int allow(void* address, std::size_t bytes, Access access);
// Private memory that is not needed any more: it reads as zeros from here on.
void forget(void* address, std::size_t bytes);
// Writes to each page without changing it. False: this kernel cannot, or not for this mapping.
bool touch_to_write(void* address, std::size_t bytes);
// Reserves addresses that no mapping has. False: not all of them, or none.
bool reserve(std::uintptr_t begin, std::uintptr_t end);
void unmap(void* address, std::size_t bytes);
// Whether each page of it is mapped.
bool is_mapped(const void* p, std::size_t bytes);
// Whether the program may read, or write, the page that holds p. True where this kernel cannot tell (before 5.14).
bool may_touch(const void* p, bool to_write);
// The physical memory of this machine, in bytes.
std::size_t memory_bytes();

// Moves the mapping at `from` to `to`, in place of the mapping there.
int move_mapping(void* from, std::size_t bytes, void* to);
// Maps the same part of the file at `to` as well, in place of the mapping there.
int copy_mapping(void* from, std::size_t bytes, void* to);
// Forked children do not get this mapping.
void keep_from_children(void* address, std::size_t bytes);

// The name, for a person, of the first mapping in [from, to).
void name_mapping(std::uintptr_t from, std::uintptr_t to, char* text, std::size_t size);

}  // namespace barcuda::os
